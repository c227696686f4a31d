"""Work over many items at once: a bounded number under way, results in the order of the items."""

import asyncio
import pickle
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from stages.records.held import Held

T = TypeVar("T")
R = TypeVar("R")


class Progress:
    """A line that says how far the work is, where somebody sees it.

    Parameters
    ----------
    label : str
        What the line begins with.
    total : int
        Items in all.
    """

    def __init__(self, label: str, total: int) -> None:
        self._label, self._total = label, total
        self._seen = sys.stderr.isatty()

    def show(self, done: int) -> None:
        """Say that so many items are done."""
        if self._seen:
            print(f"\r{self._label}: {done}/{self._total}", end="", file=sys.stderr)

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self._seen and self._total:
            print("\r\033[K", end="", file=sys.stderr)


async def for_each(
    items: Sequence[T], work: Callable[[T], Awaitable[R]], *, at_once: int, label: str
) -> Held[R]:
    """Apply ``work`` to every item, at most ``at_once`` at a time, with a progress line.

    Results are held as bytes, since records of tens of thousands of samples would fill the memory.

    After an exception no further item is begun, but calls under way are waited for, since they may
    have been paid for and their replies are worth keeping; then the first exception is raised.
    """
    results: dict[int, bytes] = {}
    faults: list[Exception] = []
    waiting = iter(enumerate(items))
    progress = Progress(label, len(items))

    async def worker() -> None:
        for index, item in waiting:
            if faults:
                return
            try:
                results[index] = pickle.dumps(await work(item))
            except Exception as error:
                faults.append(error)
            progress.show(len(results))

    await asyncio.gather(*(worker() for _ in range(min(at_once, len(items)))))
    progress.clear()
    if faults:
        raise faults[0]
    return Held([results[index] for index in range(len(items))], pickle.loads)
