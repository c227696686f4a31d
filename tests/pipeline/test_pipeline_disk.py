"""Disks that are full or closed under a stage and under DVC: one line, and the run goes on once
there is room, with nothing lost and nothing paid twice."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults import book
from tests.pipeline.conftest import Outcome, Workspace
from tests.pipeline.test_pipeline_faults import STAGES, arguments, content

pytestmark = pytest.mark.pipeline
EDIT = "-".join(STAGES["edit"])
COMMAND = ("python", "-m", "stages.edit", *arguments(STAGES["edit"]))


def mount(folder: Path, options: str, *kind: str) -> None:
    """Mount something, or skip where this machine mounts nothing for us."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", *kind, "-o", options, *([str(folder)] if "tmpfs" in kind else [])]
    command += [str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("this machine mounts nothing for us")


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


@contextmanager
def small(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A file system of that size at a folder."""
    mount(folder, f"size={kilobytes}k", "-t", "tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def one_line(outcome: Outcome, said: str) -> None:
    assert "Traceback" not in outcome.text
    lines = [line for line in outcome.text.splitlines() if said in line]
    assert len(lines) >= 1, outcome.text


def test_a_store_on_a_full_disk_goes_on_when_there_is_room(
    workspace: Workspace, tmp_path: Path
) -> None:
    output = workspace.root / "data/edit" / EDIT
    whole = content(output)
    with small(tmp_path / "disk", 600) as disk:
        store = disk / "store"
        outcome = workspace.run(*COMMAND, fails=True, EDCT_STORE=str(store))
        one_line(outcome, "No space left on device")
        kept = {path.name: path.stat().st_ino for path in store.glob("replies/*/*.json")}
        assert kept
        remount(disk, "size=64m")
        outcome = workspace.run(*COMMAND, EDCT_STORE=str(store))
        now = {path.name: path.stat().st_ino for path in store.glob("replies/*/*.json")}
        assert {name: now[name] for name in kept} == kept
        assert outcome.made.total() == len(now) - len(kept)
    assert content(output) == whole
    book.note(book.DISKS, "the store's disk full under a stage, then room", 1, 1)


@pytest.mark.skipif(not book.LONG, reason="part of `make soak`")
def test_outputs_on_a_full_disk_are_one_line_and_paid_once(
    workspace: Workspace, tmp_path: Path
) -> None:
    output = workspace.root / "data/edit" / EDIT
    whole = content(output)
    shutil.rmtree(output)
    with small(output, 200):
        outcome = workspace.run(*COMMAND, fails=True, EDCT_STORE=str(tmp_path / "store"))
        one_line(outcome, "No space left on device")
        assert not (output / "attempts.jsonl").exists()
    paid = len(list((tmp_path / "store").glob("replies/*/*.json")))
    assert paid
    outcome = workspace.run(*COMMAND, EDCT_STORE=str(tmp_path / "store"))
    every = len(list((tmp_path / "store").glob("replies/*/*.json")))
    assert outcome.made.total() == every - paid
    assert content(output) == whole
    book.note(book.DISKS, "the outputs' disk full under a stage, then room", 1, 1)


@pytest.mark.skipif(not book.LONG, reason="part of `make soak`")
def test_a_folder_of_outputs_that_is_closed_is_one_line(
    workspace: Workspace, tmp_path: Path
) -> None:
    output = workspace.root / "data/edit" / EDIT
    whole = content(output)
    shutil.rmtree(output)
    with small(output, 8000):
        remount(output, "ro")
        outcome = workspace.run(*COMMAND, fails=True, EDCT_STORE=str(tmp_path / "store"))
        one_line(outcome, "Read-only file system")
    workspace.run(*COMMAND, EDCT_STORE=str(tmp_path / "store"))
    assert content(output) == whole
    book.note(book.DISKS, "a read-only folder of outputs, then open", 1, 1)


@pytest.mark.skipif(not book.LONG, reason="part of `make soak`")
def test_dvc_s_cache_on_a_full_disk_goes_on_when_there_is_room(workspace: Workspace) -> None:
    wanted, whole = workspace.lock, content(workspace.root / "data/edit" / EDIT)
    cache = workspace.root / ".dvc" / "cache"
    shutil.rmtree(cache)
    (workspace.root / "dvc.lock").unlink()
    with small(cache, 400):
        outcome = workspace.repro(fails=True)
        assert "No space left on device" in outcome.text
        remount(cache, "size=256m")
        lock = workspace.root / "dvc.lock"
        if lock.exists() and not lock.read_bytes():
            lock.unlink()  # as `make run` does
        outcome = workspace.repro()
        assert outcome.made.total() == 0  # all was in the store
    assert workspace.lock == wanted
    assert content(workspace.root / "data/edit" / EDIT) == whole
    book.note(book.DISKS, "DVC's cache on a full disk, then room", 1, 1)


@pytest.mark.skipif(not book.LONG, reason="part of `make soak`")
def test_a_clock_that_jumps_between_two_runs_changes_no_output(
    workspace: Workspace, tmp_path: Path
) -> None:
    """Two days ahead and back, by a clock that the interpreter is given."""
    output = workspace.root / "data/edit" / EDIT
    whole, store = content(output), tmp_path / "store"
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import os, time\n"
        "now, began = time.time, time.time()\n"
        "def jumps():\n"
        "    real = now()\n"
        "    hours = float(os.environ['JUMP'])\n"
        "    return real + 3600 * hours * (int((real - began) * 5) % 2)\n"
        "time.time = jumps\n"
    )
    for hours in ("48", "-48"):
        shutil.rmtree(store, ignore_errors=True)
        for _ in range(2):
            outcome = workspace.run(
                *COMMAND, EDCT_STORE=str(store), JUMP=hours, PYTHONPATH=str(site)
            )
            assert content(output) == whole
        assert outcome.made.total() == 0
        book.note(book.DISKS, "the clock jumps by two days, again and again, under a stage", 1, 1)
    assert "JUMP" not in os.environ
