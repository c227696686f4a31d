"""Algorithm 1 as its definition reads, step by step: what `stages.imaging` is held against.

Registration, Δ, r_in and r_out in float64, by scikit-image where it has the step and by OpenCV
where not; detector and segmenter are left out. It has the same `Settings`, so that both must find
the same, and shares no code with what it checks. Nothing here is made to be fast, or to be slow.
"""

import math
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter
from skimage.filters import gaussian, scharr, sobel
from skimage.metrics import structural_similarity

from stages.imaging.settings import Settings

Image = NDArray[np.uint8]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

EQUAL = 0.004  # mean difference below which there is nothing to align
STILL_PX = 0.1  # displacements below this are none
REC_601 = np.array([0.299, 0.587, 0.114])


class Measured(NamedTuple):
    """What was measured; shares in [0, 1], None where there is nothing to take the share of."""

    r_in: float | None
    r_out: float | None
    r_in_unwarped: float | None
    r_out_unwarped: float | None
    mask_share: float
    delta: Mask


def measure(source: Image, edited: Image, mask: Mask, *, settings: Settings) -> Measured:
    """Measure a pair of ``(H, W, 3)`` uint8 RGB images; ``mask``: ``(H, W)`` bool, dilated."""
    height, width = mask.shape
    scale = min(1.0, settings.working_side_px / max(height, width))
    size = (max(round(width * scale), 1), max(round(height * scale), 1))
    small = cv2.resize(source, size, interpolation=cv2.INTER_AREA)
    other = cv2.resize(edited, size, interpolation=cv2.INTER_AREA)
    target = cv2.resize(mask.astype(float), size, interpolation=cv2.INTER_AREA) > 0
    matrix, flow = register(small, other, target, settings)

    shares = []
    for displacement in (None, flow) if flow is not None else (None,):
        aligned, covered = warp(other / 255, matrix, displacement)
        changed = change(small / 255, aligned, settings) & covered
        rows = ((np.arange(height) + 0.5) * size[1] / height).astype(int)
        columns = ((np.arange(width) + 0.5) * size[0] / width).astype(int)
        delta = changed[rows][:, columns]
        r_in = float(delta[mask].mean()) if mask.any() else None
        leaves_outside = mask.mean() <= settings.max_mask_share and not mask.all()
        r_out = float(delta[~mask].mean()) if leaves_outside else None
        shares.append((r_in, r_out, delta))
    return Measured(*shares[-1][:2], *shares[0][:2], float(mask.mean()), shares[-1][2])


def change(first: Floats, second: Floats, settings: Settings) -> Mask:
    """Δ of two aligned RGB images in [0, 1]: structure changed, or pixel."""
    if settings.denoise_px > 0:
        first, second = (
            gaussian(x, settings.denoise_px, mode="reflect", truncate=3.0, channel_axis=-1)
            for x in (first, second)
        )
    grey_first, grey_second = first @ REC_601, second @ REC_601
    _, similarity = structural_similarity(
        grey_first,
        grey_second,
        data_range=1.0,
        gaussian_weights=True,
        sigma=settings.ssim_window_px,
        use_sample_covariance=False,
        full=True,
    )
    rgb = np.linalg.norm(first - second, axis=-1)
    hsv = np.linalg.norm(cone(first) - cone(second), axis=-1)
    gradient = np.abs(magnitude(grey_first) - magnitude(grey_second))
    score = (
        settings.rgb_weight * rgb / math.sqrt(3)
        + settings.hsv_weight * hsv / math.sqrt(3)
        + settings.gradient_weight * gradient
    )
    changed: Mask = (similarity < settings.ssim_threshold) | (score > settings.pixel_threshold)
    return changed


def cone(rgb: Floats) -> Floats:
    """HSV as a point in its cone, whose axis is value; hue and chroma are those of the circle."""
    red, green, blue = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    along, across = red - (green + blue) / 2, math.sqrt(3) / 2 * (green - blue)
    value = np.maximum(np.maximum(red, green), blue)
    return np.stack([along, across, value], axis=-1)


def magnitude(grey: Floats) -> Floats:
    """Length of the gradient per pixel, by Scharr's operator."""
    return np.asarray(scharr(grey, mode="mirror") / math.sqrt(2))


