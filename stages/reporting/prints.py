"""Prints: the images beside the pages, each made once, named by content, found by SHA-256.

A photograph is kept in two sizes: to look at, and as a thumbnail for lists. Heat maps and masks are
see-through layers that a page lays over a photograph. Equal records give equal files.
"""

import hashlib
import io
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from stages.records.attempt import Attempt
from stages.reporting.pictures import Layer, fit, heat_layer, mask_layer
from stages.reporting.study import Pixels, Study

FOLDER = "images"
"""Where they lie, beside the pages."""
HEAT_PX = 320
"""Width of heat maps in pixels: they are smooth, so that a page may enlarge them."""
Kind = Literal["photo", "heat", "mask"]


@dataclass(frozen=True)
class ImageRef:
    """An image file beside the pages."""

    src: str
    width: int
    height: int


class Photo(NamedTuple):
    """A photograph in both sizes, and the size that it had in pixels."""

    view: ImageRef
    thumbnail: ImageRef
    width: int
    height: int


class Views(NamedTuple):
    """What a page shows of one attempt; None where there is nothing to show."""

    before: Photo | None
    after: Photo | None
    heat: ImageRef | None
    """Layer over `after`."""
    mask: ImageRef | None
    """Layer over `searched`."""
    searched: Photo | None
    """The image in which the object was looked for: the edited one where something was added."""


class Prints:
    """The images of a study, in the folder ``images`` of a report.

    Parameters
    ----------
    reports : Path
        The folder that the pages lie in.
    view_px, thumbnail_px : int
        Widths of the two sizes in pixels; no image is enlarged.
    """

    def __init__(self, reports: Path, *, view_px: int, thumbnail_px: int) -> None:
        self.folder = reports / FOLDER
        self.view_px, self.thumbnail_px = view_px, thumbnail_px
        self._photos: dict[str, Photo] = {}
        self._layers: dict[tuple[Kind, str], ImageRef] = {}

    def make(self, study: Study) -> None:
        """Print every image that the study's records name."""
        self.folder.mkdir(parents=True, exist_ok=True)
        wanted = {(kind, sha): pixels for kind, sha, pixels in _wanted(study)}

        def make(key: tuple[Kind, str]) -> Photo | ImageRef:
            return self._print(key[0], key[1], wanted[key])

        # OpenCV and zlib let go of the interpreter while they work
        with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
            made = list(pool.map(make, wanted))
        for (kind, sha), result in zip(wanted, made, strict=True):
            if isinstance(result, Photo):
                self._photos[sha] = result
            else:
                self._layers[kind, sha] = result

    def photo(self, sha256: str | None) -> Photo | None:
        """The prints of an image; None where there is none."""
        return self._photos.get(sha256) if sha256 else None

    def views(self, attempt: Attempt) -> Views:
        """Before, after, heat map of Δ, box and mask of one attempt."""
        before, after = self.photo(attempt.source), self.photo(attempt.edited)
        delta = attempt.measurement.delta if attempt.measurement else None
        found = attempt.mask or attempt.boxes
        return Views(
            before,
            after,
            self._layers.get(("heat", delta)) if delta and after else None,
            self._layers.get(("mask", attempt.mask)) if attempt.mask else None,
            (after if attempt.edit_type == "add" else before) if found else None,
        )

    def _print(self, kind: Kind, sha256: str, pixels: Pixels) -> Photo | ImageRef:
        image = pixels(sha256)
        if kind == "heat":
            return self._keep_layer(heat_layer(_grey(image), width=min(HEAT_PX, self.view_px)))
        if kind == "mask":
            return self._keep_layer(mask_layer(_grey(image), width=self.view_px))
        view = fit(image, width=self.view_px)
        small = fit(view, width=self.thumbnail_px)
        height, width = image.shape[:2]
        return Photo(self._keep_photo(view), self._keep_photo(small), width, height)

    def _keep_photo(self, pixels: NDArray[np.uint8], *, quality: int = 80) -> ImageRef:
        bgr = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
        _, buffer = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])
        return self._keep(buffer.tobytes(), ".jpg", pixels.shape)

    def _keep_layer(self, layer: Layer) -> ImageRef:
        from PIL import Image

        image = Image.fromarray(layer.levels).convert("L")
        image.putpalette(layer.palette[:, :3].tobytes())
        out = io.BytesIO()
        opacity = layer.palette[:, 3].tobytes()
        image.save(out, "PNG", transparency=opacity, compress_level=6, bits=4)
        return self._keep(out.getvalue(), ".png", layer.levels.shape)

    def _keep(self, data: bytes, ending: str, shape: tuple[int, ...]) -> ImageRef:
        name = f"{hashlib.sha256(data).hexdigest()[:20]}{ending}"
        path = self.folder / name
        if not path.exists():
            path.write_bytes(data)
        return ImageRef(f"{FOLDER}/{name}", shape[1], shape[0])


def _wanted(study: Study) -> Iterator[tuple[Kind, str, Pixels]]:
    for records in study.records:
        for sample in study.samples.values():
            yield "photo", sample.image, records.pixels
        for attempts in records.attempts.values():
            for attempt in attempts:
                yield from _of_attempt(attempt, records.pixels)
    for pairs in study.pairs:
        for attempt in pairs.attempts:
            yield from _of_attempt(attempt, pairs.pixels)


def _of_attempt(attempt: Attempt, pixels: Pixels) -> Iterator[tuple[Kind, str, Pixels]]:
    for sha in (attempt.source, attempt.edited):
        if sha:
            yield "photo", sha, pixels
    if attempt.mask:
        yield "mask", attempt.mask, pixels
    if attempt.measurement and attempt.measurement.delta:
        yield "heat", attempt.measurement.delta, pixels


def _grey(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(pixels[..., 0])
