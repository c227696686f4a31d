"""Calls that wait together go together, and each gets its own result."""

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from stages.models.local import batching
from stages.models.local.batching import Batcher
from stages.models.local.faults import OutOfMemory
from stages.records.errors import UserError


class Model:
    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.threads: set[int] = set()

    def run(self, copy: int, items: Sequence[int]) -> Sequence[int | Exception]:
        self.batches.append(list(items))
        self.threads.add(threading.get_ident())
        return [ValueError(str(n)) if n == 13 else 10 * n for n in items]


def gather(batcher: Batcher[int, int], items: Sequence[int], keys: str = "") -> list[object]:
    async def run() -> list[object]:
        calls = (
            batcher.submit(key, item)
            for key, item in zip(keys or "k" * len(items), items, strict=True)
        )
        return list(await asyncio.gather(*calls, return_exceptions=True))

    return asyncio.run(run())


def test_results_come_back_to_their_calls_in_full_batches_in_order() -> None:
    model = Model()
    assert gather(Batcher(model.run, 4), range(10)) == [10 * n for n in range(10)]
    assert model.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(model.threads) == 1
    assert threading.get_ident() not in model.threads


def test_only_calls_of_a_kind_share_a_batch() -> None:
    model = Model()
    assert gather(Batcher(model.run, 4), range(6), "ababab") == [10 * n for n in range(6)]
    assert model.batches == [[0, 2, 4], [1, 3, 5]]


def test_an_error_of_one_is_of_one_and_an_error_of_the_batch_is_of_all() -> None:
    model = Model()
    results = gather(Batcher(model.run, 4), [1, 13, 2])
    assert [results[0], results[2]] == [10, 20]
    assert isinstance(results[1], ValueError)

    def broken(copy: int, items: Sequence[int]) -> Sequence[int | Exception]:
        raise RuntimeError("all")

    assert [str(error) for error in gather(Batcher(broken, 4), [1, 2])] == ["all", "all"]


def test_what_fails_in_company_is_asked_again_alone() -> None:
    batches: list[list[int]] = []

    def run(copy: int, items: Sequence[int]) -> Sequence[int | Exception]:
        batches.append(list(items))
        if 13 in items:
            raise ValueError("thirteen")
        return items

    first, bad, last = gather(Batcher(run, 4), [1, 13, 2])
    assert (first, last) == (1, 2)
    assert str(bad) == "thirteen"
    assert batches == [[1, 13, 2], [1], [13], [2]]


def test_what_every_call_would_meet_is_met_once() -> None:
    batches: list[list[int]] = []

    def run(copy: int, items: Sequence[int]) -> Sequence[int | Exception]:
        batches.append(list(items))
        raise UserError("weights", "are not there", "Get them.")

    assert {str(error) for error in gather(Batcher(run, 4), [1, 2, 3])} == {
        "weights: are not there. Get them."
    }
    assert batches == [[1, 2, 3]]


def test_a_batch_that_memory_does_not_hold_goes_in_halves_and_so_do_later_ones() -> None:
    sizes: list[int] = []

    def run(copy: int, items: Sequence[int]) -> Sequence[int | Exception]:
        sizes.append(len(items))
        if len(items) > (3 if items[0] < 100 else 8) or 99 in items:
            raise OutOfMemory("m", "does not fit", "Lower it.")
        return items

    batcher = Batcher(run, 8)
    assert gather(batcher, range(8)) == list(range(8))
    assert sizes == [8, 4, 2, 2, 4, 2, 2]
    sizes.clear()
    assert gather(batcher, range(4)) == list(range(4))
    assert sizes == [2, 2]
    sizes.clear()
    assert gather(batcher, range(100, 108), "o" * 8) == list(range(100, 108))
    assert sizes == [8]  # calls of another kind may be smaller ones
    (lost,) = gather(batcher, [99])
    assert isinstance(lost, OutOfMemory)


def test_a_batch_waits_for_calls_that_come_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As long as calls come it would never go, were it not for the bound."""
    monkeypatch.setattr(batching, "LINGER_S", 60.0)
    monkeypatch.setattr(batching, "LINGERS_S", 0.05)
    model, last = Model(), [0]

    async def main() -> None:
        batcher, waiting = Batcher(model.run, 10**6), []
        while not model.batches:
            waiting.append(asyncio.ensure_future(batcher.submit("k", 0)))
            last[0] += 1
            await asyncio.sleep(0.001)
        await asyncio.gather(*waiting)

    asyncio.run(asyncio.wait_for(main(), timeout=20))
    assert 1 < len(model.batches[0]) <= last[0]


def test_a_copy_may_take_less_than_a_batch() -> None:
    model = Model()
    gather(Batcher(model.run, 4, most=lambda copy: 1), range(3))
    assert model.batches == [[0], [1], [2]]


def test_it_serves_one_loop_after_another_and_ends_its_threads() -> None:
    model = Model()
    batcher = Batcher(model.run, 4)
    assert gather(batcher, [1]) == [10]
    assert gather(batcher, [2]) == [20]
    for thread in threading.enumerate():
        if thread.name.startswith("model "):
            thread.join(timeout=2)
            assert not thread.is_alive()


def test_copies_work_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=5)

    def run(copy: int, items: Sequence[int]) -> Sequence[int | Exception]:
        both.wait()
        return [copy for _ in items]

    assert sorted(gather(Batcher(run, 1, copies=2), [1, 2])) == [0, 1]  # type: ignore[type-var]


def test_a_call_that_was_given_up_is_not_run() -> None:
    model = Model()
    first = threading.Event()

    def run(copy: int, items: Sequence[int]) -> Sequence[int | Exception]:
        first.wait(5)
        return model.run(copy, items)

    async def main() -> None:
        batcher = Batcher(run, 1)
        one = asyncio.ensure_future(batcher.submit("k", 1))
        two = asyncio.ensure_future(batcher.submit("k", 2))
        await asyncio.sleep(0.05)
        two.cancel()
        await asyncio.sleep(0)
        first.set()
        assert await one == 10

    asyncio.run(main())
    assert model.batches == [[1]]


@pytest.mark.parametrize("size", [0, -1, 2.5, 2.0, True, "4", None])
def test_a_batch_holds_a_whole_number(size: Any) -> None:
    with pytest.raises(ValueError, match=f"batch_size is {size!r}"):
        Batcher(Model().run, size)


def test_an_error_of_the_batching_itself_reaches_all_that_wait_and_the_copy_goes_back() -> None:
    model, faults = Model(), [RuntimeError("no number")]

    def most(copy: int) -> int:
        time.sleep(0.02)  # so that all three wait
        if faults:
            raise faults.pop()
        return 2

    async def main() -> None:
        batcher = Batcher(model.run, 4, most=most)
        calls = [asyncio.ensure_future(batcher.submit("k", n)) for n in range(3)]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert [str(each) for each in found] == ["no number"] * 3
        assert await batcher.submit("k", 4) == 40

    asyncio.run(asyncio.wait_for(main(), timeout=10))


def test_a_batch_without_a_result_for_each_is_an_error_and_no_wait() -> None:
    def run(copy: int, items: Sequence[int]) -> Sequence[int | Exception]:
        return [7]

    async def main() -> None:
        batcher = Batcher(run, 2)
        calls = [asyncio.ensure_future(batcher.submit("k", n)) for n in range(3)]
        first, second, third = await asyncio.gather(*calls, return_exceptions=True)
        assert first == 7
        assert isinstance(second, ValueError)
        assert third in (7, second)  # it waited then, or came after
        assert await batcher.submit("k", 4) == 7

    asyncio.run(asyncio.wait_for(main(), timeout=10))
