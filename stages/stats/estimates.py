"""Means of scores that come in clusters, with intervals.

The estimand of the paper is the mean of per-sample means: every sample (image-question pair)
counts once, however many of its edits were scored. The mean over interventions stands beside it.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stages.stats.interval import (
    FloatArray,
    Interval,
    all_equal,
    normal_quantile,
    not_estimable,
    student_quantile,
)
from stages.stats.resampling import (
    as_scores,
    bootstrap,
    cluster_index,
    cluster_totals,
    percentile_ends,
)

Estimand = Literal["sample_mean", "intervention_mean"]
Method = Literal["adaptive", "expanded", "percentile", "bca", "t", "wilson"]

RARE = 10
"""Samples' worth of the rarer outcome below which ``adaptive`` leaves the bootstrap."""

ALIKE = 1e-12
"""Cluster means closer than this are one value."""


class Spread(NamedTuple):
    """A ratio of totals over clusters with its linearised standard error."""

    value: float
    error: float


def sample_mean(scores: ArrayLike, clusters: ArrayLike) -> float | None:
    """Mean over samples of the mean over a sample's scores (the paper); None without scores."""
    return _point(_rows(scores, clusters, "sample_mean"))


def intervention_mean(scores: ArrayLike) -> float | None:
    """Mean over all scores; None where there are none."""
    values = as_scores(scores)
    return float(np.sort(values).mean()) if len(values) else None


