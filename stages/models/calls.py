"""Every call of a stage: answered from the store, or made once and stored.

This is the only way from a stage to a model. It builds the canonical request, lets the store
answer it, holds the number of calls under way within the adapter's limit, has replies read before
they are stored, and counts what was made and what was answered.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from stages.imaging import codec
from stages.models import charges
from stages.models.account import Account
from stages.models.counts import Counts
from stages.models.ledger import Spent
from stages.models.picture import Picture
from stages.models.places import Places
from stages.models.prompt import Prompt
from stages.models.protocol import (
    Adapter,
    CallError,
    Chat,
    Completion,
    Conversation,
    Detector,
    Editor,
    Lost,
    Segmenter,
    TaskEditor,
    Turn,
)
from stages.models.replies import Unparsed
from stages.models.store import Store, Stored, request_key
from stages.records.attempt import Box
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.usage import CallNote, Usage, total

T = TypeVar("T")

CHARACTERS_A_TOKEN = 3
"""At least so many characters of English make a token."""
IMAGE_TOKENS = 2000
"""What a picture of about 1 MP takes, by most models less."""
BOX_TOKENS = 1000
"""What a detector's reply takes, by most less."""
NOTHING = Usage()


@dataclass(frozen=True)
class Answered(Generic[T]):
    """A reply as read, with the trace that goes on the record."""

    value: T
    note: CallNote


@dataclass(frozen=True)
class ChatReply(Generic[T]):
    """A chat reply: its text, its thinking text, and what was read from it."""

    text: str
    thinking: str | None
    value: T


