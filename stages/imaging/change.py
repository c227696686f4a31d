"""Which pixels of two aligned images differ: Δ of Algorithm 1, structure or pixel.

Both images are blurred a little first, so that sensor noise and compression are not change.
"""

import math
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from stages.imaging.settings import Settings

Floats = NDArray[np.float32]

_K1, _K2 = 0.01, 0.03


class Appearance(NamedTuple):
    """What comparison needs of one image; made once and compared as often as wanted."""

    rgb: Floats
    """``(H, W, 3)`` in [0, 1], denoised."""
    value: Floats
    """``(H, W)`` in [0, 1]: V of HSV."""
    gradient: Floats
    """``(H, W)``: gradient magnitude of the luminance, per pixel."""
    luminance: Floats
    """``(H, W)`` in [0, 1], Rec. 601."""
    mean: Floats
    """``(H, W)``: local mean of the luminance."""
    square: Floats
    """``(H, W)``: local mean of its square."""


class Difference(NamedTuple):
    """How two images differ at every pixel, before any threshold."""

    similarity: Floats
    """``(H, W)`` in [-1, 1]: local SSIM of the luminance, 1 where equal."""
    score: Floats
    """``(H, W)``, from 0: the weighted pixel score."""


def describe(pixels: NDArray[np.uint8], *, settings: Settings) -> Appearance:
    """Prepare an ``(H, W, 3)`` uint8 RGB image for comparison."""
    if settings.denoise_px > 0:
        pixels = np.asarray(
            cv2.GaussianBlur(pixels, (0, 0), settings.denoise_px, borderType=cv2.BORDER_REFLECT)
        )
    rgb = np.multiply(pixels, np.float32(1 / 255), dtype=np.float32)
    luminance = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    red, green, blue = cv2.split(rgb)
    dx = cv2.Scharr(luminance, cv2.CV_32F, 1, 0, scale=1 / 32)
    dy = cv2.Scharr(luminance, cv2.CV_32F, 0, 1, scale=1 / 32)
    sigma = settings.ssim_window_px
    return Appearance(
        rgb,
        cv2.max(cv2.max(red, green), blue),
        cv2.magnitude(dx, dy),
        luminance,
        _window_mean(luminance, sigma),
        _window_mean(cv2.multiply(luminance, luminance), sigma),
    )


def ssim(
    first: NDArray[np.float32], second: NDArray[np.float32], *, window_px: float, data_range: float
) -> Floats:
    """Local structural similarity with a Gaussian window.

    Parameters
    ----------
    first, second : (H, W) float32 arrays
        Luminance of the two images.
    window_px : float
        Standard deviation of the window in pixels; it is cut off at 3.5 of them.
    data_range : float
        Distance between the smallest and the largest value that luminance can take.

    Returns
    -------
    (H, W) float32 array
        In [-1, 1]; 1 where the images are equal. Beyond the border the images are mirrored.

    References
    ----------
    Wang, Bovik, Sheikh, Simoncelli 2004, doi:10.1109/TIP.2003.819861.
    """
    first, second = (np.asarray(x, dtype=np.float32) for x in (first, second))
    return _ssim(
        _window_mean(first * second, window_px),
        (_window_mean(first, window_px), _window_mean(first * first, window_px)),
        (_window_mean(second, window_px), _window_mean(second * second, window_px)),
        data_range,
    )


def pixel_score(first: Appearance, second: Appearance, *, settings: Settings) -> Floats:
    """Weighted distance in RGB, in HSV and in gradient magnitude, ``(H, W)``, from 0.

    The HSV distance is Euclidean in the cone whose axis is value and whose circle is hue, with
    chroma as radius: the hue of a pale or dark pixel, which is mostly noise, weighs little. Both
    colour distances are scaled so that the farthest two colours are 1 apart. It is one score, so
    colour alone can reach the threshold: a flat recolouring of a plain surface is a change.
    """
    difference = cv2.subtract(first.rgb, second.rgb)
    total = cv2.transform(difference, _SUM)
    squares = cv2.transform(cv2.multiply(difference, difference), _SUM)
    value = cv2.subtract(first.value, second.value)
    # On the circle hue times chroma is linear in RGB, (r - g/2 - b/2, (g - b) sqrt(3)/2), so its
    # squared distance follows from the sum and the sum of squares of the RGB differences.
    cone = cv2.addWeighted(squares, 1.5, cv2.multiply(total, total), -0.5, 0.0)
    cone = cv2.max(cv2.accumulateSquare(value, cone), 0.0)
    score = cv2.addWeighted(
        cv2.sqrt(squares),
        settings.rgb_weight / math.sqrt(3),
        cv2.sqrt(cone),
        settings.hsv_weight / math.sqrt(3),
        0.0,
    )
    gradient = cv2.absdiff(first.gradient, second.gradient)
    return np.asarray(cv2.scaleAdd(gradient, settings.gradient_weight, score), dtype=np.float32)


def compare(first: Appearance, second: Appearance, *, settings: Settings) -> Difference:
    """Measure at every pixel how much structure and pixel differ."""
    product = _window_mean(cv2.multiply(first.luminance, second.luminance), settings.ssim_window_px)
    return Difference(
        _ssim(product, (first.mean, first.square), (second.mean, second.square), 1.0),
        pixel_score(first, second, settings=settings),
    )


def changed(difference: Difference, *, settings: Settings) -> NDArray[np.bool_]:
    """Δ: where the structure or the pixel changed, ``(H, W)`` bool."""
    structure = difference.similarity < settings.ssim_threshold
    return np.asarray(structure | (difference.score > settings.pixel_threshold), dtype=np.bool_)


_SUM = np.ones((1, 3), dtype=np.float32)


def _window_mean(values: Floats, sigma: float) -> Floats:
    size = 2 * int(3.5 * sigma + 0.5) + 1
    return np.asarray(cv2.GaussianBlur(values, (size, size), sigma, borderType=cv2.BORDER_REFLECT))


def _ssim(
    product: Floats,
    first: tuple[Floats, Floats],
    second: tuple[Floats, Floats],
    data_range: float,
) -> Floats:
    """SSIM from the local means of product, values and squares."""
    c1, c2 = (_K1 * data_range) ** 2, (_K2 * data_range) ** 2
    means = cv2.multiply(first[0], second[0])
    powers = cv2.accumulateSquare(second[0], cv2.multiply(first[0], first[0]))
    covariance = cv2.subtract(product, means)
    variances = cv2.subtract(cv2.add(first[1], second[1]), powers)
    # cv2 adds a bare number to the first channel: these arrays have no other.
    numerator = cv2.multiply(
        cv2.addWeighted(means, 2.0, means, 0.0, c1),
        cv2.addWeighted(covariance, 2.0, covariance, 0.0, c2),
    )
    denominator = cv2.multiply(cv2.add(powers, c1), cv2.add(variances, c2))
    return np.asarray(cv2.divide(numerator, denominator), dtype=np.float32)
