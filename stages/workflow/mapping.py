"""Work over many items at once: a bounded number under way, results in the order of the items."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def for_each(
    items: Sequence[T], work: Callable[[T], Awaitable[R]], *, at_once: int, label: str
) -> list[R]:
    """Apply ``work`` to every item, at most ``at_once`` at a time, with a progress line.

    After an exception no further item is begun, but calls under way are waited for, since they may
    have been paid for and their replies are worth keeping; then the first exception is raised.
    """
    results: dict[int, R] = {}
    faults: list[Exception] = []
    waiting = iter(enumerate(items))
    show = sys.stderr.isatty()

    async def worker() -> None:
        for index, item in waiting:
            if faults:
                return
            try:
                results[index] = await work(item)
            except Exception as error:
                faults.append(error)
            if show:
                print(f"\r{label}: {len(results)}/{len(items)}", end="", file=sys.stderr)

    await asyncio.gather(*(worker() for _ in range(min(at_once, len(items)))))
    if show and items:
        print("\r\033[K", end="", file=sys.stderr)
    if faults:
        raise faults[0]
    return [results[index] for index in range(len(items))]
