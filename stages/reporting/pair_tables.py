"""Tables of studies of pairs: what gate and verifier say, beside the labels."""

from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.reporting.study import LabelAgreement, PairStudy, Study
from stages.reporting.tables import Column, Quantity, Table, Value, without_empty_columns
from stages.reporting.words import percent, reason


def pairs_table(study: Study) -> Table:
    """Verdicts of the gate on pairs made elsewhere, beside their labels; and of the verifier."""
    rows = [_pair(pairs, attempt) for pairs in study.pairs for attempt in pairs.attempts]
    rows.sort(key=lambda row: row[4] != "no")
    table = Table(
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
            Column("verifier", "Verifier accepts"),
            Column("seen", "What it saw", wrap=True),
        ),
        tuple(rows),
    )
    return without_empty_columns(table, frozenset({"verifier", "seen"}))


def _pair(pairs: PairStudy, attempt: Attempt) -> tuple[Value, ...]:
    label = pairs.labels.get(attempt.sample_id)
    measured = attempt.measurement
    valid = attempt.gate is Status.OK
    look = attempt.inspection
    agree = None if label not in ("yes", "no") else (label == "yes") == valid
    return (
        attempt.sample_id,
        pairs.name,
        "yes" if valid else "no",
        label,
        None if agree is None else "yes" if agree else "no",
        measured.r_in if measured else None,
        measured.r_out if measured else None,
        str(attempt.gate),
        "changed where asked, and little elsewhere" if valid else reason(attempt.gate),
        {True: "yes", False: "no", None: "no usable reply"}[look.accepted] if look else None,
        (look.words or look.reason) if look else None,
    )


def raters_table(study: Study) -> Table | None:
    """Gate, verifier and both together, each against the labels; None without a verifier."""
    rows: list[tuple[Value, ...]] = []
    for pairs in study.pairs:
        gate = LabelAgreement(pairs.agree, pairs.n, 0, pairs.low, pairs.high)
        for name, said in {"gate": gate, **pairs.raters}.items() if pairs.raters else ():
            ends = (None if end is None else 100 * end for end in (said.low, said.high))
            share = Quantity(100 * said.agree / said.n if said.n else None, *ends)
            rows.append(
                (pairs.name, name.replace("_", " "), said.agree, said.n, share, said.missing)
            )
    if not rows:
        return None
    return Table(
        "pairs_raters",
        "Gate and verifier against the labels, each alone and together: per cent of the labelled "
        "pairs on which they say what the label says, with 95 % Wilson interval. Missing: the "
        "verifier gave no usable reply, or was not asked since nothing could be measured, and its "
        "word would have decided.",
        (
            Column("study", "Study"),
            Column("rater", "Who accepts"),
            Column("agree", "Agree"),
            Column("n", "n"),
            Column("share", "Per cent", digits=1, quantity=True),
            Column("missing", "Missing"),
        ),
        tuple(rows),
        "Every interval here: Wilson interval.",
    )


def crossed_table(study: Study) -> Table:
    """What the gate said against what the label says: two rows a study."""
    rows: list[tuple[Value, ...]] = []
    for pairs in study.pairs:
        for accepted, name in ((True, "accepted"), (False, "rejected")):
            said = [
                pairs.labels.get(attempt.sample_id)
                for attempt in pairs.attempts
                if (attempt.gate is Status.OK) == accepted
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
