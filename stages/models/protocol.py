"""What every adapter is, whatever its kind: an identity, a call, and a way to fail.

An adapter is given nothing but what a real model gets (pixels and text) and returns neutral
types: RGB pictures, boxes XYXY in pixels, boolean masks. It never retries a paid call and never
caches; the response store does both jobs for all adapters alike. Its constructor takes plain
values from YAML, imports what is heavy, and says which extra to install where that is missing.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.models.pending import Pending
from stages.models.picture import Picture
from stages.models.prices import Price
from stages.records.attempt import Box
from stages.records.base import Status
from stages.records.usage import CallNote, Usage


class CallError(Exception):
    """A call gave no usable reply. It is put on the record and never into the store.

    Parameters
    ----------
    status : Status
        How it failed.
    reason : str
        One sentence without secrets.
    usage : Usage
        What the provider said it used all the same. Whoever catches the error from `Calls` finds
        the sum over all tries here.

    Attributes
    ----------
    notes : tuple of CallNote
        Calls that were answered on the way to the failure: the row rests on them, and they cost.
    """

    notes: tuple[CallNote, ...] = ()

    def __init__(self, status: Status, reason: str, usage: Usage | None = None) -> None:
        self.status, self.reason, self.usage = status, reason, usage or Usage()
        super().__init__(f"{status}: {reason}")


class Lost(CallError):  # noqa: N818 - what became of the task
    """The task of an earlier run gives no image any more: to ask again is to pay again."""


class Finding(NamedTuple):
    """One thing that was looked at before a run."""

    state: Literal["ok", "note", "wrong"]
    """``wrong``: calls would fail. ``note``: they would not, and the user may want to know."""
    what: str
    """What was found, in one sentence without a full stop."""
    remedy: str = ""
    """What to do about it."""


SEEING = frozenset({"target", "editor", "detector", "segmenter", "verifier"})
"""Roles that are shown pictures."""


@dataclass(frozen=True)
class Billing:
    """How the calls of a model are charged."""

    model: str
    """Its id in the price table."""
    keyed: bool
    """Whether a key is asked for: then a call whose cost nobody tells is of unknown cost. A server
    without a key charges what it reports, and nothing otherwise."""


class Adapter(ABC):
    """What the store and the stages need to know of any model."""

    concurrency: int = 1
    """Calls that may be under way at once."""
    durable: ClassVar[bool] = True
    """Whether a reply is worth a flush to the disk (paid or slow), or can be made again at once."""

    heavy: ClassVar[bool] = False
    """Whether making one loads weights, so that it is only made where it is used."""

    @property
    def billing(self) -> Billing | None:
        """How calls are charged; None where nothing leaves this process."""
        return None

    async def preflight(self, role: str) -> Sequence[Finding]:
        """Find out, without a charge and without loading weights, whether calls would be answered.

        Parameters
        ----------
        role : str
            What the model is to be: a target must see, an editor must make pictures.

        Returns
        -------
        sequence of Finding
            Empty where there is nothing to ask: packages and values were checked when it was made.
        """
        return ()

    async def price_now(self) -> Price | None:
        """The price that the provider names at this moment; None where it names none."""
        return None

    def share(self, processes: int) -> None:  # noqa: B027 - weights here are each process's own
        """Take a share of the calls that may be under way at once, of that many processes.

        Only what is elsewhere is shared: weights here are each process's own.
        """

    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """What names this model and shapes its replies, as JSON: provider, base URL, id, options.

        It becomes part of the store's key: two adapters with equal identities must be
        exchangeable, and no secret or path of the machine may be in it.
        """


@dataclass(frozen=True)
class Turn:
    """One message of a conversation."""

    role: str
    """``system``, ``user`` or ``assistant``."""
    text: str
    pictures: tuple[Picture, ...] = ()
    """Images that the message shows, in order, before its text."""


@dataclass(frozen=True)
class Conversation:
    """A request to a chat model: the turns so far, to be continued by the assistant."""

    turns: tuple[Turn, ...]
    max_tokens: int
    seed: int = 0
    replicate: int = 0
    """Tells apart repeated samples of one request; otherwise without meaning to the model."""
    reply_schema: Mapping[str, Any] | None = None
    """JSON schema that the reply is to follow, for models that offer structured output."""
    sample: str | None = None
    """Id of the sample that this is about. No model sees it, and it is no part of the request, but
    for adapters that hold replies by sample (`Chat.by_sample`)."""


@dataclass(frozen=True)
class Completion:
    """A chat model's reply."""

    text: str
    thinking: str | None = None
    usage: Usage = field(default_factory=Usage)


class Chat(Adapter):
    """A model that continues a conversation. Targets, extractors and judges are chat models."""

    by_sample: bool = False
    """Whether a reply depends on the conversation's sample: only of what is recorded."""
    sees_pictures: bool = True
    """Whether it can be shown pictures; a plan that shows it some is an error otherwise."""

    @abstractmethod
    async def complete(self, conversation: Conversation) -> Completion:
        """Continue the conversation; raise CallError on refusal, truncation or failure."""


@dataclass(frozen=True)
class EditedImage:
    """An editor's reply: the file as it came back, in any format and size."""

    data: bytes
    usage: Usage = field(default_factory=Usage)


class Editor(Adapter):
    """A text-guided image editor."""

    @abstractmethod
    async def edit(
        self, picture: Picture, instruction: str, *, seed: int, attempt: int
    ) -> EditedImage:
        """Edit the picture. A second attempt must differ from the first where the model can."""


class TaskEditor(Editor):
    """An editor that takes a task, is paid for it at once, and gives the image later."""

    @abstractmethod
    async def edit_task(
        self, picture: Picture, instruction: str, *, seed: int, attempt: int, pending: Pending
    ) -> EditedImage:
        """Edit; write what was submitted to `pending`, and ask for what is found there first.

        Raises
        ------
        Lost
            If what was found is no more; its ticket is gone then. Whoever calls again pays again,
            so that is done where the budget is known.
        """

    async def edit(
        self, picture: Picture, instruction: str, *, seed: int, attempt: int
    ) -> EditedImage:
        """Edit without a store, so without a ticket that outlives this call."""
        return await self.edit_task(
            picture, instruction, seed=seed, attempt=attempt, pending=Pending()
        )


@dataclass(frozen=True)
class Detection:
    """A detector's reply: boxes, best first; empty where it sees no such object."""

    boxes: tuple[Box, ...]
    usage: Usage = field(default_factory=Usage)


class Detector(Adapter):
    """An open-vocabulary detector."""

    @abstractmethod
    async def detect(self, picture: Picture, phrase: str) -> Detection:
        """Find the object that the phrase names."""


@dataclass(frozen=True)
class Segmentation:
    """A segmenter's reply: one boolean mask ``(H, W)``, the union over the boxes."""

    mask: NDArray[np.bool_]
    usage: Usage = field(default_factory=Usage)


class Segmenter(Adapter):
    """A box-prompted segmenter."""

    @abstractmethod
    async def segment(self, picture: Picture, boxes: tuple[Box, ...]) -> Segmentation:
        """Turn boxes into a pixel mask."""
