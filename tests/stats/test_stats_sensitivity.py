"""Other thresholds, walked again along stored chains."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.stats import sensitivity as sens

NAN = np.nan
# sample, position, attempt, r_in, r_out, accepted, score; run at tau_in = 0.1, tau_out = 0.3
RUN = [
    (0, 1, 1, 0.50, 0.10, True, 1.0),
    (0, 2, 1, 0.20, 0.20, True, 0.0),
    (1, 1, 1, 0.30, 0.40, False, NAN),  # a laxer tau_out takes the first attempt
    (1, 1, 2, 0.30, 0.10, True, 1.0),
    (1, 2, 1, 0.60, 0.10, True, 1.0),
    (2, 1, 1, NAN, NAN, False, NAN),  # nothing found to measure
    (2, 1, 2, 0.05, 0.10, False, NAN),  # a laxer tau_in takes it
    (2, 2, 0, NAN, NAN, False, NAN),
    (3, 1, 1, 0.90, 0.01, True, NAN),  # accepted, but the judge gave nothing
]


def point(tau_in, tau_out, rows=RUN, **options):
    [found] = sens.grid(sens.attempts(*zip(*rows, strict=True)), [tau_in], [tau_out], **options)
    return found


def test_the_thresholds_of_the_run_give_the_run():
    here = point(0.1, 0.3)
    assert here.score == pytest.approx((0.5 + 1.0) / 2)
    assert (here.n_scored, here.n_samples) == (4, 2)
    assert (here.n_to_requery, here.n_to_edit) == (0, 0)
    assert here.acceptance.mean == pytest.approx(5 / 7)
    assert here.label_agreement is None


def test_laxer_outside_takes_an_attempt_that_was_never_asked_about():
    here = point(0.1, 0.5)
    assert (here.n_to_requery, here.n_to_edit) == (1, 1)  # sample 1: step 1 asked, step 2 edited
    assert here.n_scored == 2
    assert here.score == 0.5


def test_laxer_inside_reopens_a_chain_that_had_ended():
    here = point(0.01, 0.3)
    assert (here.n_to_requery, here.n_to_edit) == (1, 1)
    assert here.n_scored == 4


def test_stricter_inside_ends_chains_or_asks_for_the_attempt_that_was_never_made():
    here = point(0.4, 0.3)
    # sample 0: step 2 needs a second attempt. sample 1: both attempts fail, so step 2 is gone.
    assert (here.n_scored, here.score) == (1, 1.0)
    assert (here.n_to_requery, here.n_to_edit) == (0, 1)


def test_skipping_goes_on_from_another_image():
    here = point(0.4, 0.3, on_rejection="skip")
    assert here.n_scored == 1
    assert here.n_to_edit == 2


def test_one_attempt_allowed_asks_for_no_second():
    assert point(0.4, 0.3, rows=RUN[:2], max_attempts=1).n_to_edit == 0
    assert point(0.4, 0.3, rows=RUN[:2], max_attempts=2).n_to_edit == 1


def test_labels_are_compared_where_both_exist():
    labels = [1, 0, 0, 1, NAN, 1, 0, NAN, 1]
    here = point(0.1, 0.3, labels=labels)
    # measured and labelled: 1=1, 1≠0, 0=0, 1=1, 0=0, 1=1; the unmeasured attempt is left out
    assert here.label_agreement.mean == pytest.approx(5 / 6)
    assert here.label_agreement.n == 6


def test_nothing_at_all_and_nothing_accepted():
    [empty] = sens.grid(sens.attempts([], [], [], [], [], [], []), [0.1], [0.3])
    assert empty.score is None
    assert empty.acceptance.mean is None
    assert point(1.0, 0.3).score is None
    with pytest.raises(ValueError, match="length"):
        sens.attempts([0], [1], [1, 2], [0.1], [0.1], [True], [1])
    with pytest.raises(ValueError, match="count from 1"):
        sens.attempts([0], [0], [1], [0.1], [0.1], [True], [1])


shares = st.one_of(st.just(NAN), st.floats(0, 1))


@st.composite
def runs(draw):
    """A run of the protocol at tau_in = 0.3, tau_out = 0.5 with two attempts and two steps."""
    rows = []
    for sample in range(draw(st.integers(1, 5))):
        alive = True
        for position in (1, 2):
            if not alive:
                rows.append((sample, position, 0, NAN, NAN, False, NAN))
                continue
            for attempt in (1, 2):
                r_in, r_out = draw(shares), draw(shares)
                alive = r_in > 0.3 and r_out < 0.5
                score = draw(st.sampled_from([0.0, 1.0, NAN])) if alive else NAN
                rows.append((sample, position, attempt, r_in, r_out, alive, score))
                if alive:
                    break
    return rows


@settings(max_examples=80, deadline=None)
@given(runs(), st.floats(0, 1), st.floats(0, 1))
def test_invariants_of_the_grid(rows, tau_in, tau_out):
    own = point(0.3, 0.5, rows, max_attempts=2)
    scored = [row for row in rows if not np.isnan(row[6])]
    assert (own.n_scored, own.n_to_requery, own.n_to_edit) == (len(scored), 0, 0)
    here = point(tau_in, tau_out, rows, max_attempts=2)
    planned = len({row[:2] for row in rows})
    assert here.n_scored + here.n_to_requery + here.n_to_edit <= planned
    assert here.n_scored <= own.n_scored
    shuffled = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    assert point(tau_in, tau_out, shuffled, max_attempts=2) == here
    laxer = point(max(0.0, tau_in - 0.1), min(1.0, tau_out + 0.1), rows, max_attempts=2)
    if here.acceptance.mean is not None:
        assert laxer.acceptance.mean >= here.acceptance.mean
