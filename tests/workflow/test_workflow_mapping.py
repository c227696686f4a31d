"""Work over many items: in order, bounded, and the first fault ends it."""

import asyncio

import pytest

from stages.records.base import Status
from stages.records.errors import UserError
from stages.workflow import tally
from stages.workflow.mapping import for_each


def test_results_keep_the_order_of_items_and_work_is_bounded() -> None:
    under_way = most = 0

    async def work(item: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001 * (10 - item % 10))
        under_way -= 1
        return item * item

    found = asyncio.run(for_each(range(30), work, at_once=4, label="t"))
    assert list(found) == [n * n for n in range(30)]
    assert most == 4


def test_no_items_are_no_results() -> None:
    async def work(item: int) -> int:
        raise AssertionError

    assert not asyncio.run(for_each([], work, at_once=4, label="t"))


def test_the_first_fault_is_raised_after_what_was_under_way_has_ended() -> None:
    ended = []

    async def work(item: int) -> int:
        if item == 3:
            raise UserError("here", "three", "Use two.")
        await asyncio.sleep(0.02)
        ended.append(item)
        return item

    with pytest.raises(UserError, match="three"):
        asyncio.run(for_each(range(100), work, at_once=4, label="t"))
    assert ended == [0, 1, 2]


def test_failed_calls_above_the_limit_are_an_error_and_rejections_are_not() -> None:
    failed = [Status.OK] * 7 + [Status.API_ERROR] * 2 + [Status.REFUSED]
    assert tally.check("x", failed, 0.3) == "2 api_error, 7 ok, 1 refused"
    with pytest.raises(UserError, match="3 of 10 rows got no reply"):
        tally.check("x", failed, 0.29)
    rejected = [Status.OUTSIDE_CHANGED] * 9 + [Status.NOT_REACHED]
    with pytest.raises(UserError, match=r"raise generation\.max_tokens"):
        tally.check("x", [Status.OK, Status.TRUNCATED], 0.1)
    with pytest.raises(UserError) as caught:
        tally.check("x", [Status.OK, Status.REFUSED], 0.1)
    assert "max_tokens" not in str(caught.value)
    assert tally.check("x", rejected, 0.0)
    assert tally.check("x", [], 0.0) == "no rows"
