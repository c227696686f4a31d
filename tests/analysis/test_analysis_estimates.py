"""Estimates of cells and runs: the right rows, and streams that do not disturb one another."""

import numpy as np
import pytest

from stages.analysis.estimates import estimate_cells, spread_over_runs


def found(rows, resampling, **wanted):
    (one,) = [
        e
        for e in estimate_cells(rows, resampling)
        if all(getattr(e, name) == value for name, value in wanted.items())
    ]
    return one


WHOLE = {"metric": "ccs_binary", "domain": None, "position": None}


def test_means_are_those_of_the_protocol(study, cell, quick):
    rows = study({cell(): 0.5}).rows
    by_sample = {}
    for row in rows:
        if row.ccs_binary is not None:
            by_sample.setdefault(row.sample_id, []).append(row.ccs_binary)
    ours = found(rows, quick, **WHOLE, estimand="sample_mean")
    assert ours.mean == pytest.approx(np.mean([np.mean(v) for v in by_sample.values()]), abs=1e-12)
    assert ours.n_samples == len(by_sample)
    edits = found(rows, quick, **WHOLE, estimand="intervention_mean")
    assert edits.mean == pytest.approx(np.mean([x for v in by_sample.values() for x in v]))
    assert edits.n_planned == sum(row.position > 0 for row in rows)


def test_at_one_position_both_estimands_are_one_number(study, cell, quick):
    rows = study({cell(): 0.5}).rows
    where = {"metric": "ef", "domain": None, "position": 2}
    a, b = (
        found(rows, quick, **where, estimand=name) for name in ("sample_mean", "intervention_mean")
    )
    assert (a.mean, a.low, a.high, a.method) == (b.mean, b.low, b.high, b.method)


def test_another_cell_changes_no_number(study, cell, quick):
    alone = study({cell("a"): 0.5})
    both = study({cell("a"): 0.5, cell("b"): 0.7})
    assert list(estimate_cells(alone.rows, quick)) == list(
        estimate_cells(both.of(target="a"), quick)
    )
    together = [e for e in estimate_cells(both.rows, quick) if e.cell.target == "a"]
    assert together == list(estimate_cells(alone.rows, quick))


def test_nothing_scored_is_no_number(study, cell, quick):
    rows = [
        row.model_copy(update={"ac": None, "ef": None, "ccs_binary": None, "ccs_graded": None})
        for row in study({cell(): 0.5}).rows
    ]
    ours = found(rows, quick, **WHOLE, estimand="sample_mean")
    assert (ours.mean, ours.low, ours.high, ours.n_samples) == (None, None, None, 0)
    assert ours.method.startswith("not estimable")


def test_runs_are_spread_about_their_mean(study, cell, quick):
    made = study({cell(seed=s): 0.5 for s in range(5)})
    (row,) = [r for r in spread_over_runs(made.rows, quick) if r.metric == "ccs_binary"]
    assert row.seeds == (0, 1, 2, 3, 4)
    assert row.sd == pytest.approx(np.std(row.run_means, ddof=1), abs=1e-12)
    assert row.two_level.mean == pytest.approx(np.mean(row.run_means), abs=1e-12)
    assert row.two_level.low < row.over_runs.mean < row.two_level.high
    single = [found(made.of(seed=s), quick, **WHOLE, estimand="sample_mean").mean for s in range(5)]
    assert row.run_means == pytest.approx(single, abs=1e-12)


def test_a_single_run_has_no_spread(study, cell, quick):
    assert list(spread_over_runs(study({cell(): 0.5}).rows, quick)) == []
