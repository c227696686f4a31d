"""Do raters agree: share, chance-corrected coefficients, confusion, and intervals.

Ratings come as an array ``(n_units, n_raters)``, a unit being one judged intervention. NaN marks
a rating that is missing (``np.array([[1, None]], float)`` makes it so); a missing rating is never
a category. Coefficients that do not exist are None: with one category in use, chance alone
explains everything, and kappa and alpha are 0/0.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from stages.stats.estimates import ALIKE, estimate
from stages.stats.interval import (
    BoolArray,
    FloatArray,
    IntArray,
    Interval,
    normal_quantile,
    not_estimable,
    wilson,
)
from stages.stats.resampling import bootstrap, cluster_totals, percentile_ends

__all__ = [
    "agreement",
    "agreement_clustered",
    "alpha_interval",
    "cohen_kappa",
    "confusion",
    "fleiss_kappa",
    "kappa_interval",
    "krippendorff_alpha",
    "wilson",
]

Level = Literal["nominal", "ordinal", "interval"]
Weights = Literal["linear", "quadratic"]


def agreement(ratings: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Share of units on which all raters say the same, of those that all rated; Wilson ends."""
    same = _identical(_complete(ratings))
    return wilson(int(same.sum()), len(same), confidence=confidence)


def agreement_clustered(
    ratings: ArrayLike,
    clusters: ArrayLike,
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
) -> Interval:
    """The same share, the units of a sample travelling together in a bootstrap."""
    table = _table(ratings)
    rated = ~np.isnan(table).any(axis=1)
    return estimate(
        _identical(table[rated]).astype(np.float64),
        np.asarray(clusters)[rated],
        rng=rng,
        estimand="intervention_mean",
        confidence=confidence,
        n_resamples=n_resamples,
    )


def confusion(
    first: ArrayLike, second: ArrayLike, categories: Sequence[float] | None = None
) -> IntArray:
    """Counts ``(n_categories, n_categories)``: rows by the first rater, columns by the second.

    Units that either left out are not counted. ``categories`` fixes rows and their order (default:
    those in use, ascending); a rating outside it is a ValueError.
    """
    pairs = _complete(_pairs(first, second))
    values = _categories(pairs, categories)
    counts = np.zeros((len(values), len(values)), dtype=np.int64)
    np.add.at(counts, tuple(np.searchsorted(values, pairs).T), 1)
    if categories is None:
        return counts
    place = np.searchsorted(values, np.asarray(categories, dtype=np.float64))
    return counts[np.ix_(place, place)]


def cohen_kappa(
    first: ArrayLike, second: ArrayLike, *, weights: Weights | None = None
) -> float | None:
    """Agreement of two raters beyond chance: 1 − Σ w·observed / Σ w·expected.

    Cohen 1960, doi:10.1177/001316446002000104; weighted by the distance between the ranks of the
    categories in use, or its square: Cohen 1968, doi:10.1037/h0026256.
    """
    counts = confusion(first, second).astype(np.float64)
    return _number(_kappa(counts.reshape(1, -1), weights))


def fleiss_kappa(ratings: ArrayLike) -> float | None:
    """Agreement beyond chance of equally many ratings per unit, on units that all raters rated.

    Fleiss 1971, doi:10.1037/h0031619.
    """
    counts = _category_counts(_complete(ratings))
    n, n_raters = len(counts), int(counts[0].sum()) if len(counts) else 0
    if n_raters < 2:
        return None
    observed = ((counts**2).sum(axis=1) - n_raters).mean() / (n_raters * (n_raters - 1))
    chance = ((counts.sum(axis=0) / (n * n_raters)) ** 2).sum()
    return None if 1 - chance < ALIKE else float((observed - chance) / (1 - chance))


def krippendorff_alpha(ratings: ArrayLike, *, level: Level = "nominal") -> float | None:
    """Krippendorff's alpha: 1 − observed / expected disagreement, missing ratings allowed.

    Krippendorff, Content Analysis, 2019, ch. 12, doi:10.4135/9781071878781. Units with fewer than
    two ratings pair with nothing and do not count. ``level`` says which differences weigh what:
    ``nominal`` any alike, ``ordinal`` by the ratings that lie between, ``interval`` by the square.
    """
    coincidences, values = _coincidences(ratings)
    return _number(_alpha(coincidences.sum(axis=0, keepdims=True), values, level))


def kappa_interval(
    first: ArrayLike,
    second: ArrayLike,
    clusters: ArrayLike,
    *,
    rng: np.random.Generator,
    weights: Weights | None = None,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
) -> Interval:
    """Cohen's kappa with a percentile bootstrap over samples."""
    pairs = _pairs(first, second)
    rated = ~np.isnan(pairs).any(axis=1)
    pairs = pairs[rated]
    index = np.searchsorted(_categories(pairs, None), pairs)
    k = int(index.max(initial=-1)) + 1
    cells = np.eye(k * k)[index[:, 0] * k + index[:, 1]]
    return _coefficient_interval(
        cells,
        np.asarray(clusters)[rated],
        lambda totals: _kappa(totals, weights),
        rng=rng,
        confidence=confidence,
        n_resamples=n_resamples,
    )


def alpha_interval(
    ratings: ArrayLike,
    clusters: ArrayLike,
    *,
    rng: np.random.Generator,
    level: Level = "nominal",
    confidence: float = 0.95,
    n_resamples: int = 10_000,
) -> Interval:
    """Krippendorff's alpha with a percentile bootstrap over samples."""
    coincidences, values = _coincidences(ratings)
    paired = coincidences.sum(axis=1) > 0
    return _coefficient_interval(
        coincidences[paired],
        np.asarray(clusters)[paired],
        lambda totals: _alpha(totals, values, level),
        rng=rng,
        confidence=confidence,
        n_resamples=n_resamples,
    )


