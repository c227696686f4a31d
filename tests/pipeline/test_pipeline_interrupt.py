"""Ctrl-C: a stage, `dvc repro` and `make run` end at once, with a line, and go on from there.

In stages at work, before servers that say nothing, and in the middle of measuring. The bound is
2 s in the long form, and longer on a machine that is busy with other things.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults import book
from tests.faults.rude import Rude, hangs
from tests.models.wire.loopback import KEY, Act, Server
from tests.pipeline.conftest import Workspace
from tests.pipeline.test_pipeline_faults import STAGES, arguments, content

pytestmark = pytest.mark.pipeline
LIMIT_S = 2.0 if book.LONG else 10.0
"""On a machine that has nothing else to do."""
took: list[float] = []
longest: dict[str, float] = {}
OPENAI = "stages.models.chat.openai_compatible.OpenAICompatible"
SILENT: dict[str, tuple[tuple[str, str], dict[str, str]]] = {
    "baseline": (("targets", "demo_looks"), {"_target_": OPENAI}),
    "concepts": (("extractors", "demo"), {"_target_": OPENAI}),
    "instructions": (("extractors", "demo"), {"_target_": OPENAI}),
    "edit": (
        ("editors", "demo"),
        {"_target_": "stages.models.editor.openrouter_images.OpenRouterImages"},
    ),
    "requery": (("targets", "demo_looks"), {"_target_": OPENAI}),
    "judge": (("judges", "demo"), {"_target_": OPENAI}),
}
# Runs a stage whose every measurement is made over and over, and says when the first has begun.
MEASURING = """
import pathlib, runpy, sys
from stages.models.calls import Calls
measure, mark = Calls.measure, pathlib.Path(sys.argv.pop(1))
async def for_long(self, request, compute):
    def over_and_over():
        mark.touch()
        for _ in range(300):
            found = compute()
        return found
    return await measure(self, request, over_and_over)
Calls.measure = for_long
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


def start(workspace: Workspace, *command: str, **environment: str) -> "subprocess.Popen[str]":
    """A command in a group of its own, as a shell starts it."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": "", "OPENROUTER_API_KEY": KEY, **environment}
    env.setdefault("EDCT_STORE", str(workspace.root / "s"))
    return subprocess.Popen(
        command,
        cwd=workspace.root,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def stop(running: "subprocess.Popen[str]", *, group: bool = False) -> str:
    """Interrupt it, or all that a terminal would; it must end in time and without a trace."""
    began = time.monotonic()
    os.killpg(running.pid, signal.SIGINT) if group else running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=60)[0]
    took.append(time.monotonic() - began)
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert took[-1] < LIMIT_S * busy, f"{took[-1]:.1f} s"
    assert "Traceback" not in said
    return said


def noted(case: str) -> None:
    """Count an interrupt that went well, and the longest of its kind."""
    longest[case] = max(longest.get(case, 0.0), took[-1])
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    said = f"the slowest {longest[case]:.1f} s, at a load of {load:.0f} for each core"
    book.note(book.INTERRUPTS, case, 1, 1, said)


def wait_until(true: Callable[[], object], running: "subprocess.Popen[str]") -> None:
    until = time.monotonic() + 120
    while not true():
        assert running.poll() is None, running.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("moment", [0.15, 0.6, 1.0, 1.5, 2.0, 2.5] if book.LONG else [0.15, 1.5])
def test_ctrl_c_ends_a_stage_at_work(workspace: Workspace, moment: float) -> None:
    running = start(workspace, "python", "-m", "stages.edit", *arguments(STAGES["edit"]))
    time.sleep(moment)
    said = stop(running)
    if running.returncode == 0:
        pytest.skip("it was faster than the interrupt")
    assert running.returncode == 130
    assert "interrupted" in said
    noted("a stage as it starts and works")


@pytest.mark.parametrize("stage", SILENT if book.LONG else ["edit"])
def test_ctrl_c_ends_a_stage_before_a_server_that_says_nothing(
    workspace: Workspace, stage: str
) -> None:
    (group, name), adapter = SILENT[stage]
    with Rude(hangs) as server:
        path = workspace.root / "params.yaml"
        params: dict[str, Any] = yaml.safe_load(path.read_text())
        url = {"base_url": f"{server.url}/v1", "timeout_s": 600}
        params[group][name] = {**adapter, "model": "m", **url}
        path.write_text(yaml.safe_dump(params, sort_keys=False))
        running = start(workspace, "python", "-m", f"stages.{stage}", *arguments(STAGES[stage]))
        wait_until(lambda: server.connections, running)
        said = stop(running)
    assert running.returncode == 130
    assert "interrupted; every finished call is in the store" in said
    assert KEY not in said
    noted("a stage before a server that says nothing")


def test_ctrl_c_ends_a_stage_in_the_middle_of_measuring(
    workspace: Workspace, tmp_path: Path
) -> None:
    mark = tmp_path / "measuring"
    words = ["-c", MEASURING, str(mark), "stages.edit", *arguments(STAGES["edit"])]
    running = start(workspace, "python", *words)
    wait_until(mark.exists, running)
    said = stop(running)
    assert running.returncode == 130
    assert "interrupted; every finished call is in the store" in said
    noted("a stage in the middle of measuring")


@pytest.mark.skipif(not book.LONG, reason="part of `make soak`")
@pytest.mark.parametrize("stage", ["score", "calibration", "report"])
def test_ctrl_c_ends_a_stage_that_computes(workspace: Workspace, stage: str) -> None:
    workspace.compose("score.resamples=200000", "calibration.replications=200")
    running = start(workspace, "python", "-m", f"stages.{stage}")
    time.sleep(2.5)
    stop(running)
    if running.returncode == 0:
        pytest.skip("it was faster than the interrupt")
    assert running.returncode == 130
    noted("a stage that computes")


COMMANDS = {"dvc repro": ("dvc", "repro"), "make run": ("make", "run")}


@pytest.mark.skipif(not book.LONG, reason="part of `make soak`")
@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_ends_a_run_and_the_next_goes_on_from_it(workspace: Workspace, command: str) -> None:
    """As from a terminal: the signal goes to make, to DVC and to the stage at once."""
    wanted, name = workspace.lock, "-".join(STAGES["edit"])
    output = workspace.root / "data" / "edit" / name
    whole = content(output)
    stamps = workspace.root / ".venv"
    stamps.mkdir()
    (stamps / "python.stamp").touch()
    (stamps / "run.stamp").touch()  # installed: the interpreter of this very run
    path = workspace.root / "params.yaml"
    params = path.read_text()
    store = str(workspace.root / ".store")
    with Server() as server:
        server.route = lambda seen: Act({}, 404, delay_s=0 if seen.method == "GET" else 60)
        (group, model), adapter = SILENT["edit"]
        changed = yaml.safe_load(params)
        url = {"base_url": f"{server.url}/v1", "timeout_s": 600, "model": "m"}
        changed[group][model] = {**adapter, **url}
        path.write_text(yaml.safe_dump(changed, sort_keys=False))
        running = start(workspace, *COMMANDS[command], EDCT_STORE=store)
        wait_until(lambda: any(seen.method == "POST" for seen in server.seen), running)
        said = stop(running, group=True)
        assert running.returncode not in (0, None)
        assert "interrupted; every finished call is in the store" in said
        status = workspace.run(sys.executable, "-m", "stages.status", OPENROUTER_API_KEY=KEY).text
        assert f"failed: edit@{name}: interrupted" in status
    path.write_text(params)
    workspace.repro()
    assert workspace.lock == wanted
    assert content(output) == whole
    noted(f"`{command}`, in a stage before a server that says nothing")
