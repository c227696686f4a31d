"""Detection by a vision-language model that writes boxes as JSON, such as Qwen3-VL.

Qwen3-VL gives ``bbox_2d`` in thousandths of the sides; Qwen2.5-VL in pixels of the image that it
was sent; Gemini gives ``box_2d`` in thousandths, vertical first.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from stages.models import charges
from stages.models.chat.openai_compatible import OpenAICompatible
from stages.models.detector.boxes import Frame, read_boxes
from stages.models.picture import Picture
from stages.models.prices import Price
from stages.models.protocol import CallError, Conversation, Detection, Detector, Finding, Turn
from stages.models.wire.remote import Remote
from stages.records.base import Status

_CORNERS = {"type": "array", "items": {"type": "number"}}
_OBJECT = {
    "type": "object",
    "properties": {"bbox_2d": _CORNERS, "label": {"type": "string"}},
    "required": ["bbox_2d", "label"],
    "additionalProperties": False,
}
SCHEMA: Mapping[str, Any] = {
    "title": "boxes",
    "type": "object",
    "properties": {"objects": {"type": "array", "items": _OBJECT}},
    "required": ["objects"],
    "additionalProperties": False,
}


class ChatBoxes(Remote, Detector):
    """A chat model that finds objects.

    Parameters
    ----------
    chat : mapping
        The model: values of `OpenAICompatible`.
    prompt : str
        What it is asked; ``{phrase}`` is the object.
    coordinates : str
        ``relative_1000`` or ``pixels`` (of the picture as sent).
    order : str
        ``xyxy``, or ``yxyx`` for models that give the vertical first.
    overhang : float
        Share of a side by which a box may reach over the edge, see `Frame`.
    max_tokens : int
        Limit of the reply.
    """

    def __init__(
        self,
        chat: Mapping[str, Any],
        prompt: str,
        coordinates: Literal["relative_1000", "pixels"] = "relative_1000",
        order: Literal["xyxy", "yxyx"] = "xyxy",
        overhang: float = 0.0,
        max_tokens: int = 2048,
    ) -> None:
        if coordinates not in ("relative_1000", "pixels"):
            raise ValueError(f"coordinates is {coordinates!r}; relative_1000 or pixels")
        if order not in ("xyxy", "yxyx"):
            raise ValueError(f"order is {order!r}; it must be xyxy or yxyx")
        if "{phrase}" not in prompt:
            raise ValueError("prompt must hold {phrase}")
        self.chat = OpenAICompatible(**chat)
        self.endpoint, self.concurrency = self.chat.endpoint, self.chat.concurrency
        self.prompt, self.coordinates, self.order = prompt, coordinates, order
        self.overhang, self.max_tokens = float(overhang), max_tokens

    def identity(self) -> Mapping[str, Any]:
        """The chat model's, and how it is asked and read."""
        return {
            **self.chat.identity(),
            "api": "chat boxes",
            "prompt": self.prompt,
            "coordinates": self.coordinates,
            "order": self.order,
            "overhang": self.overhang,
            "max_tokens": self.max_tokens,
        }

    async def preflight(self, role: str) -> Sequence[Finding]:
        """The chat model's."""
        return await self.chat.preflight(role)

    async def price_now(self) -> Price | None:
        """The chat model's."""
        return await self.chat.price_now()

    async def detect(self, picture: Picture, phrase: str) -> Detection:
        """Ask for boxes; what can't be read is unparsed, and is not asked for again."""
        text = self.prompt.replace("{phrase}", " ".join(phrase.split()))
        asked = Conversation(
            (Turn("user", text, (picture,)),), max_tokens=self.max_tokens, reply_schema=SCHEMA
        )
        reply = await self.chat.complete(asked)
        frame = self._frame(picture)
        with charges.in_vain_if_it_fails(reply.usage):
            boxes = tuple(frame.box(self._ordered(corners)) for corners in read_boxes(reply.text))
        return Detection(boxes, reply.usage)

    def _frame(self, picture: Picture) -> Frame:
        width, height = picture.size
        if self.coordinates == "relative_1000":
            return Frame(width, height, 1000.0, 1000.0, self.overhang)
        sent_width, sent_height = self.chat.encoding.size(picture)
        return Frame(width, height, float(sent_width), float(sent_height), self.overhang)

    def _ordered(self, corners: Any) -> list[object]:
        if self.order == "xyxy":
            return list(corners)
        if len(corners) != 4:
            raise CallError(Status.UNPARSED, f"a box has {len(corners)} numbers instead of 4")
        y0, x0, y1, x1 = corners
        return [x0, y0, x1, y1]
