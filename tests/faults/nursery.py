"""Starts stages quickly, over and over, so that they can be killed: one process that has imported
all they need and forks a child for each run.

    python -m tests.faults.nursery  <  lines of {"stage", "arguments", "kill_after"}
"""

import json
import os
import runpy
import signal
import sys
import time
from typing import Any

import stages.edit
import stages.judge
import stages.report
import stages.score
import stages.workflow.cast  # noqa: F401 - imported for the children
from stages.benchmarks import demo  # noqa: F401
from stages.models.chat import demo_extractor, demo_judge, demo_target  # noqa: F401
from stages.models.detector import demo as demo_detector  # noqa: F401
from stages.models.editor import demo as demo_editor  # noqa: F401
from stages.models.segmenter import grabcut  # noqa: F401


def child(stage: str, arguments: list[str]) -> None:
    """Run a stage in this process, silently."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    sys.argv = [f"stages.{stage}", *arguments]
    sys.modules.pop(f"stages.{stage}", None)
    try:
        runpy.run_module(f"stages.{stage}", run_name="__main__")
    except SystemExit as ended:
        os._exit(int(ended.code or 0) if not isinstance(ended.code, str) else 1)
    os._exit(0)


def main() -> None:
    """Run each order; say how it ended (minus the signal, if one ended it) and how long it took."""
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        began = time.monotonic()
        born = os.fork()
        if born == 0:
            child(order["stage"], order["arguments"])
        status = 0
        deadline = None if order["kill_after"] is None else began + order["kill_after"]
        while True:
            ended, status = os.waitpid(born, 0 if deadline is None else os.WNOHANG)
            if ended:
                break
            if deadline is not None and time.monotonic() >= deadline:
                os.kill(born, signal.SIGKILL)
                deadline = None
            else:
                time.sleep(0.001)
        code = os.waitstatus_to_exitcode(status)
        print(json.dumps({"code": code, "seconds": time.monotonic() - began}), flush=True)


if __name__ == "__main__":
    main()
