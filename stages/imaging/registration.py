"""Aligning an edited image to its source, so that an editor's small global shift is no change.

First one similarity transform for the whole image, then a smooth and bounded flow. Neither looks
at the target region, where the images are meant to differ; there the flow is continued from
around it.
"""

import math
from typing import Literal, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from stages.imaging.mask import diagonal
from stages.imaging.settings import Settings

Outcome = Literal["identity", "similarity", "failed"]

NOTHING_TO_ALIGN = 0.004
"""Mean difference outside the target, in [0, 1], below which images are aligned as they are: it
is what rounding and mild compression alone leave."""
_NEGLIGIBLE_PX = 0.1
_MATCH_RATIO = 0.85
_SMALLEST_SIDE_PX = 64  # ORB looks at no keypoint within 31 pixels of the border
_TOLERANCES = (0.5, 1.0, 2.0)
_SEED = 0


class Alignment(NamedTuple):
    """How an edited image lies over its source, both of them ``(H, W)``."""

    outcome: Outcome
    """``identity``: compared as it is, which was best; ``similarity``: a transform was applied;
    ``failed``: the images differ, and no transform within bounds was found."""
    matrix: NDArray[np.float64]
    """``(2, 3)``: source coordinates (x, y, 1) to coordinates in the edited image."""
    flow: NDArray[np.float32] | None
    """``(H, W, 2)``: further displacement (x, y) in pixels at each source pixel; None: none."""
    shift_px: float
    """Mean displacement of the four image corners by the matrix, in pixels."""


def register(
    source: NDArray[np.uint8],
    edited: NDArray[np.uint8],
    target: NDArray[np.bool_],
    *,
    settings: Settings,
) -> Alignment:
    """Align two ``(H, W, 3)`` uint8 RGB images by what lies outside ``target`` (``(H, W)`` bool).

    References
    ----------
    ORB: Rublee et al. 2011, doi:10.1109/ICCV.2011.6126544. Flow: Farnebäck 2003,
    doi:10.1007/3-540-45103-X_50.
    """
    identity = np.eye(2, 3, dtype=np.float64)
    grey_source = cv2.cvtColor(source, cv2.COLOR_RGB2GRAY)
    grey_edited = cv2.cvtColor(edited, cv2.COLOR_RGB2GRAY)
    outside = np.logical_not(target)
    before = residual(grey_source, grey_edited, outside)
    if before is None or before < NOTHING_TO_ALIGN:
        return Alignment("identity", identity, None, 0.0)

    shape = target.shape
    outcome: Outcome = "identity"
    matrix = identity
    proposals = _proposals(grey_source, grey_edited, outside, settings)
    if not proposals:
        outcome = "failed"
    worth_trying = [found for found in proposals if _mean_shift(found, shape) >= _NEGLIGIBLE_PX]
    best = _best(worth_trying, grey_source, grey_edited, outside, settings)
    if best is not None:
        matrix, outcome = best, "similarity"
        grey_edited, covered = warp(grey_edited, matrix)
        before = residual(grey_source, grey_edited, outside & covered)
        if before is None or before < NOTHING_TO_ALIGN:
            return Alignment(outcome, matrix, None, _mean_shift(matrix, shape))
    flow = _flow(grey_source, grey_edited, target, settings)
    return Alignment(outcome, matrix, flow, _mean_shift(matrix, shape))


