"""Boxes as models write them, to pixels: checked, and never clamped beyond a stated overhang."""

import json
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from stages.models.protocol import CallError
from stages.records.attempt import Box
from stages.records.base import Status

KEYS = ("bbox_2d", "box_2d", "bbox", "box")
"""Names under which models give a box."""
_OBJECTS = re.compile(r"\[\s*\{|\{\s*\"")
_START = re.compile(r"[\[{]")
_MAX_STARTS = 200


class Frame(NamedTuple):
    """The coordinates of a reply, and the image that they are about."""

    width: int
    """Width of the image in pixels."""
    height: int
    """Height of the image in pixels."""
    x_range: float
    """What the right edge is called: 1, 1000, or the width of the image as sent."""
    y_range: float
    """What the lower edge is called."""
    overhang: float = 0.0
    """Share of a side by which a box may reach over the edge; what does is cut off there."""

    def box(self, corners: Sequence[object]) -> Box:
        """A box in pixels from left, top, right and bottom; CallError where it can't be one."""
        numbers = [_number(value) for value in corners]
        if len(numbers) != 4:
            raise CallError(Status.UNPARSED, f"a box has {len(numbers)} numbers instead of 4")
        x0, y0, x1, y1 = numbers
        if not (x0 < x1 and y0 < y1):
            raise CallError(Status.UNPARSED, f"a box has no extent: {numbers}")
        left, right = (self._inside(value, self.x_range) for value in (x0, x1))
        top, bottom = (self._inside(value, self.y_range) for value in (y0, y1))
        if not (left < right and top < bottom):
            raise CallError(Status.UNPARSED, f"a box lies outside of the image: {numbers}")
        return Box(
            x0=left * self.width,
            y0=top * self.height,
            x1=right * self.width,
            y1=bottom * self.height,
        )

    def _inside(self, value: float, extent: float) -> float:
        share = value / extent
        if not -self.overhang <= share <= 1 + self.overhang:
            raise CallError(
                Status.UNPARSED, f"a box reaches out of the image: {value:g} of {extent:g}"
            )
        return min(max(share, 0.0), 1.0)


def read_boxes(text: str) -> list[Sequence[object]]:
    """Find the boxes of a reply: the last JSON in it that is a list of objects with a box each.

    Fences, thinking aloud and a wrapping object (``{"objects": […]}``) make no difference. An empty
    list is a good reply.

    Raises
    ------
    CallError
        If there is no such list, or something in it has no box.
    """
    found: list[Any] | None = None
    position, starts = 0, 0
    while (start := _START.search(text, position)) is not None and starts < _MAX_STARTS:
        starts += 1
        try:
            value, position = json.JSONDecoder().raw_decode(text, start.start())
        except (ValueError, RecursionError):
            if _OBJECTS.match(
                text, start.start()
            ):  # cut off or broken: what stands in it is no list
                raise CallError(Status.UNPARSED, "the list of boxes is broken") from None
            position = start.start() + 1
            continue
        items = _items(value)
        found = items if items is not None else found
    if found is None:
        raise CallError(Status.UNPARSED, "there is no list of boxes in the reply")
    return [_corners(item) for item in found]


def _items(value: Any) -> list[Any] | None:
    if isinstance(value, dict):
        if any(key in value for key in KEYS):
            return [value]
        lists = [inner for inner in value.values() if isinstance(inner, list)]
        value = lists[0] if len(lists) == 1 else None
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return value
    return None


def _corners(item: dict[str, Any]) -> Sequence[object]:
    for key in KEYS:
        if isinstance(value := item.get(key), list):
            return value
    raise CallError(Status.UNPARSED, "an object of the reply has no box")


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise CallError(Status.UNPARSED, f"a box holds {value!r} where a number should be")
    return float(value)
