"""Judges: agreement of several, of replies of one, and scores made of them."""

import krippendorff
import numpy as np
import pytest

from stages.analysis.agreement import between_judges, over_judges
from stages.analysis.fates import follow


def one(found, **wanted):
    (row,) = [r for r in found if all(getattr(r, k) == v for k, v in wanted.items())]
    return row


@pytest.fixture
def judged(study, cell):
    """Three judges on the same edits: two alike, one that turns every fifth verdict."""
    made = study({cell(judge="a"): 0.5})
    trail = made.trails[cell(judge="a")]
    turned = [
        v.model_copy(
            update={"explanation_faithful": 1 - v.explanation_faithful, "grade": 6 - v.grade}
        )
        if i % 5 == 0
        else v
        for i, v in enumerate(trail.judgements)
    ]
    trails = {
        cell(judge=name): trail._replace(judgements=verdicts)
        for name, verdicts in (("a", trail.judgements), ("b", trail.judgements), ("c", turned))
    }
    return trails, [r for c, t in trails.items() for r in follow(c, made.samples, t)]


def test_all_judges_and_every_pair_have_a_row(judged, quick):
    found = list(between_judges(judged[0], quick))
    assert {r.raters for r in found} == {("a", "b", "c"), ("a", "b"), ("a", "c"), ("b", "c")}
    same = one(found, what="ef", raters=("a", "b"))
    assert same.share.mean == 1.0
    assert same.kappa.mean == 1.0
    other = one(found, what="ef", raters=("a", "c"))
    assert other.agree < other.share.n
    assert sum(map(sum, other.confusion)) == other.share.n
    assert one(found, what="ef", raters=("a", "b", "c")).kappa is None


@pytest.mark.parametrize(
    ("what", "field", "level"),
    [("ef", "explanation_faithful", "nominal"), ("grade", "grade", "ordinal")],
)
def test_alpha_is_krippendorff_s(judged, quick, what, field, level):
    trails, _ = judged
    table = [[getattr(v, field) for v in t.judgements] for t in trails.values()]
    theirs = krippendorff.alpha(np.array(table, dtype=float), level_of_measurement=level)
    ours = one(between_judges(trails, quick), what=what, raters=("a", "b", "c"))
    assert ours.alpha.mean == pytest.approx(theirs, abs=1e-12)


def test_replies_of_one_judge_are_compared(study, cell, quick):
    made = study({cell(): 0.5})
    (trail,) = made.trails.values()
    second = [
        v.model_copy(update={"replicate": 1, "answer_consistent": 1 - v.answer_consistent})
        for v in trail.judgements
    ]
    trails = {cell(): trail._replace(judgements=[*trail.judgements, *second])}
    row = one(between_judges(trails, quick), what="ac")
    assert row.raters == ("j #0", "j #1")
    assert (row.comparison, row.agree) == ("replies of j", 0)
    assert list(between_judges(made.trails, quick)) == []


def test_judges_together_hold_their_variance(judged, quick):
    _, rows = judged
    row = one(over_judges(rows, quick), metric="ef")
    assert row.judges == ("a", "b", "c")
    alone = row.mean_samples_only
    assert row.mean.mean == pytest.approx(alone.mean, abs=0.02)
    assert row.mean.high - row.mean.low > 0.95 * (alone.high - alone.low)
    majority = one(over_judges([r for r in rows if r.cell.judge in "ab"], quick), metric="ef")
    assert row.vote.mean == majority.vote.mean
    assert row.n_ties == 0


def test_two_judges_that_differ_tie(judged, quick):
    _, rows = judged
    row = one(over_judges([r for r in rows if r.cell.judge in "ac"], quick), metric="ef")
    assert row.n_ties > 0
    assert row.vote.n + row.n_ties == row.mean_samples_only.n


def test_a_single_judge_has_no_rows(study, cell, quick):
    made = study({cell(): 0.5})
    assert list(over_judges(made.rows, quick)) == []
