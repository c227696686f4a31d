"""Variance between runs and between judges."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from stages.stats.estimates import estimate, sample_mean
from stages.stats.variance import judged, run_spread, two_level


def rng(seed=0):
    return np.random.default_rng(seed)


def study(seed, n_runs=5, n_samples=60, sd=0.1):
    """0/1 scores of every sample in every run, runs shifted by a normal effect."""
    draw = rng(seed)
    p = np.clip(draw.random(n_samples) + draw.normal(0, sd, (n_runs, 1)), 0, 1)
    runs, samples = (index.ravel() for index in np.indices(p.shape))
    return (draw.random(p.shape) < p).astype(float).ravel(), samples, runs


def test_run_spread_is_mean_and_sd_with_a_t_interval():
    means = [0.55, 0.62, 0.58, 0.6, 0.54]
    ours = run_spread(means)
    theirs = ttest_1samp(means, 0).confidence_interval(0.95)
    assert (ours.mean, ours.sd) == pytest.approx((np.mean(means), np.std(means, ddof=1)))
    assert (ours.interval.low, ours.interval.high) == pytest.approx(tuple(theirs), abs=1e-12)
    assert run_spread([0.5]).sd is None
    assert run_spread([0.5]).interval.low is None
    assert run_spread([]).mean is None


def test_mean_is_the_mean_over_runs_of_the_published_estimand():
    scores, samples, runs = study(1)
    expected = np.mean([sample_mean(scores[runs == r], samples[runs == r]) for r in range(5)])
    ours = two_level(scores, samples, runs, rng=rng(), n_resamples=100)
    assert ours.mean == pytest.approx(expected, abs=1e-12)
    assert "5 runs" in ours.method


def test_variance_between_runs_widens_the_interval():
    scores, samples, runs = study(2, sd=0.0)
    shifted = scores / 2 + (runs % 2) / 2
    quiet = two_level(scores / 2, samples, runs, rng=rng(), n_resamples=2000)
    loud = two_level(shifted, samples, runs, rng=rng(), n_resamples=2000)
    assert loud.high - loud.low > 1.5 * (quiet.high - quiet.low)


def test_one_run_is_the_bootstrap_over_samples_and_says_so():
    scores, samples, runs = study(3, n_runs=1)
    ours = two_level(scores, samples, runs, rng=rng(), n_resamples=20_000)
    plain = estimate(scores, samples, rng=rng(1), n_resamples=20_000)
    assert (ours.mean, ours.low, ours.high) == pytest.approx(plain[:3], abs=0.01)
    assert "not in it" in ours.method


def test_edges():
    assert two_level([], [], [], rng=rng()).mean is None
    single = two_level([1, 0], [0, 0], [0, 1], rng=rng())
    assert single[:3] == (0.5, None, None)
    alike = two_level(np.ones(20), np.tile(np.arange(10), 2), np.repeat([0, 1], 10), rng=rng())
    assert (alike.mean, alike.high) == (1, 1)
    assert alike.low < 0.8
    disjoint = two_level([1, 0, 0.5], [0, 1, 2], [0, 1, 2], rng=rng(), n_resamples=500)
    assert 0 <= disjoint.low <= disjoint.high <= 1


def test_two_level_covers_the_mean_over_runs_and_samples_where_one_run_does_not():
    hits = alone = 0
    for seed in range(150):
        scores, samples, runs = study(seed, sd=0.05, n_samples=150)
        ours = two_level(scores, samples, runs, rng=rng(seed), n_resamples=300)
        first = runs == 0
        single = estimate(scores[first], samples[first], rng=rng(seed), n_resamples=300)
        hits += ours.low <= 0.5 <= ours.high
        alone += single.low <= 0.5 <= single.high
    assert hits / 150 > 0.9
    assert alone < hits


def test_judges_that_disagree_widen_the_interval():
    draw = rng(4)
    one = (draw.random(100) < 0.5).astype(float)
    samples = np.arange(100) // 2
    same = np.column_stack([one, one, one])
    lenient = np.column_stack([one, np.maximum(one, draw.random(100) < 0.8), one * 0.0])
    lenient[0, 0] = np.nan
    agreeing = judged(same, samples, rng=rng(), n_resamples=2000)
    differing = judged(lenient, samples, rng=rng(), n_resamples=2000)
    plain = estimate(one, samples, rng=rng(), n_resamples=2000)
    assert (agreeing.low, agreeing.high) == pytest.approx((plain.low, plain.high), abs=0.02)
    assert differing.high - differing.low > 2 * (agreeing.high - agreeing.low)
    assert differing.n == 299
    assert "3 judges" in differing.method
