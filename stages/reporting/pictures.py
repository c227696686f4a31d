"""Pictures for people: thumbnails, the heat map of Δ, box and mask over the image.

Arrays are ``(H, W, 3)`` uint8 RGB. Everything is drawn at the size in which it is shown.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from stages.records.attempt import Attempt, Box
from stages.reporting.palette import BLUE, HEAT, ORANGE, rgb
from stages.reporting.study import Pixels

RGB = NDArray[np.uint8]


def fit(pixels: RGB, *, width: int) -> RGB:
    """Shrink to at most `width` pixels wide and 1.5 times as high; never enlarge."""
    scale = min(1.0, width / pixels.shape[1], 1.5 * width / pixels.shape[0])
    if scale == 1.0:
        return pixels
    size = (max(1, round(pixels.shape[1] * scale)), max(1, round(pixels.shape[0] * scale)))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def heat_map(image: RGB, changed: NDArray[np.uint8]) -> RGB:
    """The image in pale grey under the local share of changed pixels.

    Parameters
    ----------
    image : (H, W, 3)
        What lies underneath.
    changed : (H', W')
        255 where a pixel changed, at any size of the same aspect ratio; shrinking it averages.
    """
    height, width = image.shape[:2]
    density = cv2.resize(changed, (width, height), interpolation=cv2.INTER_AREA) / 255.0
    density = cv2.GaussianBlur(density, (0, 0), 0.004 * float(np.hypot(height, width)) + 0.3)
    stops = np.array([rgb(colour) for colour in HEAT], dtype=float)
    at = np.linspace(0.0, 1.0, len(stops))
    colour = np.stack([np.interp(density, at, stops[:, channel]) for channel in range(3)], axis=-1)
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)[..., None]
    pale = 255.0 - 0.55 * (255.0 - grey)
    weight = np.clip(density * 2.0, 0.0, 0.95)[..., None]
    return np.asarray(np.rint(pale * (1 - weight) + colour * weight), dtype=np.uint8)


def box_and_mask(
    image: RGB, mask: NDArray[np.uint8] | None, boxes: Sequence[Box], *, scale: float
) -> RGB:
    """The image with the mask tinted and outlined in blue, the boxes drawn in orange.

    Parameters
    ----------
    mask : (H', W') or None
        255 inside.
    scale : float
        What the boxes' pixels are to be multiplied by.
    """
    drawn = image.copy()
    height, width = image.shape[:2]
    if mask is not None:
        small = cv2.resize(mask, (width, height), interpolation=cv2.INTER_AREA) > 127
        tint = np.array(rgb(BLUE), dtype=float)
        drawn[small] = np.rint(0.6 * drawn[small] + 0.4 * tint).astype(np.uint8)
        outline, _ = cv2.findContours(small.astype(np.uint8), cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(drawn, outline, -1, rgb(BLUE), 2)
    for box in boxes:
        corners = [round(value * scale) for value in (box.x0, box.y0, box.x1, box.y1)]
        for colour, thickness in (((0, 0, 0), 4), (rgb(ORANGE), 2)):
            cv2.rectangle(drawn, tuple(corners[:2]), tuple(corners[2:]), colour, thickness)
    return drawn


@dataclass(frozen=True)
class Panel:
    """The four views of one verified attempt; None where there is nothing to show."""

    original: RGB | None
    edited: RGB | None
    change: RGB | None
    target: RGB | None


def panel(attempt: Attempt, pixels: Pixels, *, width: int) -> Panel:
    """Draw an attempt: source, edited image, heat map of Δ, box and mask.

    Box and mask lie over the image that was searched: the edited one where something was added.
    """
    source = pixels(attempt.source) if attempt.source else None
    edited = pixels(attempt.edited) if attempt.edited else None
    small_source = None if source is None else fit(source, width=width)
    small_edited = None if edited is None else fit(edited, width=width)
    delta = attempt.measurement.delta if attempt.measurement else None
    change = target = None
    if small_edited is not None and delta:
        change = heat_map(small_edited, pixels(delta)[..., 0])
    searched, full = (
        (small_edited, edited) if attempt.edit_type == "add" else (small_source, source)
    )
    if searched is not None and full is not None and (attempt.mask or attempt.boxes):
        mask = pixels(attempt.mask)[..., 0] if attempt.mask else None
        target = box_and_mask(
            searched, mask, attempt.boxes, scale=searched.shape[1] / full.shape[1]
        )
    return Panel(small_source, small_edited, change, target)


@dataclass(frozen=True)
class ImageRef:
    """An image file beside the page."""

    src: str
    width: int
    height: int


@dataclass
class Album:
    """JPEG files for a page, named by content, each kept once."""

    folder: str = "images"
    files: dict[str, bytes] = field(default_factory=dict)

    def add(self, pixels: RGB, *, quality: int = 80) -> ImageRef:
        """Keep an image; equal images share a file."""
        bgr = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
        _, buffer = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])
        data = buffer.tobytes()
        name = f"{hashlib.sha256(data).hexdigest()[:20]}.jpg"
        self.files[name] = data
        return ImageRef(f"{self.folder}/{name}", pixels.shape[1], pixels.shape[0])
