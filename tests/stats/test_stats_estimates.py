"""Means and their intervals: against scipy and statsmodels, at the edges, and in the long run."""

import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm, ttest_1samp
from scipy.stats import bootstrap as scipy_bootstrap
from scipy.stats import t as student
from statsmodels.stats.proportion import proportion_confint

from stages.stats import interval, resampling
from stages.stats.estimates import estimate, intervention_mean, sample_mean, spread


def rng(seed=0):
    return np.random.default_rng(seed)


def clustered(seed, n=40, k=2):
    """Binary scores of n samples with up to k edits, correlated within a sample."""
    draw = rng(seed)
    sizes = draw.integers(1, k + 1, n)
    clusters = np.repeat(np.arange(n), sizes)
    return (draw.random(len(clusters)) < draw.random(n)[clusters]).astype(float), clusters


def test_the_two_estimands_by_hand():
    scores, clusters = [1, 0, 1], [7, 7, 3]
    assert sample_mean(scores, clusters) == 0.75
    assert intervention_mean(scores) == pytest.approx(2 / 3, abs=1e-15)


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("estimand", ["sample_mean", "intervention_mean"])
def test_equals_scipy_paired_bootstrap_of_sums_and_counts(method, estimand):
    """With hardly any sample twice both draw the same indices from the same generator."""
    draw = rng(5)
    sizes = draw.integers(1, 4, 50)
    clusters = np.repeat(np.arange(50), sizes)
    scores = draw.random(len(clusters))
    sums, counts = np.bincount(clusters, scores), np.bincount(clusters).astype(float)
    if estimand == "sample_mean":
        sums, counts = sums / counts, np.ones(50)
    order = np.lexsort((counts, sums))
    theirs = scipy_bootstrap(
        (sums[order], counts[order]),
        lambda s, c, axis: s.sum(axis=axis) / c.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=999,
        method=method,
        rng=rng(11),
    ).confidence_interval
    ours = estimate(
        scores, clusters, rng=rng(11), estimand=estimand, method=method, n_resamples=999
    )
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_multinomial_draws_have_the_exact_distribution():
    """For single 0/1 scores the bootstrap distribution of the sum is binomial."""
    scores = np.repeat([1.0, 0.0], [37, 63])
    rows = np.column_stack([scores, np.ones(100)])
    sums = resampling.bootstrap(rows, lambda t: t[:, 0], rng=rng(), n_resamples=40_000)
    for quantile in (0.025, 0.25, 0.5, 0.9, 0.975):
        share = (sums <= binom.ppf(quantile, 100, 0.37)).mean()
        assert share == pytest.approx(
            binom.cdf(binom.ppf(quantile, 100, 0.37), 100, 0.37), abs=0.01
        )


def test_both_ways_of_drawing_have_one_distribution():
    """Adding noise too small to matter leaves the kinds and forces index draws."""
    scores, clusters = clustered(3, n=80)
    noise = 1e-9 * np.arange(len(scores)) * (1 - 2 * scores)
    by_kind = estimate(scores, clusters, rng=rng(1), n_resamples=20_000)
    by_index = estimate(scores + noise, clusters, rng=rng(2), n_resamples=20_000)
    assert by_kind.low == pytest.approx(by_index.low, abs=0.01)
    assert by_kind.high == pytest.approx(by_index.high, abs=0.01)


def test_t_equals_scipy_for_single_scores_and_statsmodels_for_clusters():
    draw = rng(2)
    values = draw.random(30)
    ours = estimate(values, np.arange(30), rng=rng(), method="t")
    theirs = ttest_1samp(values, 0).confidence_interval(0.95)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs), abs=1e-12)

    scores, clusters = clustered(4, n=25, k=3)
    fit = sm.OLS(scores, np.ones(len(scores))).fit(
        cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True
    )
    ours = estimate(scores, clusters, rng=rng(), method="t", estimand="intervention_mean")
    assert (ours.low, ours.high) == pytest.approx(tuple(fit.conf_int()[0]), abs=1e-12)


def test_clustered_wilson_is_wilson_of_the_effective_number():
    scores, clusters = clustered(6)
    ours = estimate(
        scores, clusters, rng=rng(), method="wilson", estimand="intervention_mean", confidence=0.9
    )
    sums, counts = np.bincount(clusters, scores), np.bincount(clusters)
    p, error = spread(np.column_stack([sums, counts]).astype(float))
    n = p * (1 - p) / error**2
    low, high = proportion_confint(p * n, n, alpha=0.1, method="wilson")
    assert (ours.low, ours.high) == pytest.approx((low, high), abs=1e-12)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_zeros_or_ones_get_wilson_over_samples(value):
    ours = estimate(np.full(40, value), np.repeat(np.arange(20), 2), rng=rng())
    low, high = proportion_confint(20 * value, 20, method="wilson")
    assert (ours.low, ours.high) == pytest.approx((low, high), abs=1e-12)
    assert "wilson" in ours.method
    assert ours.n_clusters == 20


