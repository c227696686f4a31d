"""The built-in detector: an object phrase and pixels in, boxes out, for the built-in world."""

import asyncio
import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from stages.models.demo import shapes, sight
from stages.models.fingerprint import fingerprint
from stages.models.picture import Picture
from stages.models.protocol import Detection, Detector
from stages.records.attempt import Box
from stages.records.usage import Usage

_SOURCES = ("outline", "paint", "shapes", "sight")
_SYNONYMS = {
    "chest": ("treasure chest",),
    "pedestrian": ("person", "walker"),
    "traffic light": ("stop light", "traffic signal"),
    "arrow sign": ("sign", "direction sign", "arrow"),
    "plant": ("potted plant",),
    "ball": ("basketball", "football"),
}


class DemoDetector(Detector):
    """Finds things by the kind that a phrase names; articles, plurals and attributes are ignored.

    Where a phrase also names a colour or a facing, things that have it come first.
    """

    durable: ClassVar[bool] = False
    concurrency = os.cpu_count() or 1

    def identity(self) -> Mapping[str, Any]:
        """The digest of the code."""
        modules = (f"stages.models.demo.{module}" for module in _SOURCES)
        return {"provider": "demo", "model": "demo", "code": fingerprint(__name__, *modules)}

    async def detect(self, picture: Picture, phrase: str) -> Detection:
        """Boxes of all things of the kind; empty where it sees none or knows no such kind."""
        things = await asyncio.to_thread(sight.see, picture.pixels)
        kind = kind_of(phrase)
        words = set(re.findall(r"[a-z]+", phrase.lower()))
        found = [thing for thing in things if thing.kind == kind]
        found.sort(key=lambda thing: -len({thing.colour, thing.facing} & words))
        boxes = tuple(
            Box(x0=float(x0), y0=float(y0), x1=float(x1), y1=float(y1))
            for x0, y0, x1, y1 in (thing.box for thing in found)
        )
        return Detection(boxes, Usage(served_model="demo", provider="demo"))


def kind_of(phrase: str) -> str | None:
    """The kind that a phrase is about: the one named last before any ``on``, ``of``, ``with`` …

    ``the red balls on the chest`` → ``ball``; None where it names none.
    """
    text = " ".join(re.findall(r"[a-z]+", phrase.lower()))
    head = re.split(r"\b(?:on|of|in|at|by|with|near|next|beside|left of|right of)\b", text)[0]
    for part in (head, text):
        named = [
            (match.end(), len(name), kind)
            for kind in shapes.KINDS
            for name in (kind, *_SYNONYMS.get(kind, ()))
            for match in re.finditer(rf"\b{name}(?:e?s)?\b", part)
        ]
        if named:
            return max(named)[2]
    return None
