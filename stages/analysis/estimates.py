"""Estimates of every cell, over all, by position and by domain; and of whole runs together."""

from collections.abc import Iterator, Sequence

import numpy as np

from stages.analysis.measures import METRICS, Resampling, Scores, measured, rounded, scores
from stages.records.finding import Part, RunSpread
from stages.records.score import Cell, Estimate, Intervention
from stages.stats.estimates import Estimand, estimate, sample_mean
from stages.stats.resampling import stream
from stages.stats.variance import run_spread, two_level

ESTIMANDS: tuple[Estimand, ...] = ("sample_mean", "intervention_mean")


def estimate_cells(rows: Sequence[Intervention], resampling: Resampling) -> Iterator[Estimate]:
    """Estimate every metric of every cell: over all, by position, by domain.

    At one position a sample has one score at most, and both estimands are one number.
    """
    domains = [None, *sorted({row.domain for row in rows})]
    positions = [None, *sorted({row.position for row in rows if row.position > 0})]
    for cell, of_cell in by_cell(rows).items():
        planned = [row for row in of_cell if row.position > 0]
        for domain in domains:
            here = [row for row in planned if domain in (None, row.domain)]
            for position in positions:
                if domain is not None and position is not None:
                    continue
                kept = [row for row in here if position in (None, row.position)]
                for metric in METRICS:
                    found: Estimate | None = None
                    for estimand in ESTIMANDS:
                        if found is None or position is None:
                            found = estimate_part(
                                cell, metric, domain, position, estimand, kept, resampling
                            )
                        yield found.model_copy(update={"estimand": estimand})


def by_cell(rows: Sequence[Intervention]) -> dict[Cell, list[Intervention]]:
    """Interventions of each cell, in order of appearance."""
    cells: dict[Cell, list[Intervention]] = {}
    for row in rows:
        cells.setdefault(row.cell, []).append(row)
    return cells


def estimate_part(
    cell: Cell,
    metric: str,
    domain: str | None,
    position: int | None,
    estimand: Estimand,
    rows: Sequence[Intervention],
    resampling: Resampling,
) -> Estimate:
    """Estimate one metric from the planned edits of one part of a cell."""
    found = scores(rows, metric)
    name = (*(str(axis) for axis in cell.model_dump().values()), metric, f"{domain}", f"{position}")
    interval = estimate(
        found.values,
        found.samples,
        rng=stream(resampling.seed, "estimate", *name, estimand),
        estimand=estimand,
        method=resampling.method,
        confidence=resampling.confidence,
        n_resamples=resampling.n,
    )
    return Estimate(
        cell=cell,
        metric=metric,
        domain=domain,
        position=position,
        estimand=estimand,
        mean=rounded(interval.mean),
        low=rounded(interval.low),
        high=rounded(interval.high),
        confidence=interval.confidence,
        method=interval.method,
        n_samples=interval.n_clusters,
        n_interventions=interval.n,
        n_planned=len(rows),
    )


def spread_over_runs(rows: Sequence[Intervention], resampling: Resampling) -> Iterator[RunSpread]:
    """Mean ± SD over seeds, and a bootstrap over seeds and samples; nothing for a single seed."""
    runs: dict[Part, dict[int, list[Intervention]]] = {}
    for cell, of_cell in by_cell(rows).items():
        part = Part(
            target=cell.target, extractor=cell.extractor, editor=cell.editor, judge=cell.judge
        )
        runs.setdefault(part, {})[cell.seed] = of_cell
    for part, by_seed in runs.items():
        if len(by_seed) < 2:
            continue
        for metric in METRICS:
            found = {seed: scores(of_run, metric) for seed, of_run in by_seed.items()}
            yield _spread(part, metric, {s: f for s, f in found.items() if f.samples}, resampling)


def _spread(
    part: Part, metric: str, by_seed: dict[int, Scores], resampling: Resampling
) -> RunSpread:
    means = [sample_mean(found.values, found.samples) or 0.0 for found in by_seed.values()]
    over_runs = run_spread(means, confidence=resampling.confidence)
    both = two_level(
        np.concatenate([found.values for found in by_seed.values()] or [np.zeros(0)]),
        [sample for found in by_seed.values() for sample in found.samples],
        [seed for seed, found in by_seed.items() for _ in found.samples],
        rng=stream(resampling.seed, "runs", part.model_dump_json(), metric),
        confidence=resampling.confidence,
        n_resamples=resampling.n,
    )
    return RunSpread(
        part=part,
        metric=metric,
        seeds=tuple(by_seed),
        run_means=tuple(round(mean, 12) for mean in means),
        sd=rounded(over_runs.sd),
        over_runs=measured(over_runs.interval),
        two_level=measured(both),
    )
