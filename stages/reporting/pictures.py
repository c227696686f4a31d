"""Pictures for people: thumbnails, the heat map of Δ, box and mask over the image.

Arrays are ``(H, W, 3)`` uint8 RGB. Everything is drawn at the size in which it is shown. Figures
get whole pictures; pages lay a see-through layer over a photograph, so that it is kept once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
    density = _density(changed, image.shape[1], image.shape[0])
    colour = _heat_colours(density)
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


class Layer(NamedTuple):
    """A picture of few colours, to be laid over another of the same aspect ratio."""

    levels: NDArray[np.uint8]
    """``(H, W)``: which entry of the palette a pixel has."""
    palette: NDArray[np.uint8]
    """``(N, 4)``: red, green, blue and opacity in [0, 255]."""


def heat_layer(changed: NDArray[np.uint8], *, width: int, levels: int = 16) -> Layer:
    """The local share of changed pixels as a layer; what `heat_map` lays over grey.

    Parameters
    ----------
    changed : (H, W)
        255 where a pixel changed.
    width : int
        Largest width of the layer in pixels.
    levels : int
        How many shares are told apart.
    """
    small = fit(changed, width=width)
    share = _density(changed, small.shape[1], small.shape[0])
    steps = np.linspace(0.0, 1.0, levels)
    opacity = np.clip(steps * 2.0, 0.0, 0.95)[:, None]
    palette = np.rint(np.hstack([_heat_colours(steps), 255.0 * opacity]))
    at = np.rint(share * (levels - 1))
    return Layer(at.astype(np.uint8), palette.astype(np.uint8))


def mask_layer(mask: NDArray[np.uint8], *, width: int) -> Layer:
    """A mask (255 inside) as a layer: tinted within, outlined in the same blue."""
    small = np.ascontiguousarray(fit(mask, width=width) > 127, dtype=np.uint8)
    outline, _ = cv2.findContours(small, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
    drawn = np.asarray(cv2.drawContours(small.copy(), outline, -1, 2, 2), dtype=np.uint8)
    blue = rgb(BLUE)
    return Layer(drawn, np.array([(*blue, 0), (*blue, 102), (*blue, 255)], dtype=np.uint8))


def _density(changed: NDArray[np.uint8], width: int, height: int) -> NDArray[np.float64]:
    """Local share of changed pixels, ``(height, width)`` in [0, 1]."""
    share = cv2.resize(changed, (width, height), interpolation=cv2.INTER_AREA) / 255.0
    sigma = 0.004 * float(np.hypot(height, width)) + 0.3
    return np.asarray(cv2.GaussianBlur(share, (0, 0), sigma), dtype=np.float64)


def _heat_colours(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Colours of shares in [0, 1], red, green and blue on a last axis."""
    stops = np.array([rgb(colour) for colour in HEAT], dtype=float)
    at = np.linspace(0.0, 1.0, len(stops))
    return np.stack([np.interp(share, at, stops[:, channel]) for channel in range(3)], axis=-1)
