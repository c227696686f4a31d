"""Permutation tests: p-values that assume nothing but exchangeability.

A Monte Carlo p counts the data themselves as one of the draws, (1 + hits) / (1 + draws), so it is
never 0 (Phipson & Smyth 2010, doi:10.2202/1544-6115.1585).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stages.stats.interval import FloatArray, IntArray
from stages.stats.resampling import CHUNK_FLOATS, as_scores

EXACT_STATES = 2**18
"""Up to so many sums of signs are enumerated; with more, signs are drawn."""


class Test(NamedTuple):
    """A p-value and how it was made."""

    p: float | None
    """Two-sided; None where there is nothing to test."""
    method: str
    """``exact …``, ``monte carlo …``, or ``not estimable: <why>``."""


class Association(NamedTuple):
    """Whether two quantities go together across samples."""

    correlation: float | None
    """Pearson's r; None where one of the two does not vary."""
    test: Test
    n: int
    """Samples that have both."""


def sign_flip(
    differences: ArrayLike, *, rng: np.random.Generator, n_resamples: int = 10_000
) -> Test:
    """Test that paired differences are symmetric about 0, by flipping their signs.

    Differences of one size are exchangeable, so m of them add up to size · (2 Binomial(m, ½) − m).
    Sums that meet are merged, so scores that take few values have an exact distribution of
    thousands of states, not 2ⁿ, for hundreds of samples; beyond `EXACT_STATES` signs are drawn.

    Parameters
    ----------
    differences : array (n,)
        One difference a sample, of independent samples.
    """
    values = as_scores(differences)
    if not len(values):
        return Test(None, "not estimable: no common sample")
    sizes, times = np.unique(np.round(np.abs(values[values != 0]), 12), return_counts=True)
    # Sums that are equal but for rounding are ties, and ties count as hits.
    seen = abs(values.sum()) - 1e-9 * max(1.0, float(np.abs(values).sum()))
    distribution = _enumerate(sizes, times)
    if distribution is not None:
        sums, mass = distribution
        return Test(min(1.0, float(mass[np.abs(sums) >= seen].sum())), "exact sign flip")
    hits = 0
    for size in _chunks(n_resamples, len(sizes)):
        sums = _signed_sums(sizes, times, rng=rng, n=size)
        hits += int((np.abs(sums) >= seen).sum())
    return Test((1 + hits) / (1 + n_resamples), f"monte carlo sign flip, {n_resamples} draws")


def association(
    first: ArrayLike, second: ArrayLike, *, rng: np.random.Generator, n_resamples: int = 10_000
) -> Association:
    """Correlation of two quantities over samples, with a permutation p.

    Parameters
    ----------
    first, second : array (n,)
        One value a sample.
    """
    x, y = as_scores(first), as_scores(second)
    n = len(x)
    if n < 3:
        return Association(None, Test(None, f"not estimable: {n} samples have both"), n)
    x, y = x - x.mean(), y - y.mean()
    scale = np.sqrt((x**2).sum() * (y**2).sum())
    if scale < 1e-12:
        return Association(None, Test(None, "not estimable: one of the two does not vary"), n)
    seen, hits = abs(x @ y) - 1e-9 * scale, 0
    for size in _chunks(n_resamples, n):
        shuffled = rng.permuted(np.tile(y, (size, 1)), axis=1)
        hits += int((np.abs(shuffled @ x) >= seen).sum())
    test = Test((1 + hits) / (1 + n_resamples), f"monte carlo permutation, {n_resamples} draws")
    return Association(float(np.clip(x @ y / scale, -1, 1)), test, n)


def _enumerate(sizes: FloatArray, times: IntArray) -> tuple[FloatArray, FloatArray] | None:
    """All sums of signed differences and their probabilities; None where there are too many."""
    sums: FloatArray = np.zeros(1)
    mass: FloatArray = np.ones(1)
    for size, m in zip(sizes, times, strict=True):
        if len(sums) * (m + 1) > EXACT_STATES:
            return None
        heads = np.arange(m + 1)
        every = np.add.outer(sums, size * (2.0 * heads - m)).ravel()
        weight = np.multiply.outer(mass, _fair_coins(int(m))).ravel()
        sums, place = np.unique(np.round(every, 12), return_inverse=True)
        mass = np.bincount(place, weight).astype(np.float64)
    return sums, mass


@lru_cache(maxsize=4096)
def _fair_coins(m: int) -> FloatArray:
    """Probability of 0 … m heads of m fair coins, each to the last digit."""
    ways = [1]
    for heads in range(m):
        ways.append(ways[-1] * (m - heads) // (heads + 1))
    return np.array([way / 2**m for way in ways])


def _signed_sums(
    sizes: FloatArray, times: IntArray, *, rng: np.random.Generator, n: int
) -> FloatArray:
    heads = rng.binomial(times, 0.5, size=(n, len(sizes)))
    sums: FloatArray = (2.0 * heads - times) @ sizes
    return sums


def _chunks(total: int, width: int) -> list[int]:
    """Split draws so that an array of ``width`` numbers a draw stays small."""
    size = max(1, CHUNK_FLOATS // max(1, width))
    return [min(size, total - start) for start in range(0, total, size)]
