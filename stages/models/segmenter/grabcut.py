"""Boxes to masks with GrabCut: no weights, no download, deterministic."""

import asyncio
import hashlib
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from stages.models.picture import Picture
from stages.models.protocol import Segmentation, Segmenter
from stages.records.attempt import Box

_SEED = 0


class GrabCut(Segmenter):
    """Separate what fills a box from what surrounds it by colour (Rother et al. 2004).

    It knows no objects, only that the frame around the box is background. Where there is too
    little of that to learn from, or where it finds next to nothing in the box, the box itself is
    the mask. doi:10.1145/1186562.1015720.

    Parameters
    ----------
    iterations : int
        Rounds of GrabCut, at least 1.
    margin_share : float
        Width of the frame of known background, as a share of the box's longer side, above 0.
    working_side_px : int
        The cut is made at this length of the crop's longer side at most, in pixels.
    min_box_share : float
        Share of the box below which a result counts as nothing found, in [0, 1].
    min_frame_share : float
        Share of box and frame that the frame must have for its colours to say anything, [0, 1].
    """

    durable: ClassVar[bool] = False

    def __init__(
        self,
        *,
        iterations: int = 3,
        margin_share: float = 0.25,
        working_side_px: int = 128,
        min_box_share: float = 0.10,
        min_frame_share: float = 0.10,
    ) -> None:
        if iterations < 1 or margin_share <= 0 or working_side_px < 16:
            raise ValueError("iterations >= 1, margin_share > 0 and working_side_px >= 16, please")
        for name, share in (("box", min_box_share), ("frame", min_frame_share)):
            if not 0 <= share <= 1:
                raise ValueError(f"min_{name}_share must lie in [0, 1], not {share}")
        self._iterations = iterations
        self._margin_share = margin_share
        self._working_side_px = working_side_px
        self._min_box_share = min_box_share
        self._min_frame_share = min_frame_share

    def identity(self) -> Mapping[str, Any]:
        """Parameters, and a digest of this file: another algorithm is another segmenter."""
        return {
            "provider": "builtin",
            "model": "grabcut",
            "iterations": self._iterations,
            "margin_share": self._margin_share,
            "working_side_px": self._working_side_px,
            "min_box_share": self._min_box_share,
            "min_frame_share": self._min_frame_share,
            "seed": _SEED,
            "code": _code_digest(),
        }

    async def segment(self, picture: Picture, boxes: tuple[Box, ...]) -> Segmentation:
        """Cut out each box; the mask is the union. Boxes are clipped to the image."""
        return Segmentation(await asyncio.to_thread(self._segment, picture.pixels, boxes))

    def _segment(self, pixels: NDArray[np.uint8], boxes: tuple[Box, ...]) -> NDArray[np.bool_]:
        mask = np.zeros(pixels.shape[:2], dtype=bool)
        for box in boxes:
            clipped = _clip(box, pixels.shape)
            if clipped is not None:
                self._cut(pixels, clipped, mask)
        return mask

    def _cut(
        self,
        pixels: NDArray[np.uint8],
        box: tuple[int, int, int, int],
        mask: NDArray[np.bool_],
    ) -> None:
        """Add the object in one box to the mask."""
        x0, y0, x1, y1 = box
        height, width = pixels.shape[:2]
        margin = max(round(self._margin_share * max(x1 - x0, y1 - y0)), 2)
        left, top = max(x0 - margin, 0), max(y0 - margin, 0)
        right, bottom = min(x1 + margin, width), min(y1 + margin, height)
        found = self._foreground(
            pixels[top:bottom, left:right], (x0 - left, y0 - top, x1 - left, y1 - top)
        )
        inside = found[y0 - top : y1 - top, x0 - left : x1 - left]
        if np.count_nonzero(inside) <= self._min_box_share * inside.size:
            inside = np.ones_like(inside)
        mask[y0:y1, x0:x1] |= inside

    def _foreground(
        self, crop: NDArray[np.uint8], box: tuple[int, int, int, int]
    ) -> NDArray[np.bool_]:
        """GrabCut on a crop at bounded size; nothing where the box leaves no background."""
        height, width = crop.shape[:2]
        scale = min(1.0, self._working_side_px / max(height, width))
        size = (max(round(width * scale), 1), max(round(height * scale), 1))
        small = cv2.resize(crop, size, interpolation=cv2.INTER_AREA) if scale < 1 else crop
        x0, y0, x1, y1 = (round(value * scale) for value in box)
        labels = np.full((size[1], size[0]), cv2.GC_BGD, dtype=np.uint8)
        labels[y0:y1, x0:x1] = cv2.GC_PR_FGD
        probable = int(np.count_nonzero(labels == cv2.GC_PR_FGD))
        frame = labels.size - probable
        # Its colour models have five components each; fewer pixels than 16 cannot carry them.
        if min(probable, frame) < 16 or frame < self._min_frame_share * labels.size:
            return np.zeros((height, width), dtype=np.bool_)
        background, foreground = np.zeros((1, 65)), np.zeros((1, 65))
        cv2.setRNGSeed(_SEED)  # its clustering draws from the generator of this thread
        cv2.grabCut(
            np.ascontiguousarray(small),
            labels,
            None,
            background,
            foreground,
            self._iterations,
            cv2.GC_INIT_WITH_MASK,
        )
        found = ((labels == cv2.GC_FGD) | (labels == cv2.GC_PR_FGD)).astype(np.float32)
        if scale < 1:
            found = cv2.resize(found, (width, height), interpolation=cv2.INTER_LINEAR)
        return np.asarray(found >= 0.5, dtype=np.bool_)


def _clip(box: Box, shape: tuple[int, ...]) -> tuple[int, int, int, int] | None:
    """Whole pixels of a box that lie in the image, or None where none do."""
    x0, y0 = max(math.floor(box.x0), 0), max(math.floor(box.y0), 0)
    x1, y1 = min(math.ceil(box.x1), shape[1]), min(math.ceil(box.y1), shape[0])
    return (x0, y0, x1, y1) if x1 > x0 and y1 > y0 else None


@cache
def _code_digest() -> str:
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