class Calls:
    """The calls of one stage.

    Parameters
    ----------
    store : Store
        Where replies are kept.
    account : Account or None
        Where charges are written, and whose budget holds; None: a ledger beside the store, and no
        budget.
    """

    def __init__(self, store: Store, account: Account | None = None) -> None:
        self.store = store
        self.account = account or Account.of(store)
        self.made: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self._places = Places()
        self._fatal: UserError | None = None

    async def chat(
        self,
        role: str,
        model: Chat,
        conversation: Conversation,
        read: Callable[[str], T],
        repair: Prompt | None = None,
    ) -> Answered[ChatReply[T]]:
        """Continue a conversation and read the reply; one repair request where it can't be read."""
        request = {
            "kind": "chat",
            "model": dict(model.identity()),
            "turns": [
                {"role": t.role, "text": t.text, "images": [p.sha256 for p in t.pictures]}
                for t in conversation.turns
            ],
            "max_tokens": conversation.max_tokens,
            "seed": conversation.seed,
            "replicate": conversation.replicate,
            "schema": conversation.reply_schema,
            **({"sample": conversation.sample} if model.by_sample else {}),
        }

        async def call() -> Stored:
            return await _complete(model, conversation, read, repair)

        def usable(stored: Stored) -> ChatReply[T]:
            text = stored.reply["text"]
            return ChatReply(text, stored.reply["thinking"], read(text))

        most = _most(conversation, repairs=repair is not None)
        return await self._through(role, model, request, call, usable, most)

    async def edit(
        self, editor: Editor, picture: Picture, instruction: str, *, seed: int, attempt: int
    ) -> Answered[Picture]:
        """Edit a picture; the reply is the returned image, upright RGB, in its own size."""
        request = {
            "kind": "edit",
            "model": dict(editor.identity()),
            "image": picture.sha256,
            "instruction": instruction,
            "seed": seed,
            "attempt": attempt,
        }
        pending = self.store.pending(request_key(request))
        opened = lru_cache(maxsize=1)(_opened)  # looked at before it is stored, and then given out

        async def call() -> Stored:
            if isinstance(editor, TaskEditor):
                edited = await editor.edit_task(
                    picture, instruction, seed=seed, attempt=attempt, pending=pending
                )
            else:
                edited = await editor.edit(picture, instruction, seed=seed, attempt=attempt)
            try:
                await asyncio.to_thread(opened, edited.data)
            except codec.ImageError as error:
                reason = f"the editor returned no image: {error}"
                raise CallError(Status.API_ERROR, reason, edited.usage) from None
            return _stored({}, edited.usage, image=edited.data)

        async def through() -> Answered[Picture]:
            most = Usage(images=1)
            return await self._through(
                "editor", editor, request, call, lambda stored: opened(stored.blobs["image"]), most
            )

        try:
            answered = await through()
        except Lost:  # nothing is left but to pay again, if the budget allows it
            answered = await through()
        pending.clear()  # not before the reply is stored
        return answered

    async def detect(
        self, detector: Detector, picture: Picture, phrase: str
    ) -> Answered[tuple[Box, ...]]:
        """Find an object; no box is a good reply."""
        request = {
            "kind": "detect",
            "model": dict(detector.identity()),
            "image": picture.sha256,
            "phrase": phrase,
        }

        async def call() -> Stored:
            found = await detector.detect(picture, phrase)
            return _stored({"boxes": [box.model_dump() for box in found.boxes]}, found.usage)

        return await self._through(
            "detector",
            detector,
            request,
            call,
            lambda stored: tuple(Box.model_validate(box) for box in stored.reply["boxes"]),
            Usage(input_tokens=IMAGE_TOKENS, output_tokens=BOX_TOKENS, images=1),
        )

    async def segment(
        self, segmenter: Segmenter, picture: Picture, boxes: tuple[Box, ...]
    ) -> Answered[NDArray[np.bool_]]:
        """Turn boxes into a mask ``(H, W)``."""
        request = {
            "kind": "segment",
            "model": dict(segmenter.identity()),
            "image": picture.sha256,
            "boxes": [box.model_dump() for box in boxes],
        }

        async def call() -> Stored:
            found = await segmenter.segment(picture, boxes)
            mask = codec.encode_png(found.mask.astype(np.uint8) * 255)
            return _stored({}, found.usage, mask=mask)

        return await self._through(
            "segmenter",
            segmenter,
            request,
            call,
            lambda stored: codec.decode(stored.blobs["mask"])[..., 0] > 127,
        )

    async def measure(
        self, request: Mapping[str, Any], compute: Callable[[], tuple[dict[str, Any], bytes]]
    ) -> Answered[tuple[dict[str, Any], bytes]]:
        """Measure a pair, off the event loop: numbers, and the change map as PNG."""

        async def call() -> Stored:
            numbers, delta = await asyncio.to_thread(compute)
            return _stored(numbers, Usage(), delta=delta)

        return await self._through(
            "measurement",
            None,
            {"kind": "measure", **request},
            call,
            lambda stored: (dict(stored.reply), stored.blobs["delta"]),
        )

    async def _through(
        self,
        role: str,
        model: Adapter | None,
        request: Mapping[str, Any],
        call: Callable[[], Awaitable[Stored]],
        read: Callable[[Stored], T],
        most: Usage = NOTHING,
    ) -> Answered[T]:
        key = request_key(request)
        if (answered := await self._from_store(role, model, key, read)) is not None:
            return answered
        if self.store.replay:
            raise UserError(
                f"store {self.store.root}",
                f"holds no reply to this {role} call ({key[:12]}), and replay forbids making it",
                "Import the store that belongs to this run, or unset EDCT_REPLAY.",
            )
        async with self._places.of(model) as place, self.store.claim(key):
            if (answered := await self._from_store(role, model, key, read)) is not None:
                return answered
            if self._fatal is not None:
                raise self._fatal
            try:
                async with self._accounted(role, model, key, most) as used:
                    stored = await call()
                    place.leave()  # a flush to the disk need not keep the next call waiting
                    used.append(Usage.model_validate(stored.reply["usage"]))
                    durable = model is not None and model.durable
                    await self.store.keep(key, request, stored, durable=durable)
            except CallError:
                self.failed[role] += 1
                raise
            except UserError as error:  # no credit, no such model: the next call would meet it too
                self._fatal = error
                raise
            self.made[role] += 1
            return Answered(await _read(stored, read), _note(role, key, stored, model))

    @asynccontextmanager
    async def _accounted(
        self, role: str, model: Adapter | None, key: str, most: Usage
    ) -> AsyncIterator[list[Usage]]:
        """Write a call into the ledger as it begins and as it ends, whatever that is."""
        billing = model.billing if model is not None else None
        if billing is None:
            yield []
            return
        resumes = self.store.pending(key).read() is not None
        begun = await self.account.begin(role, billing, key, most, resumes=resumes)
        outcome = "stopped"
        with charges.gathered() as used:
            try:
                yield used
                outcome = "ok"
            except CallError as error:
                outcome = str(error.status)
                charges.note(error.usage)
                error.usage = total(used)
                raise
            finally:
                self.account.end(begun, billing, outcome, used)

    async def _from_store(
        self, role: str, model: Adapter | None, key: str, read: Callable[[Stored], T]
    ) -> Answered[T] | None:
        stored = self.store.get(key)
        if stored is None:
            return None
        try:
            value = await _read(stored, read)
        except Unparsed:
            return None  # readers have changed since: what can't be read is no good reply
        self.answered[role] += 1
        return Answered(value, _note(role, key, stored, model))

    def summary(self) -> str:
        """One line: calls made, answered from the store, failed, and what they cost."""
        return self.counts().summary()

    def counts(self) -> Counts:
        """What the calls came to so far."""
        return Counts(self.made, self.answered, self.failed, self.account.made)

    def take_counts(self) -> Counts:
        """What they came to since they were last taken, for a process that adds up others'."""
        taken = self.counts()
        self.made, self.answered, self.failed = Counter(), Counter(), Counter()
        self.account.made = Spent()
        return taken


