"""SIGKILL of `dvc repro` and all that it started: while a stage runs, while DVC takes its outputs
over, and while it writes `dvc.lock`. What follows is `make run` again, and the same lock."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.faults import book
from tests.pipeline.conftest import Outcome, Workspace
from tests.pipeline.nursing import Nursery, Seen
from tests.pipeline.test_pipeline_kills import OUTPUTS, SLOW, STAGES

pytestmark = pytest.mark.pipeline
KILLS = 8
"""Of each stage under DVC."""
LATE: dict[str, Seen] = {
    "as DVC takes outputs over": [(".dvc/cache/files/md5", "")],
    "as DVC writes its lock": [(".", "dvc.lock"), (".dvc/cache/runs", "")],
}
NODES = {
    "prepare": "prepare",
    "score": "score",
    **{stage: f"{stage}@{'-'.join(cell)}" for stage, cell in STAGES.items()},
    "report": "report",
}


def mend(root: Path) -> bool:
    """As `make run` does; says whether there was something to mend."""
    lock = root / "dvc.lock"
    if lock.exists() and not lock.read_bytes():
        lock.unlink()
        return True
    return False


def cached(root: Path) -> dict[str, bool]:
    """Every file of DVC's cache, and whether its name is the sum of what it holds."""
    files = [p for p in (root / ".dvc/cache/files/md5").glob("*/*") if p.is_file()]
    return {
        f"{p.parent.name}{p.name}": hashlib.md5(p.read_bytes()).hexdigest()
        == f"{p.parent.name}{p.name}".removesuffix(".dir")
        for p in files
    }


@pytest.fixture(scope="module")
def nursery(
    finished: tuple[Workspace, Outcome], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nursery]:
    """All outputs are there; DVC knows of none."""
    folder = tmp_path_factory.mktemp("dvc")
    running = Nursery(
        finished[0].copy(folder / "edct"), folder / "store", "dvc.cli", "dvc.repo.reproduce"
    )
    yield running
    running.close()


@pytest.mark.skipif(not book.LONG, reason="part of `make soak`")
@pytest.mark.parametrize("stage", NODES)
def test_dvc_killed_with_its_stage_ends_with_the_same_lock(nursery: Nursery, stage: str) -> None:
    outputs = {**OUTPUTS, **SLOW}[stage]
    lock, cache = nursery.root / "dvc.lock", nursery.root / ".dvc" / "cache"
    order = ["repro", "--single-item", NODES[stage]]

    def anew() -> None:
        nursery.forget()
        nursery.remove(outputs)
        lock.unlink(missing_ok=True)
        shutil.rmtree(cache, ignore_errors=True)

    anew()
    undisturbed = nursery.run("dvc", order)
    assert undisturbed["code"] == 0
    wanted, whole, kept = lock.read_bytes(), nursery.outputs(outputs), cached(nursery.root)
    assert wanted
    assert all(kept.values())
    draw = np.random.default_rng([book.SEED, list(NODES).index(stage)])
    killed, empty, at_lock = 0, 0, Counter[str]()
    anew()
    while killed < KILLS:
        seen, after = None, float(draw.uniform(0, 1)) * undisturbed["seconds"]
        if killed % 2:
            seen = list(LATE.values())[killed % 4 // 2]
            seen = [(str(nursery.root / folder), part) for folder, part in seen]
            after = float(draw.uniform(0, 0.03))
        run = nursery.run("dvc", order, kill_after=after, seen=seen)
        killed += run["code"] == -signal.SIGKILL
        state = "whole" if lock.exists() and lock.read_bytes() == wanted else "none"
        state = "empty or part" if lock.exists() and state == "none" else state
        at_lock[state] += run["code"] == -signal.SIGKILL
        empty += mend(nursery.root)
        again = nursery.run("dvc", order)
        said = f"{stage}, kill {killed} at {after:.3f} s of {seen or 'all'}, seed {book.SEED}"
        assert again["code"] == 0, said
        assert lock.read_bytes() == wanted, said
        assert nursery.outputs(outputs) == whole, said
        now = cached(nursery.root)
        assert {name for name in now if now[name]} >= set(kept), said
        assert all(now[name] for name in kept), said
        anew()
    assert nursery.run("dvc", order)["code"] == 0
    left = ", ".join(f"{kind} {n}" for kind, n in at_lock.items() if n)
    said = f"half of them as it takes outputs over or writes its lock; lock at the kill: {left}"
    book.note(book.KILLS, f"`dvc repro`, in `{stage}`", killed, killed, said)


@pytest.mark.skipif(not book.LONG, reason="part of `make soak`")
def test_a_whole_repro_killed_over_and_over_ends_with_the_same_lock(workspace: Workspace) -> None:
    wanted, draw = workspace.lock, np.random.default_rng(book.SEED)
    (workspace.root / "dvc.lock").unlink()
    for name in (".dvc/cache", ".dvc/tmp", ".store"):
        shutil.rmtree(workspace.root / name)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kills = 4
    for _ in range(kills):
        running = subprocess.Popen(
            ["dvc", "repro"],
            cwd=workspace.root,
            env={**os.environ, "PATH": path, "PYTHONPATH": ""},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(float(draw.uniform(3, 20)))
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        mend(workspace.root)
    workspace.repro()
    assert workspace.lock == wanted
    book.note(book.KILLS, "`dvc repro` of the whole study, kill after kill", kills, kills)
