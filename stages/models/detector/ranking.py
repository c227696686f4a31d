"""From a model's candidates to boxes: within the picture, best first, each object once."""

import numpy as np
from numpy.typing import NDArray

from stages.records.attempt import Box

_PIXEL_DECIMALS, _SCORE_DECIMALS = 2, 4
"""Digits that are kept: further ones depend on the machine and on what shared a batch."""


def ranked(
    corners: NDArray[np.floating],
    scores: NDArray[np.floating],
    *,
    width: int,
    height: int,
    threshold: float,
    nms_iou: float | None = None,
    top_k: int | None = None,
) -> tuple[Box, ...]:
    """Choose boxes.

    Parameters
    ----------
    corners : (N, 4) array
        XYXY in pixels; what reaches over the edge is cut off there.
    scores : (N,) array
        Confidence in [0, 1].
    width, height : int
        The picture's.
    threshold : float
        A box is kept where its score is above.
    nms_iou : float, optional
        Of two boxes that overlap by more than this (intersection over union), the better is kept.
    top_k : int, optional
        Boxes kept at most.

    Returns
    -------
    tuple of Box
        Best first; equal scores in the order of the model.
    """
    bounds = np.array([width, height, width, height], dtype=np.float64)
    inside = np.clip(corners.astype(np.float64).reshape(-1, 4), 0, bounds)
    inside = inside.round(_PIXEL_DECIMALS)
    has_area = (inside[:, 0] < inside[:, 2]) & (inside[:, 1] < inside[:, 3])
    scores = scores.astype(np.float64)
    order = np.argsort(-scores, kind="stable")
    chosen: list[int] = []
    for candidate in order[(has_area & (scores > threshold))[order]]:
        if top_k is not None and len(chosen) == top_k:
            break
        if nms_iou is None or all(
            overlap(inside[candidate], inside[better]) <= nms_iou for better in chosen
        ):
            chosen.append(int(candidate))
    return tuple(
        Box(
            x0=float(inside[each, 0]),
            y0=float(inside[each, 1]),
            x1=float(inside[each, 2]),
            y1=float(inside[each, 3]),
            score=round(float(scores[each]), _SCORE_DECIMALS),
        )
        for each in chosen
    )


def overlap(first: NDArray[np.floating], second: NDArray[np.floating]) -> float:
    """Intersection over union of two boxes XYXY; 0 where they have no area in common."""
    left_top = np.maximum(first[:2], second[:2])
    right_bottom = np.minimum(first[2:], second[2:])
    shared = float(np.prod(np.clip(right_bottom - left_top, 0, None)))
    if shared == 0:
        return 0.0
    areas = sum(float((box[2] - box[0]) * (box[3] - box[1])) for box in (first, second))
    return shared / (areas - shared)
