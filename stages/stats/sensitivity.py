"""What other thresholds of the gate would have done, read off stored measurements.

No call is made. Where other thresholds accept an attempt that was rejected, its counterfactual
was never asked about, and the steps after it would start from another image: such cells are
counted, not guessed, and their scores are not in the mean.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stages.stats.estimates import sample_mean
from stages.stats.interval import BoolArray, FloatArray, IntArray, Interval, wilson
from stages.stats.resampling import cluster_index


class GridPoint(NamedTuple):
    """One pair of thresholds."""

    tau_in: float
    tau_out: float
    acceptance: Interval
    """Share of measured attempts with r_in > τ_in and r_out < τ_out, Wilson ends."""
    label_agreement: Interval | None
    """Share of labelled attempts where the gate says what the label says; None without labels."""
    score: float | None
    """Mean of per-sample means over interventions that these thresholds accept and that were
    scored; None where there is none."""
    n_scored: int
    """Interventions behind the score."""
    n_samples: int
    """Samples behind the score."""
    n_to_requery: int
    """Interventions accepted here on an edit that was never asked about."""
    n_to_edit: int
    """Interventions that need an edit that was never made: a further attempt, or a step that
    starts from another image. At most: a chain may end before it comes to that step."""


class Attempts(NamedTuple):
    """Attempts of a run as columns, one row an attempt; see `attempts`."""

    sample: IntArray
    position: IntArray
    attempt: IntArray
    r_in: FloatArray
    r_out: FloatArray
    accepted: BoolArray
    score: FloatArray


class _Walk(NamedTuple):
    """Fate of every (sample, position) at one pair of thresholds: ``(n_samples, n_positions)``."""

    scored: BoolArray
    to_requery: BoolArray
    to_edit: BoolArray


def attempts(
    sample: ArrayLike,
    position: ArrayLike,
    attempt: ArrayLike,
    r_in: ArrayLike,
    r_out: ArrayLike,
    accepted: ArrayLike,
    score: ArrayLike,
) -> Attempts:
    """Check and sort the columns.

    Parameters
    ----------
    sample : array (n,)
        Ids.
    position, attempt : int array (n,)
        Position from 1; attempt from 1, or 0 for a step that was planned but never reached.
    r_in, r_out : array (n,)
        Shares of changed pixels in [0, 1], NaN where nothing was measured. Those of Δ without
        warping serve as well.
    accepted : boolean array (n,)
        Whether the run went on from this attempt and asked the target again.
    score : array (n,)
        Score of accepted attempts, NaN where there is none.
    """
    columns = Attempts(
        cluster_index(sample, np.size(np.asarray(position)))[0],
        np.asarray(position, dtype=np.int64),
        np.asarray(attempt, dtype=np.int64),
        np.asarray(r_in, dtype=np.float64),
        np.asarray(r_out, dtype=np.float64),
        np.asarray(accepted, dtype=np.bool_),
        np.asarray(score, dtype=np.float64),
    )
    if len({column.shape for column in columns}) != 1:
        raise ValueError(f"columns differ in length: {[len(column) for column in columns]}")
    if (columns.position < 1).any() or (columns.attempt < 0).any():
        raise ValueError("positions count from 1 and attempts from 1 (0: never reached)")
    return columns


def passes(r_in: FloatArray, r_out: FloatArray, tau_in: float, tau_out: float) -> BoolArray:
    """The gate: r_in > τ_in and r_out < τ_out; never where one of them is missing."""
    return np.asarray((r_in > tau_in) & (r_out < tau_out))


def grid(
    rows: Attempts,
    tau_in: Sequence[float],
    tau_out: Sequence[float],
    *,
    labels: ArrayLike | None = None,
    max_attempts: int | None = None,
    on_rejection: Literal["stop", "skip"] = "stop",
    confidence: float = 0.95,
) -> list[GridPoint]:
    """Walk every chain again at every pair of thresholds, τ_in outermost.

    Parameters
    ----------
    labels : array (n,), optional
        Whether each attempt is a valid edit by a person's judgement: 1, 0, or NaN.
    max_attempts : int, optional
        Attempts that the protocol allows a step; by default the most that any step had.
    on_rejection : str
        What the run does when a step fails for good, as in its parameters.
    """
    measured = ~np.isnan(rows.r_in) & ~np.isnan(rows.r_out)
    truth = None if labels is None else np.asarray(labels, dtype=np.float64)
    allowed = max_attempts or int(rows.attempt.max(initial=1))
    points = []
    for low in tau_in:
        for high in tau_out:
            accept = passes(rows.r_in, rows.r_out, low, high)
            walk = _walk(rows, accept, allowed=allowed, skip=on_rejection == "skip")
            kept = walk.scored[rows.sample, rows.position - 1] if len(rows.sample) else accept
            kept = kept & rows.accepted & ~np.isnan(rows.score)
            points.append(
                GridPoint(
                    tau_in=low,
                    tau_out=high,
                    acceptance=wilson(
                        int(accept.sum()), int(measured.sum()), confidence=confidence
                    ),
                    label_agreement=_label_agreement(accept, measured, truth, confidence),
                    score=sample_mean(rows.score[kept], rows.sample[kept]),
                    n_scored=int(kept.sum()),
                    n_samples=len(np.unique(rows.sample[kept])),
                    n_to_requery=int(walk.to_requery.sum()),
                    n_to_edit=int(walk.to_edit.sum()),
                )
            )
    return points


def _label_agreement(
    accept: BoolArray, measured: BoolArray, truth: FloatArray | None, confidence: float
) -> Interval | None:
    if truth is None:
        return None
    known = measured & ~np.isnan(truth)
    same = accept[known] == (truth[known] > 0.5)
    return wilson(int(same.sum()), int(known.sum()), confidence=confidence)


def _walk(rows: Attempts, accept: BoolArray, *, allowed: int, skip: bool) -> _Walk:
    """Follow all chains at once, step by step, as long as their history is the run's own."""
    n_samples = int(rows.sample.max(initial=-1)) + 1
    n_positions = int(rows.position.max(initial=0))
    shape = (n_samples, n_positions)
    scored, to_requery, to_edit = (np.zeros(shape, dtype=np.bool_) for _ in range(3))
    same_history = np.ones(n_samples, dtype=np.bool_)
    other_image = np.zeros(n_samples, dtype=np.bool_)
    for step in range(n_positions):
        here = rows.position == step + 1
        planned = np.zeros(n_samples, dtype=np.bool_)
        planned[rows.sample[here]] = True
        made = np.zeros(n_samples, dtype=np.int64)
        run_choice, new_choice = (np.zeros(n_samples, dtype=np.int64) for _ in range(2))
        for number in range(allowed, 0, -1):
            now = here & (rows.attempt == number)
            np.maximum.at(made, rows.sample[now], number)
            run_choice[rows.sample[now & rows.accepted]] = number
            new_choice[rows.sample[now & accept]] = number
        to_edit[:, step] = planned & other_image
        live = planned & same_history
        kept = live & (new_choice > 0) & (new_choice == run_choice)
        fresh = live & (new_choice > 0) & (new_choice != run_choice)
        failed = live & (new_choice == 0)
        unfinished = failed & (run_choice > 0) & (made < allowed)
        scored[:, step] = kept
        to_requery[:, step] = fresh
        to_edit[:, step] |= unfinished
        dropped = failed & (run_choice > 0) & ~unfinished
        other_image |= fresh | unfinished | (dropped & skip)
        same_history &= kept | (failed & (run_choice == 0) & skip) | ~planned
    return _Walk(scored, to_requery, to_edit)
