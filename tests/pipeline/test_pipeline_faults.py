"""Kills and wrong input: nothing finished is paid twice, and earlier outputs stay."""

import json
import re
from pathlib import Path

import pytest

from tests.pipeline.conftest import Workspace

pytestmark = pytest.mark.pipeline

# Runs a stage and kills its process, without a chance to tidy up, right after the n-th reply.
KILLER = """
import os, signal, sys
from stages.models.store import Store
put, left = Store.put, [int(sys.argv.pop(1))]
def put_then_die(self, *args, **options):
    put(self, *args, **options)
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
Store.put = put_then_die
import runpy
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
STAGES = {
    "baseline": ("demo_looks", "0"),
    "concepts": ("demo_looks", "demo", "0"),
    "instructions": ("demo_looks", "demo", "0"),
    "edit": ("demo_looks", "demo", "demo", "0"),
    "requery": ("demo_looks", "demo", "demo", "0"),
    "judge": ("demo_looks", "demo", "demo", "demo", "0"),
}
AXES = {
    2: ("target", "seed"),
    3: ("target", "extractor", "seed"),
    4: ("target", "extractor", "editor", "seed"),
    5: ("target", "extractor", "editor", "judge", "seed"),
}


def arguments(cell: tuple[str, ...]) -> list[str]:
    named = zip(AXES[len(cell)], cell, strict=True)
    return [part for axis, name in named for part in (f"--{axis}", name)]


def content(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_stage_goes_on_without_making_a_finished_call_again(
    workspace: Workspace, tmp_path: Path, stage: str
) -> None:
    cell = STAGES[stage]
    output = workspace.root / "data" / stage / "-".join(cell)
    wanted = content(output)
    command = ["python", "-m", f"stages.{stage}", *arguments(cell)]
    whole = workspace.run(*command, EDCT_STORE=str(tmp_path / "whole")).made.total()
    assert whole > 3
    store, finished_calls = tmp_path / "store", 0
    for stop_after in (1, whole // 2):
        killed = ["python", "-c", KILLER, str(stop_after), f"stages.{stage}", *arguments(cell)]
        workspace.run(*killed, fails=True, EDCT_STORE=str(store))
        finished_calls += stop_after
        assert len(list(store.glob("replies/*/*.json"))) >= finished_calls
    kept = len(list(store.glob("replies/*/*.json")))
    outcome = workspace.run(*command, EDCT_STORE=str(store))
    assert outcome.made.total() + kept == whole
    assert content(output) == wanted


def params_with(workspace: Workspace, old: str, new: str) -> None:
    path = workspace.root / "params.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("tau_in: 0.1", "tau_in: 1.5", "params.yaml: verify.tau_in"),
        ("  k: 2", "  k: 0", "params.yaml: chain.k"),
        ("chat.demo_target.DemoTarget", "chat.demo_target.NoTarget", "can't be imported"),
        ("behaviour: looks", "behaviour: stares", "targets.demo_looks"),
        ("prompts: default", "prompts: nowhere", "prompts/nowhere"),
        ("samples: 8", "samples: 0", "samples"),
        ("- demo_looks", "- demo_lok", "demo_lok"),
        ("detector.demo.DemoDetector", "segmenter.grabcut.GrabCut", "is no Detector"),
        ("seeds:\n- 0", "seeds:\n- -1", "params.yaml: seeds"),
    ],
)
def test_wrong_parameters_end_in_one_line_and_leave_outputs_alone(
    workspace: Workspace, old: str, new: str, said: str
) -> None:
    params_with(workspace, old, new)
    before = content(workspace.root / "data" / "edit")
    outcome = workspace.repro(fails=True)
    line = next(line for line in outcome.text.splitlines() if said in line)
    assert re.match(r"(plan|prepare|baseline)( \S+)?: |ERROR", line), line
    assert "Traceback" not in outcome.text
    assert content(workspace.root / "data" / "edit") == before
    assert (workspace.root / "data" / "prepare" / "samples.jsonl").exists()


def test_a_prompt_without_its_variable_is_named(workspace: Workspace) -> None:
    path = workspace.root / "prompts" / "default" / "concepts.txt"
    path.write_text(path.read_text().replace("{{block explanation}}", "the explanation"))
    outcome = workspace.repro(fails=True)
    assert "concepts.txt" in outcome.text
    assert "'explanation'" in outcome.text
    assert "Traceback" not in outcome.text


def test_a_broken_row_and_a_missing_image_are_named(workspace: Workspace) -> None:
    folder = workspace.root / "data" / "baseline" / "demo_looks-0"
    rows = (folder / "answers.jsonl").read_text().splitlines()
    (folder / "answers.jsonl").unlink()
    (folder / "answers.jsonl").write_text("\n".join([rows[0], rows[1][:40], *rows[2:]]))
    outcome = workspace.run(
        "python", "-m", "stages.concepts", *arguments(STAGES["concepts"]), fails=True
    )
    assert "answers.jsonl:2" in outcome.text
    image = json.loads(rows[0])["image"]
    (workspace.root / "data" / "prepare" / "images" / f"{image}.png").unlink()
    outcome = workspace.run(
        "python", "-m", "stages.baseline", *arguments(STAGES["baseline"]), fails=True
    )
    assert f"{image}.png: the image is missing" in outcome.text
    assert "Traceback" not in outcome.text


def test_a_stage_that_fails_brings_its_earlier_output_back(workspace: Workspace) -> None:
    recorded = workspace.root / "data" / "recorded"
    (recorded / "answers.jsonl").write_text('{"image": "none.png", "question": "q"}\n')
    wanted = content(workspace.root / "data" / "baseline" / "demo_looks-0")
    path = workspace.root / "params.yaml"
    text = path.read_text().replace(
        "_target_: stages.models.chat.demo_target.DemoTarget\n    behaviour: looks",
        "_target_: stages.models.chat.recorded.RecordedTarget\n"
        "    index: data/recorded/answers.jsonl\n    name: r",
        1,
    )
    path.write_text(text)
    outcome = workspace.repro(fails=True)
    assert "none.png is missing" in outcome.text
    assert content(workspace.root / "data" / "baseline" / "demo_looks-0") == wanted


def test_too_many_failed_calls_stop_a_stage_before_it_writes(workspace: Workspace) -> None:
    (workspace.root / "data" / "recorded" / "answers.jsonl").write_text("")
    path = workspace.root / "params.yaml"
    path.write_text(
        path.read_text().replace(
            "_target_: stages.models.chat.demo_target.DemoTarget\n    behaviour: looks",
            "_target_: stages.models.chat.recorded.RecordedTarget\n"
            "    index: data/recorded/answers.jsonl\n    name: r",
            1,
        )
    )
    outcome = workspace.repro(fails=True)
    assert "8 of 8 rows got no reply (8 not_recorded)" in outcome.text
