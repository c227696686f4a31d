"""A detector whose boxes were drawn elsewhere, by people or by another detector.

Index: JSONL or a JSON list, a row per image and object:

    {"image": "a.jpg", "phrase": "traffic light", "boxes": [[x0, y0, x1, y1], …]}

Boxes are XYXY in pixels of that file. ``phrase`` may be absent: the boxes then answer any phrase
for that image. The image is found by its pixels.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from stages.models import recorded
from stages.models.picture import Picture
from stages.models.protocol import Detection, Detector
from stages.records.attempt import Box
from stages.records.errors import UserError


class RecordedDetector(Detector):
    """Boxes from a file; an image or phrase that is not in it has no box.

    Parameters
    ----------
    index : str
        The index file, relative to the workspace.
    """

    durable: ClassVar[bool] = False
    concurrency = 2

    def __init__(self, index: str) -> None:
        self._boxes: dict[tuple[str, str | None], tuple[Box, ...]] = {}
        file = Path(index)
        for where, row in recorded.rows(file):
            image = recorded.image_field(where, row, "image", file)
            phrase = recorded.optional_text(where, row, "phrase")
            key = recorded.pixel_digest(image), None if phrase is None else recorded.normal(phrase)
            recorded.put(self._boxes, key, read_boxes(where, row.get("boxes"), image.shape), where)
        self._digest = recorded.digest_of(self._boxes)

    def identity(self) -> Mapping[str, Any]:
        """The digest of all boxes."""
        return {"provider": "recorded", "recorded": self._digest}

    async def detect(self, picture: Picture, phrase: str) -> Detection:
        """The recorded boxes for this phrase, or those for any phrase."""
        image = recorded.pixel_digest(picture.pixels)
        named = self._boxes.get((image, recorded.normal(phrase)))
        return Detection(named if named is not None else self._boxes.get((image, None), ()))


def read_boxes(where: str, boxes: object, shape: tuple[int, ...]) -> tuple[Box, ...]:
    """Boxes from lists of four numbers: XYXY in pixels, with an area inside ``(H, W, ...)``."""
    if not isinstance(boxes, list):
        raise UserError(where, "has no list under 'boxes'", "Give [[x0, y0, x1, y1], …].")
    made = []
    for box in boxes:
        if not (isinstance(box, list) and len(box) == 4 and all(map(_is_number, box))):
            raise UserError(where, "a box is not four numbers", "Give [x0, y0, x1, y1].")
        x0, y0, x1, y1 = box
        if not (x0 < x1 and y0 < y1):
            raise UserError(where, "a box has no area", "Give x0 < x1 and y0 < y1.")
        if x1 <= 0 or y1 <= 0 or x0 >= shape[1] or y0 >= shape[0]:
            raise UserError(where, f"the box {box} lies outside the image", "Give pixels of it.")
        if max(box) <= 1:
            raise UserError(where, f"the box {box} is no larger than a pixel", "Give pixels.")
        made.append(Box(x0=x0, y0=y0, x1=x1, y1=y1))
    return tuple(made)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
