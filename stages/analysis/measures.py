"""From the statistics' answers to records, and from interventions to columns of numbers."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from stages.records.finding import Measured
from stages.records.score import Intervention
from stages.stats.estimates import Method
from stages.stats.interval import FloatArray, Interval

METRICS = ("ac", "ef", "ccs_binary", "ccs_graded")
Keep = Callable[[Intervention], bool]


class Resampling(NamedTuple):
    """How intervals are made."""

    n: int
    """Bootstrap resamples."""
    confidence: float
    """Nominal coverage."""
    seed: int
    """Seed of all streams; each number has its own, so that one more table changes no other."""
    method: Method = "adaptive"
    """How intervals of means are made, as in `stats.estimates.estimate`."""


class Scores(NamedTuple):
    """Scores that exist, with the sample of each."""

    values: FloatArray
    samples: list[str]


def scores(rows: Iterable[Intervention], metric: str) -> Scores:
    """The scores of a metric; what was lost is left out."""
    found = [(row.sample_id, value) for row in rows if (value := getattr(row, metric)) is not None]
    return Scores(np.array([v for _, v in found], dtype=np.float64), [s for s, _ in found])


def measured(interval: Interval) -> Measured:
    """The record of an interval."""
    return Measured(
        mean=rounded(interval.mean),
        low=rounded(interval.low),
        high=rounded(interval.high),
        confidence=interval.confidence,
        method=interval.method,
        n_samples=interval.n_clusters,
        n=interval.n,
    )


def rounded(value: float | None) -> float | None:
    """A number without its last bits: those of a sum depend on the processor, and the twelfth digit
    of a share means nothing."""
    return None if value is None else round(float(value), 12)
