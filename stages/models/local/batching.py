"""Many calls, few passes: calls that wait at the same time go through the model together.

A thread a copy of the model takes the oldest call that waits and those like it, at most a batch,
and runs them. It waits a moment for a batch to fill, and ends when nothing waits.
"""

import asyncio
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

I = TypeVar("I")  # noqa: E741 - an input
R = TypeVar("R")

LINGER_S = 0.02
"""Seconds without a new call after which a batch that is not full goes."""


@dataclass(frozen=True, eq=False)
class _Waiting(Generic[I, R]):
    key: Hashable
    item: I
    future: "Future[R]"


class Batcher(Generic[I, R]):
    """Gathers calls to batches.

    Parameters
    ----------
    run : callable
        Called as ``run(copy, items)`` in the copy's thread; returns a result or an exception an
        item, in their order. What it raises goes to every item of the batch.
    size : int
        Items of a batch, at most.
    copies : int
        Copies of the model, each with a thread of its own.
    """

    def __init__(
        self, run: Callable[[int, Sequence[I]], Sequence[R | Exception]], size: int, copies: int = 1
    ) -> None:
        if size < 1:
            raise ValueError(f"batch_size is {size}; it must be at least 1")
        self._run, self._size = run, size
        self._idle = list(range(copies))
        self._waiting: list[_Waiting[I, R]] = []
        self._changed = threading.Condition()

    async def submit(self, key: Hashable, item: I) -> R:
        """Have an item run with others of an equal key; return its result or raise its error."""
        future: Future[R] = Future()
        with self._changed:
            self._waiting.append(_Waiting(key, item, future))
            self._changed.notify_all()
            if self._idle:
                copy = self._idle.pop(0)
                threading.Thread(target=self._work, args=(copy,), name=f"model {copy}").start()
        return await asyncio.wrap_future(future)

    def _work(self, copy: int) -> None:
        while batch := self._next(copy):
            under_way = [each for each in batch if each.future.set_running_or_notify_cancel()]
            if not under_way:
                continue
            try:
                results = self._run(copy, [each.item for each in under_way])
            except BaseException as error:
                results = [error] * len(under_way)  # type: ignore[list-item]
            for each, result in zip(under_way, results, strict=True):
                if isinstance(result, BaseException):
                    each.future.set_exception(result)
                else:
                    each.future.set_result(result)

    def _next(self, copy: int) -> list[_Waiting[I, R]]:
        with self._changed:
            while self._waiting:
                key = self._waiting[0].key
                alike = [each for each in self._waiting if each.key == key]
                if len(alike) < self._size and self._changed.wait(LINGER_S):
                    continue  # another call came: look again
                batch = [each for each in self._waiting if each.key == key][: self._size]
                if batch:
                    self._waiting = [each for each in self._waiting if each not in batch]
                    return batch
            self._idle.append(copy)
            return []
