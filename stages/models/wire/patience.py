"""When a call is tried again, and for how long.

What a provider certainly did not do is tried again; what it may have done is tried again only where
that costs little, so never for a paid image.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from stages.models.wire.fault import Fault, Kind
from stages.models.wire.gate import Clock, Gate, WallClock

T = TypeVar("T")


@dataclass(frozen=True)
class Patience:
    """Bounds on trying again. In YAML: ``patience: {tries: 6, total_s: 300}``."""

    tries: int = 6
    """Tries of one call, the first included; those that met `Kind.BUSY` are not counted."""
    total_s: float = 600.0
    """Seconds of waiting in one call, and the longest wait that a provider may ask for."""
    first_wait_s: float = 1.0
    """Wait before the second try; it doubles with each further one."""
    max_wait_s: float = 60.0
    """Longest wait where the provider asks for none."""
    clock: Clock = field(default_factory=WallClock, compare=False)
    jitter: random.Random = field(default_factory=lambda: random.Random(0), compare=False)

    def __post_init__(self) -> None:
        if self.tries < 1 or min(self.total_s, self.first_wait_s, self.max_wait_s) < 0:
            raise ValueError("patience: tries must be at least 1, and no time negative")

    def backoff(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row, spread by a quarter."""
        wait = min(self.first_wait_s * 2.0 ** min(failures - 1, 30), self.max_wait_s)
        return wait * (1 + 0.25 * self.jitter.random())


async def persist(
    attempt: Callable[[], Awaitable[T]],
    *,
    gate: Gate,
    patience: Patience,
    paid: bool,
    holds_slot: bool = False,
) -> T:
    """Try until there is a reply, or raise the last Fault.

    Parameters
    ----------
    attempt : callable
        One try.
    gate : Gate
        The provider's; every try passes it.
    patience : Patience
        The bounds.
    paid : bool
        Whether what may have been done must not be asked for again.
    holds_slot : bool
        Whether the caller is through the gate already, for work of several requests.
    """
    waited, counted, failures = 0.0, 0, 0
    while True:
        try:
            if holds_slot:
                return await gate.watch(attempt)
            async with gate.slot():
                return await gate.watch(attempt)
        except Fault as fault:
            failures += 1
            fault.tries = failures
            counted += fault.kind is not Kind.BUSY
            wait = patience.backoff(failures)
            if fault.wait is not None:  # honoured, but an answer of 0 must not end in a hot loop
                wait = max(fault.wait, wait / 4)
            if fault.pauses:
                gate.pause(fault.wait or patience.backoff(gate.strikes))
            repeats = fault.kind is not Kind.UNKNOWN or not paid
            # Where no connection ever was made, a wrong address is likelier than a short outage.
            tries = patience.tries if fault.kind is not Kind.UNREACHABLE or gate.answered else 2
            if not repeats or counted >= tries or waited + wait > patience.total_s:
                raise
        waited += wait
        await patience.clock.sleep(wait)
