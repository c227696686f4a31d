"""Tables 2, 4 and 5 of the paper, each beside the published numbers."""

from collections.abc import Iterable

from stages.records.finding import AgreementRow, Measured, Part
from stages.reporting.notes import fixed_edits, how_made, joined, judge_saw
from stages.reporting.protocol_tables import (
    HEADS,
    confidence,
    lost,
    lost_of,
    quantity,
)
from stages.reporting.study import PublishedAgreement, Study
from stages.reporting.tables import Column, Quantity, Table, Value, without_empty_columns
from stages.reporting.words import METRICS, varying_axes

RUN_TARGET = "gemini_2_5_flash"
"""The target that the paper ran five times."""
SCORES = ("ccs_binary", "ccs_graded")
COMPARISONS = {
    "human_consensus_vs_edct": "Annotators' consensus with EDCT",
    "all_three_identical": "Both annotators and EDCT identical",
    "all_identical": "All annotators and EDCT identical",
    "all_humans_identical": "All annotators identical",
}
WHAT = {
    "ccs_binary": "CCS, binary",
    "ac": "AC",
    "ef": "EF",
    "grade": "Grade",
    "edit_validity": "Edit valid",
}


def of(measured: Measured | None) -> Quantity:
    """A measured number as a table holds it."""
    return Quantity(measured.mean, measured.low, measured.high) if measured else Quantity(None)


def percent(measured: Measured | None) -> Quantity:
    """A measured share in per cent."""
    return Quantity(*(None if v is None else 100 * v for v in of(measured)))


def table2(study: Study) -> Table | None:
    """Extractor, judge and editor varied; the rows of one LLM in both roles come first."""
    models = {(c.extractor, c.judge, c.editor) for c in study.cells}
    if len(models) < 2:
        return None
    rows: list[tuple[Value, ...]] = []
    for cell in sorted(study.cells, key=lambda c: c.extractor != c.judge):
        values: list[Value] = []
        for metric in SCORES:
            key = cell.target, cell.extractor, cell.editor, metric
            own = cell.extractor == cell.judge and cell.extractor not in study.fixed
            published = study.reference.pipelines.get(key) if own else None
            ours = study.estimate(cell, metric)
            mean = ours.mean if ours else None
            values += [
                quantity(ours),
                published.mean if published else None,
                mean - published.mean if published and mean is not None else None,
            ]
        binary = study.estimate(cell, "ccs_binary")
        rows.append(
            (
                cell.target,
                cell.extractor,
                cell.judge,
                "yes" if cell.extractor == cell.judge else "no",
                cell.editor,
                cell.seed,
                *values,
                binary.n_samples if binary else 0,
                binary.n_interventions if binary else 0,
                binary.n_planned if binary else None,
                lost(study, cell),
            )
        )
    columns = [
        *(Column(axis, HEADS[axis]) for axis in ("target", "extractor", "judge")),
        Column("same", "Same LLM"),
        Column("editor", "Editor"),
        Column("seed", "Seed", data_only=True),
    ]
    for metric in SCORES:
        columns += [
            Column(metric, METRICS[metric], quantity=True),
            Column(f"published_{metric}", "Published"),
            Column(f"difference_{metric}", "Difference", signed=True),
        ]
    caption = (
        "CCS by extractor, judge and editor: mean over samples with "
        f"{confidence(study)} interval. The paper has one LLM as extractor and judge; rows in "
        "which they differ stand below, and tell the two effects apart (table effects)."
    )
    made = how_made(study.estimate(cell, metric) for cell in study.cells for metric in SCORES)
    note = joined(made, judge_saw(study), fixed_edits(study))
    table = Table("table2", caption, (*columns, *_counts()), tuple(rows), note)
    return without_empty_columns(
        table, frozenset({f"{kind}_{m}" for kind in ("published", "difference") for m in SCORES})
    )


def table4(study: Study) -> Table | None:
    """Agreement of people with one another, with the automatic score, and with the gate."""
    ours = [*study.findings.people, *study.findings.gate]
    named = not study.fixed and any(_in_paper(study, cell.target) for cell in study.cells)
    if not ours and not named:
        return None
    rows = [_agreement(row, _published_agreement(study, row)) for row in ours]
    found = {(row.comparison, row.what) for row in ours}
    rows += [
        _agreement(None, published)
        for published in study.reference.agreement
        if named and (published.comparison, published.what) not in found
    ]
    table = Table(
        "table4",
        "Agreement on binary CCS (and AC, EF) between annotators and the automatic score, and of "
        "the verification gate with annotators on edit validity, in per cent: Wilson interval, and "
        "bootstrap over samples. A human CCS exists only where the edit was marked valid and AC "
        "and EF were given; anything else is missing. Strict: only edits that every annotator "
        "judged in full.",
        (
            Column("comparison", "Comparison"),
            Column("what", "On"),
            Column("subset", "Subset"),
            Column("judge", "Judge"),
            Column("agree", "Agree"),
            Column("n", "n"),
            Column("share", "Per cent", digits=1, quantity=True),
            Column("clustered", "Clustered", digits=1, quantity=True),
            Column("kappa", "κ", quantity=True),
            Column("alpha", "α", quantity=True),
            Column("n_samples", "Samples"),
            Column("n_missing", "Missing"),
            Column("published_agree", "Published: agree"),
            Column("published_n", "n"),
            Column("published", "Per cent", digits=1, quantity=True),
            Column("difference", "Difference", digits=1, signed=True),
        ),
        tuple(rows),
        joined(
            how_made(m for row in ours for m in (row.share, row.clustered, row.kappa, row.alpha)),
            fixed_edits(study),
        ),
    )
    return without_empty_columns(
        table, frozenset({"published_agree", "published_n", "published", "difference"})
    )


