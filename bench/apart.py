"""A piece of work in a process of its own, so that its seconds and its memory are its own."""

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]


class Took(NamedTuple):
    """What a piece of work gave and took."""

    result: Any
    """What it returned, as JSON."""
    seconds: float
    """Of the work itself, without the start of Python and the import of its module."""
    cpu_s: float
    """Of the work itself, user and system, in all threads."""
    peak_mib: float
    """Largest resident set of the process."""


def run(work: str, *, env: Mapping[str, str] | None = None, **values: Any) -> Took:
    """Call ``module:function(**values)`` in a fresh Python.

    Raises
    ------
    RuntimeError
        If it fails; with the end of what it said.
    """
    done = subprocess.run(
        [sys.executable, "-m", "bench.apart", work, json.dumps(values)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{work}: {done.stderr[-2000:]}")
    return Took(*json.loads(done.stdout.splitlines()[-1]))


def _main(work: str, values: str) -> None:
    module, _, name = work.partition(":")
    function = getattr(importlib.import_module(module), name)
    began, cpu = time.perf_counter(), time.process_time()
    result = function(**json.loads(values))
    took = (time.perf_counter() - began, time.process_time() - cpu)
    print(json.dumps(Took(result, *took, _peak_mib())))


def _peak_mib() -> float:
    """By the kernel's count for this program; that of `getrusage` begins with its parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmHWM in /proc/self/status")


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
