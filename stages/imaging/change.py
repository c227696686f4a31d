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
_BAND_PIXELS = 1 << 16  # a plane of 256 KiB; some fifteen are in use at once
_FEWEST_ROWS = 64


class Appearance(NamedTuple):
    """What comparison needs of one image; planes of ``(H, W)``."""

    rgb: tuple[Floats, Floats, Floats]
    """Red, green and blue in [0, 1], denoised."""
    value: Floats
    """In [0, 1]: V of HSV."""
    gradient: Floats
    """Gradient magnitude of the luminance, per pixel."""
    luminance: Floats
    """In [0, 1], Rec. 601."""
    mean: Floats
    """Local mean of the luminance."""
    square: Floats
    """Local mean of its square."""

    def rows(self, chosen: slice) -> "Appearance":
        """Some rows of every plane."""
        red, green, blue = self.rgb
        return Appearance(
            (red[chosen], green[chosen], blue[chosen]), *(plane[chosen] for plane in self[1:])
        )


class Difference(NamedTuple):
    """How two images differ at every pixel, before any threshold."""

    similarity: Floats
    """``(H, W)`` in [-1, 1]: local SSIM of the luminance, 1 where equal."""
    score: Floats
    """``(H, W)``, from 0: the weighted pixel score."""


def compare(
    source: NDArray[np.uint8], *others: NDArray[np.uint8], settings: Settings
) -> tuple[Difference, ...]:
    """Measure at every pixel how much structure and pixel of other images differ from a source.

    All are ``(H, W, 3)`` uint8 RGB of one shape, aligned. The work goes band by band: all that is
    needed on the way to a band's result stays in a core's cache, and memory beside the images and
    the results does not grow with their height.
    """
    height, width = source.shape[:2]
    images = [_denoise(image, settings) for image in (source, *others)]
    found = tuple(
        Difference(*(np.empty((height, width), dtype=np.float32) for _ in range(2))) for _ in others
    )
    rows = max(_BAND_PIXELS // width, _FEWEST_ROWS)
    halo = _radius(settings.ssim_window_px) + 1  # a pixel of a band sees no farther than that
    for top in range(0, height, rows):
        first, last = max(top - halo, 0), min(top + rows + halo, height)
        inner, whole = slice(top - first, top - first + rows), slice(top, top + rows)
        reference = _describe(images[0][first:last], settings)
        for result, image in zip(found, images[1:], strict=True):
            other = _describe(image[first:last], settings)
            result.similarity[whole] = _similarity(reference, other, inner, settings)
            result.score[whole] = pixel_score(
                reference.rows(inner), other.rows(inner), settings=settings
            )
    return found


def describe(pixels: NDArray[np.uint8], *, settings: Settings) -> Appearance:
    """Prepare an ``(H, W, 3)`` uint8 RGB image for comparison."""
    return _describe(_denoise(pixels, settings), settings)


def _denoise(pixels: NDArray[np.uint8], settings: Settings) -> NDArray[np.uint8]:
    if settings.denoise_px == 0:
        return pixels
    sigma = settings.denoise_px
    blurred = cv2.GaussianBlur(pixels, (0, 0), sigma, borderType=cv2.BORDER_REFLECT)
    return np.asarray(blurred, dtype=np.uint8)


def _describe(denoised: NDArray[np.uint8], settings: Settings) -> Appearance:
    red, green, blue = (
        np.multiply(plane, np.float32(1 / 255), dtype=np.float32) for plane in cv2.split(denoised)
    )
    luminance = cv2.scaleAdd(blue, 0.114, cv2.addWeighted(red, 0.299, green, 0.587, 0.0))
    dx = cv2.Scharr(luminance, cv2.CV_32F, 1, 0, scale=1 / 32)
    dy = cv2.Scharr(luminance, cv2.CV_32F, 0, 1, scale=1 / 32)
    sigma = settings.ssim_window_px
    return Appearance(
        (red, green, blue),
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
    chroma as radius: the hue of a pale or dark pixel, which is mostly noise, weighs little. Hue
    and chroma are those of the circle, not of the hexagon that HSV is mostly computed on. Both
    colour distances are in units of that from black to white in RGB. It is one score, so colour
    alone can reach the threshold: a flat recolouring of a plain surface is a change.

    References
    ----------
    Hue and chroma on the circle: Hanbury 2008, doi:10.1016/j.patrec.2007.11.002.
    """
    red, green, blue = (cv2.subtract(a, b) for a, b in zip(first.rgb, second.rgb, strict=True))
    total = cv2.add(cv2.add(red, green), blue)
    squares = cv2.multiply(red, red)
    squares = cv2.accumulateSquare(blue, cv2.accumulateSquare(green, squares))
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


def changed(difference: Difference, *, settings: Settings) -> NDArray[np.bool_]:
    """Δ: where the structure or the pixel changed, ``(H, W)`` bool."""
    structure = difference.similarity < settings.ssim_threshold
    return np.asarray(structure | (difference.score > settings.pixel_threshold), dtype=np.bool_)


def _similarity(first: Appearance, second: Appearance, rows: slice, settings: Settings) -> Floats:
    product = _window_mean(cv2.multiply(first.luminance, second.luminance), settings.ssim_window_px)
    means = (first.mean[rows], first.square[rows]), (second.mean[rows], second.square[rows])
    return _ssim(product[rows], *means, 1.0)


def _radius(sigma: float) -> int:
    return int(3.5 * sigma + 0.5)


def _window_mean(values: Floats, sigma: float) -> Floats:
    size = 2 * _radius(sigma) + 1
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
    variances = cv2.subtract(cv2.addWeighted(first[1], 1.0, second[1], 1.0, c2), powers)
    # cv2 adds a bare number to the first channel: these arrays have no other.
    numerator = cv2.multiply(
        cv2.addWeighted(means, 2.0, means, 0.0, c1), cv2.addWeighted(product, 2.0, means, -2.0, c2)
    )
    denominator = cv2.multiply(cv2.add(powers, c1), variances)
    return np.asarray(cv2.divide(numerator, denominator), dtype=np.float32)
