"""Tables of what the paper leaves open: comparisons, power, attrition, thresholds, calibration."""

from collections.abc import Sequence

from stages.records.finding import Comparison, Part
from stages.records.score import Cell
from stages.reporting.notes import how_made
from stages.reporting.paper_tables import of, percent
from stages.reporting.study import Study
from stages.reporting.tables import Column, Table, Value, without_empty_columns
from stages.reporting.words import METRICS, cell_label, varying_axes

AXES = ("target", "extractor", "editor", "judge")


def made(
    name: str,
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[tuple[Value, ...]],
    note: str = "",
) -> Table | None:
    """The table; None without rows."""
    return Table(name, caption, tuple(columns), tuple(rows), note) if rows else None


def p_column(key: str, head: str) -> Column:
    """A column of p-values."""
    return Column(key, head, digits=3, least=0.001)


def part_label(study: Study, part: Part) -> str:
    """What is held, as far as the study varies it; ``all`` where nothing is."""
    axes = varying_axes(study.cells) if study.cells else ()
    held = [getattr(part, axis) for axis in axes if axis in AXES and getattr(part, axis)]
    return " · ".join(held) or "all"


def cell_name(study: Study, cell: Cell) -> str:
    """A cell by the axes that vary."""
    return cell_label(cell, varying_axes(study.cells))


def comparisons(study: Study) -> Table | None:
    """Paired differences of targets."""
    return _comparisons(
        study,
        [row for row in study.findings.comparisons if row.axis == "target" and _whole(row)],
        "comparisons",
        "Paired differences of targets on the samples that both have: mean per-sample difference, "
        "first less second, with interval; sign-flip p, and p corrected for all pairs of one score "
        "and part (Holm).",
    )


def comparisons_by_part(study: Study) -> Table | None:
    """Paired differences of targets by domain and by position in the chain."""
    return _comparisons(
        study,
        [row for row in study.findings.comparisons if row.axis == "target" and not _whole(row)],
        "comparisons_by_part",
        "Paired differences of targets in binary CCS by domain and by position k in the chain; p "
        "corrected for all pairs of one domain or position (Holm).",
    )


def _whole(row: Comparison) -> bool:
    return row.domain is None and row.position is None


def effects(study: Study) -> Table | None:
    """Extractor against judge against editor, where they vary."""
    return _comparisons(
        study,
        [row for row in study.findings.comparisons if row.axis != "target"],
        "effects",
        "Effects of extractor, judge and editor within a target, averaged over the other axes that "
        "vary, on the samples that all of these have. The interaction says whether a judge favours "
        "the chains of its own extractor.",
    )


def _comparisons(study: Study, found: list[Comparison], name: str, caption: str) -> Table | None:
    rows: list[tuple[Value, ...]] = [
        (
            row.axis,
            part_label(study, row.part),
            row.first,
            row.second,
            METRICS[row.metric],
            row.domain,
            row.position,
            of(row.difference),
            row.p,
            row.p_holm,
            row.difference.n_samples,
            row.n_left_out,
            row.sd,
            row.test,
        )
        for row in found
    ]
    columns = (
        Column("axis", "Axis", data_only=all(row.axis == "target" for row in found)),
        Column("part", "Within"),
        Column("first", "First"),
        Column("second", "Second"),
        Column("metric", "Score"),
        Column("domain", "Domain"),
        Column("k", "k"),
        Column("difference", "Difference", signed=True, quantity=True),
        p_column("p", "p"),
        p_column("p_holm", "p, Holm"),
        Column("n_common", "Common samples"),
        Column("n_left_out", "Left out"),
        Column("sd", "SD"),
        Column("test", "Test", data_only=True),
    )
    if not rows:
        return None
    table = Table(name, caption, columns, tuple(rows), how_made(row.difference for row in found))
    return without_empty_columns(table, frozenset({"domain", "k"}))


def ranks(study: Study) -> Table | None:
    """Probability of each rank."""
    found = study.findings.ranks
    n = max((len(row.probabilities) for row in found), default=0)
    rows: list[tuple[Value, ...]] = [
        (
            part_label(study, row.part),
            METRICS[row.metric],
            row.target,
            row.expected,
            *row.probabilities,
            *[None] * (n - len(row.probabilities)),
            row.n_samples,
        )
        for row in found
    ]
    columns = (
        Column("part", "Within"),
        Column("metric", "Score"),
        Column("target", "Target"),
        Column("expected", "Expected rank"),
        *(Column(f"rank_{i}", f"P(rank {i})") for i in range(1, n + 1)),
        Column("n_samples", "Samples"),
    )
    caption = (
        "Probability of each rank of a target over joint resamples of the samples, 1 the best; "
        "targets that tie share the ranks."
    )
    return made("ranks", caption, columns, rows)


def power(study: Study) -> Table | None:
    """Samples needed to tell targets apart."""
    found = study.findings.power
    rows: list[tuple[Value, ...]] = [
        (
            part_label(study, row.part),
            row.first,
            row.second,
            METRICS[row.metric],
            "observed" if row.gap is None else f"{row.gap:g}",
            row.sd,
            row.n_common,
            row.n_planned,
            row.common_share,
            row.detectable,
            row.reason,
        )
        for row in found
    ]
    level = f"{100 * found[0].power:g} %" if found else ""
    return made(
        "power",
        f"Samples needed to find a difference of two targets with {level} probability by a "
        "two-sided paired test at 5 %, from the standard deviation of the per-sample "
        "differences at hand; to plan, with as much attrition as here.",
        (
            Column("part", "Within"),
            Column("first", "First"),
            Column("second", "Second"),
            Column("metric", "Score"),
            Column("gap", "True difference"),
            Column("sd", "SD"),
            Column("n_common", "Common samples needed"),
            Column("n_planned", "Samples to plan"),
            Column("common_share", "Share common"),
            Column("detectable", "Detectable with these"),
            Column("reason", "Why not"),
        ),
        rows,
    )


