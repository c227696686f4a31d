"""Which target is better, by how much, and how sure is that.

Targets are compared on the samples that all of them have scores for: pairing takes the
difficulty of the questions out of the difference. The tests of a sample still differ by target,
because each is tested on its own explanation; the pairing is by question only. What an interval
of a difference says is not what two overlapping intervals say.

Here a *table* is an array ``(n_samples, n_columns)`` of per-sample means, NaN where a column (a
target, or a cell of the matrix) has no score for that sample; `by_sample` makes it.
"""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stages.stats.estimates import Method, estimate
from stages.stats.interval import FloatArray, IntArray, Interval, student_quantile
from stages.stats.permutation import Test, sign_flip
from stages.stats.resampling import as_scores, bootstrap, cluster_index, cluster_totals

TIE = 1e-12
"""Means closer than this share a rank."""


class Difference(NamedTuple):
    """A contrast of columns on the samples that they have in common."""

    interval: Interval
    """Mean per-sample contrast, ends by bootstrap over samples."""
    test: Test
    """Sign-flip test that it is 0, before any correction for other tests."""
    n_common: int
    """Samples that all columns of the contrast have."""
    n_left_out: int
    """Samples that only some of them have."""
    sd: float | None
    """Standard deviation of the per-sample contrast; None below two samples."""


class Ranks(NamedTuple):
    """How probable each rank is, over resamples of the samples."""

    probability: FloatArray
    """``(n_targets, n_targets)``: row a target, column a rank from the best; rows add up to 1.
    A row of zeros: a target without scores."""
    expected: list[float | None]
    """Mean rank of each target, 1 the best; None without scores."""
    n_resamples: int
    """Resamples in which every ranked target had a score."""


class SampleSize(NamedTuple):
    """Samples needed to tell two targets apart."""

    n: int | None
    """Common samples needed; None where it cannot be said."""
    reason: str | None
    """Why not, where n is None."""
    sd: float | None
    """Standard deviation of per-sample differences that it rests on."""


def by_sample(scores: ArrayLike, samples: ArrayLike, columns: ArrayLike) -> FloatArray:
    """Per-sample means of each column: ``(n_samples, n_columns)``, NaN where there is no score.

    Rows follow sorted sample ids, columns sorted column ids.
    """
    values = as_scores(scores)
    sample, n_samples = cluster_index(samples, len(values))
    column, n_columns = cluster_index(columns, len(values))
    cell, place = sample * n_columns + column, np.full(n_samples * n_columns, np.nan)
    totals = cluster_totals(np.column_stack([values, np.ones(len(values))]), cell)
    place[np.unique(cell)] = totals[:, 0] / totals[:, 1]
    return place.reshape(n_samples, n_columns)


