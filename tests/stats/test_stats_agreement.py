"""Agreement: the published counts, and equality with statsmodels and krippendorff."""

import csv
from pathlib import Path

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.inter_rater import fleiss_kappa as sm_fleiss
from statsmodels.stats.proportion import proportion_confint

from stages.stats import agreement as ag
from stages.stats import judges

TABLE4 = Path(__file__).parents[2] / "data" / "reference" / "table4.csv"
PUBLISHED = [row for row in csv.DictReader(TABLE4.open(encoding="utf-8")) if row["ci_low_pct"]]


def rng(seed=0):
    return np.random.default_rng(seed)


def rated(seed, units=60, raters=3, missing=0.2, categories=4):
    """Ratings that agree more than by chance, some missing."""
    draw = rng(seed)
    truth = draw.integers(0, categories, (units, 1))
    noise = draw.integers(0, categories, (units, raters))
    table = np.where(draw.random((units, raters)) < 0.6, truth, noise).astype(float)
    table[draw.random((units, raters)) < missing] = np.nan
    return table


def test_five_published_counts_are_there():
    counts = {(int(row["agree"]), int(row["n"])) for row in PUBLISHED}
    assert counts == {(88, 100), (86, 100), (99, 112), (83, 88), (83, 100)}


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: row["comparison"])
def test_wilson_reproduces_table_4_to_a_tenth_of_a_point(row):
    ours = ag.wilson(int(row["agree"]), int(row["n"]))
    for value, column in zip(ours[:3], ("agreement_pct", "ci_low_pct", "ci_high_pct"), strict=True):
        assert round(100 * value, 1) == pytest.approx(float(row[column]), abs=0.1 + 1e-9), column


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_equals_statsmodels(counts):
    ours = ag.wilson(*counts, confidence=0.9)
    theirs = proportion_confint(*counts, alpha=0.1, method="wilson")
    assert (ours.low, ours.high) == pytest.approx(theirs, abs=1e-12)


def test_agreement_counts_only_units_that_all_rated():
    ratings = np.array([[1, 1, 1], [1, 0, 1], [0, 0, None], [0, 0, 0]], dtype=float)
    ours = ag.agreement(ratings)
    assert ours.mean == pytest.approx(2 / 3)
    assert ours.n == 3
    assert ag.agreement(np.full((4, 2), np.nan)).mean is None
    by_sample = ag.agreement_clustered(ratings, [0, 0, 1, 2], rng=rng(), n_resamples=200)
    assert by_sample.mean == pytest.approx(2 / 3)
    assert (by_sample.n_clusters, by_sample.n) == (2, 3)


def test_confusion_by_hand_and_in_given_order():
    first, second = [0, 1, 1, None, 0], [0, 1, 0, 1, 1]
    first, second = np.array(first, dtype=float), np.array(second, dtype=float)
    assert ag.confusion(first, second).tolist() == [[1, 1], [1, 1]]
    assert ag.confusion([0, 0, 1], [0, 1, 1], [1, 0, 2]).tolist() == [
        [1, 0, 0],
        [1, 1, 0],
        [0, 0, 0],
    ]
    with pytest.raises(ValueError, match="beyond the categories"):
        ag.confusion([3], [0], [0, 1])


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
@pytest.mark.parametrize("seed", range(4))
def test_cohen_equals_statsmodels(weights, seed):
    table = rated(seed, raters=2, missing=0)
    theirs = cohens_kappa(ag.confusion(*table.T), wt=weights, return_results=False)
    assert ag.cohen_kappa(*table.T, weights=weights) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_fleiss_equals_statsmodels(seed):
    table = rated(seed, missing=0)
    counts = (table[:, :, None] == np.arange(4)).sum(axis=1)
    assert ag.fleiss_kappa(table) == pytest.approx(sm_fleiss(counts), abs=1e-12)


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
@pytest.mark.parametrize("seed", range(6))
def test_alpha_equals_krippendorff(level, seed):
    table = rated(seed, raters=2 + seed % 3)
    theirs = krippendorff.alpha(reliability_data=table.T, level_of_measurement=level)
    assert ag.krippendorff_alpha(table, level=level) == pytest.approx(theirs, abs=1e-12)


