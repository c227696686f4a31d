"""Bringing an edited image to the size of its source, by resampling and without distortion."""

import cv2
import numpy as np
from numpy.typing import NDArray


def fit(
    edited: NDArray[np.uint8], shape: tuple[int, ...], *, aspect_tolerance: float
) -> NDArray[np.uint8] | None:
    """Resample an edited image to the height and width of its source.

    Shrinking averages over areas, enlarging is bicubic. An image that has the size already is
    returned as it is, not copied.

    Parameters
    ----------
    edited : (h, w, 3) uint8 array
        RGB, as the editor returned it.
    shape : tuple of int
        ``(H, W, ...)`` of the source.
    aspect_tolerance : float
        Largest relative difference of the two aspect ratios, e.g. 0.02 for two per cent.

    Returns
    -------
    (H, W, 3) uint8 array or None
        None where the aspect ratios differ by more: the outcome ``size_mismatch``.
    """
    height, width = shape[:2]
    h, w = edited.shape[:2]
    if (h, w) == (height, width):
        return edited
    # A side is a whole number of pixels: half a pixel of rounding is no change of aspect.
    ratio = (w * height) / (h * width)
    rounding = 0.5 / min(h, w, height, width)
    if max(ratio, 1 / ratio) - 1 > aspect_tolerance + (rounding if min(h, w) >= 8 else 0.0):
        return None
    shrinks = h * w > height * width
    method = cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(edited, (width, height), interpolation=method), dtype=np.uint8)
