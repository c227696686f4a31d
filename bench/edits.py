"""Pairs to measure: planted edits of a photograph, and labelled edits of real editors."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from skimage import data

from stages.benchmarks.pairs import PairFolder
from stages.imaging import mask as masks
from stages.imaging import size
from stages.imaging.settings import Settings

ROOT = Path(__file__).parents[1]
_MARGIN = 20


class Edit(NamedTuple):
    """A pair of one size with its mask, as the measurement takes it."""

    name: str
    source: NDArray[np.uint8]
    """``(H, W, 3)`` RGB."""
    edited: NDArray[np.uint8]
    mask: NDArray[np.bool_]
    """``(H, W)``, dilated."""


def planted(side_px: int, *, shift: tuple[int, int] = (0, 0), seed: int = 0) -> Edit:
    """A square photograph, one box of it in other colours, moved as a whole and sent as JPEG.

    Parameters
    ----------
    side_px : int
        Side of both images, at least 64.
    shift : (int, int)
        By how many pixels (x, y) the edited image shows the scene elsewhere, each at most 20.
    seed : int
        Where the box lies; other seeds are other pairs.
    """
    photo = data.stereo_motorcycle()[0][:500, 120:620]
    wide = side_px + 2 * _MARGIN
    scene = cv2.resize(photo, (wide, wide), interpolation=cv2.INTER_CUBIC)
    edge = side_px // 5
    left, top = (int(at) for at in np.random.default_rng(seed).integers(edge, 3 * edge, 2))
    source = scene[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN].copy()
    box = (left, top, left + edge, top + edge)
    x, y = _MARGIN + left, _MARGIN + top
    painted = scene.copy()
    painted[y : y + edge, x : x + edge] = 255 - painted[y : y + edge, x : x + edge, ::-1]
    x, y = _MARGIN + shift[0], _MARGIN + shift[1]
    moved = painted[y : y + side_px, x : x + side_px]
    sent = cv2.imencode(".jpg", moved[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 92])[1]
    edited = np.asarray(cv2.imdecode(sent, cv2.IMREAD_COLOR_RGB), dtype=np.uint8)
    found = masks.dilate(masks.boxes(source.shape, [box]), radius_share=0.01)
    name = f"{side_px}×{side_px}, moved" if any(shift) else f"{side_px}×{side_px}, in place"
    return Edit(name, source, edited, found)


def samples() -> Path:
    """Where the labelled pairs lie, if they are there."""
    beside = ROOT.parent / "shared" / "samples"
    return Path(os.environ.get("EDCT_SAMPLES") or beside) / "edit_pairs"


def labelled(settings: Settings) -> Iterator[Edit]:
    """Real edits, masked by their labelled boxes; those of another aspect ratio are left out."""
    for pair in PairFolder(str(samples()), "pairs.json", "labels.json").load():
        edited = size.fit(
            pair.edited, pair.original.shape, aspect_tolerance=settings.aspect_tolerance
        )
        if edited is not None:
            corners = [(box.x0, box.y0, box.x1, box.y1) for box in pair.boxes]
            inside = masks.boxes(pair.original.shape, corners)
            dilated = masks.dilate(inside, radius_share=settings.dilation_share)
            yield Edit(pair.id, pair.original, edited, dilated)
