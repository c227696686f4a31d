"""Tables of raters: do judges agree, what do they say together, and what do people make of it."""

from collections.abc import Sequence

from stages.records.finding import AgreementRow
from stages.reporting.finding_tables import cell_name, made, p_column, part_label
from stages.reporting.notes import how_made
from stages.reporting.paper_tables import WHAT, of, percent
from stages.reporting.study import Study
from stages.reporting.tables import Column, Table, Value
from stages.reporting.words import METRICS


def judges(study: Study) -> Table | None:
    """Agreement of judges, and of replies of one judge."""
    return _raters(
        study,
        study.findings.judges,
        "judges",
        "Agreement of judges, or of replies of one judge: share identical in per cent (Wilson "
        "interval; bootstrap over samples), Cohen's κ of two (quadratic weights for grades), "
        "Krippendorff's α (nominal; ordinal for grades), and who said what (first→second).",
    )


def gate_and_verifier(study: Study) -> Table | None:
    """Agreement of gate and verifier on the attempts that both were asked about."""
    return _raters(
        study,
        study.findings.verifier,
        "gate_verifier",
        "Gate and verifier on the same attempts (1: accepted, 0: rejected): share identical in "
        "per cent (Wilson interval; bootstrap over samples), Cohen's κ, Krippendorff's α, and who "
        "said what (gate→verifier). Missing: the verifier gave no usable reply.",
    )


def _raters(study: Study, found: Sequence[AgreementRow], name: str, caption: str) -> Table | None:
    rows: list[tuple[Value, ...]] = [
        (
            row.comparison,
            part_label(study, row.part),
            WHAT[row.what],
            ", ".join(row.raters),
            row.agree,
            row.share.n,
            percent(row.share),
            percent(row.clustered),
            of(row.kappa) if row.kappa else None,
            of(row.alpha) if row.alpha else None,
            row.clustered.n_samples,
            row.n_missing,
            confusion(row),
        )
        for row in found
    ]
    return made(
        name,
        caption,
        (
            Column("comparison", "Between"),
            Column("part", "Within"),
            Column("what", "On"),
            Column("raters", "Raters"),
            Column("agree", "Agree"),
            Column("n", "n"),
            Column("share", "Per cent", digits=1, quantity=True),
            Column("clustered", "Clustered", digits=1, quantity=True),
            Column("kappa", "κ", quantity=True),
            Column("alpha", "α", quantity=True),
            Column("n_samples", "Samples"),
            Column("n_missing", "Missing"),
            Column("confusion", "Confusion", wrap=True),
        ),
        rows,
        how_made(m for r in found for m in (r.share, r.clustered, r.kappa, r.alpha)),
    )


def confusion(row: AgreementRow) -> str | None:
    """A confusion matrix in words: ``0→0: 12; 0→1: 3; …``."""
    return (
        "; ".join(
            f"{a:g}→{b:g}: {count}"
            for a, counts in zip(row.categories, row.confusion, strict=True)
            for b, count in zip(row.categories, counts, strict=True)
            if count
        )
        or None
    )


def judge_scores(study: Study) -> Table | None:
    """Scores made of several judges."""
    rows: list[tuple[Value, ...]] = [
        (
            part_label(study, row.part),
            METRICS[row.metric],
            ", ".join(row.judges),
            of(row.mean),
            of(row.mean_samples_only),
            of(row.vote),
            row.n_ties,
            row.mean.n_samples,
            row.mean_samples_only.n,
        )
        for row in study.findings.judge_scores
    ]
    return made(
        "judge_scores",
        "Several judges together: their mean, with an interval over judges and samples and one "
        "over samples alone; and their majority, ties missing.",
        (
            Column("part", "Within"),
            Column("metric", "Score"),
            Column("judges", "Judges"),
            Column("mean", "Mean", quantity=True),
            Column("samples_only", "Interval over samples alone", quantity=True),
            Column("vote", "Majority", quantity=True),
            Column("n_ties", "Ties"),
            Column("n_samples", "Samples"),
            Column("n", "Scored edits"),
        ),
        rows,
        how_made(
            m for r in study.findings.judge_scores for m in (r.mean, r.mean_samples_only, r.vote)
        ),
    )


def corrected(study: Study) -> Table | None:
    """Judge-corrected scores."""
    rows: list[tuple[Value, ...]] = [
        (
            cell_name(study, row.cell),
            METRICS[row.metric],
            of(row.judge_only),
            of(row.labels_only),
            of(row.corrected),
            row.tuning,
            row.n_labelled,
            row.n_unlabelled,
            row.imbalance_score,
            row.p_score,
            row.imbalance_position,
            row.p_position,
            {True: "yes", False: "no", None: None}[row.looks_random],
        )
        for row in study.findings.corrected
    ]
    return made(
        "corrected",
        "Means corrected by human labels (prediction-powered): the judge alone, the labels "
        "alone, both. A correction is worth what the randomness of its labels is worth: "
        "standardised differences beyond 0.25 or p below 0.05 say that they were chosen.",
        (
            Column("cell", "Row"),
            Column("metric", "Score"),
            Column("judge_only", "Judge alone", quantity=True),
            Column("labels_only", "Labels alone", quantity=True),
            Column("corrected", "Corrected", quantity=True),
            Column("tuning", "λ"),
            Column("n_labelled", "Labelled edits"),
            Column("n_unlabelled", "Others"),
            Column("imbalance_score", "Imbalance, score", signed=True),
            p_column("p_score", "p"),
            Column("imbalance_position", "Imbalance, k", signed=True),
            p_column("p_position", "p"),
            Column("looks_random", "Looks random"),
        ),
        rows,
        how_made(
            m for r in study.findings.corrected for m in (r.judge_only, r.labels_only, r.corrected)
        ),
    )