def warp(
    image: NDArray[np.uint8],
    matrix: NDArray[np.float64],
    flow: NDArray[np.float32] | None = None,
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Bring an edited image to its source's frame.

    Returns
    -------
    (H, W[, 3]) uint8 array
        The edited image, sampled bilinearly where each source pixel lies in it.
    (H, W) bool array
        Where the edited image reaches; elsewhere its border was repeated.
    """
    height, width = image.shape[:2]
    xs, ys = _grid(height, width)
    a = matrix.astype(np.float32)
    map_x = (a[0, 0] * xs + a[0, 2]) + a[0, 1] * ys
    map_y = (a[1, 1] * ys + a[1, 2]) + a[1, 0] * xs
    if flow is not None:
        map_x += flow[..., 0]
        map_y += flow[..., 1]
    moved = cv2.remap(image, map_x, map_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    # Half a pixel beyond the outermost centres still belongs to the outermost pixels.
    covered = cv2.bitwise_and(
        cv2.inRange(map_x, -0.5, width - 0.5), cv2.inRange(map_y, -0.5, height - 0.5)
    )
    return np.asarray(moved, dtype=np.uint8), np.asarray(covered, dtype=np.bool_)


def residual(
    first: NDArray[np.uint8], second: NDArray[np.uint8], where: NDArray[np.bool_]
) -> float | None:
    """Mean absolute difference where asked, in [0, 1]; None where that is nowhere."""
    if not where.any():
        return None
    means = cv2.mean(cv2.absdiff(first, second), mask=where.view(np.uint8))
    return float(np.mean(means[: _bands(first)])) / 255


def _bands(image: NDArray[np.uint8]) -> int:
    return 1 if image.ndim == 2 else image.shape[2]


def _grid(height: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    xs = np.arange(width, dtype=np.float32)[None, :]
    ys = np.arange(height, dtype=np.float32)[:, None]
    return xs, ys


def _mean_shift(matrix: NDArray[np.float64], shape: tuple[int, ...]) -> float:
    height, width = shape[:2]
    corners = np.array(
        [[x, y, 1.0] for x in (0, width - 1) for y in (0, height - 1)], dtype=np.float64
    )
    return float(np.linalg.norm(corners @ matrix.T - corners[:, :2], axis=1).mean())


def _proposals(
    source: NDArray[np.uint8],
    edited: NDArray[np.uint8],
    outside: NDArray[np.bool_],
    settings: Settings,
) -> list[NDArray[np.float64]]:
    """Transforms within bounds that enough ORB matches agree on; empty where none is believable.

    A re-rendered surface gives many matches that are only about right, so one tolerance for
    agreement fits no image: three are tried, each with and without rotation, which editors
    hardly ever bring in.
    """
    if min(outside.shape) < _SMALLEST_SIDE_PX:
        return []
    where = outside.astype(np.uint8)
    orb = cv2.ORB.create(nfeatures=int(settings.orb_features), fastThreshold=10)
    keys_a, words_a = orb.detectAndCompute(source, where)
    keys_b, words_b = orb.detectAndCompute(edited, where)
    if words_a is None or words_b is None or min(len(keys_a), len(keys_b)) < settings.min_matches:
        return []
    points_a, points_b = (
        np.asarray(cv2.KeyPoint.convert(keys), dtype=np.float32) for keys in (keys_a, keys_b)
    )
    pairs = _matches(words_a, words_b)
    points_a, points_b = points_a[pairs[:, 0]], points_b[pairs[:, 1]]
    # What lies farther apart than the bounds allow cannot be explained by a transform in bounds.
    reach = 2 * settings.max_shift_share * diagonal(outside.shape) + settings.ransac_px
    near = np.linalg.norm(points_a - points_b, axis=1) <= reach
    points_a, points_b = points_a[near], points_b[near]
    if len(points_a) < settings.min_matches:
        return []
    proposals = []
    for factor in _TOLERANCES:
        cv2.setRNGSeed(_SEED)
        matrix, agree = cv2.estimateAffinePartial2D(
            points_a,
            points_b,
            method=cv2.RANSAC,
            ransacReprojThreshold=float(settings.ransac_px * factor),
        )
        if matrix is None or int(agree.sum()) < settings.min_matches:
            continue
        chosen = agree.ravel().astype(bool)
        proposals += [matrix, _upright(points_a[chosen], points_b[chosen])]
    return [found for found in proposals if _within(found, outside.shape, settings)]


def _upright(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
    """The least-squares scale and shift between two sets of points."""
    centre_a, centre_b = first.mean(axis=0), second.mean(axis=0)
    spread = float(np.sum((first - centre_a) ** 2))
    scale = float(np.sum((first - centre_a) * (second - centre_b))) / max(spread, 1e-6)
    shift = centre_b - scale * centre_a
    return np.array([[scale, 0, shift[0]], [0, scale, shift[1]]], dtype=np.float64)


def _within(matrix: NDArray[np.float64], shape: tuple[int, ...], settings: Settings) -> bool:
    scale = math.hypot(matrix[0, 0], matrix[1, 0])
    rotation = abs(math.degrees(math.atan2(matrix[1, 0], matrix[0, 0])))
    return (
        1 / settings.max_scale <= scale <= settings.max_scale
        and rotation <= settings.max_rotation_deg
        and _mean_shift(matrix, shape) <= settings.max_shift_share * diagonal(shape)
    )


def _best(
    proposals: list[NDArray[np.float64]],
    source: NDArray[np.uint8],
    edited: NDArray[np.uint8],
    outside: NDArray[np.bool_],
    settings: Settings,
) -> NDArray[np.float64] | None:
    """The proposal that leaves least difference outside the target; None: none beats identity."""
    scale = min(1.0, settings.flow_side_px / max(outside.shape))
    size = (max(round(outside.shape[1] * scale), 1), max(round(outside.shape[0] * scale), 1))
    source, edited = (
        np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
        for image in (source, edited)
    )
    outside = cv2.resize(outside.astype(np.float32), size, interpolation=cv2.INTER_AREA) == 1
    best, gain = None, 0.0
    for proposal in proposals:
        small = proposal.copy()
        small[:, 2] *= scale
        moved, covered = warp(edited, small)
        seen = outside & covered
        before, after = residual(source, edited, seen), residual(source, moved, seen)
        if before is not None and after is not None and before - after > gain:
            best, gain = proposal, before - after
    return best


def _matches(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.intp]:
    """``(n, 2)`` indices of binary words and their clearly nearest neighbours, of two or more."""
    distance, index = cv2.batchDistance(first, second, cv2.CV_32S, normType=cv2.NORM_HAMMING, K=2)
    here = np.flatnonzero(distance[:, 0] < _MATCH_RATIO * distance[:, 1])
    return np.stack([here, index[here, 0]], axis=1).astype(np.intp)


def _flow(
    source: NDArray[np.uint8],
    edited: NDArray[np.uint8],
    target: NDArray[np.bool_],
    settings: Settings,
) -> NDArray[np.float32] | None:
    """Smooth, bounded displacement from source to edited, estimated outside the target only."""
    height, width = source.shape
    limit = settings.flow_max_share * diagonal(source.shape)
    if limit < _NEGLIGIBLE_PX or min(height, width) < 16:
        return None
    scale = min(1.0, settings.flow_side_px / max(height, width))
    size = (max(round(width * scale), 16), max(round(height * scale), 16))
    small_source = cv2.resize(source, size, interpolation=cv2.INTER_AREA)
    small_edited = cv2.resize(edited, size, interpolation=cv2.INTER_AREA)
    inside = cv2.resize(target.astype(np.float32), size, interpolation=cv2.INTER_AREA) > 0
    np.copyto(small_edited, small_source, where=inside)
    flow = cv2.calcOpticalFlowFarneback(
        small_source, small_edited, None, 0.5, 3, 15, 2, 5, 1.1, cv2.OPTFLOW_FARNEBACK_GAUSSIAN
    )
    # Where there is no texture, flow is a guess: texture weighs, the target does not count.
    dx = cv2.Sobel(small_source, cv2.CV_32F, 1, 0)
    dy = cv2.Sobel(small_source, cv2.CV_32F, 0, 1)
    weight = cv2.magnitude(dx, dy) + np.float32(1.0)
    np.copyto(weight, 0.0, where=inside)
    sigma = settings.flow_smooth_share * diagonal((size[1], size[0]))
    total = np.maximum(_broad_blur(weight, sigma), np.float32(1e-3))
    x, y = (
        _broad_blur(cv2.multiply(part, weight), sigma) / total * np.float32(enlarged)
        for part, enlarged in zip(cv2.split(flow), (width / size[0], height / size[1]), strict=True)
    )
    length = cv2.magnitude(x, y)
    if float(length.max()) < _NEGLIGIBLE_PX:
        return None
    bound = np.minimum(np.float32(1.0), limit / np.maximum(length, np.float32(1e-6)))
    bounded = cv2.merge([cv2.multiply(x, bound), cv2.multiply(y, bound)])
    return np.asarray(
        cv2.resize(bounded, (width, height), interpolation=cv2.INTER_LINEAR), dtype=np.float32
    )


def _broad_blur(values: NDArray[np.float32], sigma: float) -> NDArray[np.float32]:
    """Gaussian blur whose cost does not grow with sigma: three box means of equal variance."""
    size = 2 * max(round(sigma), 1) + 1
    for _ in range(3):
        values = cv2.blur(values, (size, size), borderType=cv2.BORDER_REFLECT)
    return np.asarray(values, dtype=np.float32)
