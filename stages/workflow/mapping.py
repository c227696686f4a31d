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

    The first exception ends the others and is raised; what they had stored stays stored.
    """
    results: dict[int, R] = {}
    waiting = iter(enumerate(items))
    show = sys.stderr.isatty()

    async def worker() -> None:
        for index, item in waiting:
            results[index] = await work(item)
            if show:
                print(f"\r{label}: {len(results)}/{len(items)}", end="", file=sys.stderr)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(items))):
                group.create_task(worker())
    except* Exception as errors:
        raise _first(errors) from None
    finally:
        if show and items:
            print("\r\033[K", end="", file=sys.stderr)
    return [results[index] for index in range(len(items))]


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
