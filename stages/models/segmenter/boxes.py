"""Boxes as a segmenter takes them."""

from stages.records.attempt import Box

Corners = tuple[float, float, float, float]


def within(boxes: tuple[Box, ...], width: int, height: int) -> list[Corners]:
    """Corners XYXY in pixels of what lies in the picture; boxes that do not are left out."""
    cut = (
        (max(box.x0, 0.0), max(box.y0, 0.0), min(box.x1, width), min(box.y1, height))
        for box in boxes
    )
    return [box for box in cut if box[0] < box[2] and box[1] < box[3]]
