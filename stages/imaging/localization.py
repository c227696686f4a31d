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
    _check(source, edited, mask)
    height, width = mask.shape
    scale = min(1.0, settings.working_side_px / max(height, width))
    size = (max(round(width * scale), 1), max(round(height * scale), 1))
    small_source, small_edited = _shrink(source, size), _shrink(edited, size)
    target = _shrink(mask.astype(np.float32), size) > 0

    alignment = registration.register(small_source, small_edited, target, settings=settings)
    reference = change.describe(small_source, settings=settings)

    def compare(
        flow: NDArray[np.float32] | None,
    ) -> tuple[NDArray[np.bool_], NDArray[np.uint8], NDArray[np.bool_]]:
        moved, covered = small_edited, np.ones_like(target)
        if flow is not None or alignment.outcome == "similarity":
            moved, covered = registration.warp(small_edited, alignment.matrix, flow)
        seen = change.changed(
            reference, change.describe(moved, settings=settings), settings=settings
        )
        return seen & covered, moved, covered

    unwarped, moved, covered = compare(None)
    warped = unwarped
    if alignment.flow is not None:
        warped, moved, covered = compare(alignment.flow)
    outside = covered & ~target
    left = registration.residual(
        small_source, moved, outside if outside.any() else np.ones_like(target)
    )
    delta, delta_unwarped = _enlarge(warped, mask.shape), _enlarge(unwarped, mask.shape)
    r_in, r_out = _shares(delta, mask, settings.max_mask_share)
    r_in_unwarped, r_out_unwarped = _shares(delta_unwarped, mask, settings.max_mask_share)
    return Localization(
        r_in,
        r_out,
        r_in_unwarped,
        r_out_unwarped,
        float(np.count_nonzero(mask)) / mask.size,
        alignment.outcome,
        alignment.shift_px * width / size[0],
        left if left is not None else 0.0,
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


def _enlarge(seen: NDArray[np.bool_], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    if seen.shape == shape:
        return seen
    large = cv2.resize(
        seen.view(np.uint8), (shape[1], shape[0]), interpolation=cv2.INTER_NEAREST_EXACT
    )
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