def _stored(reply: dict[str, Any], usage: Usage, **blobs: bytes) -> Stored:
    return Stored({**reply, "usage": usage.model_dump()}, blobs)


def _opened(data: bytes) -> Picture:
    """An image file, with its pixels at hand; raises ImageError where it is none."""
    picture = Picture.read(data)
    picture.pixels  # noqa: B018 - decodes
    return picture


async def _read(stored: Stored, read: Callable[[Stored], T]) -> T:
    """Read a reply; images are opened beside the event loop, since other calls go on."""
    return await asyncio.to_thread(read, stored) if stored.blobs else read(stored)


def _note(role: str, key: str, stored: Stored, model: Adapter | None) -> CallNote:
    usage = Usage.model_validate(stored.reply["usage"])
    if model is None:
        return CallNote(role=role, key=key, usage=usage)
    billing, identity = model.billing, model.identity()
    asked = identity.get("model") or identity.get("id")
    charged = billing is not None and (billing.keyed or usage.cost_usd is not None)
    name = None if asked is None else str(asked)
    return CallNote(role=role, key=key, usage=usage, model=name, charged=charged)


def _most(conversation: Conversation, *, repairs: bool) -> Usage:
    """The most that a reply can use: all of its tokens, and about what the request holds.

    A repair request holds all that once more, and the reply that could not be read.
    """
    text = sum(len(turn.text) for turn in conversation.turns)
    shown = sum(len(turn.pictures) for turn in conversation.turns)
    given = math.ceil(text / CHARACTERS_A_TOKEN) + shown * IMAGE_TOKENS
    written = conversation.max_tokens
    if repairs:
        given, written = 2 * given + written, 2 * written
    return Usage(input_tokens=given, output_tokens=written, images=shown or None)


async def _complete(
    model: Chat, conversation: Conversation, read: Callable[[str], Any], repair: Prompt | None
) -> Stored:
    first = await model.complete(conversation)
    try:
        read(first.text)
        return _completed(first, unread=[])
    except Unparsed as error:
        if repair is None:
            raise CallError(Status.UNPARSED, str(error), first.usage) from None
        turns = (
            *conversation.turns,
            Turn("assistant", first.text),
            Turn("user", repair.render(reason=str(error))),
        )
    with charges.in_vain_if_it_fails(first.usage):
        second = await model.complete(replace(conversation, turns=turns))
        try:
            read(second.text)
        except Unparsed as error:
            reason = f"{error} (also after a repair request)"
            raise CallError(Status.UNPARSED, reason, second.usage) from None
    usage = total((first.usage, second.usage))
    return _completed(replace(second, usage=usage), unread=[first.text])


def _completed(completion: Completion, unread: list[str]) -> Stored:
    reply = {"text": completion.text, "thinking": completion.thinking, "unread": unread}
    return _stored(reply, completion.usage)
