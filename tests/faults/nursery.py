"""Starts stages, or `dvc`, quickly, over and over, so that they can be killed: one process that has
imported all they need and forks a child for each run.

    python -m tests.faults.nursery [MODULE …]  <  lines of orders, JSON

An order names a `stage` and its `arguments`, or the arguments of `dvc`. With `kill_after` the child
and all that it started are killed so many seconds after it began; with `seen`, a list of pairs of
a folder and a part of a name, so many seconds after such a file appeared. Each answer says how the
child ended (minus the signal, if one ended it) and how long it took.
"""

import importlib
import json
import os
import runpy
import signal
import sys
import time
from typing import Any

USUAL = (
    "stages.edit",
    "stages.judge",
    "stages.report",
    "stages.score",
    "stages.workflow.cast",
    "stages.benchmarks.demo",
    "stages.models.chat.demo_extractor",
    "stages.models.chat.demo_judge",
    "stages.models.chat.demo_target",
    "stages.models.detector.demo",
    "stages.models.editor.demo",
    "stages.models.segmenter.grabcut",
)


def child(order: dict[str, Any]) -> None:
    """Run a stage, or dvc, in this process, silently."""
    os.setsid()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    try:
        if "dvc" in order:
            from dvc.cli import main as dvc

            os._exit(dvc(order["dvc"]))
        sys.argv = [f"stages.{order['stage']}", *order["arguments"]]
        sys.modules.pop(f"stages.{order['stage']}", None)
        runpy.run_module(f"stages.{order['stage']}", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        os._exit(int(ended.code or 0) if not isinstance(ended.code, str) else 1)
    os._exit(0)


def appeared(seen: list[list[str]]) -> bool:
    """Whether a folder holds a file with such a part in its name."""
    for folder, part in seen:
        try:
            if any(part in entry.name for entry in os.scandir(folder)):
                return True
        except (FileNotFoundError, NotADirectoryError):
            pass
    return False


def kill(born: int) -> None:
    """The child and its children, at once."""
    try:
        os.killpg(born, signal.SIGKILL)
    except ProcessLookupError:  # it has made no group yet
        os.kill(born, signal.SIGKILL)


def main() -> None:
    """Run each order."""
    for name in sys.argv[1:] or USUAL:
        importlib.import_module(name)
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        wait, seen = order.get("kill_after"), order.get("seen")
        began = time.monotonic()
        born = os.fork()
        if born == 0:
            child(order)
        deadline = None if wait is None or seen else began + wait
        while True:
            aimed = wait is not None and (deadline is not None or seen)
            ended, status = os.waitpid(born, os.WNOHANG if aimed else 0)
            if ended:
                break
            if seen and appeared(seen):
                seen, deadline = None, time.monotonic() + wait
            if deadline is not None and time.monotonic() >= deadline:
                kill(born)
                wait = deadline = seen = None
            elif aimed:
                time.sleep(0.0003)
        code = os.waitstatus_to_exitcode(status)
        print(json.dumps({"code": code, "seconds": time.monotonic() - began}), flush=True)


if __name__ == "__main__":
    main()