def estimate(
    scores: ArrayLike,
    clusters: ArrayLike,
    *,
    rng: np.random.Generator,
    estimand: Estimand = "sample_mean",
    method: Method = "percentile",
    confidence: float = 0.95,
    n_resamples: int = 10_000,
    strata: ArrayLike | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Interval:
    """Estimate a mean and its interval, the scores of a sample travelling together.

    Parameters
    ----------
    scores : array (n,)
        Scores that exist, within ``bounds``; what was lost is left out by the caller.
    clusters : array (n,)
        The sample that each score belongs to.
    method : str
        ``percentile``: cluster bootstrap, as published. ``expanded``: the same draws at the levels
        Φ(−√(G/(G−1))·t), which make good what a percentile interval of few clusters lacks in
        width (Hesterberg 2015, doi:10.1080/00031305.2015.1089789).
        ``adaptive``: ``wilson`` where less than `RARE` samples' worth of the rarer outcome were
        seen, as the bootstrap has too little to draw from there, else ``expanded``. ``bca``: the
        draws of ``percentile``, corrected for bias and skew (Efron & Tibshirani 1993, ch. 14).
        ``t``: linearised (CR1) standard error with Student's t of n_clusters − 1 degrees of
        freedom. ``wilson``: score interval at the effective number of trials p(1−p)/se² (compared
        by Franco et al. 2019, PMC6690503), the better choice for few samples with a mean near a
        bound. In simulations of correlated 0/1 scores (60 and 300 samples, one or two edits, 2,000
        replications) percentile intervals covered 93 to 96 % for means from 0.1 to 0.9; at 0.05 or
        0.95 with 60 samples 92 to 99.5 %, where ``wilson`` kept 93 to 97 %.
    strata : array (n,), optional
        The stratum (domain) of each score, where the numbers by domain are fixed by design;
        constant within a sample. Percentile only.
    bounds : (float, float)
        What a score can be; ends are kept within it.

    Returns
    -------
    Interval
        No scores: no mean. One sample: a mean without ends. All samples alike: see `all_equal`.

    Raises
    ------
    ValueError
        If shapes disagree, a score is missing or out of bounds, or ``strata`` meets another method.
    """
    if strata is not None and method != "percentile":
        raise ValueError(f"strata are not supported by the {method} interval")
    normal_quantile(confidence)
    rows = _rows(scores, clusters, estimand, bounds)
    n, n_clusters, mean = np.size(np.asarray(scores)), len(rows), _point(rows)
    if mean is None:
        return not_estimable("nothing was scored", confidence=confidence)
    if n_clusters == 1:
        return not_estimable("a single sample", confidence=confidence, mean=mean, n_clusters=1, n=n)
    if np.ptp(rows[:, 0] / rows[:, 1]) < ALIKE:
        return all_equal(mean, bounds=bounds, confidence=confidence, n_clusters=n_clusters, n=n)
    if method == "adaptive":
        method = "wilson" if _is_rare(rows, bounds) else "expanded"
    if method == "t":
        low, high, name = *_t_ends(rows, confidence), "clustered t"
    elif method == "wilson":
        low, high, name = *_wilson_ends(rows, confidence, bounds), "clustered wilson"
    else:
        by_cluster = None if strata is None else _strata_by_cluster(strata, clusters)
        draws = bootstrap(rows, _ratio, rng=rng, n_resamples=n_resamples, strata=by_cluster)
        ends = percentile_ends(draws, confidence)
        name = "percentile bootstrap over samples"
        if method == "expanded":
            ends = percentile_ends(draws, _expanded(confidence, n_clusters))
            name = "expanded percentile bootstrap over samples"
        if strata is not None:
            name += " within strata"
        if method == "bca" and (corrected := _bca_ends(rows, draws, confidence)) is not None:
            ends, name = corrected, "BCa bootstrap over samples"
        low, high = ends
    low, high = max(low, bounds[0]), min(high, bounds[1])
    return Interval(mean, low, high, confidence, name, n_clusters, n)


def spread(rows: FloatArray) -> Spread:
    """Ratio of two column totals and its CR1 standard error.

    √(G/(G−1) Σ (s_g − r·c_g)²) / Σ c_g over the G clusters (Cameron, Gelbach & Miller 2008,
    section II). With equal counts it is the ordinary standard error of a mean.

    Parameters
    ----------
    rows : array (G, 2)
        Sum and count of each cluster, G at least 2.
    """
    total = rows.sum(axis=0)
    value = total[0] / total[1]
    residuals = rows[:, 0] - value * rows[:, 1]
    factor = len(rows) / (len(rows) - 1)
    return Spread(float(value), float(np.sqrt(factor * (residuals**2).sum()) / total[1]))


def _rows(
    scores: ArrayLike,
    clusters: ArrayLike,
    estimand: Estimand,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> FloatArray:
    """Numerator and denominator of each cluster: ``(n_clusters, 2)``."""
    values = as_scores(scores)
    if len(values) and not bounds[0] <= values.min() <= values.max() <= bounds[1]:
        raise ValueError(f"scores must lie within {bounds}")
    rows = cluster_totals(np.column_stack([values, np.ones(len(values))]), clusters)
    if estimand == "intervention_mean":
        return rows
    return np.column_stack([rows[:, 0] / rows[:, 1], np.ones(len(rows))])


def _point(rows: FloatArray) -> float | None:
    if not len(rows):
        return None
    # Sorted, so that the names of the clusters cannot show in the last digit.
    return float(np.sort(rows[:, 0]).sum() / rows[:, 1].sum())


def _ratio(totals: FloatArray) -> FloatArray:
    ratio: FloatArray = totals[:, 0] / totals[:, 1]
    return ratio


def _is_rare(rows: FloatArray, bounds: tuple[float, float]) -> bool:
    """Whether the mean is so near a bound that hardly any sample lies off it."""
    share = (rows[:, 0].sum() / rows[:, 1].sum() - bounds[0]) / (bounds[1] - bounds[0])
    return bool(len(rows) * min(share, 1 - share) < RARE)


def _expanded(confidence: float, n_clusters: int) -> float:
    """Level at which the percentiles of so many clusters are as wide as Student's t asks."""
    from scipy.special import ndtr

    wider = np.sqrt(n_clusters / (n_clusters - 1)) * student_quantile(confidence, n_clusters - 1)
    return float(1 - 2 * ndtr(-wider))


def _t_ends(rows: FloatArray, confidence: float) -> tuple[float, float]:
    value, error = spread(rows)
    half = student_quantile(confidence, len(rows) - 1) * error
    return value - half, value + half


def _wilson_ends(
    rows: FloatArray, confidence: float, bounds: tuple[float, float]
) -> tuple[float, float]:
    """Wilson's interval on the scale of the bounds, with n such that √(p(1−p)/n) = se."""
    value, error = spread(rows)
    z, width = normal_quantile(confidence), bounds[1] - bounds[0]
    share = (value - bounds[0]) / width
    n = share * (1 - share) / (error / width) ** 2
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return bounds[0] + width * float(centre - half), bounds[0] + width * float(centre + half)


def _bca_ends(rows: FloatArray, draws: FloatArray, confidence: float) -> tuple[float, float] | None:
    """Bias-corrected and accelerated ends; None where the correction does not exist."""
    from scipy.special import ndtr, ndtri

    value = _ratio(rows.sum(axis=0, keepdims=True))[0]
    # Draws that are the value but for rounding are ties, and count half.
    share = ((draws < value - ALIKE).mean() + (draws <= value + ALIKE).mean()) / 2
    if not 0 < share < 1:
        return None
    bias = ndtri(share)
    left_out = _ratio(rows.sum(axis=0) - rows)
    influence = left_out.mean() - left_out
    skew = (influence**3).sum() / (6 * (influence**2).sum() ** 1.5)
    z = ndtri([(1 - confidence) / 2, (1 + confidence) / 2])
    levels = ndtr(bias + (bias + z) / (1 - skew * (bias + z)))
    low, high = np.quantile(draws, levels)
    return float(low), float(high)


def _strata_by_cluster(strata: ArrayLike, clusters: ArrayLike) -> FloatArray:
    ids = np.asarray(strata)
    index, n_clusters = cluster_index(clusters, len(ids))
    stratum, _ = cluster_index(ids, len(ids))
    by_cluster = np.zeros(n_clusters)
    by_cluster[index] = stratum
    if (by_cluster[index] != stratum).any():
        raise ValueError("a sample lies in two strata")
    return by_cluster
