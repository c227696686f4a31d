"""The tables of the protocol: Table 1, Table 3, the funnel, attrition by reason."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import astuple

from stages.records.score import Cell, Estimate, Intervention
from stages.reporting import notes
from stages.reporting.funnel import Step, funnel, verdicts
from stages.reporting.study import Study
from stages.reporting.tables import Column, Quantity, Table, Value, without_empty_columns
from stages.reporting.words import METRICS, cell_label, reason, varying_axes

HEADS = {
    "target": "Target",
    "extractor": "Extractor",
    "editor": "Editor",
    "judge": "Judge",
    "seed": "Seed",
}
CCS = ("ccs_binary", "ccs_graded")
_OPTIONAL = frozenset(
    {
        "planted_ccs",
        "planted_inside",
        "published_ccs_binary",
        "published_ccs_graded",
        "difference_ccs_binary",
        "difference_ccs_graded",
        "lost",
    }
)


def quantity(estimate: Estimate | None) -> Quantity:
    """The estimate as a table holds it."""
    return Quantity(estimate.mean, estimate.low, estimate.high) if estimate else Quantity(None)


def table1(study: Study) -> Table:
    """Main result: a row a cell, AC and EF by chain position, CCS over the chain."""
    axes = varying_axes(study.scored)
    positions = study.positions or (1, 2)
    columns = [
        *axis_columns(axes),
        *(
            Column(f"{metric}_{k}", f"{metric.upper()} k={k}", quantity=True)
            for metric in ("ac", "ef")
            for k in positions
        ),
        Column("ccs_binary", "CCS binary", quantity=True),
        Column("ccs_graded", "CCS graded", quantity=True),
        Column("planted_ccs", "Planted CCS"),
        Column("planted_inside", "Planted within interval"),
        *_published_columns(),
        Column("n_samples", "Samples"),
        Column("n_interventions", "Scored edits"),
        Column("n_graded", "Graded edits"),
        *(Column(f"n_{k}", f"Scored k={k}") for k in positions),
        Column("n_planned", "Planned edits"),
        Column("lost", "Lost", wrap=True),
        Column("ccs_binary_per_edit", "CCS binary, mean over edits", quantity=True),
        Column("ccs_graded_per_edit", "CCS graded, mean over edits", quantity=True),
    ]
    rows = []
    for cell in study.scored:
        binary, graded = study.estimate(cell, "ccs_binary"), study.estimate(cell, "ccs_graded")
        planted = study.planted.get(cell.target)
        rows.append(
            (
                *axis_values(cell, axes),
                *(
                    quantity(study.estimate(cell, metric, position=k))
                    for metric in ("ac", "ef")
                    for k in positions
                ),
                quantity(binary),
                quantity(graded),
                planted,
                _inside(planted, binary),
                *_published_values(study, cell, None),
                binary.n_samples if binary else 0,
                binary.n_interventions if binary else 0,
                graded.n_interventions if graded else 0,
                *(_n_at(study, cell, k) for k in positions),
                binary.n_planned if binary else None,
                lost(study, cell),
                quantity(study.estimate(cell, "ccs_binary", estimand="intervention_mean")),
                quantity(study.estimate(cell, "ccs_graded", estimand="intervention_mean")),
            )
        )
    caption = (
        "Answer consistency (AC) and explanation faithfulness (EF) by position k in the edit "
        "chain, and counterfactual consistency (CCS) over the chain: mean over samples with "
        f"{confidence(study)} interval. A later position is reached by fewer edits, of other "
        "samples: what differs between positions is not the position alone."
    )
    shown = [
        study.estimate(cell, metric, position=k)
        for cell in study.scored
        for metric, ks in (("ac", positions), ("ef", positions), *((m, (None,)) for m in CCS))
        for k in ks
    ]
    note = notes.joined(
        notes.how_made(shown), notes.judge_saw(study), notes.panel(study), notes.fixed_edits(study)
    )
    table = Table("table1", caption, tuple(columns), tuple(rows), note)
    return without_empty_columns(table, _OPTIONAL)


def lost(study: Study, cell: Cell, domain: str | None = None) -> str | None:
    """What a row lost and why, e.g. ``7 inside unchanged; 2 samples: no concepts``."""
    return lost_of(
        row
        for row in (*study.interventions, *study.panel)
        if row.cell == cell and domain in (None, row.domain)
    )


def lost_of(rows: Iterable[Intervention]) -> str | None:
    """What some rows lost and why, grades of scored edits last; None where nothing was lost."""
    rows = list(rows)
    counts = Counter((row.position == 0, str(row.status)) for row in rows if row.status != "ok")
    ranked = sorted(counts.items(), key=lambda item: (item[0][0], -item[1], item[0][1]))
    words = [
        f"{n} {'sample' + 's' * (n > 1) + ': ' if sample else ''}{status.replace('_', ' ')}"
        for (sample, status), n in ranked
    ]
    ungraded = verdicts(rows).binary_only
    words += [
        f"{n} grade{'s' * (n > 1)}: {status.replace('_', ' ')}" for status, n in ungraded.items()
    ]
    return "; ".join(words) or None


def published_table(study: Study) -> Table:
    """Every estimate that has a published number, beside it."""
    rows: list[tuple[Value, ...]] = []
    shown = []
    axes = varying_axes(study.cells)
    for cell in study.cells:
        for (target, domain, metric, k), published in study.published.items():
            ours = study.estimate(cell, metric, domain=domain, position=k)
            beside = study.published_beside(cell, metric, domain=domain, position=k)
            if target != cell.target or ours is None or beside is None:
                continue
            shown.append(ours)
            rows.append(
                (
                    *axis_values(cell, axes),
                    domain,
                    METRICS[metric],
                    k,
                    quantity(ours),
                    Quantity(*astuple(published)),
                    None if ours.mean is None else ours.mean - published.mean,
                    ours.n_samples,
                    ours.n_interventions,
                    ours.n_planned,
                )
            )
    return Table(
        "published",
        "Every number of Tables 1 and 3 beside the published one; the difference is ours less "
        "theirs.",
        (
            *axis_columns(axes),
            Column("domain", "Domain"),
            Column("metric", "Score"),
            Column("k", "k"),
            Column("ours", "Here", quantity=True),
            Column("published", "Published", quantity=True),
            Column("difference", "Difference", signed=True),
            Column("n_samples", "Samples"),
            Column("n_interventions", "Scored edits"),
            Column("n_planned", "Planned edits"),
        ),
        tuple(rows),
        notes.how_made(shown),
    )


def table3(study: Study) -> Table:
    """CCS by domain: a row a cell and domain."""
    axes = varying_axes(study.scored)
    rows = []
    for cell in study.scored:
        for domain in study.domains:
            binary = study.estimate(cell, "ccs_binary", domain=domain)
            graded = study.estimate(cell, "ccs_graded", domain=domain)
            rows.append(
                (
                    *axis_values(cell, axes),
                    domain,
                    quantity(binary),
                    quantity(graded),
                    *_published_values(study, cell, domain),
                    binary.n_samples if binary else 0,
                    binary.n_interventions if binary else 0,
                    graded.n_interventions if graded else 0,
                    binary.n_planned if binary else None,
                    lost(study, cell, domain),
                )
            )
    table = Table(
        "table3",
        f"CCS by domain: mean over samples with {confidence(study)} interval.",
        (
            *axis_columns(axes),
            Column("domain", "Domain"),
            Column("ccs_binary", "CCS binary", quantity=True),
            Column("ccs_graded", "CCS graded", quantity=True),
            *_published_columns(),
            Column("n_samples", "Samples"),
            Column("n_interventions", "Scored edits"),
            Column("n_graded", "Graded edits"),
            Column("n_planned", "Planned edits"),
            Column("lost", "Lost", wrap=True),
        ),
        tuple(rows),
        notes.joined(
            notes.how_made(
                study.estimate(cell, metric, domain=domain)
                for cell in study.scored
                for domain in study.domains
                for metric in CCS
            ),
            notes.judge_saw(study),
            notes.panel(study),
            notes.fixed_edits(study),
        ),
    )
    return without_empty_columns(table, _OPTIONAL)


def funnels(study: Study) -> Mapping[str, tuple[Step, ...]]:
    """The funnel of each cell by its label, after that of all cells together (``all``)."""
    axes = varying_axes(study.cells)
    by_label = {"all": funnel(study.interventions)}
    if len(study.cells) > 1:
        for cell in study.cells:
            rows = [row for row in study.interventions if row.cell == cell]
            by_label[cell_label(cell, axes)] = funnel(rows)
    return by_label


def funnel_table(study: Study) -> Table:
    """What came through each step, a column a cell."""
    by_label = funnels(study)
    steps = [*by_label.values()][-1]
    return Table(
        "funnel",
        "From samples to scored edits: how many came through each step.",
        (
            Column("step", "Step"),
            Column("unit", "Unit"),
            *(
                Column(_key(label), _all_rows(study) if label == "all" else label)
                for label in by_label
            ),
        ),
        tuple(
            (step.name, step.unit, *(by_label[label][i].kept for label in by_label))
            for i, step in enumerate(steps)
        ),
    )


def attrition_table(study: Study) -> Table:
    """Every loss: a row a cell, step and reason; and why candidates were never chosen."""
    rows: list[tuple[Value, ...]] = [
        ("all", "prepare", "candidates", why, why, n, None)
        for why, n in sorted(study.left_out.items())
    ]
    for label, steps in funnels(study).items():
        rows += [
            (label, step.key, step.unit, str(status), reason(status), n, n / step.entered)
            for step in steps
            for status, n in step.lost.items()
        ]
    return Table(
        "attrition",
        "What was lost at each step, and why; shares are of what reached the step.",
        (
            Column("cell", "Cell"),
            Column("step", "Step"),
            Column("unit", "Unit"),
            Column("status", "Status"),
            Column("reason", "Reason"),
            Column("n", "Lost"),
            Column("share", "Share"),
        ),
        tuple(rows),
    )


def _all_rows(study: Study) -> str:
    return f"All {len(study.cells)} rows" if len(study.cells) > 1 else "n"


def _key(label: str) -> str:
    return "n" if label == "all" else f"n {label}"


def axis_columns(axes: tuple[str, ...]) -> tuple[Column, ...]:
    return tuple(Column(axis, HEADS[axis]) for axis in axes)


def axis_values(cell: Cell, axes: tuple[str, ...]) -> tuple[str | int, ...]:
    return tuple(getattr(cell, axis) for axis in axes)


def _n_at(study: Study, cell: Cell, position: int) -> int:
    found = study.estimate(cell, "ac", position=position)
    return found.n_interventions if found else 0


def _inside(planted: float | None, estimate: Estimate | None) -> str | None:
    if planted is None or estimate is None or estimate.low is None or estimate.high is None:
        return None
    return "yes" if estimate.low <= planted <= estimate.high else "no"


def _published_columns() -> tuple[Column, ...]:
    return tuple(
        column
        for metric in ("binary", "graded")
        for column in (
            Column(f"published_ccs_{metric}", f"Published {metric}"),
            Column(f"difference_ccs_{metric}", f"Difference {metric}", signed=True),
        )
    )


def _published_values(study: Study, cell: Cell, domain: str | None) -> tuple[float | None, ...]:
    values: list[float | None] = []
    for metric in ("ccs_binary", "ccs_graded"):
        published = study.published_beside(cell, metric, domain=domain)
        ours = study.estimate(cell, metric, domain=domain)
        mean = ours.mean if ours else None
        values.append(published.mean if published else None)
        values.append(mean - published.mean if published and mean is not None else None)
    return tuple(values)


def confidence(study: Study) -> str:
    levels = sorted({e.confidence for e in study.estimates})
    return " and ".join(f"{100 * level:g} %" for level in levels) or "95 %"
