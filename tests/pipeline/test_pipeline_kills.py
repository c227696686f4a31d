"""SIGKILL at random moments of every stage, then on: equal outputs, and no finished call again.

A kill a stage; `make soak` has 200 of them, over all stages.
"""

import json
import shutil
import sys
from collections.abc import Iterator

import pytest

from tests.faults import book
from tests.pipeline.conftest import Outcome, Workspace, fresh
from tests.pipeline.nursing import Chain, Nursery
from tests.pipeline.test_pipeline_faults import STAGES
from tests.pipeline.test_pipeline_finetune import SMALL as TUNING

pytestmark = pytest.mark.pipeline
KILLS = 18 if book.LONG else 1
"""Of each stage."""
OUTPUTS: dict[str, tuple[str, ...]] = {
    "prepare": ("data/prepare",),
    "score": ("data/score",),
    **{stage: (f"data/{stage}/{'-'.join(cell)}",) for stage, cell in STAGES.items()},
}
SLOW: dict[str, tuple[str, ...]] = {
    "report": (
        "reports/tables",
        "reports/figures",
        "reports/images",
        "reports/plots",
        "reports/index.html",
        "reports/gallery.html",
        "reports/metrics.json",
    ),
    "plan": ("data/plan",),
}
OTHERS: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "pairs": (("data/pairs/own",), ["--pair", "own"]),
    "calibration": (("data/calibration",), []),
}
TRAINED: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "pretrain": (
        ("data/weights/tiny_shortcut", "data/pretrain/tiny_shortcut"),
        ["--pretrained", "tiny_shortcut"],
    ),
    "finetune": (
        ("data/weights/tiny_edits", "data/finetune/tiny_edits"),
        ["--tuned", "tiny_edits"],
    ),
}
ALL = [*OUTPUTS, *SLOW, *OTHERS, *TRAINED]
long_only = pytest.mark.skipif(not book.LONG, reason="part of `make soak`")


@pytest.fixture(scope="module")
def nursery(
    finished: tuple[Workspace, Outcome], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nursery]:
    """One for all stages: each test leaves the outputs as they were."""
    folder = tmp_path_factory.mktemp("kills")
    running = Nursery(finished[0].copy(folder / "edct"), folder / "store")
    yield running
    running.close()


@pytest.mark.parametrize("stage", [*OUTPUTS, *(SLOW if book.LONG else ())])
def test_a_stage_killed_at_any_moment_ends_as_if_it_had_not_been(
    nursery: Nursery, stage: str
) -> None:
    chain = Chain(nursery, stage, {**OUTPUTS, **SLOW}[stage])
    by_dvc = nursery.outputs(chain.outputs)
    chain.undisturbed()
    assert chain.whole == by_dvc
    chain.kill(KILLS, ALL.index(stage))
    chain.note()


@pytest.fixture(scope="module")
def pairs_and_calibration(
    finished: tuple[Workspace, Outcome], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nursery]:
    """A study of pairs, made from the finished study's own edits, and of simulations."""
    folder = tmp_path_factory.mktemp("others")
    workspace = finished[0].copy(folder / "edct")
    edits = workspace.root / "data" / "edit" / "-".join(STAGES["edit"])
    there = workspace.root / "data" / "recorded" / "pairs"
    shutil.copytree(edits / "images", there)
    shutil.copytree(workspace.root / "data/prepare/images", there, dirs_exist_ok=True)
    rows = [json.loads(line) for line in (edits / "attempts.jsonl").read_text().splitlines()]
    index = [
        {
            "id": f"{row['sample_id']}-{row['position']}-{row['attempt']}",
            "original": f"{row['source']}.png",
            "edited": f"{row['edited']}.png",
            "instruction": row["instruction"],
        }
        for row in rows
        if row["edited"]
    ]
    (there / "pairs.json").write_text(json.dumps(index))
    workspace.compose(
        "pairs=[own]",
        "pairs.own.labels=null",
        "calibration.replications=1",
        "calibration.resamples=200",
    )
    running = Nursery(workspace, folder / "store")
    yield running
    running.close()


@long_only
@pytest.mark.parametrize("stage", OTHERS)
def test_a_stage_of_another_study_killed_at_any_moment(
    pairs_and_calibration: Nursery, stage: str
) -> None:
    outputs, given = OTHERS[stage]
    chain = Chain(pairs_and_calibration, stage, outputs, given)
    chain.undisturbed()
    chain.kill(KILLS, ALL.index(stage))
    chain.note()


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """The fine-tuning study, finished, with a model that has had no time to learn anything."""
    folder = tmp_path_factory.mktemp("training")
    workspace = fresh(folder / "edct")
    workspace.run(sys.executable, "-m", "stages.workflow.compose", *TUNING)
    workspace.repro("finetune@tiny_edits")
    running = Nursery(
        workspace, folder / "store", "torch", "transformers", "peft", "stages.finetune"
    )
    yield running
    running.close()


@long_only
@pytest.mark.local("peft")
@pytest.mark.parametrize("stage", TRAINED)
def test_a_training_killed_at_any_moment(training: Nursery, stage: str) -> None:
    outputs, given = TRAINED[stage]
    chain = Chain(training, stage, outputs, given)
    chain.undisturbed()
    chain.kill(KILLS // 2, ALL.index(stage))
    chain.note()


def test_status_of_a_finished_and_of_a_damaged_study(workspace: Workspace) -> None:
    said = workspace.run(sys.executable, "-m", "stages.status").text
    assert "nothing is left to pay" in said
    shutil.rmtree(workspace.root / OUTPUTS["judge"][0])
    (workspace.root / "data" / "score" / "interventions.jsonl").unlink()
    said = workspace.run(sys.executable, "-m", "stages.status").text
    assert "1 missing" in said
    assert "data/score" in said
    assert "calls to make" in said
