"""Simulated studies have the truth that they were given, and intervals hold it."""

from pathlib import Path

import numpy as np
import pytest

from stages import calibration
from stages.analysis.coverage import ESTIMATORS, trials
from stages.analysis.coverage import study as simulate
from stages.analysis.measures import Resampling
from stages.analysis.simulation import Design, annotate, draw
from stages.records import jsonl
from stages.records.base import Status
from stages.records.finding import CoverageRow
from stages.workflow.params import load

DESIGN = Design(3000, 2, 0.3, 0.5, 0.6, 2, 0.1)


@pytest.mark.parametrize("icc", [0.0, 0.5, 1.0])
def test_the_planted_ccs_and_the_attrition_are_as_designed(icc):
    drawn = draw(DESIGN._replace(icc=icc), np.random.default_rng(0))
    truth = [ac * ef for ac, ef in drawn.truth.values()]
    assert np.mean(truth) == pytest.approx(0.3, abs=0.03)
    named = [c for c in drawn.trail.concepts if c.status is Status.OK]
    assert len(named) / 3000 == pytest.approx(0.9, abs=0.02)
    first = [a for a in drawn.trail.attempts if a.attempt == 1]
    assert np.mean([a.status is Status.OK for a in first]) == pytest.approx(0.6, abs=0.02)
    # A chain ends at an edit that failed twice: 0.16 of the first, 0.16 of the second.
    accepted = len(drawn.truth)
    assert accepted / (2 * len(named)) == pytest.approx((0.84 + 0.84**2) / 2, abs=0.02)


def test_a_sample_s_edits_are_as_alike_as_designed():
    alike = draw(DESIGN._replace(icc=1.0), np.random.default_rng(0)).truth
    apart = draw(DESIGN._replace(icc=0.0), np.random.default_rng(0)).truth

    def same(truth):
        both = [s for s, k in truth if k == 2]
        scores = [(np.prod(truth[s, 1]), np.prod(truth[s, 2])) for s in both]
        return np.mean([a == b for a, b in scores])

    assert same(alike) == 1.0
    assert same(apart) == pytest.approx(0.3**2 + 0.7**2, abs=0.05)


def test_an_exact_judge_says_the_truth_and_a_noisy_one_errs_at_its_rate():
    exact = draw(DESIGN, np.random.default_rng(0))
    noisy = draw(DESIGN._replace(judge_error=0.1), np.random.default_rng(0))
    for drawn, rate in ((exact, 0.0), (noisy, 0.1)):
        wrong = [
            v.answer_consistent != drawn.truth[v.sample_id, v.position][0]
            for v in drawn.trail.judgements
        ]
        assert np.mean(wrong) == pytest.approx(rate, abs=0.015)


QUICK = Resampling(400, 0.95, 0)
SMALL = Design(60, 2, 0.5, 0.5, 0.75, 2, 0.05)


def test_intervals_hold_what_was_planted():
    (row,) = [
        r for r in simulate("coverage", [SMALL], 120, 0.25, QUICK) if r.estimator == "sample_mean"
    ]
    assert 0.89 < row.covered.mean <= 1.0
    assert abs(row.bias) < 3 * row.bias_error
    assert (row.n_estimable, row.replications) == (120, 120)


def test_a_judge_s_errors_bias_and_labels_correct():
    design = SMALL._replace(n_samples=200, planted=0.8, judge_error=0.2)
    rows = {r.estimator: r for r in simulate("judge", [design], 30, 0.4, QUICK)}
    # (1 − e)² of the faithful stay, and some unfaithful are let through
    assert rows["sample_mean"].bias < -0.1
    assert abs(rows["corrected"].bias) < 3.5 * rows["corrected"].bias_error
    assert rows["corrected"].covered.mean > 0.8 > rows["sample_mean"].covered.mean


def test_designs_between_the_ends_are_taken_together_as_well():
    designs = [SMALL._replace(planted=p) for p in (0.0, 0.3, 0.7)]
    rows = list(simulate("coverage", designs, 5, 0.25, QUICK))
    together = [r for r in rows if r.planted is None]
    assert {r.replications for r in together} == {10}
    assert len(rows) == 3 * 3 + 3


def test_equal_seeds_draw_equal_studies():
    assert trials(SMALL, 3, 0.25, QUICK) == trials(SMALL, 3, 0.25, QUICK)
    assert trials(SMALL, 3, 0.25, QUICK) != trials(SMALL, 3, 0.25, QUICK._replace(seed=1))


def test_simulated_annotators_see_the_same_part_and_err_on_their_own(study, cell):
    rows = study({cell(): 0.5}, SMALL._replace(n_samples=400)).rows
    options = {"share": 0.5, "error": 0.1, "seed": 0}
    one, two = (list(annotate(rows, name, **options)) for name in ("a", "b"))
    assert [a.key for a in one] == [b.key for b in two]
    assert len({a.sample_id for a in one}) / 400 == pytest.approx(0.5, abs=0.1)
    truth = {(r.sample_id, r.position): r.ef for r in rows}
    for said in (one, two):
        wrong = [a.ef != truth[a.sample_id, a.position] for a in said]
        assert np.mean(wrong) == pytest.approx(0.1, abs=0.04)
    assert [a.ef for a in one] != [b.ef for b in two]
    assert {a.valid for a in one} == {"yes", "no", "cant_tell"}


def params(**changes):
    given = load(Path(__file__).parents[2] / "params.yaml")
    return {**given, "calibration": {**given["calibration"], **changes}}


def test_the_stage_writes_nothing_unless_asked(tmp_path):
    calibration.run(tmp_path, params())
    assert (tmp_path / "data" / "calibration" / "coverage.jsonl").read_text() == ""


def test_the_stage_writes_every_experiment(tmp_path):
    calibration.run(
        tmp_path,
        params(
            replications=2,
            n_samples=[10],
            k=[1],
            planted=[0.0, 0.5],
            judge_error=[0.1],
            resamples=100,
        ),
    )
    rows = jsonl.read(tmp_path / "data" / "calibration" / "coverage.jsonl", CoverageRow)
    assert {r.experiment for r in rows} == {"coverage", "judge", "loss"}
    assert {r.estimator for r in rows} == set(ESTIMATORS)
