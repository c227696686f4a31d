"""The fine-tuning study as one graph, with a model that has had no time to learn anything.

What is asserted is how it hangs together: weights are trained, tuned on another cell's edits, asked
as targets, scored and shown, and nothing runs twice. What a trained model shows is in
`docs/finetuning.md`.
"""

import csv
import sys
from pathlib import Path

import pytest

from tests.pipeline.conftest import Outcome, Workspace, fresh

pytestmark = [pytest.mark.pipeline, pytest.mark.local("peft")]
TUNED = ("tiny_edits",)
SMALL = (
    "study=finetune_demo",
    "target=[demo_looks]",
    "pretrain=[tiny_shortcut]",
    "finetune=[tiny_edits]",
    "ready_names=[demo_looks]",
    "tuning.cell=demo_looks-demo-demo-0",
    "benchmarks.train.samples=6",
    "benchmarks.held_out.samples=6",
    "pretrain.tiny_shortcut.hidden=32",
    "pretrain.tiny_shortcut.encoder_steps=3",
    "pretrain.tiny_shortcut.language_steps=3",
    "finetune.tiny_edits.epochs=[0,1,2]",
    "finetune.tiny_edits.examples_per_epoch=8",
    "limits.max_failed_share=1.0",
    "generation.max_tokens=16",
    "score.resamples=200",
)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Outcome]:
    """A workspace in which the study has run from nothing, and what that printed."""
    workspace = fresh(tmp_path_factory.mktemp("tuned") / "edct")
    workspace.run(sys.executable, "-m", "stages.workflow.compose", *SMALL)
    return workspace, workspace.repro()


def rows(workspace: Workspace, name: str) -> list[dict[str, str]]:
    path = workspace.root / "reports" / "tables" / f"{name}.csv"
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_one_repro_trains_tunes_and_tests(tuned: tuple[Workspace, Outcome]) -> None:
    workspace, outcome = tuned
    order = outcome.ran
    for name in TUNED:
        made = order.index(f"finetune@{name}")
        assert order.index("pretrain@tiny_shortcut") < made
        assert order.index("edit@demo_looks-demo-demo-0") < made
        assert made < order.index(f"baseline@{name}-0") < order.index("score")
    assert (workspace.root / "data/weights/demo_looks").read_text() == "elsewhere\n"
    for name in TUNED:
        weights = workspace.root / "data/weights" / name
        assert (weights / "adapter_model.safetensors").is_file()
        kept = sorted(
            path.name for path in (workspace.root / f"data/finetune/{name}/epochs").iterdir()
        )
        assert kept == ["0", "1", "2"]


def test_its_tables_and_figures_hold_every_epoch(tuned: tuple[Workspace, Outcome]) -> None:
    workspace, _ = tuned
    found = rows(workspace, "finetune")
    places = {(row["target"], row["scenes"], row["epoch"]) for row in found}
    assert len(places) == len(TUNED) * 2 * 3
    for row in found:
        assert float(row["loss_original"]) > 0
        assert float(row["loss_ratio_low"]) <= float(row["loss_ratio"])
    first = [row for row in found if row["epoch"] == "0" and row["scenes"] == "held out"]
    assert len(first) == len(TUNED)
    for name in ("finetune_curves", "attention"):
        assert (workspace.root / f"reports/figures/{name}.png").stat().st_size > 5_000
    assert "tiny_edits, held_out, counterfactual" in (
        workspace.root / "reports/plots/tuning.csv"
    ).read_text(encoding="utf-8")


def test_a_second_repro_has_nothing_to_do(tuned: tuple[Workspace, Outcome]) -> None:
    assert tuned[0].repro().ran == []


def test_no_output_names_a_folder_of_this_machine(tuned: tuple[Workspace, Outcome]) -> None:
    workspace, _ = tuned
    place = str(workspace.root.parent).encode()
    for folder in ("weights", "pretrain", "finetune", "score"):
        for path in (workspace.root / "data" / folder).rglob("*"):
            assert not path.is_file() or place not in path.read_bytes(), path


def test_weights_that_are_lost_are_trained_to_the_same_bytes(
    tuned: tuple[Workspace, Outcome], tmp_path: Path
) -> None:
    workspace, _ = tuned
    again = fresh(tmp_path / "edct")
    again.run(sys.executable, "-m", "stages.workflow.compose", *SMALL)
    again.repro("finetune@tiny_edits")
    for name in ("tiny_shortcut", "tiny_edits"):
        for path in sorted((workspace.root / "data/weights" / name).iterdir()):
            assert (
                again.root / "data/weights" / name / path.name
            ).read_bytes() == path.read_bytes()


def test_a_target_in_no_list_is_one_line(tuned: tuple[Workspace, Outcome], tmp_path: Path) -> None:
    workspace = fresh(tmp_path / "edct")
    workspace.run(sys.executable, "-m", "stages.workflow.compose", *SMALL, "ready_names=[]")
    outcome = workspace.repro("plan", fails=True)
    assert "targets.demo_looks" in outcome.text
    assert "exactly one" in outcome.text
    workspace.run(sys.executable, "-m", "stages.workflow.compose", *SMALL, "tuning.cell=nobody")
    assert "tuning.cell" in workspace.repro("plan", fails=True).text