def register(
    source: Image, edited: Image, target: Mask, settings: Settings
) -> tuple[Floats, Floats | None]:
    """The similarity transform from source to edited, and the flow that remains after it."""
    identity = np.eye(2, 3)
    grey_source = cv2.cvtColor(source, cv2.COLOR_RGB2GRAY)
    grey_edited = cv2.cvtColor(edited, cv2.COLOR_RGB2GRAY)
    left = difference(grey_source, grey_edited, ~target)
    if left is None or left < EQUAL:
        return identity, None
    matrix = identity
    candidates = transforms(grey_source, grey_edited, ~target, settings)
    best = most_gain(candidates, grey_source, grey_edited, ~target, settings)
    if best is not None:
        matrix = best
        moved, covered = warp(grey_edited.astype(float), matrix)
        left = difference(grey_source, moved, ~target & covered)
        if left is None or left < EQUAL:
            return matrix, None
        grey_edited = np.rint(moved).astype(np.uint8)
    return matrix, remaining_flow(grey_source, grey_edited, target, settings)


def warp(image: Floats, matrix: Floats, flow: Floats | None = None) -> tuple[Floats, Mask]:
    """Sample an image where each source pixel lies in it; and where that is within it."""
    height, width = image.shape[:2]
    ys, xs = np.mgrid[:height, :width].astype(float)
    at_x = matrix[0, 0] * xs + matrix[0, 1] * ys + matrix[0, 2]
    at_y = matrix[1, 0] * xs + matrix[1, 1] * ys + matrix[1, 2]
    if flow is not None:
        at_x, at_y = at_x + flow[..., 0], at_y + flow[..., 1]
    moved = cv2.remap(
        image,
        at_x.astype(np.float32),
        at_y.astype(np.float32),
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    )
    covered = (at_x >= -0.5) & (at_x <= width - 0.5) & (at_y >= -0.5) & (at_y <= height - 0.5)
    return moved, covered


def difference(
    first: NDArray[np.generic], second: NDArray[np.generic], where: Mask
) -> float | None:
    """Mean absolute difference of 8-bit images in [0, 1]; None where it is asked for nowhere."""
    apart = np.abs(first.astype(float) - second.astype(float))
    return float(apart[where].mean()) / 255 if where.any() else None


def transforms(source: Image, edited: Image, outside: Mask, settings: Settings) -> list[Floats]:
    """Transforms within bounds that ORB matches outside the target agree on."""
    if min(outside.shape) < 64:
        return []
    orb = cv2.ORB.create(nfeatures=settings.orb_features, fastThreshold=10)
    keys_a, words_a = orb.detectAndCompute(source, outside.astype(np.uint8))
    keys_b, words_b = orb.detectAndCompute(edited, outside.astype(np.uint8))
    if min(len(keys_a), len(keys_b)) < settings.min_matches:
        return []
    reach = 2 * settings.max_shift_share * math.hypot(*outside.shape) + settings.ransac_px
    matches = []
    for nearest, *others in cv2.BFMatcher(cv2.NORM_HAMMING).knnMatch(words_a, words_b, k=2):
        a, b = keys_a[nearest.queryIdx].pt, keys_b[nearest.trainIdx].pt
        clear = not others or nearest.distance < 0.85 * others[0].distance
        if clear and math.dist(a, b) <= reach:
            matches.append((a, b))
    if len(matches) < settings.min_matches:
        return []
    points_a, points_b = (np.array(points) for points in zip(*matches, strict=True))
    found = []
    for factor in (0.5, 1.0, 2.0):
        matrix, agree = cv2.estimateAffinePartial2D(
            points_a, points_b, ransacReprojThreshold=settings.ransac_px * factor
        )
        if matrix is not None and agree.sum() >= settings.min_matches:
            inliers = agree.ravel().astype(bool)
            found += [matrix, without_rotation(points_a[inliers], points_b[inliers])]
    return [matrix for matrix in found if within_bounds(matrix, outside.shape, settings)]


def without_rotation(a: Floats, b: Floats) -> Floats:
    """Least squares for scale and shift alone."""
    zeros, ones = np.zeros(len(a)), np.ones(len(a))
    system = np.concatenate(
        [np.stack([a[:, 0], ones, zeros], axis=1), np.stack([a[:, 1], zeros, ones], axis=1)]
    )
    scale, x, y = np.linalg.lstsq(system, np.concatenate([b[:, 0], b[:, 1]]), rcond=None)[0]
    return np.array([[scale, 0, x], [0, scale, y]])