def rates(study: Study) -> Table | None:
    """Pass rates and losses."""
    rows: list[tuple[Value, ...]] = [
        (
            row.measure,
            row.by,
            row.group,
            row.unit,
            row.count,
            row.rate.n,
            percent(row.rate),
        )
        for row in study.findings.rates
    ]
    return made(
        "rates",
        "What came through, and what was lost, in per cent with Wilson interval. Verification "
        "counts each edit once, whoever judges it.",
        (
            Column("measure", "Measure"),
            Column("by", "By"),
            Column("group", "Group"),
            Column("unit", "Unit"),
            Column("count", "Count"),
            Column("n", "Of"),
            Column("rate", "Per cent", digits=1, quantity=True),
        ),
        rows,
    )


def bounds(study: Study) -> Table | None:
    """What lost edits could have done to the score."""
    rows: list[tuple[Value, ...]] = [
        (
            cell_name(study, row.cell),
            METRICS[row.metric],
            of(row.worst),
            of(row.observed),
            of(row.best),
            row.n_lost,
            row.n_planned,
            row.correlation,
            row.p,
            row.n_with_both,
        )
        for row in study.findings.bounds
    ]
    return made(
        "bounds",
        "Scores, had every planned edit been scored: all lost ones unfaithful, as observed, "
        "all lost ones faithful. What the loss could do is the distance of the three means; each "
        "interval tells of sampling alone, for the scores of its own column. Where all samples "
        "score alike nothing can be resampled, and a wider Wilson interval stands; a filled-in "
        "score ends that, so an interval may be narrower than the one beside it. Then the "
        "correlation, over samples, of the share of edits lost and the score of the others.",
        (
            Column("cell", "Row"),
            Column("metric", "Score"),
            Column("worst", "Lost = 0", quantity=True),
            Column("observed", "Observed", quantity=True),
            Column("best", "Lost = 1", quantity=True),
            Column("n_lost", "Lost edits"),
            Column("n_planned", "Planned edits"),
            Column("correlation", "Correlation", signed=True),
            p_column("p", "p"),
            Column("n_with_both", "Samples"),
        ),
        rows,
        how_made(m for r in study.findings.bounds for m in (r.worst, r.observed, r.best)),
    )


def sensitivity(study: Study) -> Table | None:
    """Every pair of thresholds."""
    rows: list[tuple[Value, ...]] = [
        (
            cell_name(study, row.cell),
            "warped" if row.warped else "not warped",
            row.tau_in,
            row.tau_out,
            "yes" if row.used else "no",
            of(row.acceptance),
            of(row.agreement) if row.agreement else None,
            row.ccs_binary,
            row.n_samples,
            row.n_scored,
            row.n_to_requery,
            row.n_to_edit,
            row.n_planned,
        )
        for row in study.findings.sensitivity
    ]
    return made(
        "sensitivity",
        "What other thresholds would have made of the attempts at hand, without a new call: "
        "share of attempts accepted, agreement with labels, CCS over the edits that stand, and "
        "how many edits would have to be asked about, or made, anew.",
        (
            Column("cell", "Row"),
            Column("change", "Change map"),
            Column("tau_in", "τ_in"),
            Column("tau_out", "τ_out"),
            Column("used", "As run"),
            Column("acceptance", "Accepted", quantity=True),
            Column("agreement", "Agrees with labels", quantity=True),
            Column("ccs_binary", "CCS binary"),
            Column("n_samples", "Samples"),
            Column("n_scored", "Scored edits"),
            Column("n_to_requery", "To ask about"),
            Column("n_to_edit", "To edit, at most"),
            Column("n_planned", "Planned edits"),
        ),
        rows,
    )


def coverage(study: Study) -> Table | None:
    """Simulated studies with a planted CCS."""
    rows: list[tuple[Value, ...]] = [
        (
            row.experiment,
            row.estimator.replace("_", " "),
            row.n_samples,
            row.k,
            row.planted,
            row.judge_error,
            row.loss_slope,
            row.replications,
            row.mean,
            row.bias,
            row.bias_error,
            percent(row.covered),
            row.n_estimable,
            row.width,
            row.scored,
        )
        for row in study.coverage
    ]
    return made(
        "calibration_table",
        "Simulated studies with a planted CCS, scored as real ones are: bias, and how often the "
        "interval holds what was planted, in per cent with Wilson interval. Planted –: all "
        "values between 0 and 1 together.",
        (
            Column("experiment", "Experiment"),
            Column("estimator", "Estimator"),
            Column("n_samples", "Samples"),
            Column("k", "k"),
            Column("planted", "Planted CCS"),
            Column("judge_error", "Judge error"),
            Column("loss_slope", "Loss slope"),
            Column("replications", "Studies"),
            Column("mean", "Mean estimate", digits=3),
            Column("bias", "Bias", digits=4, signed=True),
            Column("bias_error", "SE", digits=4),
            Column("covered", "Covered", digits=1, quantity=True),
            Column("n_estimable", "With interval"),
            Column("width", "Mean width", digits=3),
            Column("scored", "Scored edits", digits=1),
        ),
        rows,
    )
