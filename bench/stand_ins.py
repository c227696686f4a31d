"""Models that cost next to nothing: what is measured is the harness around them."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from bench.study import SPOT, disc_image, with_disc
from stages.benchmarks.protocol import Benchmark, Item, Selection
from stages.models.picture import Picture
from stages.models.protocol import (
    Billing,
    Chat,
    Completion,
    Conversation,
    Detection,
    Detector,
    EditedImage,
    Editor,
    Segmentation,
    Segmenter,
)
from stages.records.attempt import Box
from stages.records.usage import Usage

EXPLANATION = (
    "- The disc in the middle of the picture is plain red, without a pattern.\n"
    "- Its edge is sharp, so that it stands out from what is behind it.\n"
    "- Nothing else in the picture has a colour that could be meant."
)


class Discs(Benchmark):
    """Images of a disc, each with another background."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def select(self) -> Selection:
        """All of them."""
        return Selection(tuple(map(_item, range(self.samples))))


class Talker(Chat):
    """Says the same to everybody: a target, and a judge of either kind. Its calls are charged."""

    durable = False

    def __init__(self, concurrency: int = 8) -> None:
        self.concurrency = concurrency

    def identity(self) -> Mapping[str, Any]:
        return {"provider": "bench", "id": "talker"}

    @property
    def billing(self) -> Billing:
        """As of a paid model."""
        return Billing("talker", keyed=True)

    async def complete(self, conversation: Conversation) -> Completion:
        """A verdict and a grade where a schema is given, an explanation otherwise."""
        used = Usage(served_model="talker", input_tokens=900, output_tokens=60, cost_usd=0.001)
        if conversation.reply_schema is None:
            return Completion(EXPLANATION, usage=used)
        verdict = {"answer_consistent": 1, "explanation_faithful": 1, "grade": 4}
        wanted = conversation.reply_schema["properties"]
        reply = {name: verdict.get(name, EXPLANATION) for name in wanted}
        return Completion(json.dumps(reply), usage=used)


class Painter(Editor):
    """Paints the disc blue."""

    durable = False

    def __init__(self, concurrency: int = 8) -> None:
        self.concurrency = concurrency

    def identity(self) -> Mapping[str, Any]:
        return {"provider": "bench", "id": "painter"}

    async def edit(
        self, picture: Picture, instruction: str, *, seed: int, attempt: int
    ) -> EditedImage:
        """The picture with another disc."""
        return EditedImage(Picture.of(with_disc(picture.pixels, (40, 40, 200))).png)


class Spot(Detector):
    """Sees the disc where it is."""

    durable = False
    concurrency = 8

    def identity(self) -> Mapping[str, Any]:
        return {"provider": "bench", "id": "spot"}

    async def detect(self, picture: Picture, phrase: str) -> Detection:
        """One box."""
        width, height = picture.size
        x0, y0, x1, y1 = np.multiply(SPOT, (width, height, width, height))
        return Detection((Box(x0=x0, y0=y0, x1=x1, y1=y1, score=0.9),))


class Whole(Segmenter):
    """Takes the whole box."""

    durable = False
    concurrency = 8

    def identity(self) -> Mapping[str, Any]:
        return {"provider": "bench", "id": "whole"}

    async def segment(self, picture: Picture, boxes: tuple[Box, ...]) -> Segmentation:
        """The boxes, filled."""
        width, height = picture.size
        mask = np.zeros((height, width), np.bool_)
        for box in boxes:
            mask[int(box.y0) : int(box.y1), int(box.x0) : int(box.x1)] = True
        return Segmentation(mask)


def _item(number: int) -> Item:
    return Item(
        id=f"bench-{number:05d}",
        domain="bench",
        question="What colour is the disc in the middle of the picture?",
        picture=lambda: Picture.of(disc_image(number)),
    )
