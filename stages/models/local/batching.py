"""Many calls, few passes: calls that wait at the same time go through the model together.

A thread a copy of the model takes the oldest call that waits and those like it, at most a batch,
and runs them. It waits some milliseconds for a batch to fill, and ends when nothing waits. What
fails in company is tried again: in halves where memory ran out, by itself otherwise.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import Generic, TypeVar

from stages.models.local.faults import OutOfMemory
from stages.models.local.loading import release
from stages.records.errors import UserError

I = TypeVar("I")  # noqa: E741 - an input
R = TypeVar("R")

LINGER_S = 0.005
"""Seconds without a new call after which a batch that is not full goes."""
LINGERS_S = 0.02
"""Seconds after which it goes in any case."""


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
        item, in their order. What it raises for several items is tried again: `OutOfMemory` with
        half of them, and no more than that from then on for calls of this key; a UserError, which
        every call would meet, goes to all; anything else with each item alone.
    size : int
        Items of a batch, at most.
    copies : int
        Copies of the model, each with a thread of its own.
    most : callable, optional
        Called as ``most(copy)`` in the copy's thread: a lower bound on its batches.
    """

    def __init__(
        self,
        run: Callable[[int, Sequence[I]], Sequence[R | Exception]],
        size: int,
        copies: int = 1,
        most: Callable[[int], int] | None = None,
    ) -> None:
        if type(size) is not int or size < 1:
            raise ValueError(f"batch_size is {size!r}; it must be a whole number of at least 1")
        self._run, self._size, self._most = run, size, most
        self._fits: dict[Hashable, int] = {}
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
        batch: list[_Waiting[I, R]] = []
        try:
            most = self._size if self._most is None else self._most(copy)
            while batch := self._next(copy, most):
                self._answer(copy, batch)
        except BaseException as error:  # a thread that dies silently leaves its callers waiting
            self._give_up(copy, batch, error)

    def _answer(self, copy: int, batch: Sequence[_Waiting[I, R]]) -> None:
        under_way = [each for each in batch if each.future.set_running_or_notify_cancel()]
        if not under_way:
            return
        results = self._results(copy, under_way[0].key, [each.item for each in under_way])
        for each, result in zip(under_way, results, strict=True):
            if isinstance(result, BaseException):
                each.future.set_exception(result)
            else:
                each.future.set_result(result)

    def _give_up(self, copy: int, batch: Sequence[_Waiting[I, R]], error: BaseException) -> None:
        """Tell an error of the batching itself to the batch and to all that wait."""
        with self._changed:
            waiting, self._waiting = self._waiting, []
            self._idle.append(copy)
        for each in (*batch, *waiting):
            with contextlib.suppress(InvalidStateError):  # answered already, or cancelled
                each.future.set_exception(error)

    def _results(self, copy: int, key: Hashable, items: Sequence[I]) -> Sequence[R | BaseException]:
        """A result or an exception an item."""
        share, memory = 1, False
        try:
            return self._run(copy, items)
        except OutOfMemory as error:
            if len(items) == 1:
                return [error]
            share = self._fits[key] = len(items) // 2
            memory = True
        except UserError as error:
            return [error] * len(items)
        except Exception as error:
            if len(items) == 1:
                return [error]
        except BaseException as error:
            return [error] * len(items)
        if memory:
            release()  # here, where the error no longer holds what had been computed
        parts = [items[start : start + share] for start in range(0, len(items), share)]
        return [each for part in parts for each in self._results(copy, key, part)]

    def _next(self, copy: int, most: int) -> list[_Waiting[I, R]]:
        with self._changed:
            until = time.monotonic() + LINGERS_S
            while self._waiting:
                key = self._waiting[0].key
                size = min(most, self._fits.get(key, self._size))
                alike = [each for each in self._waiting if each.key == key]
                left = min(LINGER_S, until - time.monotonic())
                if len(alike) < size and left > 0 and self._changed.wait(left):
                    continue  # another call came: look again
                batch = [each for each in self._waiting if each.key == key][:size]
                if batch:  # another copy may have taken them meanwhile
                    self._waiting = [each for each in self._waiting if each not in batch]
                    return batch
            self._idle.append(copy)
            return []
