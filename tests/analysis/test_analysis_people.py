"""People's judgements: the published Table 4 from the published counts, and what is missing."""

import csv
from pathlib import Path

import numpy as np
import pytest

from stages.analysis.fates import follow
from stages.analysis.people import (
    agreement_with_people,
    correct,
    gate_validity,
    match,
    validity,
)
from stages.records.annotation import Annotation
from stages.records.base import Status

TABLE4 = Path(__file__).parents[2] / "data" / "reference" / "table4.csv"
PUBLISHED = {
    (row["comparison"], row["what"]): row for row in csv.DictReader(TABLE4.open(encoding="utf-8"))
}


def one(found, **wanted):
    (row,) = [r for r in found if all(getattr(r, k) == v for k, v in wanted.items())]
    return row


def note(row, annotator, ccs=None, valid="yes", **more):
    """What an annotator says of an intervention: AC 1 throughout, EF as the CCS."""
    said = {} if ccs is None else {"ac": 1, "ef": ccs}
    cell = row.cell
    return Annotation(
        sample_id=row.sample_id,
        target=cell.target,
        extractor=cell.extractor,
        editor=cell.editor,
        seed=cell.seed,
        position=row.position,
        annotator=annotator,
        valid=valid,
        **{**said, **more},
    )


@pytest.fixture(scope="module")
def made(study, cell):
    from stages.analysis.simulation import Design

    return study({cell(): 0.5}, Design(150, 1, 0.5, 0.5, 0.9, 2, 0.0))


def published_labels(rows):
    """Labels with the published counts: both annotators judged 100 edits and agree on 88, of which
    the judge shares 83; where they differ it sides with the first 3 times; the second judged 12
    more, and the judge agrees with 7."""
    scored = [row for row in rows if row.status is Status.OK][:112]
    labels = []
    for i, row in enumerate(scored):
        judge = int(row.ccs_binary)
        first = judge if i < 83 or 88 <= i < 91 else 1 - judge
        second = judge if i < 83 or 91 <= i < 100 or 100 <= i < 107 else 1 - judge
        if i < 100:
            labels.append(note(row, "ann", first))
        labels.append(note(row, "bob", second))
    return labels


@pytest.mark.parametrize(
    "comparison",
    [
        "human_1_vs_human_2",
        "human_1_vs_edct",
        "human_2_vs_edct",
        "human_consensus_vs_edct",
        "all_three_identical",
    ],
)
def test_published_agreement_comes_out_of_labels_with_the_published_counts(made, quick, comparison):
    labels = match(published_labels(made.rows), made.trails)
    found = agreement_with_people(labels, made.rows, quick)
    ours = one(found, comparison=comparison, what="ccs_binary", subset="all")
    theirs = PUBLISHED[comparison, "ccs_binary"]
    assert (ours.agree, ours.share.n) == (int(theirs["agree"]), int(theirs["n"]))
    for value, column in (
        (ours.share.mean, "agreement_pct"),
        (ours.share.low, "ci_low_pct"),
        (ours.share.high, "ci_high_pct"),
    ):
        assert 100 * value == pytest.approx(float(theirs[column]), abs=0.1)


def test_published_gate_agreement_comes_out_of_labels_with_the_published_counts(study, cell, quick):
    from stages.analysis.simulation import Design

    made = study({cell(): 0.5}, Design(160, 1, 0.5, 0.5, 0.5, 2, 0.0))
    rows = [row for row in made.rows if row.attempts][:128]
    labels = []
    for i, row in enumerate(rows):
        gate = "yes" if row.edited else "no"
        other = "no" if row.edited else "yes"
        # Both agree with the gate on 110, the first alone on 5, the second on 12, neither on 1.
        labels.append(note(row, "ann", valid=gate if i < 115 else other))
        labels.append(note(row, "bob", valid=gate if i < 110 or 115 <= i < 127 else other))
    found = list(gate_validity(match(labels, made.trails), quick))
    for comparison in ("gate_vs_human_1", "gate_vs_human_2", "human_1_vs_human_2"):
        ours = one(found, comparison=comparison)
        theirs = PUBLISHED[comparison, "edit_validity"]
        assert (ours.agree, ours.share.n) == (int(theirs["agree"]), int(theirs["n"]))
        assert 100 * ours.share.mean == pytest.approx(float(theirs["agreement_pct"]), abs=0.1)


