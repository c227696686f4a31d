"""Other thresholds, from the measurements of a run."""

import pytest

from stages.analysis.estimates import estimate_cells
from stages.analysis.thresholds import Gate, sweep

GATE = Gate([0.05, 0.1, 0.4], [0.15, 0.3], (0.1, 0.3), 2, "stop")


@pytest.fixture
def made(study, cell):
    return study({cell(): 0.5})


def test_at_the_run_s_own_thresholds_nothing_changes(made, quick):
    (used,) = [r for r in sweep(made.rows, made.trails, GATE, {}, 0.95) if r.used and r.warped]
    (main,) = [
        e
        for e in estimate_cells(made.rows, quick)
        if (e.metric, e.domain, e.position, e.estimand) == ("ccs_binary", None, None, "sample_mean")
    ]
    assert used.ccs_binary == pytest.approx(main.mean, abs=1e-12)
    assert (used.n_scored, used.n_samples) == (main.n_interventions, main.n_samples)
    assert (used.n_to_edit, used.n_to_requery) == (0, 0)
    assert used.n_planned == main.n_planned


def test_stricter_thresholds_accept_less_and_say_what_they_would_need(made):
    rows = {
        (r.tau_in, r.tau_out): r for r in sweep(made.rows, made.trails, GATE, {}, 0.95) if r.warped
    }
    assert len(rows) == 6
    assert rows[0.4, 0.3].acceptance.mean < rows[0.1, 0.3].acceptance.mean
    assert rows[0.1, 0.15].acceptance.mean < rows[0.1, 0.3].acceptance.mean
    assert rows[0.4, 0.15].n_to_edit > 0
    assert rows[0.4, 0.15].n_scored < rows[0.1, 0.3].n_scored


def test_the_run_s_thresholds_are_on_the_grid_even_if_it_does_not_name_them(made):
    gate = GATE._replace(tau_in=[0.05], tau_out=[0.15])
    points = {(r.tau_in, r.tau_out) for r in sweep(made.rows, made.trails, gate, {}, 0.95)}
    assert points == {(0.05, 0.15), (0.05, 0.3), (0.1, 0.15), (0.1, 0.3)}


def test_agreement_with_labels_is_given_where_there_are_labels(made, cell):
    (trail,) = made.trails.values()
    labels = {
        (a.sample_id, a.position, a.attempt): float(a.status == "ok")
        for a in trail.attempts[:40]
        if a.attempt
    }
    rows = list(sweep(made.rows, made.trails, GATE, {cell(): labels}, 0.95))
    (used,) = [r for r in rows if r.used and r.warped]
    assert (used.agreement.mean, used.agreement.n) == (1.0, len(labels))
    assert all(r.agreement is None for r in sweep(made.rows, made.trails, GATE, {}, 0.95))
