"""Prediction-powered means: closed form, and behaviour in the long run."""

import numpy as np
import pytest
from scipy.stats import t as student

from stages.stats.correction import corrected_mean, labelled_at_random
from stages.stats.estimates import estimate


def rng(seed=0):
    return np.random.default_rng(seed)


def study(seed, *, n=300, labelled=60, k=2, sensitivity=0.97, specificity=0.85):
    """Truth, a judge that errs, and labels of the first samples; the true mean is 0.55."""
    draw = rng(seed)
    clusters = np.repeat(np.arange(n), k)
    truth = (draw.random(n * k) < draw.beta(1.1, 0.9, n)[clusters]).astype(float)
    says_yes = np.where(truth == 1, sensitivity, 1 - specificity)
    judge = (draw.random(n * k) < says_yes).astype(float)
    return judge, np.where(clusters < labelled, truth, np.nan), clusters


@pytest.mark.parametrize("tuning", [None, 0.4, 1.0])
def test_closed_form_for_independent_units(tuning):
    judge, human, _ = study(1, k=1)
    there = ~np.isnan(human)
    y, f, g = human[there], judge[there], judge[~there]
    n, m = len(y), len(g)
    lam = tuning
    if lam is None:
        lam = np.cov(y, f, ddof=0)[0, 1] / n / (f.var() / n + g.var() / m)
    mean = y.mean() + lam * (g.mean() - f.mean())
    error = np.sqrt(n / (n - 1) * ((y - lam * f).var() / n + lam**2 * g.var() / m))
    half = student.isf(0.025, n - 1) * error
    ours = corrected_mean(judge, human, np.arange(len(judge)), rng=rng(), tuning=tuning)
    assert ours.tuning == pytest.approx(lam, abs=1e-12)
    assert ours.corrected[:3] == pytest.approx((mean, mean - half, mean + half), abs=1e-12)


def test_zero_tuning_is_the_labelled_mean():
    judge, human, clusters = study(2)
    there = ~np.isnan(human)
    ours = corrected_mean(judge, human, clusters, rng=rng(), tuning=0.0)
    assert ours.corrected == estimate(human[there], clusters[there], rng=rng(), method="t")
    assert ours.corrected == ours.labels_only
    still = corrected_mean(np.ones_like(judge), human, clusters, rng=rng())
    assert still.tuning == 0
    assert still.corrected == still.labels_only


@pytest.mark.parametrize("estimand", ["sample_mean", "intervention_mean"])
def test_both_intervals_are_near_each_other(estimand):
    judge, human, clusters = study(3, labelled=120)
    human[::7] = np.nan
    options = {"estimand": estimand, "rng": rng()}
    by_t = corrected_mean(judge, human, clusters, method="t", **options)
    by_draws = corrected_mean(judge, human, clusters, method="percentile", **options)
    assert by_t.corrected.mean == by_draws.corrected.mean
    assert by_t.corrected[1:3] == pytest.approx(by_draws.corrected[1:3], abs=0.02)


def test_a_biased_judge_is_corrected_and_a_good_one_narrows_the_interval():
    covered = {"corrected": 0, "judge": 0}
    errors, narrower = [], []
    for seed in range(300):
        ours = corrected_mean(*study(seed), rng=rng(seed), n_resamples=50)
        covered["corrected"] += ours.corrected.low <= 0.55 <= ours.corrected.high
        covered["judge"] += ours.judge_only.low <= 0.55 <= ours.judge_only.high
        errors.append(ours.corrected.mean - 0.55)
        corrected, labels = ours.corrected, ours.labels_only
        narrower.append((corrected.high - corrected.low) / (labels.high - labels.low))
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(300)
    assert covered["corrected"] / 300 > 0.91
    assert covered["judge"] / 300 < 0.6
    assert np.mean(narrower) < 0.7


def test_a_judge_that_guesses_costs_next_to_nothing():
    ratio = []
    for seed in range(100):
        guess = study(seed, sensitivity=0.5, specificity=0.5)
        ours = corrected_mean(*guess, rng=rng(), n_resamples=50)
        corrected, labels = ours.corrected, ours.labels_only
        ratio.append((corrected.high - corrected.low) / (labels.high - labels.low))
    assert np.mean(ratio) < 1.01
    assert max(ratio) < 1.05


def test_edges():
    judge, human, clusters = study(4, n=20, labelled=5)
    nothing = corrected_mean(judge, np.full(40, np.nan), clusters, rng=rng())
    assert nothing.corrected[:3] == (None, None, None)
    assert "no human labels" in nothing.corrected.method
    assert nothing.judge_only.mean is not None
    everything = corrected_mean(judge, judge, clusters, rng=rng())
    assert everything.corrected == everything.labels_only
    single = corrected_mean(judge, np.where(clusters == 0, human, np.nan), clusters, rng=rng())
    assert single.corrected.low is None
    assert corrected_mean([], [], [], rng=rng()).corrected.mean is None
    with pytest.raises(ValueError, match="tuning"):
        corrected_mean(judge, human, clusters, rng=rng(), tuning=2.0)
    with pytest.raises(ValueError, match="human entries"):
        corrected_mean(judge, human[:3], clusters, rng=rng())


def test_labels_drawn_at_random_pass_and_chosen_ones_do_not():
    judge, _, clusters = study(5)
    random = clusters % 5 == 0
    fair = labelled_at_random(judge, random, clusters, rng=rng(), n_resamples=999)
    assert abs(fair.standardised_difference) < 0.25
    assert fair.association.test.p > 0.05
    easy = np.bincount(clusters, judge)[clusters] == 2
    chosen = easy & (rng(1).random(len(judge)) < 0.7)
    biased = labelled_at_random(judge, chosen, clusters, rng=rng(), n_resamples=999)
    assert biased.standardised_difference > 0.5
    assert biased.association.test.p == 1 / 1000
    none = labelled_at_random(judge, np.zeros_like(random), clusters, rng=rng())
    assert none.standardised_difference is None
    assert none.association.correlation is None
