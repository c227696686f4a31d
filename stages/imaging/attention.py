"""From attention over image tokens to a map over the image, as PROTOCOL section 8 has it.

Covers what happens to numbers after a model gave them: sinks are set aside, the layer's mean is
taken off, heads are weighted, the result is squared, cut and enlarged. Which query and which layers
is the caller's choice.
"""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class AttentionMap(NamedTuple):
    """A map on the grid of image tokens."""

    values: Floats
    """``(rows, columns)``, at least 0, the sum is 1; all 0 where nothing stood out."""
    sinks: Bools
    """``(rows, columns)``: tokens that were set aside."""


def find_sinks(background: Floats, ratio: float | None) -> Bools:
    """Image tokens that draw attention whatever is asked.

    Parameters
    ----------
    background : array (layers, tokens)
        Mean attention that each image token gets in each layer from tokens that do not ask about
        the image, e.g. from the system's or the format's.
    ratio : float or None
        How many times the layer's median a token must get, in the median layer; None: no token is
        a sink.

    Returns
    -------
    array (tokens,) of bool
    """
    if ratio is None or background.size == 0:
        return np.zeros(background.shape[-1], np.bool_)
    usual = np.maximum(np.median(background, axis=1, keepdims=True), 1e-12)
    sinks: Bools = np.median(background / usual, axis=0) > ratio
    return sinks


def differential_map(
    attention: Floats, grid: tuple[int, int], *, sinks: Bools | None = None, drop: float = 25.0
) -> AttentionMap:
    """The differential attention map of one query.

    Steps: sinks are set aside and each head's rest is scaled to sum 1; from every layer its mean
    over heads and tokens is subtracted, and what lies below it is 0 (squared, a lack of attention
    would look like attention); heads are weighted by their variance over the image; their sum is
    squared; values below a percentile are dropped; the map is scaled to sum 1.

    Parameters
    ----------
    attention : array (layers, heads, tokens)
        Attention of the query over the image tokens, row by row from above left, at least 0.
    grid : (int, int)
        Rows and columns of tokens.
    sinks : array (tokens,) of bool, optional
        Tokens to set aside.
    drop : float
        Percentile below which values are dropped, in [0, 100].

    Raises
    ------
    ValueError
        If shapes do not fit, or there is no layer (a model that is not in eager mode gives none).
    """
    if attention.ndim != 3 or attention.shape[0] == 0 or attention.shape[1] == 0:
        raise ValueError(f"attention of shape {attention.shape} has no layers, heads and tokens")
    if attention.shape[2] != grid[0] * grid[1]:
        raise ValueError(f"{attention.shape[2]} tokens do not fill a grid of {grid}")
    if not np.isfinite(attention).all() or (attention < 0).any():
        raise ValueError("attention must be finite and at least 0")
    aside = np.zeros(attention.shape[2], np.bool_) if sinks is None else sinks
    content = np.where(aside, 0.0, attention)
    total = content.sum(axis=2, keepdims=True)
    content = np.divide(content, total, out=np.zeros_like(content), where=total > 0)
    left = max(1, int((~aside).sum()))
    mean = content.sum(axis=(1, 2), keepdims=True) / (content.shape[1] * left)
    above = np.where(aside, 0.0, np.maximum(content - mean, 0.0))
    weights = np.where(aside, np.nan, content)
    variance = np.nan_to_num(np.nanvar(weights, axis=2, keepdims=True)) if left > 1 else above * 0
    values = (above * variance).sum(axis=(0, 1)) ** 2
    values[values < np.percentile(values, drop)] = 0.0
    values = values / values.sum() if values.sum() > 0 else values
    return AttentionMap(values.reshape(grid), aside.reshape(grid))


def enlarge(values: Floats, size: tuple[int, int]) -> NDArray[np.float32]:
    """Enlarge a map to ``(height, width)`` bicubically; no value below 0, the sum is 1 or 0."""
    height, width = size
    large = cv2.resize(values.astype(np.float32), (width, height), interpolation=cv2.INTER_CUBIC)
    large = np.maximum(large, 0)
    total = float(large.sum(dtype=np.float64))
    return np.asarray(large / total if total > 0 else large, np.float32)


def share_inside(enlarged: NDArray[np.float32], mask: Bools) -> float | None:
    """Share of an enlarged map inside a mask ``(H, W)``, in [0, 1]; None for an empty map."""
    if enlarged.shape != mask.shape:
        raise ValueError(f"a map of {enlarged.shape} and a mask of {mask.shape} do not fit")
    total = float(enlarged.sum(dtype=np.float64))
    return float(enlarged[mask].sum(dtype=np.float64)) / total if total > 0 else None
