"""Trying again, and the gate: counted, bounded, shrunk and widened, on a clock of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stages.models.wire.fault import Fault, Kind
from stages.models.wire.gate import Gate, gate_of
from stages.models.wire.patience import Patience, persist


class Clock:
    """A clock that stands still until someone sleeps."""

    def __init__(self) -> None:
        self.time, self.slept = 0.0, []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


def scripted(*outcomes: Any) -> Callable[[], Awaitable[str]]:
    left = list(outcomes)

    async def attempt() -> str:
        outcome = left.pop(0) if left else "done"
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    attempt.left = left  # type: ignore[attr-defined]
    return attempt


def fault(kind: Kind, wait: float | None = None, pauses: bool = False) -> Fault:
    return Fault(kind, "why", wait, pauses)


def run(*outcomes: Any, paid: bool = False, **bounds: Any) -> tuple[str, Clock, Gate]:
    clock = Clock()
    gate = Gate(clock)
    gate.widen(8)
    gate.answered = 1
    patience = Patience(clock=clock, **bounds)
    done = asyncio.run(persist(scripted(*outcomes), gate=gate, patience=patience, paid=paid))
    return done, clock, gate


@pytest.mark.parametrize("kind", list(Kind))
def test_a_free_call_survives_every_kind_of_fault(kind: Kind) -> None:
    assert run(fault(kind), fault(kind))[0] == "done"


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.UNKNOWN])
def test_a_paid_call_is_repeated_where_nothing_was_done(kind: Kind) -> None:
    assert run(fault(kind), paid=True)[0] == "done"


def test_a_paid_call_of_unknown_outcome_is_not() -> None:
    with pytest.raises(Fault) as caught:
        run(fault(Kind.UNKNOWN), paid=True)
    assert caught.value.tries == 1


def test_waits_double_up_to_a_bound_and_are_spread() -> None:
    _, clock, _ = run(*[fault(Kind.UNAVAILABLE)] * 6, tries=9, first_wait_s=1, max_wait_s=4)
    for slept, least in zip(clock.slept, (1, 2, 4, 4, 4, 4), strict=True):
        assert least <= slept <= 1.25 * least
    assert len(set(clock.slept)) > 3


def test_what_the_provider_asks_for_is_waited_for() -> None:
    _, clock, _ = run(fault(Kind.BUSY, 17.0), first_wait_s=1)
    assert clock.slept == [17.0]


def test_tries_are_bounded_and_busy_ones_do_not_count() -> None:
    with pytest.raises(Fault) as caught:
        run(*[fault(Kind.UNAVAILABLE)] * 9, tries=3)
    assert caught.value.tries == 3
    assert run(*[fault(Kind.BUSY)] * 9, tries=2, first_wait_s=0.1)[0] == "done"


@pytest.mark.parametrize("wait", [None, 0.0, 5.0])
def test_busy_for_ever_ends_with_the_time_that_was_given(wait: float | None) -> None:
    with pytest.raises(Fault):
        run(*[fault(Kind.BUSY, wait, pauses=True)] * 10_000, total_s=60)


def test_a_wait_longer_than_all_patience_is_not_begun() -> None:
    clock = Clock()
    gate = Gate(clock)
    gate.widen(1)
    attempt = scripted(fault(Kind.BUSY, 3600.0))
    with pytest.raises(Fault):
        asyncio.run(persist(attempt, gate=gate, patience=Patience(clock=clock), paid=False))
    assert clock.slept == []


def test_an_address_that_never_answered_is_given_up_soon() -> None:
    clock = Clock()
    gate = Gate(clock)
    gate.widen(1)
    attempt = scripted(*[fault(Kind.UNREACHABLE)] * 9)
    with pytest.raises(Fault) as caught:
        asyncio.run(persist(attempt, gate=gate, patience=Patience(clock=clock), paid=False))
    assert caught.value.tries == 2


def test_what_is_no_fault_passes_through_at_once() -> None:
    with pytest.raises(KeyError):
        run(KeyError("bug"))


# --- the gate ------------------------------------------------------------------------------------


async def crowd(gate: Gate, calls: int, ends: Callable[[int], Any] = lambda n: None) -> int:
    """Make calls at once; the most that were under way together."""
    under_way = most = 0

    async def one(number: int) -> None:
        nonlocal under_way, most
        async with gate.slot():
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            under_way -= 1
            ends(number)

    await asyncio.gather(*(one(number) for number in range(calls)))
    return most


def test_no_more_are_let_in_than_the_limit() -> None:
    gate = Gate(Clock())
    gate.widen(3)
    assert asyncio.run(crowd(gate, 20)) == 3
    assert gate.active == 0


def test_complaints_that_come_together_halve_the_limit_once() -> None:
    async def many() -> Gate:
        gate = Gate(Clock())
        gate.widen(16)

        async def refused() -> None:
            await asyncio.sleep(0)
            raise fault(Kind.BUSY, 1.0, pauses=True)

        async def one() -> None:
            async with gate.slot():
                with pytest.raises(Fault):
                    await gate.watch(refused)

        await asyncio.gather(*(one() for _ in range(16)))
        return gate

    assert asyncio.run(many()).limit == 8


def test_the_limit_recovers_slowly_and_not_beyond_the_ceiling() -> None:
    async def good() -> str:
        return "ok"

    async def climb() -> list[float]:
        gate = Gate(Clock())
        gate.widen(4)
        gate.limit = 2.0
        limits = []
        for _ in range(40):
            await gate.watch(good)
            limits.append(gate.limit)
        return limits

    limits = asyncio.run(climb())
    assert limits[0] == 2.5
    assert limits == sorted(limits)
    assert limits[-1] == 4.0


def test_the_limit_never_falls_below_one() -> None:
    clock, gate = run(*[fault(Kind.BUSY)] * 20, first_wait_s=0.01)[1:]
    assert gate.limit >= 1
    assert clock.time > 0


def test_a_pause_holds_everyone_back() -> None:
    clock = Clock()
    gate = Gate(clock)
    gate.widen(2)
    gate.pause(30.0)
    asyncio.run(crowd(gate, 3))
    assert clock.time >= 30.0


def test_one_failure_of_the_server_pauses_and_a_good_reply_forgives() -> None:
    _, clock, gate = run(fault(Kind.UNAVAILABLE, pauses=True))
    assert gate._closed_until > 0
    assert gate.strikes == 0
    assert clock.time >= gate._closed_until


def test_who_leaves_the_queue_passes_the_place_on() -> None:
    async def scene() -> bool:
        gate = Gate(Clock())
        gate.widen(1)
        entered = asyncio.Event()

        async def wait() -> None:
            async with gate.slot():
                entered.set()

        async with gate.slot():
            leaver, stayer = asyncio.create_task(wait()), asyncio.create_task(wait())
            await asyncio.sleep(0)
        leaver.cancel()
        await asyncio.wait_for(stayer, 1)
        return entered.is_set() and gate.active == 0

    assert asyncio.run(scene())


def test_adapters_of_one_provider_and_key_share_a_gate() -> None:
    async def gates() -> list[Gate]:
        clock = Clock()
        return [
            gate_of("https://a/v1", "K", 4, clock),
            gate_of("https://a/v1", "K", 8, clock),
            gate_of("https://a/v1", "L", 2, clock),
            gate_of("https://b/v1", "K", 2, clock),
        ]

    first, same, other_key, other_url = asyncio.run(gates())
    assert first is same
    assert (first.ceiling, first.limit) == (8, 8)
    assert len({id(first), id(other_key), id(other_url)}) == 3
    assert asyncio.run(gates())[0] is not first
