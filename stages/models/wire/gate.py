"""How many calls of one provider may be under way: fewer after each 429, slowly more after replies.

Additive increase, multiplicative decrease, as in TCP (Jacobson 1988, doi:10.1145/52324.52356).
Calls that were under way together when the provider complained count as one complaint.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary

from stages.models.wire.fault import Fault, Kind

T = TypeVar("T")


class Clock(Protocol):
    """Time, so that tests need not wait."""

    def now(self) -> float:
        """Seconds on a clock that never goes back."""

    async def sleep(self, seconds: float) -> None:
        """Let that time pass."""


class WallClock:
    """Real time."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Gate:
    """The way to one provider, shared by all adapters that use it with one key.

    Parameters
    ----------
    clock : Clock
        Time.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.ceiling = 0
        self.limit = 0.0
        self.active = 0
        self.answered = 0
        """Replies so far, good or bad: the provider is there."""
        self.good = 0
        """Good ones among them: the key and the model are accepted."""
        self.strikes = 0
        """Complaints and failures since the last good reply."""
        self._closed_until = 0.0
        self._era = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def widen(self, ceiling: int) -> None:
        """Allow at least so many calls at once."""
        if ceiling > self.ceiling:
            self.limit += ceiling - self.ceiling
            self.ceiling = ceiling

    def pause(self, seconds: float) -> None:
        """Let no call begin for so long."""
        self._closed_until = max(self._closed_until, self.clock.now() + seconds)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a place, and hold it."""
        await self._enter()
        try:
            yield
        finally:
            self.active -= 1
            self._wake()

    async def watch(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Make one try, and learn from how it ends."""
        era = self._era
        try:
            reply = await attempt()
        except Fault as fault:
            self.answered += fault.kind is not Kind.UNREACHABLE
            if era == self._era and (fault.pauses or fault.kind is Kind.BUSY):
                self._era += 1
                self.strikes += 1
                if fault.kind is Kind.BUSY:
                    self.limit = max(1.0, self.limit / 2)
            raise
        except Exception:
            self.answered += 1
            raise
        self.answered += 1
        self.good += 1
        self.strikes = 0
        self.limit = min(float(self.ceiling), self.limit + 1 / self.limit)
        self._wake()
        return reply

    async def _enter(self) -> None:
        while True:
            if (closed := self._closed_until - self.clock.now()) > 0:
                await self.clock.sleep(closed)
            elif self.active < int(self.limit):
                self.active += 1
                return
            else:
                await self._queue()

    async def _queue(self) -> None:
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._wake()  # a place was given to one who left
            raise

    def _wake(self) -> None:
        free = int(self.limit) - self.active
        while free > 0 and self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                free -= 1


_GATES: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str | None], Gate]] = (
    WeakKeyDictionary()
)


def gate_of(base_url: str, key: str | None, ceiling: int, clock: Clock) -> Gate:
    """The gate to a provider in the running event loop: one for each base URL and key name."""
    gates = _GATES.setdefault(asyncio.get_running_loop(), {})
    gate = gates.setdefault((base_url, key), Gate(clock))
    gate.widen(ceiling)
    return gate
