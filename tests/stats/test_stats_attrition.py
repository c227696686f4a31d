"""What was lost, and what it could have done."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.stats import attrition


def rng(seed=0):
    return np.random.default_rng(seed)


def test_pass_rates_by_group_and_shares_of_reasons():
    rates = attrition.pass_rates([True, False, True, True], ["b", "b", "a", "b"])
    assert list(rates) == ["b", "a"]
    assert rates["b"].mean == pytest.approx(2 / 3)
    assert rates["b"].n == 3
    assert attrition.pass_rate([]).mean is None
    shares = attrition.shares(["ok", "refused", "ok", "ok"])
    assert list(shares) == ["ok", "refused"]
    assert shares["refused"].mean == 0.25
    assert sum(share.mean for share in shares.values()) == 1


def test_bounds_by_hand():
    """Sample 0: one 1, one lost. Sample 1: all lost. Sample 2: one 0."""
    scores = np.array([1, None, None, 0], dtype=float)
    ours = attrition.bounds(scores, [0, 0, 1, 2], rng=rng(), n_resamples=100)
    assert ours.worst.mean == pytest.approx((0.5 + 0 + 0) / 3)
    assert ours.observed.mean == pytest.approx(0.5)
    assert ours.best.mean == pytest.approx((1 + 1 + 0) / 3)
    assert (ours.n_lost, ours.n_planned) == (2, 4)
    assert (ours.worst.n_clusters, ours.observed.n_clusters) == (3, 2)


def test_bounds_when_everything_is_lost():
    ours = attrition.bounds(np.full(6, np.nan), np.arange(6), rng=rng())
    assert ours.observed.mean is None
    assert (ours.worst.mean, ours.best.mean) == (0, 1)
    nothing = attrition.bounds([], [], rng=rng())
    assert nothing.worst.mean is None


entries = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.5, 1.0, np.nan])), min_size=1, max_size=20
)


@settings(max_examples=60, deadline=None)
@given(entries)
def test_whatever_the_lost_edits_were_the_mean_lies_within(rows):
    clusters, scores = map(np.array, zip(*rows, strict=True))
    ours = attrition.bounds(scores, clusters, rng=rng(), n_resamples=20)
    for fill in (0.0, 0.3, 1.0):
        filled = np.where(np.isnan(scores), fill, scores)
        mean = attrition.bounds(filled, clusters, rng=rng(), n_resamples=20).observed.mean
        assert ours.worst.mean - 1e-12 <= mean <= ours.best.mean + 1e-12


def test_loss_that_depends_on_the_score_is_found_and_chance_is_not():
    draw = rng(3)
    level = draw.random(200)
    clusters = np.repeat(np.arange(200), 4)
    scores = (draw.random(800) < level[clusters]).astype(float)
    biased, fair = scores.copy(), scores.copy()
    biased[draw.random(800) < 0.7 * (1 - level[clusters])] = np.nan
    fair[draw.random(800) < 0.35] = np.nan
    found = attrition.loss_and_score(biased, clusters, rng=rng(), n_resamples=999)
    assert found.correlation < -0.2
    assert found.test.p < 0.01
    assert attrition.loss_and_score(fair, clusters, rng=rng(), n_resamples=999).test.p > 0.05


def test_loss_is_not_estimable_with_one_edit_a_sample():
    scores = np.array([1, 0, None, 1], dtype=float)
    ours = attrition.loss_and_score(scores, np.arange(4), rng=rng())
    assert ours.correlation is None
    assert "does not vary" in ours.test.method
    assert ours.n == 3
