"""Several judges as one: votes, means, ties and what is missing."""

import pytest

from stages.analysis.agreement import over_judges
from stages.analysis.estimates import estimate_cells
from stages.analysis.panel import together
from stages.records.base import Status
from stages.records.score import Intervention


def row(judge, cell, *, sample="s", position=1, **values) -> Intervention:
    blank = {"stage": "judge", "status": Status.OK, "replicates": 1, "domain": "d"}
    return Intervention(
        cell=cell(judge=judge), sample_id=sample, position=position, **blank | values
    )


def scored(judge, cell, ac, ef, graded=None, **values) -> Intervention:
    grade = {
        "ccs_graded": graded,
        "graded_status": Status.OK if graded is not None else "truncated",
    }
    return row(judge, cell, ac=ac, ef=ef, ccs_binary=ac * ef, **grade | values)


def lost(judge, cell, **values) -> Intervention:
    said = {"status": "unparsed", "reason": "no JSON", "verdicts_lost": 1, "grades_lost": 1}
    return row(judge, cell, graded_status="truncated", **said | values)


def one(rows, how) -> Intervention:
    (found,) = together(rows, how)
    return found


def test_three_judges_vote_on_each_score_by_itself(cell):
    rows = [scored("a", cell, 1, 0), scored("b", cell, 0, 1), scored("c", cell, 1, 1)]
    voted, mean = one(rows, "vote"), one(rows, "mean")
    assert (voted.ac, voted.ef, voted.ccs_binary) == (1, 1, 0)
    assert (mean.ac, mean.ef, mean.ccs_binary) == pytest.approx((2 / 3, 2 / 3, 1 / 3))
    assert (voted.cell.judge, mean.cell.judge) == ("panel_vote", "panel_mean")
    assert voted.replicates == 3


def test_a_tie_is_missing_for_that_reason_and_a_mean_of_one_half(cell):
    rows = [scored("a", cell, 1, 1, 1.0), scored("b", cell, 1, 0, 0.5)]
    voted, mean = one(rows, "vote"), one(rows, "mean")
    assert (voted.status, voted.ccs_binary, voted.ac, voted.ef) == (Status.TIED, None, 1, None)
    assert voted.reason == "the judges are divided: 1, 0"
    assert (voted.graded_status, voted.ccs_graded) == (Status.TIED, None)
    assert (mean.status, mean.ccs_binary, mean.ccs_graded) == (Status.OK, 0.5, 0.75)
    assert mean.reason is None


def test_a_missing_verdict_is_missing_and_not_0(cell):
    rows = [scored("a", cell, 1, 1, 1.0), lost("b", cell)]
    for how in ("vote", "mean"):
        found = one(rows, how)
        assert (found.status, found.ccs_binary, found.ccs_graded) == (Status.OK, 1, 1.0)
        assert (found.verdicts_lost, found.grades_lost) == (1, 1)
        nothing = one([lost("a", cell), lost("b", cell)], how)
        assert (nothing.status, nothing.reason, nothing.ac) == (Status.UNPARSED, "no JSON", None)
        assert nothing.graded_status is Status.TRUNCATED


def test_what_was_lost_before_any_judge_is_lost_once(cell):
    early = {"stage": "edit", "status": "outside_changed", "reason": "r_out", "replicates": 0}
    rows = [row(judge, cell, **early) for judge in "ab"]
    assert one(rows, "vote") == rows[0].model_copy(update={"cell": cell(judge="panel_vote")})


def test_a_judge_that_is_asked_again_has_one_voice(cell):
    """Two of three replies of a and b against all of c: two voices against one."""
    rows = [
        scored("a", cell, 2 / 3, 1, replicates=3),
        scored("b", cell, 2 / 3, 1, replicates=3),
        scored("c", cell, 0, 1, replicates=3),
    ]
    assert one(rows, "vote").ac == 1
    (alone,) = together(rows[:1], "vote")
    assert (alone.ac, alone.replicates) == (1, 3)
    halved = one([scored("a", cell, 0.5, 1, replicates=2), scored("b", cell, 0, 1)], "vote")
    assert halved.ac == 0  # a has no voice


def test_there_is_no_panel_of_one_voice(cell):
    rows = [scored("a", cell, 1, 1)]
    assert not list(together(rows, "vote"))
    assert not list(together(rows, "mean"))
    two = [*rows, scored("b", cell, 1, 1)]
    assert not list(together(two, "none"))


def test_the_panel_scores_as_the_table_of_judges_does(study, cell, quick):
    made = study({cell(judge=judge): ccs for judge, ccs in (("a", 0.2), ("b", 0.5), ("c", 0.9))})
    scores = {(s.metric, "vote"): s.vote for s in over_judges(made.rows, quick)}
    scores |= {(s.metric, "mean"): s.mean_samples_only for s in over_judges(made.rows, quick)}
    for how in ("vote", "mean"):
        rows = list(together(made.rows, how))
        for found in estimate_cells(rows, quick):
            if (found.domain, found.position, found.estimand) == (None, None, "sample_mean"):
                wanted = scores[found.metric, how]
                assert found.mean == pytest.approx(wanted.mean, abs=1e-12)
                assert (found.n_samples, found.n_interventions) == (wanted.n_samples, wanted.n)
