"""Calls through the store: made once, counted, read before stored, repaired once."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stages.models.calls import Calls
from stages.models.picture import Picture
from stages.models.prompt import Prompt
from stages.models.protocol import (
    CallError,
    Chat,
    Completion,
    Conversation,
    EditedImage,
    Editor,
    Turn,
)
from stages.models.replies import Unparsed
from stages.models.store import Store
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.usage import Usage

REPAIR = Prompt("Again, since {{reason}}.", ("reason",), "0" * 64)


class Scripted(Chat):
    """A chat model that says what it is told to, and remembers what it was asked."""

    concurrency = 2

    def __init__(self, *replies: str | CallError, name: str = "scripted") -> None:
        self.replies, self.name, self.heard = list(replies), name, []
        self.under_way = self.most = 0

    def identity(self) -> Mapping[str, Any]:
        return {"model": self.name}

    async def complete(self, conversation: Conversation) -> Completion:
        self.heard.append(conversation)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.01)
        self.under_way -= 1
        reply = self.replies.pop(0) if self.replies else "more"
        if isinstance(reply, CallError):
            raise reply
        return Completion(reply, usage=Usage(input_tokens=10, cost_usd=0.5))


def number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Unparsed(f"{text!r} is no number") from None


def ask(question: str = "q", **options: Any) -> Conversation:
    return Conversation((Turn("user", question),), max_tokens=100, **options)


def test_a_call_is_made_once_and_answered_ever_after(tmp_path: Path) -> None:
    model, calls = Scripted("7"), Calls(Store(tmp_path))
    first = asyncio.run(calls.chat("judge", model, ask(), number))
    again = Calls(Store(tmp_path))
    second = asyncio.run(again.chat("judge", model, ask(), number))
    assert first == second
    assert first.value.value == 7
    assert first.note.usage.cost_usd == 0.5
    assert (calls.made["judge"], again.made["judge"], again.answered["judge"]) == (1, 0, 1)
    assert len(model.heard) == 1


@pytest.mark.parametrize(
    "other",
    [ask("p"), ask(seed=1), ask(replicate=1), ask(reply_schema={"type": "object"})],
    ids=["text", "seed", "replicate", "schema"],
)
def test_another_request_is_another_call(tmp_path: Path, other: Conversation) -> None:
    model, calls = Scripted("7", "8"), Calls(Store(tmp_path))
    asyncio.run(calls.chat("judge", model, ask(), number))
    assert asyncio.run(calls.chat("judge", model, other, number)).value.value == 8


def test_the_image_that_is_shown_is_part_of_the_request(tmp_path: Path) -> None:
    model, calls = Scripted("a", "b"), Calls(Store(tmp_path))
    for shade in (0, 255):
        picture = Picture.of(np.full((4, 4, 3), shade, np.uint8))
        shown = Conversation((Turn("user", "q", (picture,)),), max_tokens=9)
        asyncio.run(calls.chat("target", model, shown, str))
    assert calls.made["target"] == 2


@pytest.mark.parametrize("status", [Status.REFUSED, Status.TRUNCATED, Status.API_ERROR])
def test_a_failure_is_raised_counted_and_never_stored(tmp_path: Path, status: Status) -> None:
    model, calls = Scripted(CallError(status, "no"), "7"), Calls(Store(tmp_path))
    with pytest.raises(CallError, match="no"):
        asyncio.run(calls.chat("judge", model, ask(), number))
    assert (calls.failed["judge"], list(calls.store.keys())) == (1, [])
    assert asyncio.run(calls.chat("judge", model, ask(), number)).value.value == 7


def test_an_unreadable_reply_is_repaired_once(tmp_path: Path) -> None:
    model, calls = Scripted("seven", "7"), Calls(Store(tmp_path))
    found = asyncio.run(calls.chat("judge", model, ask(), number, REPAIR))
    assert found.value.value == 7
    assert found.note.usage == Usage(input_tokens=20, cost_usd=1.0)
    turns = model.heard[1].turns
    assert [turn.role for turn in turns] == ["user", "assistant", "user"]
    assert turns[1].text == "seven"
    assert "'seven' is no number" in turns[2].text
    again = asyncio.run(Calls(calls.store).chat("judge", model, ask(), number, REPAIR))
    assert again == found
    assert len(model.heard) == 2


def test_a_reply_unreadable_after_repair_is_unparsed_and_not_stored(tmp_path: Path) -> None:
    model, calls = Scripted("seven", "VII"), Calls(Store(tmp_path))
    with pytest.raises(CallError) as caught:
        asyncio.run(calls.chat("judge", model, ask(), number, REPAIR))
    assert caught.value.status is Status.UNPARSED
    assert list(calls.store.keys()) == []


def test_a_stored_reply_that_the_reader_no_longer_takes_is_asked_for_again(tmp_path: Path) -> None:
    model, calls = Scripted("text", "7"), Calls(Store(tmp_path))
    asyncio.run(calls.chat("judge", model, ask(), str))
    assert asyncio.run(calls.chat("judge", model, ask(), number)).value.value == 7


def test_equal_calls_under_way_at_once_are_made_once(tmp_path: Path) -> None:
    model, calls = Scripted("7"), Calls(Store(tmp_path))

    async def both() -> list[int]:
        asked = (calls.chat("judge", model, ask(), number) for _ in range(5))
        return [found.value.value for found in await asyncio.gather(*asked)]

    assert asyncio.run(both()) == [7] * 5
    assert len(model.heard) == 1


def test_no_more_calls_are_under_way_than_the_adapter_allows(tmp_path: Path) -> None:
    model, calls = Scripted(), Calls(Store(tmp_path))

    async def many() -> None:
        asked = (calls.chat("target", model, ask(str(n)), str) for n in range(12))
        await asyncio.gather(*asked)

    asyncio.run(many())
    assert model.most == 2


def test_a_reply_is_written_while_the_next_call_is_made(tmp_path: Path) -> None:
    model, store = Scripted(), Store(tmp_path)
    model.concurrency = 1
    keep, began = store.keep, asyncio.Event()

    async def slow_keep(*args: Any, **options: Any) -> None:
        if len(model.heard) == 2:
            began.set()
        await asyncio.wait_for(began.wait(), 10)  # not before the next call has begun
        await keep(*args, **options)

    store.keep = slow_keep  # type: ignore[method-assign]
    calls = Calls(store)

    async def both() -> None:
        await asyncio.gather(*(calls.chat("judge", model, ask(t), str) for t in ("a", "b")))

    asyncio.run(both())
    assert model.most == 1


def test_replay_names_the_first_missing_call_and_makes_none(tmp_path: Path) -> None:
    model, calls = Scripted("7"), Calls(Store(tmp_path, replay=True))
    with pytest.raises(UserError, match=r"no reply to this judge call \([0-9a-f]{12}\)"):
        asyncio.run(calls.chat("judge", model, ask(), number))
    assert model.heard == []


class Broke(Scripted):
    """A chat model whose account is empty."""

    async def complete(self, conversation: Conversation) -> Completion:
        self.heard.append(conversation)
        await asyncio.sleep(0.01)
        raise UserError("account", "is empty", "Fill it.")


def test_after_a_fault_that_ends_the_run_no_waiting_call_is_made(tmp_path: Path) -> None:
    model, calls = Broke(), Calls(Store(tmp_path))

    async def many() -> list[object]:
        asked = (calls.chat("target", model, ask(str(n)), str) for n in range(9))
        return await asyncio.gather(*asked, return_exceptions=True)

    assert {str(error) for error in asyncio.run(many())} == {"account: is empty. Fill it."}
    assert len(model.heard) == 2


class TextEditor(Editor):
    """An editor that answers with a web page."""

    def identity(self) -> Mapping[str, Any]:
        return {"model": "page"}

    async def edit(
        self, picture: Picture, instruction: str, *, seed: int, attempt: int
    ) -> EditedImage:
        return EditedImage(b"<html>busy</html>")


def test_an_editor_that_returns_no_image_has_failed(tmp_path: Path) -> None:
    calls = Calls(Store(tmp_path))
    picture = Picture.of(np.zeros((4, 4, 3), np.uint8))
    with pytest.raises(CallError, match="no image") as caught:
        asyncio.run(calls.edit(TextEditor(), picture, "do", seed=0, attempt=1))
    assert caught.value.status is Status.API_ERROR
    assert list(calls.store.keys()) == []