def test_all_alike_between_the_bounds_has_a_width():
    ours = estimate(np.tile([0.0, 1.0], 50), np.repeat(np.arange(50), 2), rng=rng())
    assert ours.mean == 0.5
    assert 0.45 < ours.low < 0.5 < ours.high < 0.55


@pytest.mark.parametrize("method", ["percentile", "bca", "t", "wilson"])
def test_nothing_and_one_sample_are_not_estimable(method):
    nothing = estimate([], [], rng=rng(), method=method)
    assert nothing[:3] == (None, None, None)
    assert "nothing was scored" in nothing.method
    single = estimate([1, 0], [4, 4], rng=rng(), method=method)
    assert single[:3] == (0.5, None, None)
    assert "single sample" in single.method
    assert sample_mean([], []) is None
    assert intervention_mean([]) is None


def test_strata_keep_their_numbers():
    """Two strata without variance of their own leave none, whatever lies between them."""
    scores, clusters = np.repeat([0.0, 1.0], [30, 10]), np.arange(40)
    strata = np.repeat([0, 1], [30, 10])
    fixed = estimate(scores, clusters, rng=rng(), strata=strata)
    assert (fixed.low, fixed.high) == (0.25, 0.25)
    free = estimate(scores, clusters, rng=rng())
    assert free.high - free.low > 0.2
    with pytest.raises(ValueError, match="two strata"):
        estimate([1, 0, 1], [0, 0, 1], rng=rng(), strata=[0, 1, 0])
    with pytest.raises(ValueError, match="not supported"):
        estimate(scores, clusters, rng=rng(), strata=strata, method="t")


@pytest.mark.parametrize(
    ("scores", "clusters", "options"),
    [
        ([np.nan, 1], [0, 1], {}),
        ([np.inf, 1], [0, 1], {}),
        ([1, 0], [0], {}),
        ([1.5, 0], [0, 1], {}),
        ([1, 0], [0, 1], {"confidence": 1.0}),
        ([1, 0], [0, 1], {"n_resamples": 0}),
    ],
)
def test_wrong_input_is_refused(scores, clusters, options):
    with pytest.raises(ValueError, match=r"."):
        estimate(scores, clusters, rng=rng(), **options)


def test_equal_seeds_give_equal_intervals_and_the_global_generator_is_left_alone():
    scores, clusters = clustered(1)
    np.random.seed(7)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = estimate(scores, clusters, rng=rng(0), n_resamples=500)
    assert first == estimate(scores, clusters, rng=rng(0), n_resamples=500)
    assert first != estimate(scores, clusters, rng=rng(1), n_resamples=501)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_streams_differ_by_name_and_repeat_by_seed():
    def draw(*key):
        return resampling.stream(*key).random()

    assert draw(0, "ac", "demo") == draw(0, "ac", "demo")
    assert len({draw(0, "a", "b"), draw(0, "ab"), draw(0, "b", "a"), draw(1, "a", "b")}) == 4


def test_chunks_do_not_change_the_draws(monkeypatch):
    rows = np.column_stack([rng(3).random(30), np.ones(30)])

    def draws():
        return resampling.bootstrap(rows, lambda t: t[:, 0], rng=rng(8), n_resamples=100)

    whole = draws()
    monkeypatch.setattr(resampling, "CHUNK_FLOATS", 30 * 7)
    assert draws() == pytest.approx(whole, abs=1e-12)


scored = st.lists(
    st.tuples(st.integers(0, 8), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])),
    min_size=1,
    max_size=30,
)
estimands = st.sampled_from(["sample_mean", "intervention_mean"])
methods = st.sampled_from(["percentile", "bca", "t", "wilson"])


def compute(rows, estimand, method="percentile", seed=0):
    clusters, scores = zip(*rows, strict=True)
    return estimate(
        scores, clusters, rng=rng(seed), estimand=estimand, method=method, n_resamples=200
    )


@settings(max_examples=60, deadline=None)
@given(scored, estimands, methods, st.randoms(use_true_random=False))
def test_order_of_rows_and_names_of_samples_do_not_matter(rows, estimand, method, random):
    expected = compute(rows, estimand, method)
    shuffled, names = list(rows), list(range(100, 109))
    random.shuffle(shuffled)
    random.shuffle(names)
    renamed = [(names[cluster], score) for cluster, score in shuffled]
    ours = compute(renamed, estimand, method)
    assert ours[4:] == expected[4:]
    for got, want in zip(ours[:3], expected[:3], strict=True):
        assert got == (want if want is None else pytest.approx(want, abs=1e-12))


