"""Resampling of clusters: one bootstrap for every statistic in this room.

All statistics here are functions of column totals over clusters: a mean is a total of scores over
a total of counts, a kappa is read off a total confusion matrix. So a cluster is one row of a
table, drawing clusters with replacement is drawing rows, and what belongs to a cluster travels
with it. This is the pairs cluster bootstrap of Cameron, Gelbach & Miller 2008
(doi:10.1162/rest.90.3.414); percentile and BCa ends follow Efron & Tibshirani 1993,
doi:10.1201/9780429246593.

Clusters that look alike need no drawing one by one: how often each kind of row comes up in a
resample is multinomial. That is the same distribution, at a cost that follows the number of
kinds, and it makes the draws independent of the order and the names of the clusters.
"""

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from stages.stats.interval import FloatArray, IntArray

Statistic = Callable[[FloatArray], FloatArray]
"""Column totals ``(draws, columns)`` → values ``(draws,)`` or ``(draws, values)``."""

CHUNK_FLOATS = 2**20
"""Largest temporary array of a resampling step, in numbers (8 MiB)."""


def stream(seed: int, *names: str) -> np.random.Generator:
    """A generator of its own for each named row of a table.

    Rows drawn from one shared generator would change when a row is added before them. Equal seed
    and names give equal draws on every machine; 0 is a seed like any other.
    """
    text = "\x1f".join(names).encode()
    words = np.frombuffer(hashlib.sha256(text).digest(), dtype="<u4")
    return np.random.default_rng([seed, *words.tolist()])


def as_scores(values: ArrayLike) -> FloatArray:
    """Values as a float vector ``(n,)``; ValueError where one is missing or infinite."""
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1:
        raise ValueError(f"scores must be a vector, not of shape {scores.shape}")
    if not np.isfinite(scores).all():
        raise ValueError("a score is missing or infinite: leave lost rows out before estimating")
    return scores


def cluster_index(clusters: ArrayLike, n: int) -> tuple[IntArray, int]:
    """Number clusters from 0: ``(index (n,), how many)``. Any sortable ids serve."""
    ids = np.asarray(clusters)
    if ids.shape != (n,):
        raise ValueError(f"{n} rows need {n} cluster ids, not an array of shape {ids.shape}")
    names, index = np.unique(ids, return_inverse=True)
    return index.astype(np.int64), len(names)


def cluster_totals(columns: ArrayLike, clusters: ArrayLike) -> FloatArray:
    """Sum the rows of each cluster: ``(n, columns)`` → ``(n_clusters, columns)``, by cluster id.

    Rows are added in sorted order, so that their order in the input cannot show in the last digit.
    """
    table = np.asarray(columns, dtype=np.float64)
    index, n_clusters = cluster_index(clusters, len(table))
    if n_clusters == 0:
        return np.zeros((0, table.shape[1]))
    order = np.lexsort((*table.T, index))
    starts = np.searchsorted(index[order], np.arange(n_clusters))
    return np.add.reduceat(table[order], starts, axis=0)


def bootstrap(
    rows: FloatArray,
    statistic: Statistic,
    *,
    rng: np.random.Generator,
    n_resamples: int,
    strata: ArrayLike | None = None,
) -> FloatArray:
    """Draw a statistic of column totals when clusters are drawn with replacement.

    Parameters
    ----------
    rows : array (n_clusters, columns)
        One row a cluster; at least one.
    statistic : callable
        Gets column totals ``(draws, columns)``; a draw that has no value may be NaN.
    strata : array (n_clusters,), optional
        Numbers of clusters that are fixed by design: drawn within each stratum, then added.

    Returns
    -------
    array (n_resamples,) or (n_resamples, values)
        Memory beyond this is bounded by `CHUNK_FLOATS`, whatever ``n_resamples`` is.
    """
    if n_resamples < 1:
        raise ValueError(f"n_resamples must be at least 1, not {n_resamples}")
    parts = [rows]
    if strata is not None:
        index, n_strata = cluster_index(strata, len(rows))
        parts = [rows[index == stratum] for stratum in range(n_strata)]
    kinds = [np.unique(part, axis=0, return_counts=True) for part in parts]
    chunk = max(1, CHUNK_FLOATS // max(rows.shape))
    draws = []
    for start in range(0, n_resamples, chunk):
        size = min(chunk, n_resamples - start)
        totals = np.zeros((size, rows.shape[1]))
        for kind, frequency in kinds:
            totals += _resampled_totals(kind, frequency, rng=rng, size=size)
        draws.append(statistic(totals))
    return np.concatenate(draws)


def _resampled_totals(
    kinds: FloatArray, frequency: IntArray, *, rng: np.random.Generator, size: int
) -> FloatArray:
    """Column totals ``(size, columns)`` of resamples of ``frequency.sum()`` rows."""
    n = int(frequency.sum())
    if 2 * len(kinds) <= n:
        # The last count follows from the others and costs nothing: let it be the largest.
        order = np.argsort(frequency, kind="stable")
        times = rng.multinomial(n, frequency[order] / n, size=size)
        return times.astype(np.float64) @ kinds[order]
    # With hardly any row twice, drawing indices is quicker; scipy.stats.bootstrap draws the same.
    rows = np.repeat(kinds, frequency, axis=0)
    drawn = rng.integers(0, n, (size, n), dtype=np.int32) + np.arange(size)[:, None] * n
    times = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
    return times.astype(np.float64) @ rows


def percentile_ends(draws: FloatArray, confidence: float) -> tuple[float, float]:
    """The central ``confidence`` share of the draws, between linearly interpolated quantiles."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)