def contrast(
    table: ArrayLike,
    weights: Sequence[float],
    *,
    rng: np.random.Generator,
    method: Method = "percentile",
    confidence: float = 0.95,
    n_resamples: int = 10_000,
) -> Difference:
    """Weighted sum of columns on the samples that have all of them.

    Weights that add up to 0 compare: ``[1, -1]`` two targets; over the cells of two extractors ×
    two judges, ``[½, ½, −½, −½]`` is the effect of the extractor, ``[½, −½, ½, −½]`` of the judge
    and ``[1, −1, −1, 1]`` their interaction.

    Parameters
    ----------
    table : array (n_samples, n_columns)
        Per-sample means in [0, 1], NaN where missing.
    weights : sequence of n_columns
        Columns of weight 0 need no score.
    method : str
        Of the interval, as in `estimate`.
    """
    means, weight = np.asarray(table, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if means.ndim != 2 or weight.shape != means.shape[1:]:
        raise ValueError(f"{weight.shape} weights do not fit a table of shape {means.shape}")
    if ((means < 0) | (means > 1)).any():
        raise ValueError("per-sample means must lie within [0, 1]")
    used = ~np.isnan(means[:, weight != 0])
    common = used.all(axis=1)
    # What a contrast of numbers in [0, 1] can be; rounding alone could leave it.
    bounds = (float(weight[weight < 0].sum()), float(weight[weight > 0].sum()))
    values = np.clip(np.nan_to_num(means[common]) @ weight, *bounds)
    interval = estimate(
        values,
        np.arange(len(values)),
        rng=rng,
        method=method,
        confidence=confidence,
        n_resamples=n_resamples,
        bounds=bounds,
    )
    return Difference(
        interval=interval,
        test=sign_flip(values, rng=rng, n_resamples=n_resamples),
        n_common=int(common.sum()),
        n_left_out=int(used.any(axis=1).sum() - common.sum()),
        sd=float(values.std(ddof=1)) if len(values) > 1 else None,
    )


def difference(
    first: tuple[ArrayLike, ArrayLike],
    second: tuple[ArrayLike, ArrayLike],
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
) -> Difference:
    """First minus second target, each given as (scores, sample ids), on common samples."""
    (a, a_ids), (b, b_ids) = first, second
    a, b = as_scores(a), as_scores(b)
    if not len(a) or not len(b):
        table = np.full((0, 2), np.nan)
    else:
        which = np.repeat([0, 1], [len(a), len(b)])
        ids = np.concatenate([np.asarray(a_ids), np.asarray(b_ids)])
        table = by_sample(np.concatenate([a, b]), ids, which)
    return contrast(table, [1, -1], rng=rng, confidence=confidence, n_resamples=n_resamples)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p-values corrected for their number, step down: max over j ≤ i of min(1, (m − j + 1) p₍ⱼ₎).

    Holm 1979, https://www.jstor.org/stable/4615733. What was not tested (None) stays None and is
    not counted in m.
    """
    order = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    floor = 0.0
    for step, (p, i) in enumerate(order):
        floor = max(floor, min(1.0, (len(order) - step) * p))
        corrected[i] = floor
    return corrected


def rank_probabilities(
    table: ArrayLike, *, rng: np.random.Generator, n_resamples: int = 10_000
) -> Ranks:
    """Probability of each rank, from joint resamples of the samples.

    A resample is the same for all targets, so what they share cancels as in a paired difference;
    each target's mean is over the samples that it has. Targets that tie share the ranks equally.

    Parameters
    ----------
    table : array (n_samples, n_targets)
        Per-sample means, NaN where missing; higher is better.
    """
    means = np.asarray(table, dtype=np.float64)
    present = ~np.isnan(means)
    targets = np.flatnonzero(present.any(axis=0))
    probability = np.zeros((means.shape[1], means.shape[1]))
    expected: list[float | None] = [None] * means.shape[1]
    if not len(targets):
        return Ranks(probability, expected, 0)
    rows = np.hstack([np.nan_to_num(means[:, targets]), present[:, targets].astype(np.float64)])
    draws = bootstrap(rows, _column_means, rng=rng, n_resamples=n_resamples)
    draws = draws[~np.isnan(draws).any(axis=1)]
    if not len(draws):
        return Ranks(probability, expected, 0)
    for i, target in enumerate(targets):
        above = (draws > draws[:, [i]] + TIE).sum(axis=1)
        level = (np.abs(draws - draws[:, [i]]) <= TIE).sum(axis=1)
        for rank in range(len(targets)):
            shares = ((above <= rank) & (rank < above + level)) / level
            probability[target, rank] = shares.mean()
        expected[target] = float(probability[target] @ np.arange(1, means.shape[1] + 1))
    return Ranks(probability, expected, len(draws))


def power(n: int, gap: float, sd: float, *, alpha: float = 0.05) -> float:
    """Probability that a two-sided paired t-test of n samples finds a true difference.

    Non-central t with n − 1 degrees of freedom and non-centrality gap/sd · √n.

    Parameters
    ----------
    n : int
        Common samples, at least 2.
    gap, sd : float
        True mean and standard deviation of the per-sample difference; sd above 0.
    """
    from scipy.special import nctdtr

    critical = student_quantile(1 - alpha, n - 1)
    shift = abs(gap) / sd * np.sqrt(n)
    # The wrong tail is nothing far out, where scipy may answer NaN.
    wrong_side = np.nan_to_num(nctdtr(n - 1, shift, -critical))
    return float(np.clip(1 - nctdtr(n - 1, shift, critical) + wrong_side, 0, 1))


def samples_needed(
    sd: float | None, gap: float, *, target_power: float = 0.8, alpha: float = 0.05
) -> SampleSize:
    """Fewest common samples with which a difference of ``gap`` is found.

    ``sd`` is that of per-sample differences at hand (`Difference.sd`). To plan a study divide by
    the share of samples that survive attrition in both targets.
    """
    from scipy.special import ndtri

    if sd is None:
        return SampleSize(None, "fewer than two common samples to learn the variance from", sd)
    if gap == 0:
        return SampleSize(None, "no number of samples tells equals apart", sd)
    if sd < TIE:
        return SampleSize(None, "the differences at hand do not vary", sd)
    z = ndtri(1 - alpha / 2) + ndtri(target_power)
    high = max(2, ceil((z * sd / abs(gap)) ** 2))
    while power(high, gap, sd, alpha=alpha) < target_power:
        high = high + max(1, high // 16)
    low = 1
    while high - low > 1:
        middle = (low + high) // 2
        if power(middle, gap, sd, alpha=alpha) >= target_power:
            high = middle
        else:
            low = middle
    return SampleSize(high, None, sd)


def detectable_difference(
    sd: float, n: int, *, target_power: float = 0.8, alpha: float = 0.05
) -> float | None:
    """Smallest true difference that n common samples find with ``target_power``; None if n < 2."""
    from scipy.optimize import brentq

    if n < 2 or sd <= 0:
        return None
    top = sd
    while power(n, top, sd, alpha=alpha) < target_power:
        top *= 2
    return float(brentq(lambda gap: power(n, gap, sd, alpha=alpha) - target_power, 0.0, top))


def pairs(n_targets: int) -> IntArray:
    """All pairs of targets ``(n_pairs, 2)``, the first index the smaller."""
    return np.column_stack(np.triu_indices(n_targets, 1)).astype(np.int64)


def _column_means(totals: FloatArray) -> FloatArray:
    sums, counts = np.hsplit(totals, 2)
    means = np.full(sums.shape, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means