@settings(max_examples=60, deadline=None)
@given(scored, estimands, methods)
def test_ends_are_finite_ordered_and_within_the_bounds(rows, estimand, method):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = compute(rows, estimand, method)
    assert 0 <= result.mean <= 1
    if result.low is None:
        assert result.method.startswith("not estimable")
    else:
        assert 0 <= result.low <= result.high <= 1


@settings(max_examples=40, deadline=None)
@given(scored)
def test_doubling_every_score_within_its_sample_changes_nothing(rows):
    """Two equal scores of a sample are no more evidence than one."""
    assert compute(rows, "sample_mean")[:3] == pytest.approx(compute(rows * 2, "sample_mean")[:3])


@settings(max_examples=40, deadline=None)
@given(scored, estimands)
def test_a_better_score_never_lowers_the_mean(rows, estimand):
    better = [(rows[0][0], 1.0), *rows[1:]]
    assert compute(better, estimand).mean >= compute(rows, estimand).mean - 1e-12


def test_a_hundred_copies_of_the_samples_narrow_the_interval_tenfold():
    scores, clusters = clustered(9, n=60)
    once = estimate(scores, clusters, rng=rng(), n_resamples=4000)
    many = estimate(
        np.tile(scores, 100),
        np.concatenate([clusters + 1000 * copy for copy in range(100)]),
        rng=rng(),
        n_resamples=4000,
    )
    assert many.mean == pytest.approx(once.mean)
    assert (once.high - once.low) / (many.high - many.low) == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize("n", [60, 300])
@pytest.mark.parametrize("k", [1, 2])
def test_percentile_intervals_cover(n, k):
    """400 replications: 93 to 97 % less and plus two standard errors of the simulation."""
    draw, hits = rng([n, k]), 0
    for _ in range(400):
        p = draw.beta(1.2, 0.8, n)
        clusters = np.repeat(np.arange(n), k)
        scores = (draw.random(n * k) < p[clusters]).astype(float)
        kept = (clusters * 0 + np.tile(np.arange(k), n) == 0) | (draw.random(n * k) < 0.7)
        result = estimate(scores[kept], clusters[kept], rng=draw, n_resamples=400)
        hits += result.low <= 0.6 <= result.high
    assert 0.93 - 0.026 <= hits / 400 <= 0.97 + 0.018


def test_wilson_refuses_impossible_counts():
    with pytest.raises(ValueError, match="successes"):
        interval.wilson(3, 2)
    assert interval.wilson(0, 0)[:3] == (None, None, None)
    assert interval.wilson(0, 9).low == 0.0
    assert interval.wilson(9, 9).high == 1.0


def few(n, ones):
    return np.repeat([1.0, 0.0], [ones, n - ones])


def test_expanded_takes_the_percentile_draws_at_wider_levels():
    scores, ids = few(20, 9), np.arange(20)
    narrow = estimate(scores, ids, rng=rng(), method="percentile")
    wide = estimate(scores, ids, rng=rng(), method="expanded")
    assert wide.low < narrow.low < narrow.high < wide.high
    # Hesterberg 2015: for 20 clusters the tails are 0.0159, not 0.025
    level = 1 - 2 * norm.cdf(-np.sqrt(20 / 19) * student.isf(0.025, 19))
    same = estimate(scores, ids, rng=rng(), method="percentile", confidence=level)
    assert (wide.low, wide.high) == pytest.approx((same.low, same.high), abs=1e-9)


def test_expanded_is_percentile_where_there_are_many_clusters():
    scores, ids = few(5000, 2000), np.arange(5000)
    narrow = estimate(scores, ids, rng=rng(), method="percentile")
    wide = estimate(scores, ids, rng=rng(), method="expanded")
    assert wide.high - wide.low == pytest.approx(narrow.high - narrow.low, rel=0.01)


@pytest.mark.parametrize(
    ("ones", "method"), [(9, "wilson"), (51, "wilson"), (10, "expanded"), (30, "expanded")]
)
def test_adaptive_leaves_the_bootstrap_where_the_rarer_outcome_is_rare(ones, method):
    scores, ids = few(60, ones), np.arange(60)
    assert estimate(scores, ids, rng=rng(), method="adaptive") == estimate(
        scores, ids, rng=rng(), method=method
    )


def test_adaptive_meets_wilson_of_samples_that_are_all_alike():
    ends = [
        estimate(few(60, ones), np.arange(60), rng=rng(), method="adaptive").high
        for ones in range(8)
    ]
    assert ends == sorted(ends)
    assert ends[0] < ends[1] < 2 * ends[0]
