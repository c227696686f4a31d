"""Attrition: what is counted, what is counted once, and the bounds."""

import pytest

from stages.analysis.attrition import bound, rates
from stages.records.base import Status


def one(found, **wanted):
    (row,) = [r for r in found if all(getattr(r, k) == v for k, v in wanted.items())]
    return row


def test_verification_counts_an_edit_once_however_many_judge_it(study, cell):
    alone = study({cell(judge="a"): 0.5})
    trail = alone.trails[cell(judge="a")]
    copies = [r.model_copy(update={"cell": cell(judge=j)}) for j in ("a", "b") for r in alone.rows]
    twice = list(rates(copies, {cell(judge=j): trail for j in ("a", "b")}, 0.95))
    once = list(rates(alone.rows, alone.trails, 0.95))
    for measure in ("accepted", "accepted at attempt"):
        ours = [r for r in twice if r.measure == measure]
        assert ours == [r for r in once if r.measure == measure]
    planned = sum(row.position > 0 for row in alone.rows)
    assert one(twice, measure="scored", by="all").rate.n == 2 * planned
    assert {r.group for r in twice if r.by == "judge"} == {"a", "b"}


def test_attempts_are_counted_by_number(study, cell):
    made = study({cell(): 0.5})
    found = list(rates(made.rows, made.trails, 0.95))
    (trail,) = made.trails.values()
    first = [a for a in trail.attempts if a.attempt == 1]
    row = one(found, measure="accepted at attempt", group="1")
    assert (row.count, row.rate.n) == (sum(a.status is Status.OK for a in first), len(first))
    assert row.rate.method == "wilson"


def test_reasons_cover_every_loss(study, cell):
    made = study({cell(): 0.5})
    lost = [r for r in rates(made.rows, made.trails, 0.95) if r.measure == "lost"]
    assert sum(r.count for r in lost) == sum(row.status is not Status.OK for row in made.rows)
    assert {r.unit for r in lost} == {"samples", "edits"}


def test_groups_that_do_not_vary_are_left_out(study, cell):
    made = study({cell(): 0.5})
    by = {r.by for r in rates(made.rows, made.trails, 0.95)}
    assert by == {"all", "domain", "position", "attempt", "reason"}


def test_bounds_hold_the_observed_score_and_the_truth_of_lost_edits(study, cell, quick):
    made = study({cell(): 0.5})
    row = one(bound(made.rows, quick), metric="ccs_binary")
    assert row.worst.mean < row.observed.mean < row.best.mean
    assert row.n_lost == sum(r.position > 0 and r.ccs_binary is None for r in made.rows)
    full = [r if r.position == 0 else r.model_copy(update={"ccs_binary": 1.0}) for r in made.rows]
    assert one(bound(full, quick), metric="ccs_binary").n_lost == 0


def test_loss_that_goes_with_the_score_is_seen(study, cell, quick):
    from stages.analysis.simulation import Design

    design = Design(400, 3, 0.5, 0.9, 0.5, 1, 0.0, loss_slope=0.9)
    row = one(bound(study({cell(): 0.5}, design).rows, quick), metric="ccs_binary")
    assert row.correlation < -0.2
    assert row.p < 0.01
    fair = study({cell(): 0.5}, design._replace(loss_slope=0.0), seed=3)
    assert abs(one(bound(fair.rows, quick), metric="ccs_binary").correlation) < 0.2
    assert row.n_with_both == pytest.approx(
        len({r.sample_id for r in study({cell(): 0.5}, design).rows if r.ac is not None})
    )
