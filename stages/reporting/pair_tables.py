"""Tables of studies of pairs: the gate's verdicts beside the labels."""

from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.reporting.study import PairStudy, Study
from stages.reporting.tables import Column, Table, Value
from stages.reporting.words import percent, reason


def pairs_table(study: Study) -> Table:
    """Verdicts of the gate on pairs made elsewhere, beside their labels."""
    rows = [_pair(pairs, attempt) for pairs in study.pairs for attempt in pairs.attempts]
    rows.sort(key=lambda row: row[4] != "no")
    return Table(
        "pairs",
        "Edit verification on pairs made elsewhere, beside the label of each pair; pairs on which "
        "they disagree come first.",
        (
            Column("pair", "Pair"),
            Column("study", "Study"),
            Column("accepted", "Gate accepts"),
            Column("label", "Label: valid"),
            Column("agree", "Agree"),
            Column("r_in", "r_in", digits=3),
            Column("r_out", "r_out", digits=3),
            Column("status", "Status", data_only=True),
            Column("verdict", "Why"),
        ),
        tuple(rows),
    )


def _pair(pairs: PairStudy, attempt: Attempt) -> tuple[Value, ...]:
    label = pairs.labels.get(attempt.sample_id)
    measured = attempt.measurement
    valid = attempt.status is Status.OK
    agree = None if label not in ("yes", "no") else (label == "yes") == valid
    return (
        attempt.sample_id,
        pairs.name,
        "yes" if valid else "no",
        label,
        None if agree is None else "yes" if agree else "no",
        measured.r_in if measured else None,
        measured.r_out if measured else None,
        str(attempt.status),
        "changed where asked, and little elsewhere" if valid else reason(attempt.status),
    )


def crossed_table(study: Study) -> Table:
    """What the gate said against what the label says: two rows a study."""
    rows: list[tuple[Value, ...]] = []
    for pairs in study.pairs:
        for accepted, name in ((True, "accepted"), (False, "rejected")):
            said = [
                pairs.labels.get(attempt.sample_id)
                for attempt in pairs.attempts
                if (attempt.status is Status.OK) == accepted
            ]
            counts = [said.count("yes"), said.count("no")]
            rows.append((pairs.name, name, *counts, len(said) - sum(counts), len(said)))
    return Table(
        "pairs_crossed",
        "The gate's verdict against the label. Pairs without a label, or with one that is unsure, "
        "count in no agreement.",
        (
            Column("study", "Study"),
            Column("gate", "Gate"),
            Column("valid", "Labelled valid"),
            Column("invalid", "Labelled invalid"),
            Column("unsure", "No clear label"),
            Column("n", "Pairs"),
        ),
        tuple(rows),
        " ".join(f"In {pairs.name} {agreement(pairs)}." for pairs in study.pairs),
    )


def agreement(pairs: PairStudy) -> str:
    """The gate's agreement with the labels, and what a gate without eyes would reach, in words."""
    if not pairs.n:
        return "no pair carries a label to agree with"
    said = f"the gate agrees with the label on {pairs.agree} of {pairs.n} pairs "
    said += f"({percent(pairs.agree / pairs.n)}"
    if pairs.low is not None and pairs.high is not None:
        said += f"; 95 % Wilson interval {100 * pairs.low:.1f} to {100 * pairs.high:.1f} %"
    do, n = blind(pairs)
    said += f"); {do} every pair would agree on {n} ({percent(n / pairs.n)})"
    failed = sum(attempt.measurement is None for attempt in pairs.attempts)
    if failed:
        said += f"; {failed} of all pairs could not be measured and count as rejected"
    return said


def blind(pairs: PairStudy) -> tuple[str, int]:
    """The better of accepting and of rejecting every pair, and on how many it agrees."""
    valid = list(pairs.labels.values()).count("yes")
    return ("accepting", valid) if 2 * valid >= pairs.n else ("rejecting", pairs.n - valid)
