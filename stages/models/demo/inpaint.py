"""Fills a hole in a picture with background from beside it.

Copies the piece, moved mostly sideways, that agrees best around the hole, and then takes out what
difference in light remains at the rim (in the spirit of exemplar-based inpainting, Criminisi et
al. 2004, doi:10.1109/TIP.2004.833105, with a single exemplar). Pictures are ``(H, W, 3)`` RGB.
"""

from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float32]

_RIM = 8
"""Width of the band around a hole that a piece must agree with, in pixels."""
_BAND = 30
"""Height of a band, in pixels."""
_RISE = 6
"""How far a piece may come from above or below, in pixels."""


def fill(pixels: Pixels, hole: Bools, taken: Bools) -> Pixels:
    """Fill a hole; returns a new picture that differs inside the hole only.

    Works downwards band by band, so that what runs towards the viewer can be followed.

    Parameters
    ----------
    pixels : (H, W, 3) uint8 array
    hole : (H, W) bool array
        What to fill.
    taken : (H, W) bool array
        What must not be copied: things of the foreground.
    """
    out = pixels.copy()
    blocked, left = hole | taken, hole.copy()
    rows = np.flatnonzero(hole.any(axis=1))
    if not rows.size:
        return out
    count = max(1, round((rows[-1] + 1 - rows[0]) / _BAND))
    edges = np.linspace(rows[0], rows[-1] + 1, count + 1).astype(int)
    for top, bottom in pairwise(edges):
        band = np.zeros_like(hole)
        band[top:bottom] = hole[top:bottom]
        if band.any():
            _fill_band(out, band, left | (taken & ~hole), blocked)
            left &= ~band
    return out


def _fill_band(out: Pixels, band: Bools, unknown: Bools, blocked: Bools) -> None:
    """Fill one band of the hole in place; `unknown` tells nothing about the background."""
    h, w = band.shape
    x, y, wide, high = cv2.boundingRect(band.astype(np.uint8))
    x0, y0 = max(0, x - _RIM), max(0, y - _RIM)
    x1, y1 = min(w, x + wide + _RIM), min(h, y + high + _RIM)
    part = np.s_[y0:y1, x0:x1]
    inside = band[part]
    rim = (cv2.dilate(inside.astype(np.uint8), _disc(_RIM)) > 0) & ~unknown[part]
    move = _best_move(out, blocked, inside, rim, (x0, y0)) if rim.any() else None
    region = out[part].astype(np.float32)
    if move is None:
        filled = _along_rows(region, inside, ~unknown[part])
    else:
        dx, dy = move
        piece = out[y0 + dy : y1 + dy, x0 + dx : x1 + dx].astype(np.float32)
        filled = piece + _spread(region - piece, rim, max(wide, high))
        # A soft seam, inside the hole so that nothing outside changes.
        depth = cv2.distanceTransform(1 - rim.astype(np.uint8), cv2.DIST_L2, 3)
        alpha = np.clip(depth / 4, 0, 1)[..., None]
        filled = filled * alpha + _along_rows(region, inside, ~unknown[part]) * (1 - alpha)
    out[part][inside] = np.clip(filled + 0.5, 0, 255).astype(np.uint8)[inside]


def _along_rows(region: Floats, inside: Bools, known: Bools) -> Floats:
    """Interpolate every row across the hole between the means of what is known at its ends."""
    out = region.copy()
    usable = known if known.any() else np.ones_like(known)
    overall = region[usable].mean(axis=0)
    for y in np.flatnonzero(inside.any(axis=1)):
        gap = np.flatnonzero(inside[y])
        before = [x for x in np.flatnonzero(usable[y]) if x < gap[0]][-6:]
        after = [x for x in np.flatnonzero(usable[y]) if x > gap[-1]][:6]
        ends = [region[y, side].mean(axis=0) for side in (before, after) if len(side)]
        first, last = (ends[0], ends[-1]) if ends else (overall, overall)
        t = ((gap - gap[0] + 1) / (gap[-1] - gap[0] + 2))[:, None]
        out[y, gap] = first * (1 - t) + last * t
    return out


def _best_move(
    pixels: Pixels, blocked: Bools, inside: Bools, rim: Bools, corner: tuple[int, int]
) -> tuple[int, int] | None:
    """``(dx, dy)`` to the piece that agrees best on the rim; None where all are blocked."""
    x0, y0 = corner
    high, wide = inside.shape
    top, bottom = max(0, y0 - _RISE), min(len(blocked), y0 + high + _RISE)
    strip = np.ascontiguousarray(pixels[top:bottom])
    template = np.ascontiguousarray(pixels[y0 : y0 + high, x0 : x0 + wide])
    halved = [_half(image) for image in (strip, template)]
    rim_half = _half(rim.astype(np.uint8) * 255) > 250
    hole_half = _half(inside.astype(np.uint8) * 255) > 0
    if not rim_half.any():
        return None
    weight = rim_half.astype(np.float32)
    cost = cv2.matchTemplate(
        halved[0].astype(np.float32),
        halved[1].astype(np.float32),
        cv2.TM_SQDIFF,
        mask=np.repeat(weight[..., None], 3, axis=2),
    )
    free = cv2.matchTemplate(
        (_half(blocked[top:bottom].astype(np.uint8) * 255) > 0).astype(np.float32),
        hole_half.astype(np.float32),
        cv2.TM_CCORR,
    )
    cost = np.where(free < 0.5, cost / (3 * weight.sum()), np.inf)
    # Pieces from far away and from another height are in another light and perspective.
    ys, xs = np.mgrid[0 : cost.shape[0], 0 : cost.shape[1]]
    dx, dy = xs * 2 - x0, ys * 2 + top - y0
    total = cost + 0.02 * np.abs(dx) + 4.0 * np.abs(dy)
    best = int(np.argmin(total))
    if not np.isfinite(total.flat[best]):
        return None
    move = int(dx.flat[best]), int(dy.flat[best])
    reaches = 0 <= x0 + move[0] <= blocked.shape[1] - wide
    return move if reaches and 0 <= y0 + move[1] <= blocked.shape[0] - high else None


def _spread(difference: Floats, rim: Bools, size: int) -> Floats:
    """Carry a difference that is known on the rim smoothly into the hole."""
    weight = rim.astype(np.float32)
    total: NDArray[np.floating] = np.zeros_like(difference)
    norm: NDArray[np.floating] = np.zeros_like(weight)
    # Near the rim the narrow kernels rule, in the middle only the wide ones reach.
    for sigma, share in ((3.0, 1.0), (size / 12, 0.1), (size / 4, 0.01), (size / 1.5, 1e-4)):
        total += share * cv2.GaussianBlur(difference * weight[..., None], (0, 0), sigma)
        norm += share * cv2.GaussianBlur(weight, (0, 0), sigma)
    return np.asarray(total / np.maximum(norm, 1e-9)[..., None], np.float32)


def _half(image: Pixels) -> Pixels:
    size = (max(1, image.shape[1] // 2), max(1, image.shape[0] // 2))
    half: Pixels = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    return half


def _disc(radius: int) -> Pixels:
    disc: Pixels = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
    return disc
