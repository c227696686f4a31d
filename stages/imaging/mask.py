"""Masks: boolean ``(H, W)`` arrays, True inside the target region."""

import math
from collections.abc import Iterable

import cv2
import numpy as np
from numpy.typing import NDArray


def diagonal(shape: tuple[int, ...]) -> float:
    """Length of the image diagonal in pixels, for an ``(H, W, ...)`` shape."""
    return math.hypot(shape[0], shape[1])


def boxes(shape: tuple[int, ...], corners: Iterable[tuple[float, ...]]) -> NDArray[np.bool_]:
    """Fill boxes.

    Parameters
    ----------
    shape : tuple of int
        ``(H, W, ...)`` of the image.
    corners : iterable of (x0, y0, x1, y1)
        In pixels, right and bottom open; fractions are rounded outwards, what lies outside the
        image is cut off, and a box without area covers nothing.

    Returns
    -------
    (H, W) bool array
        The union.
    """
    mask = np.zeros(shape[:2], dtype=bool)
    for x0, y0, x1, y1 in corners:
        if x1 > x0 and y1 > y0:
            top, left = max(math.floor(y0), 0), max(math.floor(x0), 0)
            mask[top : max(math.ceil(y1), 0), left : max(math.ceil(x1), 0)] = True
    return mask


def dilate(mask: NDArray[np.bool_], *, radius_share: float) -> NDArray[np.bool_]:
    """Widen a mask by a margin that is relative to the image, so that sizes are comparable.

    Parameters
    ----------
    mask : (H, W) bool array
    radius_share : float
        Radius of the round structuring element as a share of the image diagonal, in [0, 1);
        rounded to whole pixels.

    Returns
    -------
    (H, W) bool array
        Always a new array, a superset of ``mask``.
    """
    radius = round(radius_share * diagonal(mask.shape))
    if radius == 0 or not mask.any():
        return mask.copy()
    left, top, width, height = cv2.boundingRect(mask.view(np.uint8))
    near = (
        slice(max(top - radius, 0), top + height + radius),
        slice(max(left - radius, 0), left + width + radius),
    )
    # Exact distances cost the same for every radius; a large elliptic kernel does not.
    distance = cv2.distanceTransform(
        np.logical_not(mask[near]).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE
    )
    dilated = np.zeros_like(mask)
    np.less_equal(distance, radius, out=dilated[near])
    return dilated