def test_missing_is_missing(made, quick):
    scored = [row for row in made.rows if row.status is Status.OK]
    labels = [
        note(scored[0], "ann", 1),
        note(scored[1], "ann", 1, valid="no"),
        note(scored[2], "ann", 1, valid="cant_tell"),
        note(scored[3], "ann", ac=1),
        note(scored[4], "ann", ef=0),
        note(scored[0], "bob", 1),
    ]
    found = agreement_with_people(match(labels, made.trails), made.rows, quick)
    row = one(found, comparison="human_1_vs_edct", what="ccs_binary", subset="all")
    assert (row.share.n, row.n_missing) == (1, 4)
    gate = list(gate_validity(match(labels, made.trails), quick))
    assert one(gate, comparison="gate_vs_human_1").share.n == 4


def test_the_strict_subset_is_what_everybody_judged_in_full(made, quick):
    labels = match(published_labels(made.rows), made.trails)
    found = list(agreement_with_people(labels, made.rows, quick))
    strict = one(found, comparison="human_2_vs_edct", what="ccs_binary", subset="strict")
    assert strict.share.n == 100


def test_labels_of_another_study_and_of_another_image_are_told_apart(made):
    row = next(r for r in made.rows if r.edited)
    labels = match(
        [
            note(row, "ann", 1, edited=row.edited),
            note(row, "bob", 1, edited="1" * 64),
            note(row, "cat", 1).model_copy(update={"target": "another"}),
            note(row, "dan", 1, attempt=9),
        ],
        made.trails,
    )
    assert [label.annotation.annotator for label in labels.rows] == ["ann"]
    assert (labels.n_stale, labels.n_elsewhere) == (1, 2)


def test_nothing_is_said_without_labels(made, quick):
    labels = match([], made.trails)
    assert list(agreement_with_people(labels, made.rows, quick)) == []
    assert list(gate_validity(labels, quick)) == []
    assert list(correct(labels, made.rows, quick)) == []


def test_validity_is_what_most_say_and_ties_are_left_out(made, cell):
    a, b, c = [row for row in made.rows if row.edited][:3]
    labels = match(
        [
            *(
                note(a, who, valid=said)
                for who, said in zip("xyz", ("yes", "no", "yes"), strict=True)
            ),
            note(b, "x", valid="yes"),
            note(b, "y", valid="no"),
            note(c, "x", valid="cant_tell"),
        ],
        made.trails,
    )
    assert validity(labels, cell()) == {(a.sample_id, 1, a.attempts): 1.0}


@pytest.fixture(scope="module")
def lenient(study, cell):
    """A judge that says yes to a third of what is unfaithful; the truth is known."""
    from stages.analysis.simulation import Design

    made = study({cell(): 0.4}, Design(300, 2, 0.4, 0.5, 0.9, 2, 0.0))
    (trail,) = made.trails.values()
    rng = np.random.default_rng(5)
    judged = [
        v.model_copy(update={"answer_consistent": 1, "explanation_faithful": 1, "ccs_binary": 1})
        if rng.random() < 1 / 3
        else v
        for v in trail.judgements
    ]
    wrong = {cell(): trail._replace(judgements=judged)}
    truth = {(r.sample_id, r.position): r.ccs_binary for r in made.rows}
    return wrong, [r for c, t in wrong.items() for r in follow(c, made.samples, t)], truth


def test_a_lenient_judge_is_corrected_by_random_labels(lenient, quick):
    trails, rows, truth = lenient
    chosen = {f"s{i:04d}" for i in np.random.default_rng(0).permutation(300)[:90]}
    labels = [
        note(r, "ann", int(truth[r.sample_id, r.position]))
        for r in rows
        if r.sample_id in chosen and r.status is Status.OK
    ]
    row = one(correct(match(labels, trails), rows, quick), metric="ccs_binary")
    mean = np.mean([v for v in truth.values() if v is not None])
    assert row.judge_only.low > mean
    assert row.corrected.low < mean < row.corrected.high
    assert row.corrected.high - row.corrected.low < row.labels_only.high - row.labels_only.low
    assert row.n_labelled == len(labels)
    assert row.looks_random is True


def test_labels_that_were_chosen_are_called_so(lenient, quick):
    trails, rows, truth = lenient
    scored = [r for r in rows if r.status is Status.OK]
    liked = sorted(scored, key=lambda r: -r.ccs_binary)[:100]
    labels = [note(r, "ann", int(truth[r.sample_id, r.position])) for r in liked]
    row = one(correct(match(labels, trails), rows, quick), metric="ccs_binary")
    assert row.imbalance_score > 0.25
    assert row.looks_random is False
