"""Ratios of paired means, beside a plain bootstrap."""

import numpy as np
import pytest

from stages.stats.ratio import mean_of, ratio_of_means


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_the_paper_s_ratio() -> None:
    found = ratio_of_means([0.7124] * 48, [0.1792] * 48, rng=rng(), n_resamples=200)
    assert found.mean == pytest.approx(3.975, abs=0.001)
    assert found.low == pytest.approx(found.mean)


def test_it_is_a_plain_bootstrap_of_pairs() -> None:
    draw = np.random.default_rng(5)
    above, below = draw.gamma(2, 1, 40), draw.gamma(3, 1, 40)
    found = ratio_of_means(above, below, rng=rng(), n_resamples=20_000)
    other = np.random.default_rng(9)
    index = other.integers(0, 40, (20_000, 40))
    ratios = above[index].sum(1) / below[index].sum(1)
    assert found.mean == pytest.approx(above.sum() / below.sum())
    assert [found.low, found.high] == pytest.approx(np.quantile(ratios, [0.025, 0.975]), rel=0.02)


def test_the_order_of_samples_is_nothing() -> None:
    draw = np.random.default_rng(5)
    above, below = draw.gamma(2, 1, 40), draw.gamma(3, 1, 40)
    turned = ratio_of_means(above[::-1], below[::-1], rng=rng())
    assert turned == ratio_of_means(above, below, rng=rng())


def test_pairs_that_vary_together_leave_less_doubt() -> None:
    below = np.random.default_rng(1).gamma(1, 1, 60)
    together = ratio_of_means(3 * below, below, rng=rng())
    apart = ratio_of_means(3 * np.roll(below, 7), below, rng=rng())
    assert together.low is not None
    assert apart.low is not None
    assert together.low == pytest.approx(3)
    assert apart.low < 2.5


def test_a_mean_of_any_size() -> None:
    found = mean_of([10.0, 20.0, 30.0], rng=rng())
    assert found.mean == pytest.approx(20)
    assert found.n_clusters == 3


@pytest.mark.parametrize(("above", "below"), [([], []), ([1.0], [0.0])])
def test_what_can_t_be_estimated_has_no_mean(above: list[float], below: list[float]) -> None:
    found = ratio_of_means(above, below, rng=rng())
    assert (found.mean, found.low, found.high) == (None, None, None)
    assert found.method.startswith("not estimable")


def test_one_sample_has_no_interval() -> None:
    found = ratio_of_means([4.0], [2.0], rng=rng())
    assert (found.mean, found.low) == (2.0, None)


def test_bad_pairs_are_errors() -> None:
    with pytest.raises(ValueError, match="pairs"):
        ratio_of_means([1.0], [1.0, 2.0], rng=rng())
    with pytest.raises(ValueError, match="at least 0"):
        ratio_of_means([1.0], [-1.0], rng=rng())