def test_coefficients_without_variety_do_not_exist():
    ones = np.ones((5, 2))
    assert ag.cohen_kappa(*ones.T) is None
    assert ag.fleiss_kappa(ones) is None
    assert ag.krippendorff_alpha(ones) is None
    for table in (np.full((3, 2), np.nan), np.zeros((0, 2)), np.array([[1, np.nan]])):
        assert ag.cohen_kappa(*table.T) is None
        assert ag.fleiss_kappa(table) is None
        assert ag.krippendorff_alpha(table) is None
        assert ag.alpha_interval(table, np.arange(len(table)), rng=rng()).mean is None
        assert ag.kappa_interval(*table.T, np.arange(len(table)), rng=rng()).mean is None
    assert "single category" in ag.alpha_interval(ones, np.arange(5), rng=rng()).method
    perfect = ag.kappa_interval([0, 1, 0], [0, 1, 0], [0, 1, 2], rng=rng(), n_resamples=50)
    assert perfect[:3] == (1.0, None, None)


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_alpha_interval_is_the_bootstrap_of_alpha(level):
    """Resampling whole samples and computing alpha each time gives the same quantiles."""
    table, clusters = rated(1, missing=0.1), np.arange(60) // 2
    ours = ag.alpha_interval(table, clusters, rng=rng(1), level=level, n_resamples=4000)
    draw, values = rng(2), []
    for _ in range(1500):
        chosen = draw.integers(0, 30, 30)
        rows = (2 * chosen[:, None] + np.arange(2)).ravel()
        values.append(ag.krippendorff_alpha(table[rows], level=level))
    low, high = np.quantile(values, [0.025, 0.975])
    assert ours.mean == pytest.approx(ag.krippendorff_alpha(table, level=level), abs=1e-12)
    assert (ours.low, ours.high) == pytest.approx((low, high), abs=0.03)


def test_a_rater_of_one_category_leaves_kappa_without_an_interval():
    """Kappa is 0 in every resample then, which is no certainty."""
    first, second = np.array([1, 1, 1, 0, 0.0]), np.ones(5)
    found = ag.kappa_interval(first, second, np.arange(5), rng=rng())
    assert (found.mean, found.low, found.high) == (0, None, None)
    assert found.method == "not estimable: hardly any resample differs"


def test_kappa_interval_widens_when_units_travel_together():
    table = np.repeat(rated(3, units=40, raters=2, missing=0), 3, axis=0)
    together = ag.kappa_interval(*table.T, np.arange(120) // 3, rng=rng())
    apart = ag.kappa_interval(*table.T, np.arange(120), rng=rng())
    assert together.mean == pytest.approx(ag.cohen_kappa(*table.T), abs=1e-12)
    ratio = (together.high - together.low) / (apart.high - apart.low)
    assert ratio == pytest.approx(np.sqrt(3), rel=0.1)


ratings = st.lists(
    st.lists(st.sampled_from([0.0, 1.0, 2.0, np.nan]), min_size=3, max_size=3),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(ratings, st.randoms(use_true_random=False))
def test_order_of_units_and_raters_does_not_matter(rows, random):
    table = np.array(rows)
    shuffled = list(rows)
    random.shuffle(shuffled)
    turned = np.array(shuffled)[:, ::-1]
    for level in ("nominal", "ordinal", "interval"):
        value = ag.krippendorff_alpha(table, level=level)
        other = ag.krippendorff_alpha(turned, level=level)
        assert value == (other if other is None else pytest.approx(other, abs=1e-12))
        assert value is None or value <= 1
    assert ag.agreement(table)[:3] == ag.agreement(turned)[:3]


@settings(max_examples=40, deadline=None)
@given(ratings)
def test_nominal_agreement_does_not_know_the_names_of_categories(rows):
    table = np.array(rows)
    renamed = np.choose(np.nan_to_num(table, nan=0).astype(int), [7.0, 3.0, 5.0])
    renamed[np.isnan(table)] = np.nan
    value, other = ag.krippendorff_alpha(table), ag.krippendorff_alpha(renamed)
    assert value == (other if other is None else pytest.approx(other, abs=1e-12))


def test_judges_are_combined_by_mean_and_by_vote():
    scores = np.array([[1, 1, 0], [1, 0, None], [None, None, None], [0.25, 0.25, 1]], dtype=float)
    mean, exists = judges.mean_score(scores)
    assert mean.tolist() == pytest.approx([2 / 3, 0.5, 0, 0.5])
    assert exists.tolist() == [True, True, False, True]
    vote, decided = judges.majority(scores)
    assert vote.tolist() == [1, 0, 0, 0.25]
    assert decided.tolist() == [True, False, False, True]
    assert judges.majority(np.full((2, 2), np.nan))[1].tolist() == [False, False]
