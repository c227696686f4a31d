"""Comparisons of targets: against scipy and statsmodels, at the edges, and by invariants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import chi, norm, permutation_test
from scipy.stats import t as student
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from stages.stats import comparison as cmp
from stages.stats import permutation
from stages.stats.permutation import association, sign_flip


def rng(seed=0):
    return np.random.default_rng(seed)


def two_targets(seed, n=80, gap=0.2):
    draw = rng(seed)
    level = draw.random(n)
    return [(draw.random(n) < np.clip(level + shift, 0, 1)).astype(float) for shift in (gap, 0)]


def test_by_sample_means_and_gaps():
    table = cmp.by_sample([1, 0, 1, 0.5], ["b", "b", "a", "a"], [0, 0, 0, 1])
    assert table[0].tolist() == [1, 0.5]
    assert table[1, 0] == 0.5
    assert np.isnan(table[1, 1])


def test_difference_is_of_common_samples_and_antisymmetric():
    first = ([1, 1, 0, 1], [0, 0, 1, 2])
    second = ([0, 1, 1], [1, 2, 9])
    ours = cmp.difference(first, second, rng=rng(), n_resamples=200)
    assert ours.interval.mean == 0.0
    assert (ours.n_common, ours.n_left_out) == (2, 2)
    a, b = two_targets(1)
    ids = np.arange(80)
    there = cmp.difference((a, ids), (b, ids), rng=rng())
    back = cmp.difference((b, ids), (a, ids), rng=rng())
    assert there.interval.mean == pytest.approx((a - b).mean(), abs=1e-12)
    assert there.interval.mean == pytest.approx(-back.interval.mean, abs=1e-12)
    assert there.interval.low == pytest.approx(-back.interval.high, abs=0.02)
    assert there.test == back.test
    assert there.sd == pytest.approx((a - b).std(ddof=1), abs=1e-12)


def test_pairing_narrows_what_unpaired_intervals_cannot_tell():
    draw = rng(4)
    level = (draw.random(200) < 0.5).astype(float)
    worse = np.where(draw.random(200) < 0.15, 0.0, level)
    ids = np.arange(200)
    ours = cmp.difference((level, ids), (worse, ids), rng=rng())
    assert ours.interval.low > 0
    assert ours.test.p < 0.01


def test_differences_without_anything_in_common():
    for first, second in ((([], []), ([1], [0])), (([1], [0]), ([1], [1]))):
        ours = cmp.difference(first, second, rng=rng())
        assert ours.interval[:3] == (None, None, None)
        assert ours.test.p is None
        assert ours.sd is None
    single = cmp.difference(([1], [0]), ([0], [0]), rng=rng())
    assert single.interval[:3] == (1.0, None, None)
    assert single.test.p == 1.0


def test_equal_targets_differ_by_nothing_within_a_width():
    ours = cmp.difference(([1, 0] * 30, range(60)), ([1, 0] * 30, range(60)), rng=rng())
    assert ours.interval.mean == 0
    assert -0.1 < ours.interval.low < 0 < ours.interval.high < 0.1
    assert ours.test.p == 1.0


def test_contrast_of_a_two_by_two_design():
    """Planted effects of extractor and judge, none of their interaction."""
    base = rng(0).random((50, 1)) * 0.4
    table = base + np.array([0.3, 0.2, 0.1, 0.0])
    table[0, 3] = np.nan
    options = {"rng": rng(), "n_resamples": 200}
    extractor = cmp.contrast(table, [0.5, 0.5, -0.5, -0.5], **options)
    judge = cmp.contrast(table, [0.5, -0.5, 0.5, -0.5], **options)
    both = cmp.contrast(table, [1, -1, -1, 1], **options)
    assert extractor.interval.mean == pytest.approx(0.2, abs=1e-12)
    assert judge.interval.mean == pytest.approx(0.1, abs=1e-12)
    assert both.interval.mean == pytest.approx(0.0, abs=1e-12)
    assert (extractor.n_common, extractor.n_left_out) == (49, 1)
    assert cmp.contrast(table, [1, -1, 0, 0], **options).n_common == 50
    with pytest.raises(ValueError, match="weights"):
        cmp.contrast(table, [1, -1], **options)
    with pytest.raises(ValueError, match="within"):
        cmp.contrast(table + 1, [1, -1, 0, 0], **options)


@pytest.mark.parametrize("seed", range(5))
def test_exact_sign_flip_equals_scipy(seed):
    draw = rng(seed)
    values = draw.choice([-1, -0.5, 0, 0.5, 1, 0.3], 11)
    theirs = permutation_test(
        (values,), lambda d, axis: d.sum(axis=axis), permutation_type="samples", vectorized=True
    )
    # scipy doubles the smaller tail; the sum's distribution is symmetric, so that is the same.
    ours = sign_flip(values, rng=rng())
    assert ours.method == "exact sign flip"
    assert ours.p == pytest.approx(theirs.pvalue, abs=1e-12)


def test_drawn_signs_agree_with_enumerated_ones(monkeypatch):
    values = np.subtract(*two_targets(3, n=60, gap=0.12))
    exact = sign_flip(values, rng=rng())
    monkeypatch.setattr(permutation, "EXACT_STATES", 0)
    drawn = sign_flip(values, rng=rng(), n_resamples=20_000)
    assert drawn.method.startswith("monte carlo")
    assert drawn.p == pytest.approx(exact.p, abs=0.01)
    strong = sign_flip(np.ones(60), rng=rng(), n_resamples=99)
    assert strong.p == 1 / 100


def test_sign_flip_keeps_its_level():
    draw = rng(9)
    hits = [sign_flip(draw.integers(-2, 3, 40) / 2, rng=draw).p <= 0.05 for _ in range(1000)]
    assert 0.03 <= np.mean(hits) <= 0.065


def test_association_finds_what_is_there_and_says_what_is_not():
    draw = rng(1)
    x = draw.random(60)
    found = association(x, x + 0.1 * draw.random(60), rng=rng(), n_resamples=499)
    assert found.correlation > 0.9
    assert found.test.p == 1 / 500
    y = draw.random(60)
    unrelated = association(x, y, rng=rng(), n_resamples=499)
    assert unrelated.correlation == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-12)
    assert unrelated.test.p > 0.05
    assert association([1, 1, 1], [0, 1, 2], rng=rng()).correlation is None
    assert association([1, 2], [0, 1], rng=rng()).test.p is None


@pytest.mark.parametrize("seed", range(8))
def test_holm_equals_statsmodels(seed):
    values = rng(seed).random(1 + 3 * seed) ** 4
    theirs = multipletests(values, method="holm")[1]
    assert cmp.holm(values.tolist()) == pytest.approx(list(theirs), abs=1e-12)


def test_holm_leaves_out_what_was_not_tested():
    assert cmp.holm([0.01, None, 0.04]) == pytest.approx([0.02, None, 0.04])
    assert cmp.holm([None]) == [None]


def test_ranks_are_certain_where_the_data_are_and_shared_where_they_tie():
    table = np.column_stack([np.full(30, 0.2), np.full(30, 0.9), np.full(30, 0.2)])
    ours = cmp.rank_probabilities(table, rng=rng(), n_resamples=100)
    assert ours.probability.tolist() == [[0, 0.5, 0.5], [1, 0, 0], [0, 0.5, 0.5]]
    assert ours.expected == [2.5, 1.0, 2.5]


def test_ranks_with_gaps():
    draw = rng(2)
    table = draw.random((40, 4))
    table[draw.random((40, 4)) < 0.3] = np.nan
    table[:, 2] = np.nan
    ours = cmp.rank_probabilities(table, rng=rng(), n_resamples=500)
    assert ours.probability.sum(axis=1) == pytest.approx([1, 1, 0, 1])
    assert ours.probability.sum(axis=0) == pytest.approx([1, 1, 1, 0])
    assert ours.expected[2] is None
    empty = cmp.rank_probabilities(np.full((3, 2), np.nan), rng=rng())
    assert empty.expected == [None, None]
    assert empty.n_resamples == 0


def test_rank_of_two_is_the_share_of_resampled_differences_above_zero():
    a, b = two_targets(5, n=40, gap=0.1)
    ours = cmp.rank_probabilities(np.column_stack([a, b]), rng=rng(), n_resamples=10_000)
    draw = rng(1).integers(0, 40, (10_000, 40))
    sums = (a - b)[draw].sum(axis=1)
    expected = (sums > 1e-9).mean() + (np.abs(sums) <= 1e-9).mean() / 2
    assert ours.probability[0, 0] == pytest.approx(expected, abs=0.02)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.05, 1.0), st.floats(0.02, 0.5), st.sampled_from([0.5, 0.8, 0.95]))
def test_samples_needed_equals_statsmodels(sd, gap, target):
    needed = cmp.samples_needed(sd, gap, target_power=target).n
    reference = TTestPower()
    if np.isnan(reference.power(gap / sd, needed, 0.05)):
        return  # statsmodels gives up far out; the next test goes there
    assert reference.power(gap / sd, needed, 0.05) >= target - 1e-6
    if needed > 2:
        assert reference.power(gap / sd, needed - 1, 0.05) < target + 1e-6


@pytest.mark.parametrize(("n", "shift"), [(2, 8.0), (2, 11.3), (3, 5.0), (5, 2.8), (20, 2.8)])
def test_power_by_integrating_over_the_estimated_deviation(n, shift):
    cut = student.isf(0.025, n - 1)

    def found(w):
        bar = cut * w / np.sqrt(n - 1)
        return chi.pdf(w, n - 1) * (norm.sf(bar - shift) + norm.cdf(-bar - shift))

    expected = quad(found, 0, np.inf, limit=200)[0]
    assert cmp.power(n, shift / np.sqrt(n), 1.0) == pytest.approx(expected, abs=1e-6)


def test_power_rises_with_samples_and_gap_and_inverts():
    assert cmp.power(50, 0.1, 0.4) < cmp.power(100, 0.1, 0.4) < cmp.power(100, 0.2, 0.4)
    assert cmp.power(40, 0.0, 0.4) == pytest.approx(0.05, abs=1e-9)
    assert cmp.power(10_000, 0.9, 0.1) == pytest.approx(1)
    gap = cmp.detectable_difference(0.5, 200)
    assert cmp.power(200, gap, 0.5) == pytest.approx(0.8, abs=1e-6)
    assert cmp.detectable_difference(0.5, 1) is None
    for sd, wanted in ((None, 0.1), (0.4, 0.0), (0.0, 0.1)):
        answer = cmp.samples_needed(sd, wanted)
        assert answer.n is None
        assert answer.reason


def test_pairs_are_all_and_once():
    assert cmp.pairs(3).tolist() == [[0, 1], [0, 2], [1, 2]]
