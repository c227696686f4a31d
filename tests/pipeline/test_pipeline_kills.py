"""SIGKILL at random moments of every stage, then on: equal outputs, and no finished call again.

A few kills a stage; `make soak` has 200 of them.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults import book
from tests.pipeline.conftest import ROOT, Outcome, Workspace
from tests.pipeline.test_pipeline_faults import STAGES, arguments, content

pytestmark = pytest.mark.pipeline
KILLS = 21 if book.LONG else 1
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
        "reports/index.html",
        "reports/gallery.html",
        "reports/metrics.json",
    ),
    "plan": ("data/plan",),
}


class Nursery:
    """A process that starts stages within milliseconds."""

    def __init__(self, workspace: Workspace, store: Path) -> None:
        self.root, self.store = workspace.root, store
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.nursery"],
            cwd=workspace.root,
            env={
                **os.environ,
                "PYTHONPATH": f"{workspace.root}{os.pathsep}{ROOT}",
                "EDCT_STORE": str(store),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, stage: str, kill_after: float | None) -> dict[str, Any]:
        cell = STAGES.get(stage)
        order = {"stage": stage, "arguments": arguments(cell) if cell else []}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({**order, "kill_after": kill_after}) + "\n")
        self._process.stdin.flush()
        said: dict[str, Any] = json.loads(self._process.stdout.readline())
        return said

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=20)

    def remove(self, outputs: tuple[str, ...]) -> None:
        """As DVC does before it runs a stage."""
        for name in outputs:
            path = self.root / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def outputs(self, outputs: tuple[str, ...]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for name in outputs:
            path = self.root / name
            if path.is_file():
                found[name] = path.read_bytes()
            else:
                found |= {f"{name}/{key}": data for key, data in content(path).items()}
        return found

    def replies(self) -> dict[str, int]:
        """Every whole reply, with the file that holds it: a call that is made again makes another
        file."""
        return {path.name: path.stat().st_ino for path in self.store.glob("replies/*/*.json")}


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
    outputs = {**OUTPUTS, **SLOW}[stage]
    whole = nursery.outputs(outputs)
    assert whole
    nursery.remove(outputs)
    shutil.rmtree(nursery.store, ignore_errors=True)
    undisturbed = nursery.run(stage, None)
    assert undisturbed["code"] == 0
    assert nursery.outputs(outputs) == whole
    calls, seconds = len(nursery.replies()), undisturbed["seconds"]
    draw = np.random.default_rng([book.SEED, list({**OUTPUTS, **SLOW}).index(stage)])
    killed = survived = repeats = 0
    finished: dict[str, int] = {}
    shutil.rmtree(nursery.store, ignore_errors=True)
    while killed < KILLS:
        nursery.remove(outputs)
        again = nursery.run(stage, float(draw.uniform(0, 1.1 * seconds)))
        now = nursery.replies()
        repeats += sum(now[name] != file for name, file in finished.items())
        finished = now
        if again["code"] == -signal.SIGKILL:
            killed += 1
            if killed % 3:  # sometimes one kill after the other
                continue
        nursery.remove(outputs)
        last = nursery.run(stage, None)
        now = nursery.replies()
        repeats += sum(now[name] != file for name, file in finished.items())
        good = last["code"] == 0 and nursery.outputs(outputs) == whole and len(now) == calls
        assert good, f"{stage} after {killed} kills, seed {book.SEED}: {last}"
        survived = killed
        shutil.rmtree(nursery.store, ignore_errors=True)
        finished = {}
    nursery.remove(outputs)
    assert nursery.run(stage, None)["code"] == 0
    assert nursery.outputs(outputs) == whole
    survived = killed
    assert repeats == 0
    said = f"{calls} calls a run; finished calls made again: {repeats}" if calls else ""
    book.note("Faults", f"SIGKILL at a random moment: `{stage}`", killed, survived, said)


@pytest.mark.skipif(not book.LONG, reason="part of `make soak`")
def test_dvc_and_its_stages_killed_together_end_with_the_same_lock(workspace: Workspace) -> None:
    wanted, draw = workspace.lock, np.random.default_rng(book.SEED)
    (workspace.root / "dvc.lock").unlink()
    shutil.rmtree(workspace.root / ".dvc" / "cache")
    shutil.rmtree(workspace.root / ".dvc" / "tmp")
    shutil.rmtree(workspace.root / ".store")
    kills = 3
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for _ in range(kills):
        running = subprocess.Popen(
            ["dvc", "repro"],
            cwd=workspace.root,
            env={**os.environ, "PATH": path, "PYTHONPATH": ""},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(float(draw.uniform(5, 25)))
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        lock = workspace.root / "dvc.lock"
        if lock.exists() and not lock.read_bytes().strip():
            lock.unlink()  # as `make run` does
    workspace.repro()
    assert workspace.lock == wanted
    book.note("Faults", "SIGKILL of `dvc repro` and all that it started", kills, kills)


@pytest.mark.parametrize("moment", [0.15, 0.6, 2.5])
def test_ctrl_c_ends_a_stage_with_a_line(workspace: Workspace, moment: float) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    running = subprocess.Popen(
        ["python", "-m", "stages.edit", *arguments(STAGES["edit"])],
        cwd=workspace.root,
        env={**os.environ, "PATH": path, "PYTHONPATH": "", "EDCT_STORE": str(workspace.root / "s")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    time.sleep(moment)
    began = time.monotonic()
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=20)[0]
    took = time.monotonic() - began
    if running.returncode == 0:
        pytest.skip("it was faster than the interrupt")
    assert took < 2
    assert running.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    book.note("Faults", "Ctrl-C: a line within 2 s, no trace", 1, 1)


def test_status_of_a_finished_and_of_a_damaged_study(workspace: Workspace) -> None:
    said = workspace.run(sys.executable, "-m", "stages.status").text
    assert "nothing is left to pay" in said
    shutil.rmtree(workspace.root / OUTPUTS["judge"][0])
    (workspace.root / "data" / "score" / "interventions.jsonl").unlink()
    said = workspace.run(sys.executable, "-m", "stages.status").text
    assert "1 missing" in said
    assert "data/score" in said
    assert "calls to make" in said
