"""Localized edit verification: how much changed inside the target region, and how much outside.

Algorithm 1 of EDCT from the mask on (arXiv 2609.17953). What the target is, and where, is for a
detector and a segmenter to say; bringing the images to one size is for ``size.fit``.
"""

from typing import Any, Literal, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from stages.imaging import change, registration
from stages.imaging.settings import Settings

Verdict = Literal["ok", "inside_unchanged", "outside_changed", "mask_too_large"]


class Localization(NamedTuple):
    """What was measured on one pair. All shares are over pixels of the source, in [0, 1]."""

    r_in: float | None
    """Share of changed pixels inside the mask; None where the mask is empty."""
    r_out: float | None
    """Share of changed pixels outside it; None where the mask leaves no outside to speak of."""
    r_in_unwarped: float | None
    """``r_in`` without the flow, after the global transform only."""
    r_out_unwarped: float | None
    """``r_out`` without the flow, after the global transform only."""
    mask_share: float
    """Share of the image inside the mask."""
    registration: registration.Outcome
    """``identity``, ``similarity`` or ``failed``: how the edited image was aligned."""
    shift_px: float
    """Mean displacement of the image corners by the global transform, in pixels of the source."""
    residual: float
    """Mean absolute difference outside the mask after alignment, in [0, 1]; over the whole image
    where the mask covers all of it."""
    delta: NDArray[np.bool_]
    """``(H, W)``: True where the image changed. What alignment moved out of view counts as
    unchanged, for nothing is known about it."""


class Comparison(NamedTuple):
    """Two aligned images compared at every pixel of the working size, before any threshold."""

    warped: change.Difference
    """After the whole alignment."""
    unwarped: change.Difference
    """After the global transform only; the same object where there is no flow."""
    covered: NDArray[np.bool_]
    """Where the aligned edited image reaches."""
    covered_unwarped: NDArray[np.bool_]
    """The same without flow."""
    alignment: registration.Alignment
    """In pixels of the working size."""
    residual: float
    """As in ``Localization``."""


def localize(
    source: NDArray[np.uint8],
    edited: NDArray[np.uint8],
    mask: NDArray[np.bool_],
    *,
    settings: Settings,
) -> Localization:
    """Measure where an edited image differs from its source.

    Parameters
    ----------
    source, edited : (H, W, 3) uint8 arrays
        RGB, of one shape. Neither is modified.
    mask : (H, W) bool array
        The target region, dilated already.
    settings : Settings

    Returns
    -------
    Localization
        The same for equal input, whatever the number of threads.

    Raises
    ------
    ValueError
        Where a shape or a type is not as above.
    """
    return count(compare(source, edited, mask, settings=settings), mask, settings=settings)


def compare(
    source: NDArray[np.uint8],
    edited: NDArray[np.uint8],
    mask: NDArray[np.bool_],
    *,
    settings: Settings,
) -> Comparison:
    """Do all of ``localize`` that comes before the thresholds of change."""
    _check(source, edited, mask)
    height, width = mask.shape
    scale = min(1.0, settings.working_side_px / max(height, width))
    size = (max(round(width * scale), 1), max(round(height * scale), 1))
    source, edited = _shrink(source, size), _shrink(edited, size)
    target = _shrink(mask.astype(np.float32), size) > 0

    alignment = registration.register(source, edited, target, settings=settings)

    moved, covered = edited, np.ones_like(target)
    if alignment.outcome == "similarity":
        moved, covered = registration.warp(edited, alignment.matrix)
    versions, covered_unwarped = [moved], covered
    if alignment.flow is not None:
        moved, covered = registration.warp(edited, alignment.matrix, alignment.flow)
        versions.append(moved)
    unwarped, *rest = change.compare(source, *versions, settings=settings)
    warped = rest[0] if rest else unwarped
    left = registration.residual(source, moved, covered & ~target)
    if left is None:
        left = registration.residual(source, moved, np.ones_like(target))
    assert left is not None  # an image has pixels
    return Comparison(warped, unwarped, covered, covered_unwarped, alignment, left)