def _in_paper(study: Study, target: str) -> bool:
    return any(key[0] == target for key in study.published)


def _published_agreement(study: Study, row: AgreementRow) -> PublishedAgreement | None:
    targets = [row.part.target] if row.part.target else [cell.target for cell in study.cells]
    if row.subset != "all" or study.fixed or not all(_in_paper(study, t) for t in targets):
        return None
    for published in study.reference.agreement:
        if (published.comparison, published.what) == (row.comparison, row.what):
            return published
    return None


def _agreement(row: AgreementRow | None, published: PublishedAgreement | None) -> tuple[Value, ...]:
    named = row or published
    name, what = (named.comparison, named.what) if named else ("", "")
    theirs = Quantity(None)
    if published:
        ends = (100 * end if end is not None else None for end in (published.low, published.high))
        theirs = Quantity(100 * published.agree / published.n, *ends)
    ours = percent(row.share) if row else Quantity(None)
    return (
        COMPARISONS.get(name, name.replace("_", " ")),
        WHAT.get(what, what),
        row.subset if row else None,
        row.part.judge if row else None,
        row.agree if row else None,
        row.share.n if row else None,
        ours,
        percent(row.clustered) if row else None,
        of(row.kappa) if row and row.kappa else None,
        of(row.alpha) if row and row.alpha else None,
        row.clustered.n_samples if row else None,
        row.n_missing if row else None,
        published.agree if published else None,
        published.n if published else None,
        theirs if published else None,
        ours.mean - theirs.mean if ours.mean is not None and theirs.mean is not None else None,
    )


def table5(study: Study) -> Table | None:
    """Whole runs: mean ± SD, and intervals over runs and over runs and samples."""
    if not study.findings.runs:
        return None
    axes = tuple(axis for axis in varying_axes(study.cells) if axis != "seed") or ("target",)
    rows: list[tuple[Value, ...]] = []
    for row in study.findings.runs:
        own = row.part.target == RUN_TARGET and row.part.extractor not in study.fixed
        published = study.reference.runs.get(row.metric) if own else None
        mean = row.two_level.mean
        rows.append(
            (
                *(getattr(row.part, axis) for axis in axes),
                METRICS[row.metric],
                len(row.seeds),
                of(row.two_level),
                row.sd,
                of(row.over_runs),
                ", ".join(f"{value:.3f}" for value in row.run_means),
                published.mean if published else None,
                published.sd if published else None,
                mean - published.mean if published and mean is not None else None,
                row.two_level.n_samples,
                row.two_level.n,
                len([r for r in study.interventions if _within(row.part, r.cell) and r.position]),
                lost_of(r for r in study.interventions if _within(row.part, r.cell)),
            )
        )
    table = Table(
        "table5",
        "Several whole runs: mean over runs of the mean over samples, with a bootstrap interval "
        "over runs and samples; standard deviation between runs; Student's t interval over runs, "
        "which does not hold the samples' own variance.",
        (
            *(Column(axis, HEADS[axis]) for axis in axes),
            Column("metric", "Score"),
            Column("runs", "Runs"),
            Column("mean", "Mean", digits=3, quantity=True),
            Column("sd", "SD", digits=4),
            Column("over_runs", "t over runs", digits=3, quantity=True),
            Column("run_means", "Each run", wrap=True),
            Column("published_mean", "Published mean", digits=4),
            Column("published_sd", "SD", digits=4),
            Column("difference", "Difference", digits=3, signed=True),
            *_counts(),
        ),
        tuple(rows),
        joined(
            how_made(m for row in study.findings.runs for m in (row.two_level, row.over_runs)),
            fixed_edits(study),
        ),
    )
    return without_empty_columns(
        table, frozenset({"published_mean", "published_sd", "difference", "lost"})
    )


def _within(part: Part, cell: object) -> bool:
    return all(getattr(cell, axis) == level for axis, level in part.model_dump().items() if level)


def _counts() -> Iterable[Column]:
    return (
        Column("n_samples", "Samples"),
        Column("n_interventions", "Scored edits"),
        Column("n_planned", "Planned edits"),
        Column("lost", "Lost", wrap=True),
    )
