"""Does an interval hold what was planted as often as it says? Many simulated studies tell."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from stages.analysis.attrition import bound
from stages.analysis.estimates import estimate_part
from stages.analysis.fates import follow
from stages.analysis.measures import Resampling, measured, rounded
from stages.analysis.simulation import CELL, Design, Drawn, draw
from stages.records.finding import CoverageRow
from stages.records.score import Intervention
from stages.stats.correction import corrected_mean
from stages.stats.estimates import Estimand
from stages.stats.interval import wilson
from stages.stats.resampling import stream

ESTIMATORS = ("sample_mean", "percentile", "intervention_mean", "corrected", "bounds")
SLACK = 1e-9
"""An end that equals the planted value but for rounding holds it."""


class Trial(NamedTuple):
    """What one simulated study estimated."""

    mean: float | None
    low: float | None
    high: float | None
    scored: int


def trials(
    design: Design, replications: int, labelled: float, resampling: Resampling
) -> dict[str, list[Trial]]:
    """Estimate the binary CCS of many draws of one design, by every estimator.

    Parameters
    ----------
    labelled : float
        Share of samples with human labels, drawn at random; the labels are the truth.
    """
    out: dict[str, list[Trial]] = {name: [] for name in ESTIMATORS}
    for replication in range(replications):
        rng = stream(resampling.seed, "simulate", repr(design), str(replication))
        drawn = draw(design, rng)
        rows = [row for row in follow(CELL, drawn.samples, drawn.trail) if row.position > 0]
        fresh = resampling._replace(seed=int(rng.integers(2**31)))
        published = fresh._replace(method="percentile")
        out["sample_mean"].append(_estimated(rows, "sample_mean", fresh))
        out["percentile"].append(_estimated(rows, "sample_mean", published))
        out["intervention_mean"].append(_estimated(rows, "intervention_mean", fresh))
        if design.judge_error > 0:
            out["corrected"].append(_corrected(drawn, rows, labelled, fresh, rng))
        if design.loss_slope != 0:
            out["bounds"].append(_bounded(rows, fresh))
    return {name: found for name, found in out.items() if found}


def _estimated(rows: Sequence[Intervention], estimand: Estimand, resampling: Resampling) -> Trial:
    found = estimate_part(CELL, "ccs_binary", None, None, estimand, rows, resampling)
    return Trial(found.mean, found.low, found.high, found.n_interventions)


def _bounded(rows: Sequence[Intervention], resampling: Resampling) -> Trial:
    """From the lower end of the worst case to the upper end of the best."""
    (found,) = (row for row in bound(rows, resampling) if row.metric == "ccs_binary")
    scored = found.n_planned - found.n_lost
    return Trial(found.observed.mean, found.worst.low, found.best.high, scored)


def _corrected(
    drawn: Drawn,
    rows: Sequence[Intervention],
    labelled: float,
    resampling: Resampling,
    rng: np.random.Generator,
) -> Trial:
    chosen = {s.id for s in drawn.samples if rng.random() < labelled}
    scored = [row for row in rows if row.ccs_binary is not None]
    truth = [
        float(np.prod(drawn.truth[row.sample_id, row.position]))
        if row.sample_id in chosen
        else np.nan
        for row in scored
    ]
    found = corrected_mean(
        [row.ccs_binary or 0.0 for row in scored],
        truth,
        [row.sample_id for row in scored],
        rng=stream(resampling.seed, "correct"),
        confidence=resampling.confidence,
        n_resamples=100,  # of the t interval that is used nothing is drawn
    ).corrected
    return Trial(found.mean, found.low, found.high, len(scored))


def summarise(
    experiment: str, estimator: str, found: Sequence[tuple[Design, Sequence[Trial]]]
) -> CoverageRow:
    """Coverage, bias and width over the trials of one or several designs."""
    design = found[0][0]
    planted = {d.planted for d, _ in found}
    every = [(d.planted, trial) for d, of_design in found for trial in of_design]
    held = [
        trial.low - SLACK <= truth <= trial.high + SLACK
        for truth, trial in every
        if trial.low is not None and trial.high is not None
    ]
    errors = np.array([t.mean - truth for truth, t in every if t.mean is not None])
    widths = [t.high - t.low for _, t in every if t.low is not None and t.high is not None]
    means = [t.mean for _, t in every if t.mean is not None]
    return CoverageRow(
        experiment=experiment,
        estimator=estimator,
        n_samples=design.n_samples,
        k=design.k,
        planted=design.planted if len(planted) == 1 else None,
        judge_error=design.judge_error,
        loss_slope=design.loss_slope,
        replications=len(every),
        n_estimable=len(held),
        mean=rounded(float(np.mean(means))) if means else None,
        bias=rounded(float(errors.mean())) if len(errors) else None,
        bias_error=rounded(float(errors.std(ddof=1) / np.sqrt(len(errors))))
        if len(errors) > 1
        else None,
        covered=measured(wilson(sum(held), len(held))),
        width=rounded(float(np.mean(widths))) if widths else None,
        scored=round(float(np.mean([t.scored for _, t in every])), 12),
    )


def study(
    experiment: str,
    designs: Sequence[Design],
    replications: int,
    labelled: float,
    resampling: Resampling,
) -> Iterator[CoverageRow]:
    """Every design, then all with a planted value between 0 and 1 together.

    At 0 and 1 the scores can't vary; their intervals hold the truth always, and would flatter.
    """
    together: dict[tuple[str, int, int, float, float], list[tuple[Design, list[Trial]]]] = {}
    for design in designs:
        for estimator, found in trials(design, replications, labelled, resampling).items():
            yield summarise(experiment, estimator, [(design, found)])
            if 0 < design.planted < 1:
                key = (
                    estimator,
                    design.n_samples,
                    design.k,
                    design.judge_error,
                    design.loss_slope,
                )
                together.setdefault(key, []).append((design, found))
    for (estimator, *_), several in together.items():
        if len(several) > 1:
            yield summarise(experiment, estimator, several)
