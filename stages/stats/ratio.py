"""Means without bounds, and ratios of paired means: losses, and how much larger one is."""

import numpy as np
from numpy.typing import ArrayLike

from stages.stats.interval import FloatArray, Interval, not_estimable
from stages.stats.resampling import as_scores, bootstrap, percentile_ends

_METHOD = "percentile bootstrap over samples"


def mean_of(
    values: ArrayLike,
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
) -> Interval:
    """Mean of one number a sample ``(n,)``, which may be of any size."""
    numbers = as_scores(values)
    return ratio_of_means(
        numbers,
        np.ones_like(numbers),
        rng=rng,
        confidence=confidence,
        n_resamples=n_resamples,
    )


def ratio_of_means(
    first: ArrayLike,
    second: ArrayLike,
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
) -> Interval:
    """Mean of the first over mean of the second, both on the same samples.

    Parameters
    ----------
    first, second : array (n,)
        One number a sample each; the pairs travel together when samples are drawn. Those of the
        second are at least 0.
    rng : numpy.random.Generator
    confidence : float
    n_resamples : int

    Returns
    -------
    Interval
        No mean where there is no sample, or where the second's mean is 0.
    """
    above, below = as_scores(first), as_scores(second)
    if above.shape != below.shape:
        raise ValueError(f"{len(above)} and {len(below)} numbers are no pairs")
    if (below < 0).any():
        raise ValueError("the second numbers must be at least 0")
    if not len(above):
        return not_estimable("nothing was scored", confidence=confidence)
    if below.sum() <= 0:
        return not_estimable("the second mean is 0", confidence=confidence)
    # Sorted, so that the names of the samples cannot show in the last digit.
    order = np.lexsort((below, above))
    rows: FloatArray = np.column_stack([above[order], below[order]])
    mean = float(rows[:, 0].sum() / rows[:, 1].sum())
    if len(rows) == 1:
        return not_estimable("a single sample", confidence=confidence, mean=mean, n_clusters=1, n=1)

    def ratio(totals: FloatArray) -> FloatArray:
        found: FloatArray = totals[:, 0] / np.maximum(totals[:, 1], np.finfo(np.float64).tiny)
        return found

    draws = bootstrap(rows, ratio, rng=rng, n_resamples=n_resamples)
    low, high = percentile_ends(draws, confidence)
    return Interval(mean, low, high, confidence, _METHOD, len(rows), len(rows))
