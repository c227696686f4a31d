"""Where the time of a measurement goes, and the time that memory alone would take.

The model: each pass over an array reads its operands and writes its result once, whole, at the
bandwidth of a plain copy. What a cache holds from one pass to the next is faster than that, and
arithmetic is slower.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from stages.imaging import change, localization, registration
from stages.imaging.settings import Settings

_COPIED = 1 << 28
# Bytes of the planes that passes read and write, a pixel.
_BYTE, _RGB, _FLOAT = 1, 3, 4


class Step(NamedTuple):
    """A part of a measurement."""

    name: str
    run: Callable[[], object]
    moved: float
    """Bytes that its passes read and write."""


def bandwidth() -> float:
    """Bytes a second, read and written, that copying a large array moves on one core."""
    source = np.ones(_COPIED, dtype=np.uint8)
    target = np.zeros_like(source)
    seconds = []
    for _ in range(5):
        begun = time.process_time()
        np.copyto(target, source)
        seconds.append(time.process_time() - begun)
    return 2 * _COPIED / min(seconds)


def described() -> int:
    """Bytes a pixel of `change.describe`, by its passes."""
    return (
        (_RGB + _RGB)  # blur
        + (_RGB + _RGB)  # split
        + 3 * (_BYTE + _FLOAT)  # planes to floats
        + 2 * 3 * _FLOAT  # luminance, from two planes and then the third
        + 2 * 2 * _FLOAT  # derivatives
        + 3 * _FLOAT  # magnitude
        + 2 * 3 * _FLOAT  # value
        + 2 * _FLOAT  # mean
        + 2 * 2 * _FLOAT  # square, and its mean
    )


def compared() -> int:
    """Bytes a pixel of holding one described image against another, by its passes."""
    similarity = 5 + (3 + 3 + 3 + 3) + (2 + 3 + 3) + (2 + 3) + 3  # planes read and written
    score = 3 * 3 + 2 * 3 + (2 + 3 + 3) + 3 + (2 + 3 + 3 + 2) + (2 + 2 + 3) + (3 + 3)
    return _FLOAT * (similarity + score) + 2 * 2 * _FLOAT  # and both into the results


def keypoints() -> float:
    """Bytes a pixel of finding and describing keypoints in one image, over ORB's pyramid."""
    pyramid = sum(1.2 ** (-2 * level) for level in range(8))
    image, mask = 2 * _BYTE + _BYTE + 2 * _BYTE, 2 * _BYTE + _BYTE  # shrink, search, blur
    return pyramid * (image + mask)


def farneback() -> float:
    """Bytes a pixel of dense flow between two images, over its pyramid."""
    pyramid = sum(4.0**-level for level in range(4))
    expansion = 2 * (_FLOAT + 5 * _FLOAT)
    update, blur, solve = (5 + 5 + 2 + 5) * _FLOAT, 2 * 5 * _FLOAT, (5 + 2) * _FLOAT
    return pyramid * (expansion + 2 * (update + blur + solve))


def warped() -> int:
    """Bytes a pixel of warping a colour image by a transform and a flow."""
    maps, within = 2 * (_FLOAT + 3 * _FLOAT), 2 * (_FLOAT + _BYTE) + 3 * _BYTE
    return maps + within + 2 * _FLOAT + 2 * _RGB


def steps(
    source: NDArray[np.uint8],
    edited: NDArray[np.uint8],
    mask: NDArray[np.bool_],
    *,
    settings: Settings,
) -> list[Step]:
    """All of `localization.localize` on a pair that needs transform and flow, and its steps."""
    comparison = localization.compare(source, edited, mask, settings=settings)
    matrix, flow = comparison.alignment.matrix, comparison.alignment.flow
    assert comparison.alignment.outcome == "similarity"
    assert flow is not None
    height, width = comparison.covered.shape

    def shrink() -> tuple[NDArray[np.uint8], ...]:
        images = (source, edited, mask.astype(np.float32))
        return tuple(cv2.resize(x, (width, height), interpolation=cv2.INTER_AREA) for x in images)

    small, other, share = shrink()
    target = share > 0
    grey, grey_other = (cv2.cvtColor(x, cv2.COLOR_RGB2GRAY) for x in (small, other))
    outside = np.logical_not(target).view(np.uint8)
    orb = cv2.ORB.create(nfeatures=int(settings.orb_features), fastThreshold=10)
    scale = min(1.0, settings.flow_side_px / max(width, height))
    side = (round(width * scale), round(height * scale))
    tiny, tiny_other = (
        cv2.resize(x, side, interpolation=cv2.INTER_AREA) for x in (grey, grey_other)
    )
    options = (0.5, 3, 15, 2, 5, 1.1, cv2.OPTFLOW_FARNEBACK_GAUSSIAN)
    whole, n, m = mask.size, height * width, side[0] * side[1]

    found = [
        Step("shrinking", shrink, (2 * _RGB + 3 * _FLOAT) * whole + (2 * _RGB + 2 * _FLOAT) * n),
        Step(
            "registration",
            lambda: registration.register(small, other, target, settings=settings),
            # greys, residuals, warp of the grey one, and the flow in full size
            2 * keypoints() * n + farneback() * m + (8 + 6 + 45 + 16) * n,
        ),
        Step(
            "warps",
            lambda: [registration.warp(other, matrix, part) for part in (None, flow)],
            2 * warped() * n,
        ),
        Step(
            "differences",
            lambda: change.compare(small, other, other, settings=settings),
            (3 * described() + 2 * compared()) * n,
        ),
        Step(
            "counts",
            lambda: localization.count(comparison, mask, settings=settings),
            2 * ((2 * (_FLOAT + _BYTE) + 6 * _BYTE) * n + _BYTE * (n + whole) + 6 * _BYTE * whole),
        ),
    ]
    return [
        Step(
            "all of it",
            lambda: localization.localize(source, edited, mask, settings=settings),
            sum(step.moved for step in found),
        ),
        *found,
        Step(
            "keypoints (ORB), in registration",
            lambda: [orb.detectAndCompute(image, outside) for image in (grey, grey_other)],
            2 * keypoints() * n,
        ),
        Step(
            "flow (Farnebäck), in registration",
            lambda: cv2.calcOpticalFlowFarneback(tiny, tiny_other, None, *options),
            farneback() * m,
        ),
    ]
