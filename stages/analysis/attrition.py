"""What came through and what was lost, as a result of its own.

Edits are made for a target, an extractor, an editor and a seed, and are judged by several judges:
what concerns verification counts each edit once, whoever judges it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from stages.analysis.estimates import by_cell
from stages.analysis.fates import Trail
from stages.analysis.measures import Resampling, measured, rounded
from stages.records.base import Status
from stages.records.finding import BoundsRow, RateRow
from stages.records.score import Cell, Intervention
from stages.stats.attrition import bounds, loss_and_score, pass_rates
from stages.stats.interval import wilson
from stages.stats.resampling import stream

LOSS_DRAWS = 2000
"""Permutations of the test of loss against score: it describes, and decides nothing."""

Group = Callable[[Intervention], str]
GROUPS: dict[str, Group] = {
    "target": lambda row: row.cell.target,
    "extractor": lambda row: row.cell.extractor,
    "editor": lambda row: row.cell.editor,
    "judge": lambda row: row.cell.judge,
    "domain": lambda row: row.domain,
    "position": lambda row: str(row.position),
    "target × domain": lambda row: f"{row.cell.target} × {row.domain}",
    "editor × domain": lambda row: f"{row.cell.editor} × {row.domain}",
}


def rates(
    rows: Sequence[Intervention], trails: Mapping[Cell, Trail], confidence: float
) -> Iterator[RateRow]:
    """Pass rates by every axis, by domain, position and attempt; losses by reason."""
    once = _each_edit_once(rows)
    tried = [row for row in once if row.attempts > 0]
    yield from _by_groups("accepted", tried, lambda row: row.edited is not None, confidence)
    yield from _by_attempt(rows, trails, confidence)
    planned = [row for row in rows if row.position > 0]
    yield from _by_groups("scored", planned, lambda row: row.status is Status.OK, confidence)
    yield from _reasons(rows, confidence)


def _each_edit_once(rows: Sequence[Intervention]) -> list[Intervention]:
    seen = {
        (*_edit_cell(row.cell), row.sample_id, row.position): row
        for row in reversed(rows)
        if row.position > 0
    }
    return list(reversed(seen.values()))


def _edit_cell(cell: Cell) -> tuple[str, str, str, int]:
    return cell.target, cell.extractor, cell.editor, cell.seed


def _by_groups(
    measure: str, rows: list[Intervention], passed: Callable[[Intervention], bool], level: float
) -> Iterator[RateRow]:
    if not rows:
        return
    flags = [passed(row) for row in rows]
    everything = wilson(sum(flags), len(flags), confidence=level)
    yield RateRow(
        measure=measure,
        by="all",
        group="all",
        unit="edits",
        rate=measured(everything),
        count=sum(flags),
    )
    for by, group in GROUPS.items():
        groups = [group(row) for row in rows]
        parts = [set(part) for part in zip(*(g.split(" × ") for g in groups), strict=True)]
        if any(len(part) < 2 for part in parts) or (by == "judge" and measure == "accepted"):
            continue
        for name, interval in pass_rates(flags, groups, confidence=level).items():
            count = sum(flag and g == name for flag, g in zip(flags, groups, strict=True))
            yield RateRow(
                measure=measure,
                by=by,
                group=str(name),
                unit="edits",
                rate=measured(interval),
                count=count,
            )


def _by_attempt(
    rows: Sequence[Intervention], trails: Mapping[Cell, Trail], level: float
) -> Iterator[RateRow]:
    """Acceptance of first, second … attempts: of those that were made."""
    edit_cells = {_edit_cell(row.cell): row.cell for row in reversed(rows)}
    made = [
        attempt
        for cell in reversed(edit_cells.values())
        for attempt in trails[cell].attempts
        if attempt.attempt > 0
    ]
    for number in sorted({attempt.attempt for attempt in made}):
        flags = [a.status is Status.OK for a in made if a.attempt == number]
        yield RateRow(
            measure="accepted at attempt",
            by="attempt",
            group=str(number),
            unit="attempts",
            rate=measured(wilson(sum(flags), len(flags), confidence=level)),
            count=sum(flags),
        )


def _reasons(rows: Sequence[Intervention], level: float) -> Iterator[RateRow]:
    """Samples that never had a chain, of all samples; planned edits without score, of all."""
    early = [row for row in rows if row.position == 0]
    n_samples = len({(row.cell, row.sample_id) for row in rows})
    edits = [row for row in rows if row.position > 0]
    for unit, lost, n in (
        ("samples", early, n_samples),
        ("edits", [row for row in edits if row.status is not Status.OK], len(edits)),
    ):
        counts = Counter((row.stage, str(row.status)) for row in lost)
        for (stage, status), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            yield RateRow(
                measure="lost",
                by="reason",
                group=f"{stage}: {status}",
                unit=unit,
                rate=measured(wilson(count, n, confidence=level)),
                count=count,
            )


def bound(rows: Sequence[Intervention], resampling: Resampling) -> Iterator[BoundsRow]:
    """Between which values each score would lie, had everything that was planned been scored."""
    for cell, of_cell in by_cell(rows).items():
        planned = [row for row in of_cell if row.position > 0]
        samples = [row.sample_id for row in planned]
        for metric in ("ccs_binary", "ccs_graded"):
            values = np.array([getattr(row, metric) for row in planned], dtype=np.float64)
            name = (cell.model_dump_json(), metric)
            found = bounds(
                values,
                samples,
                rng=stream(resampling.seed, "bounds", *name),
                method=resampling.method,
                confidence=resampling.confidence,
                n_resamples=resampling.n,
            )
            related = loss_and_score(
                values,
                samples,
                rng=stream(resampling.seed, "loss", *name),
                n_resamples=min(resampling.n, LOSS_DRAWS),
            )
            yield BoundsRow(
                cell=cell,
                metric=metric,
                worst=measured(found.worst),
                observed=measured(found.observed),
                best=measured(found.best),
                n_lost=found.n_lost,
                n_planned=found.n_planned,
                correlation=rounded(related.correlation),
                p=rounded(related.test.p),
                n_with_both=related.n,
                test=related.test.method,
            )