def count(comparison: Comparison, mask: NDArray[np.bool_], *, settings: Settings) -> Localization:
    """Apply the thresholds of change to a comparison and take the shares over the mask."""
    delta = _delta(comparison.warped, comparison.covered, mask.shape, settings)
    r_in, r_out = _shares(delta, mask, settings.max_mask_share)
    r_in_unwarped, r_out_unwarped = r_in, r_out
    if comparison.unwarped is not comparison.warped:
        r_in_unwarped, r_out_unwarped = _shares(
            _delta(comparison.unwarped, comparison.covered_unwarped, mask.shape, settings),
            mask,
            settings.max_mask_share,
        )
    return Localization(
        r_in,
        r_out,
        r_in_unwarped,
        r_out_unwarped,
        float(np.count_nonzero(mask)) / mask.size,
        comparison.alignment.outcome,
        comparison.alignment.shift_px * mask.shape[1] / comparison.covered.shape[1],
        comparison.residual,
        delta,
    )


def verdict(
    r_in: float | None,
    r_out: float | None,
    mask_share: float,
    *,
    tau_in: float,
    tau_out: float,
    max_mask_share: float,
) -> Verdict:
    """Accept or reject an edit by its measurement; the first rule that applies decides.

    ``mask_too_large`` where the mask covers more than ``max_mask_share`` of the image, so that
    r_out says nothing; ``inside_unchanged`` unless r_in > tau_in (an empty mask has no inside
    that changed); ``outside_changed`` unless r_out < tau_out; else ``ok``. An edit that fails on
    both sides is ``inside_unchanged``: what was asked for is not there, wherever else it went.

    Parameters
    ----------
    r_in, r_out, mask_share : float or None
        As in ``Localization``.
    tau_in, tau_out, max_mask_share : float
        Shares in [0, 1]. The paper has tau_in = 0.10 and tau_out = 0.30.
    """
    if mask_share > max_mask_share:
        return "mask_too_large"
    if r_in is None or r_in <= tau_in:
        return "inside_unchanged"
    if r_out is None:
        return "mask_too_large"
    return "ok" if r_out < tau_out else "outside_changed"


def _check(source: NDArray[np.uint8], edited: NDArray[np.uint8], mask: NDArray[np.bool_]) -> None:
    for name, image in (("source", source), ("edited", edited)):
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or not image.size:
            raise ValueError(
                f"{name} must be a uint8 array (H, W, 3), not {image.dtype} {image.shape}"
            )
    if source.shape != edited.shape:
        raise ValueError(f"source is {source.shape} and edited {edited.shape}: fit one first")
    if mask.shape != source.shape[:2] or mask.dtype != np.bool_:
        raise ValueError(
            f"mask must be a bool array {source.shape[:2]}, not {mask.dtype} {mask.shape}"
        )


def _shrink(image: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    if (image.shape[1], image.shape[0]) == size:
        return image
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), dtype=image.dtype)


def _delta(
    difference: change.Difference,
    covered: NDArray[np.bool_],
    shape: tuple[int, ...],
    settings: Settings,
) -> NDArray[np.bool_]:
    """Δ in the size of the source."""
    seen = change.changed(difference, settings=settings) & covered
    if seen.shape == shape:
        return seen
    size = (shape[1], shape[0])
    large = cv2.resize(seen.view(np.uint8), size, interpolation=cv2.INTER_NEAREST_EXACT)
    return np.asarray(large, dtype=np.bool_)


def _shares(
    delta: NDArray[np.bool_], mask: NDArray[np.bool_], max_mask_share: float
) -> tuple[float | None, float | None]:
    """Share of changed pixels inside and outside."""
    inside = int(np.count_nonzero(mask))
    outside = mask.size - inside
    changed = int(np.count_nonzero(delta))
    changed_inside = int(np.count_nonzero(delta & mask))
    r_in = changed_inside / inside if inside else None
    r_out = (changed - changed_inside) / outside if inside <= max_mask_share * mask.size else None
    return r_in, (r_out if outside else None)
