"""Gate and verifier against labels and each other: what is missing decides nothing."""

import pytest

from stages.analysis.thresholds import Gate, sweep
from stages.analysis.verification import RATERS, against_labels, gate_and_verifier, says
from stages.records.attempt import Attempt, Inspection
from stages.records.base import Status
from stages.stats.agreement import wilson

GATE = Gate([0.05, 0.1, 0.4], [0.15, 0.3], (0.1, 0.3), 2, "stop")


def looked(attempt: Attempt, accepted: bool | None, status: Status | None = None) -> Attempt:
    inspection = Inspection(
        status=Status.UNPARSED if accepted is None else Status.OK,
        change_present=accepted,
        rest_unchanged=accepted,
        accepted=accepted,
        gate=attempt.status,
    )
    return attempt.model_copy(update={"inspection": inspection, "status": status or attempt.status})


def pair(gate: bool, verifier: bool | str | None) -> Attempt:
    row = Attempt(
        sample_id="p", position=1, attempt=1, instruction="i", edit_type="modify",
        target_object="o", status=Status.OK if gate else Status.INSIDE_UNCHANGED,
    )  # fmt: skip
    return row if verifier == "nobody" else looked(row, verifier)


@pytest.mark.parametrize(
    ("gate", "verifier", "words"),
    [
        (True, True, (True, True, True, True)),
        (True, False, (True, False, False, True)),
        (False, True, (False, True, False, True)),
        (False, False, (False, False, False, False)),
        (True, None, (True, None, None, True)),
        (False, None, (False, None, False, None)),
        (False, "nobody", (False, None, False, None)),
    ],
)
def test_a_missing_word_is_missing_only_where_it_would_decide(gate, verifier, words):
    assert tuple(says(rater, pair(gate, verifier)) for rater in RATERS) == words


def test_agreement_with_labels_counts_what_is_known():
    pairs = [pair(True, True), pair(True, False), pair(False, None), pair(True, None)]
    found = against_labels([*pairs, pair(True, True)], ["yes", "no", "no", "no", "unsure"])
    counts = {r: (v["agree"], v["n"], v["missing"]) for r, v in found.items()}
    assert counts == {
        "gate": (2, 4, 0),
        "verifier": (2, 2, 2),
        "gate_and_verifier": (3, 3, 1),
        "gate_or_verifier": (1, 3, 1),
    }
    ends = wilson(2, 4)
    assert (found["gate"]["low"], found["gate"]["high"]) == (
        round(ends.low, 6),
        round(ends.high, 6),
    )


def test_without_a_verifier_the_gate_stands_alone():
    assert set(against_labels([pair(True, "nobody")], ["yes"])) == {"gate"}
    nothing = against_labels([pair(True, None)], ["unsure"])["verifier"]
    assert (nothing["n"], nothing["low"], nothing["high"]) == (0, None, None)


def test_attempts_count_once_whoever_judges_them(study, cell, quick):
    made = study({cell(judge="a"): 0.5})
    (trail,) = made.trails.values()
    attempts = [looked(a, i % 3 != 0) if a.attempt else a for i, a in enumerate(trail.attempts)]
    trails = {cell(judge=judge): trail._replace(attempts=attempts) for judge in "ab"}
    (row,) = gate_and_verifier(trails, quick)
    seen = [a for a in attempts if a.attempt]
    assert (row.share.n, row.n_missing) == (len(seen), 0)
    assert row.agree == sum((a.status is Status.OK) == a.inspection.accepted for a in seen)
    assert not list(gate_and_verifier(made.trails, quick))


def test_what_a_verifier_decided_no_threshold_overrules(study, cell, quick):
    made = study({cell(): 0.5})
    (trail,) = made.trails.values()
    plain = {(r.tau_in, r.tau_out): r for r in points(made.rows, made.trails, "report_only")}
    deaf = trail._replace(attempts=[looked(a, True) if a.attempt else a for a in trail.attempts])
    assert points(made.rows, {cell(): deaf}, "and") == list(plain.values())
    strict = trail._replace(attempts=[looked(a, False) if a.attempt else a for a in trail.attempts])
    assert {r.acceptance.mean for r in points(made.rows, {cell(): strict}, "and")} == {0.0}
    assert points(made.rows, {cell(): strict}, "report_only") == list(plain.values())
    assert points(made.rows, {cell(): strict}, "or") == list(plain.values())
    (used,) = {r.acceptance.mean for r in points(made.rows, {cell(): deaf}, "or")}
    assert used == 1.0


def points(rows, trails, mode):
    gate = GATE._replace(with_verifier=mode)
    return [r for r in sweep(rows, trails, gate, {}, 0.95) if r.warped]
