"""The answer every estimator gives: a number, the ends of its interval, and what it rests on.

Nothing here is ever NaN. Where a number does not exist it is None, and ``method`` says why.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class Interval(NamedTuple):
    """An estimate with its confidence interval."""

    mean: float | None
    """The estimate; None where there is nothing to estimate from."""
    low: float | None
    """Lower end; None where it is not estimable."""
    high: float | None
    """Upper end; None where it is not estimable."""
    confidence: float
    """Nominal coverage, e.g. 0.95."""
    method: str
    """How the interval was made, or ``not estimable: <why>``."""
    n_clusters: int
    """Independent units (samples) behind it."""
    n: int
    """Scores behind it."""


def not_estimable(
    why: str, *, confidence: float, mean: float | None = None, n_clusters: int = 0, n: int = 0
) -> Interval:
    """An answer without ends, and the reason for it."""
    return Interval(mean, None, None, confidence, f"not estimable: {why}", n_clusters, n)


def normal_quantile(confidence: float) -> float:
    """Two-sided standard normal quantile, 1.96 for 0.95; ValueError outside (0, 1)."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    from scipy.special import ndtri

    return float(-ndtri((1 - confidence) / 2))


def student_quantile(confidence: float, freedom: int) -> float:
    """The same of Student's t with so many degrees of freedom."""
    from scipy.special import stdtrit  # takes longer to import than a stage to start

    return float(-stdtrit(freedom, (1 - confidence) / 2))


def wilson(successes: int, n: int, *, confidence: float = 0.95) -> Interval:
    """Score interval of a share of independent trials.

    (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n). Wilson 1927,
    doi:10.1080/01621459.1927.10502953. It stays inside [0, 1] and has a width at p = 0 and 1.

    Parameters
    ----------
    successes, n : int
        0 ≤ successes ≤ n; anything else is a ValueError. n = 0 has no mean and no ends.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"successes must lie between 0 and n = {n}, not {successes}")
    z = normal_quantile(confidence)
    if n == 0:
        return not_estimable("no trials", confidence=confidence)
    share, shrink = successes / n, 1 + z**2 / n
    centre = (share + z**2 / (2 * n)) / shrink
    half = z / shrink * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    low = 0.0 if successes == 0 else float(centre - half)
    high = 1.0 if successes == n else float(centre + half)
    return Interval(share, low, high, confidence, "wilson", n, n)


def all_equal(
    value: float,
    *,
    bounds: tuple[float, float],
    confidence: float,
    n_clusters: int,
    n: int,
) -> Interval:
    """Interval of a mean when every cluster shows one and the same value.

    A bootstrap would return a point. The share of clusters that would show something else has the
    Wilson limits [0, u] with u = z²/(n + z²), and those others lie anywhere within ``bounds``, so
    the mean lies in [v − u(v − lower), v + u(upper − v)]. At v = 0 and v = 1 of scores in [0, 1]
    this is exactly Wilson's interval for 0 or all of n_clusters successes.
    """
    z = normal_quantile(confidence)
    other = z**2 / (n_clusters + z**2)
    low, high = value - other * (value - bounds[0]), value + other * (bounds[1] - value)
    method = "wilson over samples (all alike)"
    return Interval(value, low, high, confidence, method, n_clusters, n)
