"""What was lost on the way, and what it could have done to the score.

A lost edit has no score; it is not a 0. These functions say how much was lost, between which
values the score would lie had everything been scored, and whether samples that lose more of
their edits score differently.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stages.stats.estimates import Estimand, Method, estimate
from stages.stats.interval import BoolArray, FloatArray, Interval, wilson
from stages.stats.permutation import Association, association
from stages.stats.resampling import cluster_totals


class Bounds(NamedTuple):
    """The score, had every planned intervention been scored."""

    worst: Interval
    """Every lost edit counted as unfaithful (0)."""
    observed: Interval
    """The scored edits alone."""
    best: Interval
    """Every lost edit counted as faithful (1)."""
    n_lost: int
    """Planned interventions without a score."""
    n_planned: int
    """Planned interventions."""


def pass_rate(passed: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Share that passed, with Wilson ends: booleans ``(n,)``."""
    flags = np.asarray(passed, dtype=np.bool_)
    return wilson(int(flags.sum()), flags.size, confidence=confidence)


def pass_rates(
    passed: ArrayLike, groups: Sequence[Hashable], *, confidence: float = 0.95
) -> dict[Hashable, Interval]:
    """`pass_rate` of each group (target, domain, editor, attempt …), in order of appearance."""
    flags = np.asarray(passed, dtype=np.bool_)
    members: dict[Hashable, list[bool]] = {}
    for flag, group in zip(flags.tolist(), groups, strict=True):
        members.setdefault(group, []).append(flag)
    return {group: pass_rate(flags, confidence=confidence) for group, flags in members.items()}


def shares(reasons: Sequence[Hashable], *, confidence: float = 0.95) -> dict[Hashable, Interval]:
    """Share of each reason among all rows, with Wilson ends; the most frequent first."""
    counts: dict[Hashable, int] = {}
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + 1
    ranked = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    n = len(reasons)
    return {reason: wilson(count, n, confidence=confidence) for reason, count in ranked}


def bounds(
    scores: ArrayLike,
    clusters: ArrayLike,
    *,
    rng: np.random.Generator,
    estimand: Estimand = "sample_mean",
    method: Method = "percentile",
    confidence: float = 0.95,
    n_resamples: int = 10_000,
) -> Bounds:
    """Bounds of the score that no assumption about the lost edits can leave.

    Manski 1990, https://www.jstor.org/stable/2006592: with scores in [0, 1], put 0 or 1 for what
    is missing. Samples that lost all their edits count here, and only here.

    Parameters
    ----------
    scores : array (n,)
        One entry a planned intervention, NaN where it was lost.
    clusters : array (n,)
        The sample of each.
    method : str
        Of the intervals, as in `estimate`.
    """
    values, ids = np.asarray(scores, dtype=np.float64), np.asarray(clusters)
    lost = np.isnan(values)

    def interval(values: FloatArray, kept: BoolArray) -> Interval:
        return estimate(
            values[kept],
            ids[kept],
            rng=rng,
            estimand=estimand,
            method=method,
            confidence=confidence,
            n_resamples=n_resamples,
        )

    everything = np.ones(len(values), dtype=np.bool_)
    return Bounds(
        worst=interval(np.where(lost, 0.0, values), everything),
        observed=interval(values, ~lost),
        best=interval(np.where(lost, 1.0, values), everything),
        n_lost=int(lost.sum()),
        n_planned=len(values),
    )


def loss_and_score(
    scores: ArrayLike,
    clusters: ArrayLike,
    *,
    rng: np.random.Generator,
    n_resamples: int = 10_000,
) -> Association:
    """Correlation, over samples, of the share of edits lost and the mean score of the others.

    It sees only samples with at least one score, so it is silent on those that lost everything
    (`bounds` is not); with one edit a sample no such sample loses any and it is not estimable.

    Parameters
    ----------
    scores, clusters
        As in `bounds`.
    """
    values = np.asarray(scores, dtype=np.float64)
    lost = np.isnan(values)
    columns = np.column_stack([np.nan_to_num(values), lost, ~lost])
    totals = cluster_totals(columns, clusters)
    totals = totals[totals[:, 2] > 0]
    share_lost = totals[:, 1] / (totals[:, 1] + totals[:, 2])
    return association(share_lost, totals[:, 0] / totals[:, 2], rng=rng, n_resamples=n_resamples)
