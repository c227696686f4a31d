"""Run a stage as `python -m` does, and write down where its time went.

    python -m bench.traced FOLDER -m stages.edit --target …

Imports end where the stage calls `runner.main`; from then on the functions below are timed, each
without what it calls of the others. It is the CPU time of the thread that runs them, since calls
and measurements go on side by side.
"""

import asyncio
import json
import os
import runpy
import sys
import threading
import time
import types
from collections import Counter
from collections.abc import Callable, Generator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

_CALLS = ("complete", "edit", "detect", "segment")
_LABEL: ContextVar[str] = ContextVar("label", default="measuring")
"""Whose work a thread does; measuring is the only work in threads that no model does."""


class Clock:
    """Seconds by label, each without what is timed within it.

    Parameters
    ----------
    now : callable
        What time it is; the CPU time of the calling thread.
    """

    def __init__(self, now: Callable[[], float] = time.thread_time) -> None:
        self.now = now
        self.spent: Counter[str] = Counter()
        self._within = threading.local()

    def timed(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""

        def run(*given: Any, **named: Any) -> Any:
            began, above = self.now(), getattr(self._within, "inner", 0.0)
            self._within.inner = 0.0
            try:
                return function(*given, **named)
            finally:
                took = self.now() - began
                self.spent[label] += took - self._within.inner
                self._within.inner = above + took

        return run

    def awaited(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A model's method, timed whenever it is not waiting, and what it has a thread do."""

        @types.coroutine
        def steps(coroutine: Any) -> Generator[Any, Any, Any]:
            step, given = coroutine.send, None
            while True:
                try:
                    waiting = self.timed(label, step)(given)
                except StopIteration as ended:
                    return ended.value
                try:
                    step, given = coroutine.send, (yield waiting)
                except BaseException as error:
                    step, given = coroutine.throw, error

        async def run(*given: Any, **named: Any) -> Any:
            token = _LABEL.set(label)
            try:
                return await steps(function(*given, **named))
            finally:
                _LABEL.reset(token)

        return run


def watch(clock: Clock) -> None:
    """Time what stages do by way of rooms."""
    from stages.imaging import codec, localization, mask
    from stages.models.prices import Prices
    from stages.models.store import Store
    from stages.records import jsonl
    from stages.workflow import adapters
    from stages.workflow import params as parameters

    for owner, name, label in (
        (codec, "encode_png", "PNG"),
        (codec, "decode", "PNG"),
        (localization, "localize", "measuring"),
        (mask, "dilate", "measuring"),
        (jsonl, "read", "records"),
        (jsonl, "write", "records"),
        (Store, "get", "store"),
        (Store, "put", "store"),
        (parameters, "load", "parameters"),
        (Prices, "load", "parameters"),
        (adapters, "build", "making models"),
    ):
        setattr(owner, name, clock.timed(label, getattr(owner, name)))
    made = adapters.build

    def build(params: Any, key: str, kind: Any) -> Any:
        adapter = made(params, key, kind)
        role = key.split(".")[0].rstrip("s")
        for name in _CALLS:
            if hasattr(adapter, name):
                setattr(adapter, name, clock.awaited(role, getattr(adapter, name)))
        return adapter

    adapters.build = build
    to_thread = asyncio.to_thread

    async def in_thread(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        return await to_thread(clock.timed(_LABEL.get(), function), *given, **named)

    setattr(asyncio, "to_thread", in_thread)  # noqa: B010 - its type is a generic one


def main() -> None:
    """Run the stage; a file in FOLDER says what it took."""
    folder, _, module, *given = sys.argv[1:]
    began = float(os.environ["BENCH_BEGAN"])
    sys.argv = ["-m"]  # as `python -m` has it while it imports
    import stages  # noqa: F401
    from stages.workflow import runner

    clock, enter = Clock(), runner.main

    def traced(stage: str, *rest: Any, **named: Any) -> None:
        imported = time.time()
        cpu = time.process_time()
        watch(clock)
        try:
            enter(stage, *rest, **named)
        finally:
            row = {
                "stage": stage,
                "imports_s": imported - began,
                "imports_cpu_s": cpu,
                "work_s": time.time() - imported,
                "work_cpu_s": time.process_time() - cpu,
                "by": dict(clock.spent),
            }
            (Path(folder) / f"{began}.json").write_text(json.dumps(row))

    runner.main = traced
    sys.argv = [module, *given]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