def _coefficient_interval(
    cells: FloatArray,
    clusters: ArrayLike,
    statistic: Callable[[FloatArray], FloatArray],
    *,
    rng: np.random.Generator,
    confidence: float,
    n_resamples: int,
) -> Interval:
    """Interval of a coefficient of total cell counts ``(n_units, n_cells)``."""
    normal_quantile(confidence)
    rows, n = cluster_totals(cells, clusters), len(cells)
    if n == 0:
        return not_estimable("no unit was rated twice", confidence=confidence)
    value = _number(statistic(rows.sum(axis=0, keepdims=True)))
    if value is None:
        why = "a single category in use, so chance explains everything"
        return not_estimable(why, confidence=confidence, n_clusters=len(rows), n=n)
    if len(np.unique(rows, axis=0)) == 1:
        why = "a single sample" if len(rows) == 1 else "all samples alike"
        return not_estimable(why, confidence=confidence, mean=value, n_clusters=len(rows), n=n)
    draws = bootstrap(rows, statistic, rng=rng, n_resamples=n_resamples)
    exists = ~np.isnan(draws)
    if value == 1 or not exists.any():
        why = "perfect agreement in every resample"
        return not_estimable(why, confidence=confidence, mean=value, n_clusters=len(rows), n=n)
    method = "percentile bootstrap over samples"
    if not exists.all():
        method += f", {(~exists).sum()} of {n_resamples} resamples undefined"
    low, high = percentile_ends(draws[exists], confidence)
    if high - low < ALIKE:  # as where one rater knows a single category: no sign of certainty
        why = "hardly any resample differs"
        return not_estimable(why, confidence=confidence, mean=value, n_clusters=len(rows), n=n)
    return Interval(value, low, high, confidence, method, len(rows), n)


def _kappa(cells: FloatArray, weights: Weights | None) -> FloatArray:
    """Kappa of confusion matrices ``(draws, k²)``; NaN where expected disagreement is 0."""
    k = round(np.sqrt(cells.shape[1]))
    counts = cells.reshape(len(cells), k, k)
    distance = np.abs(np.subtract.outer(np.arange(k), np.arange(k))).astype(np.float64)
    if weights is None:
        distance = (distance > 0).astype(np.float64)
    elif weights == "quadratic":
        distance = distance**2
    observed = (counts * distance).sum(axis=(1, 2))
    product = counts.sum(axis=2)[:, :, None] * counts.sum(axis=1)[:, None, :]
    expected = (product * distance).sum(axis=(1, 2))
    return _one_minus(observed * counts.sum(axis=(1, 2)), expected)


def _alpha(cells: FloatArray, values: FloatArray, level: Level) -> FloatArray:
    """Alpha of coincidence matrices ``(draws, k²)``; NaN where expected disagreement is 0."""
    k = len(values)
    coincidences = cells.reshape(len(cells), k, k)
    margin = coincidences.sum(axis=2)
    if level == "nominal":
        distance = (1 - np.eye(k))[None]
    elif level == "interval":
        distance = (np.subtract.outer(values, values) ** 2)[None]
    else:
        middle = np.cumsum(margin, axis=1) - margin / 2
        distance = (middle[:, :, None] - middle[:, None, :]) ** 2
    observed = (coincidences * distance).sum(axis=(1, 2))
    expected = (margin[:, :, None] * margin[:, None, :] * distance).sum(axis=(1, 2))
    return _one_minus(observed * (margin.sum(axis=1) - 1), expected)


def _one_minus(observed: FloatArray, expected: FloatArray) -> FloatArray:
    ratio: FloatArray = np.full(len(expected), np.nan)
    np.divide(observed, expected, out=ratio, where=expected > 0)
    return np.subtract(1, ratio, dtype=np.float64)


def _number(values: FloatArray) -> float | None:
    return None if np.isnan(values[0]) else float(values[0])


def _coincidences(ratings: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Coincidence matrix of every unit ``(n_units, k²)`` and the k values in use, ascending."""
    counts = _category_counts(_table(ratings))
    pairable = np.maximum(counts.sum(axis=1) - 1, 1)
    ordered = counts[:, :, None] * counts[:, None, :]
    diagonal = np.arange(counts.shape[1])
    ordered[:, diagonal, diagonal] -= counts
    ordered /= pairable[:, None, None]
    return ordered.reshape(len(counts), len(diagonal) ** 2), _categories(_table(ratings), None)


def _category_counts(table: FloatArray) -> FloatArray:
    """How many raters put each unit into each category: ``(n_units, k)``."""
    counts: FloatArray = (table[:, :, None] == _categories(table, None)).sum(axis=1) * 1.0
    return counts


def _categories(table: FloatArray, given: Sequence[float] | None) -> FloatArray:
    values = np.unique(table[~np.isnan(table)])
    if given is None:
        return values
    wanted = np.unique(np.asarray(given, dtype=np.float64))
    if not np.isin(values, wanted).all():
        raise ValueError(f"ratings {values.tolist()} go beyond the categories {wanted.tolist()}")
    return wanted


def _table(ratings: ArrayLike) -> FloatArray:
    table = np.asarray(ratings, dtype=np.float64)
    if table.ndim != 2:
        raise ValueError(f"ratings must have shape (n_units, n_raters), not {table.shape}")
    return table


def _pairs(first: ArrayLike, second: ArrayLike) -> FloatArray:
    return np.column_stack(
        [np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)]
    )


def _complete(ratings: ArrayLike) -> FloatArray:
    table = _table(ratings)
    return table[~np.isnan(table).any(axis=1)]


def _identical(table: FloatArray) -> BoolArray:
    return np.asarray((table == table[:, :1]).all(axis=1))
