"""A detector whose boxes were drawn elsewhere, by people or by another detector.

Index: JSONL or a JSON list, a row per image and object:

    {"image": "a.jpg", "phrase": "traffic light", "boxes": [[x0, y0, x1, y1], …]}

Boxes are XYXY in pixels of that file. ``phrase`` may be absent: the boxes then answer any phrase
for that image. The image is found by its pixels.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ValidationError

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
            image = recorded.pixel_digest(recorded.image_field(where, row, "image", file))
            phrase = row.get("phrase")
            key = image, recorded.normal(phrase) if isinstance(phrase, str) else None
            self._boxes[key] = (*self._boxes.get(key, ()), *read_boxes(where, row.get("boxes")))
        self._digest = recorded.digest_of(self._boxes)

    def identity(self) -> Mapping[str, Any]:
        """The digest of all boxes."""
        return {"provider": "recorded", "recorded": self._digest}

    async def detect(self, picture: Picture, phrase: str) -> Detection:
        """The recorded boxes for this phrase, or those for any phrase."""
        image = recorded.pixel_digest(picture.pixels)
        named = self._boxes.get((image, recorded.normal(phrase)))
        return Detection(named if named is not None else self._boxes.get((image, None), ()))


def read_boxes(where: str, boxes: object) -> tuple[Box, ...]:
    """Boxes from lists of four numbers; XYXY in pixels with a positive area."""
    if not isinstance(boxes, list):
        raise UserError(where, "has no list under 'boxes'", "Give [[x0, y0, x1, y1], …].")
    try:
        made = tuple(Box(x0=b[0], y0=b[1], x1=b[2], y1=b[3]) for b in boxes)
    except (ValidationError, TypeError, IndexError, KeyError):
        raise UserError(where, "a box is not four numbers", "Give [x0, y0, x1, y1].") from None
    for box in made:
        if not (box.x0 < box.x1 and box.y0 < box.y1):
            raise UserError(where, "a box has no area", "Give x0 < x1 and y0 < y1.")
    return made
