"""SIGKILL of a stage whose work is done by workers of Ray: the same outputs, no stored call made
again, no process left behind, and no key in the logs that a killed cluster leaves."""

import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.faults import book
from tests.models.wire.loopback import KEY
from tests.pipeline.conftest import Workspace
from tests.pipeline.test_pipeline_faults import STAGES, arguments, content
from tests.pipeline.test_pipeline_interrupt import start, wait_until
from tests.workflow.crews import ray_settings

pytestmark = [pytest.mark.pipeline, pytest.mark.ray]
KILLS = 3
GONE_S = 300.0
"""Ray's own helpers notice by themselves that their head is gone, but take their time."""
EDIT = "-".join(STAGES["edit"])
COMMAND = ("python", "-m", "stages.edit", *arguments(STAGES["edit"]))


def lives(process: Any) -> bool:
    import psutil

    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.skipif(not book.LONG, reason="part of `make soak`")
def test_a_stage_of_workers_killed_while_they_work_goes_on(
    workspace: Workspace, tmp_path: Path
) -> None:
    import psutil

    path = workspace.root / "params.yaml"
    output, store = workspace.root / "data/edit" / EDIT, workspace.root / ".store"
    whole = content(output)
    every = workspace.run(*COMMAND, EDCT_STORE=str(tmp_path / "whole")).made.total()
    params = yaml.safe_load(path.read_text())
    params["executor"] = ray_settings().model_dump()
    path.write_text(yaml.safe_dump(params, sort_keys=False))
    shutil.rmtree(store)
    draw, finished, repeats, held = np.random.default_rng(book.SEED), {}, 0, 0
    begun: list[Any] = []

    def replies() -> dict[str, int]:
        return {p.name: p.stat().st_ino for p in store.glob("replies/*/*.json")}

    # Short, since sockets lie beneath it, whose paths may not be long.
    folder = Path(tempfile.mkdtemp(prefix="k", dir="/tmp"))
    try:
        for number in range(KILLS):
            mark = (number + float(draw.uniform())) / KILLS * (every - 1)
            running = start(workspace, *COMMAND, EDCT_STORE=str(store), TMPDIR=str(folder))
            wait_until(lambda least=mark: len(replies()) > least, running)
            begun += psutil.Process(running.pid).children(recursive=True)
            os.kill(running.pid, signal.SIGKILL)
            running.communicate()
            now = replies()
            repeats += sum(now[name] != file for name, file in finished.items())
            finished = now
            logs = [file for file in folder.rglob("*") if file.is_file()]
            assert not [file for file in logs if KEY.encode() in file.read_bytes()]
            held += len(logs)
        outcome = workspace.run(*COMMAND, EDCT_STORE=str(store), TMPDIR=str(folder))
        until = time.monotonic() + GONE_S
        while any(map(lives, begun)) and time.monotonic() < until:
            time.sleep(0.5)
        left = [process for process in begun if lives(process)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    now = replies()
    repeats += sum(now[name] != file for name, file in finished.items())
    assert repeats == 0
    assert len(begun) > KILLS
    assert left == []
    # Workers whose stage is gone end what they have in hand, and store it.
    assert outcome.made.total() <= every - len(finished)
    assert len(now) == every
    assert content(output) == whole
    assert held > KILLS
    said = f"{every} calls a run, stored ones made again: 0; processes left: 0"
    book.note(book.KILLS, "`edit` by workers of Ray", KILLS, KILLS, said)
    book.note(book.SECURITY, "files of Ray without a key, after a kill", held, held)
