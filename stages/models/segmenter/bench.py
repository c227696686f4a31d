"""The segmenter of an EDCT-Bench artefact: recorded masks, found by image and boxes.

Records hold the mask as it was measured with, that is dilated, and verification will dilate what
it is given. So this adapter gives the mask eroded by the exported radius: dilating that returns
the recorded mask exactly, because an erosion of a dilation, dilated, is the dilation (adjunction;
Serra, Image Analysis and Mathematical Morphology, 1982, chapter II).
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from stages.imaging import mask as masks
from stages.models import recorded
from stages.models.artefact import lookup
from stages.models.artefact.layout import EDITS
from stages.models.artefact.reading import Artefact, Row
from stages.models.picture import Picture
from stages.models.protocol import CallError, Segmentation, Segmenter
from stages.records.attempt import Box
from stages.records.base import Status
from stages.records.errors import UserError

Corners = tuple[tuple[float, float, float, float], ...]


class BenchSegmenter(Segmenter):
    """Masks of the exported run.

    Parameters
    ----------
    folder : str
        The artefact.
    """

    durable: ClassVar[bool] = False
    concurrency = 2

    def __init__(self, folder: str) -> None:
        self._artefact = Artefact.open(folder)
        self._radius_share = _radius_share(self._artefact)
        self._masks: dict[tuple[str, Corners], Row] = {}
        for row in self._artefact.rows(EDITS):
            attempt = row.record
            searched = attempt.edited if attempt.edit_type == "add" else attempt.source
            if attempt.mask is not None and searched is not None:
                image = lookup.pixels_of(self._artefact, row, searched)
                self._masks[image, _corners(attempt.boxes)] = row
        self._digest = recorded.digest_of(
            {key: row.record.mask for key, row in self._masks.items()}
        )

    def identity(self) -> Mapping[str, Any]:
        """The digest of all masks."""
        return {"provider": "edct_bench", "recorded": self._digest}

    async def segment(self, picture: Picture, boxes: tuple[Box, ...]) -> Segmentation:
        """The recorded mask of these boxes, before dilation."""
        image = recorded.pixel_digest(picture.pixels)
        row = self._masks.get((image, _corners(boxes)))
        if row is None:
            raise CallError(Status.NOT_RECORDED, "no mask for these boxes in this image")
        shown = self._artefact.picture(row, "mask_picture", row.record.mask)
        inside = shown.pixels[..., 0] > 127
        if inside.shape != picture.pixels.shape[:2]:
            raise UserError(
                str(row.place), "the mask is not as large as the image", "Export again."
            )
        eroded = erode(inside, radius_share=self._radius_share)
        return Segmentation(eroded, lookup.usage(row.record.calls, "segmenter"))


def erode(inside: NDArray[np.bool_], *, radius_share: float) -> NDArray[np.bool_]:
    """Narrow a mask ``(H, W)``: the adjunct of `imaging.mask.dilate` with the same radius.

    What lies outside the image counts as inside the mask, as the adjunction asks.
    """
    radius = round(radius_share * masks.diagonal(inside.shape))
    if radius == 0 or inside.all():
        return inside.copy()
    distance = cv2.distanceTransform(inside.astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return np.asarray(distance > radius, dtype=np.bool_)


def _corners(boxes: tuple[Box, ...]) -> Corners:
    return tuple((box.x0, box.y0, box.x1, box.y1) for box in boxes)


def _radius_share(artefact: Artefact) -> float:
    verify = artefact.provenance.params.get("verify")
    share = verify.get("dilation_share") if isinstance(verify, Mapping) else None
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
        raise UserError(
            str(artefact.folder / "provenance.json"),
            "params.verify.dilation_share is no share in [0, 1)",
            "Get the artefact again, or ask who made it.",
        )
    return float(share)