def corner_shift(matrix: Floats, shape: tuple[int, ...]) -> float:
    """Mean displacement of the image's corners, in pixels."""
    right, bottom = shape[1] - 1, shape[0] - 1
    corners = np.array([[0, 0, 1], [right, 0, 1], [0, bottom, 1], [right, bottom, 1]])
    return float(np.linalg.norm(corners @ matrix.T - corners[:, :2], axis=1).mean())


def within_bounds(matrix: Floats, shape: tuple[int, ...], settings: Settings) -> bool:
    """Whether scale, rotation and shift are what an editor may bring in."""
    scale = math.hypot(matrix[0, 0], matrix[1, 0])
    rotation = abs(math.degrees(math.atan2(matrix[1, 0], matrix[0, 0])))
    return (
        1 / settings.max_scale <= scale <= settings.max_scale
        and rotation <= settings.max_rotation_deg
        and corner_shift(matrix, shape) <= settings.max_shift_share * math.hypot(*shape)
    )


def most_gain(
    candidates: list[Floats], source: Image, edited: Image, outside: Mask, settings: Settings
) -> Floats | None:
    """The transform that lessens the difference outside the target most; None: none does."""
    scale = min(1.0, settings.flow_side_px / max(outside.shape))
    size = (max(round(outside.shape[1] * scale), 1), max(round(outside.shape[0] * scale), 1))
    source = cv2.resize(source, size, interpolation=cv2.INTER_AREA)
    edited = cv2.resize(edited, size, interpolation=cv2.INTER_AREA)
    outside = cv2.resize(outside.astype(float), size, interpolation=cv2.INTER_AREA) == 1
    best, most = None, 0.0
    for matrix in candidates:
        if corner_shift(matrix, (source.shape[0] / scale, source.shape[1] / scale)) < STILL_PX:
            continue
        moved, covered = warp(edited.astype(float), matrix * [1, 1, scale])
        before = difference(source, edited, outside & covered)
        after = difference(source, moved, outside & covered)
        if before is not None and after is not None and before - after > most:
            best, most = matrix, before - after
    return best


def remaining_flow(source: Image, edited: Image, target: Mask, settings: Settings) -> Floats | None:
    """Farnebäck's flow outside the target, weighted by texture, smoothed and bounded."""
    height, width = source.shape
    limit = settings.flow_max_share * math.hypot(height, width)
    if limit < STILL_PX or min(height, width) < 16:
        return None
    scale = min(1.0, settings.flow_side_px / max(height, width))
    size = (max(round(width * scale), 16), max(round(height * scale), 16))
    source = cv2.resize(source, size, interpolation=cv2.INTER_AREA)
    edited = cv2.resize(edited, size, interpolation=cv2.INTER_AREA)
    inside = cv2.resize(target.astype(float), size, interpolation=cv2.INTER_AREA) > 0
    edited[inside] = source[inside]
    flow = cv2.calcOpticalFlowFarneback(
        source, edited, None, 0.5, 3, 15, 2, 5, 1.1, cv2.OPTFLOW_FARNEBACK_GAUSSIAN
    )
    grey = source.astype(float)
    weight = sobel(grey, mode="mirror") * 4 * math.sqrt(2) + 1
    weight[inside] = 0
    sigma = settings.flow_smooth_share * math.hypot(*size)
    x, y, total = (box_means(part * weight, sigma) for part in (flow[..., 0], flow[..., 1], 1.0))
    smooth = np.stack([x, y], axis=-1) / np.maximum(total, 1e-3)[..., None]
    smooth *= [width / size[0], height / size[1]]
    length = np.linalg.norm(smooth, axis=-1)
    if length.max() < STILL_PX:
        return None
    smooth *= np.minimum(1, limit / np.maximum(length, 1e-6))[..., None]
    return np.asarray(cv2.resize(smooth, (width, height), interpolation=cv2.INTER_LINEAR))


def box_means(values: Floats, sigma: float) -> Floats:
    """Three means over boxes, together as wide as a Gaussian: nothing reaches beyond 3 sigma."""
    for _ in range(3):
        values = uniform_filter(values, size=2 * max(round(sigma), 1) + 1, mode="reflect")
    return values
