"""Attention maps: where attention was put, there the map is."""

import numpy as np
import pytest

from stages.imaging.attention import differential_map, enlarge, find_sinks, share_inside

GRID = (3, 4)
TOKENS = 12


def even(layers: int = 2, heads: int = 3) -> np.ndarray:
    return np.full((layers, heads, TOKENS), 1 / TOKENS)


def planted(token: int, *, head: int = 1) -> np.ndarray:
    attention = even()
    attention[:, head] = 0.01
    attention[:, head, token] = 1.0
    return attention


@pytest.mark.parametrize("token", [0, 5, 11])
def test_the_map_is_where_attention_was_put(token: int) -> None:
    found = differential_map(planted(token), GRID)
    assert found.values.argmax() == token
    assert found.values.ravel()[token] > 0.99
    assert found.values.sum() == pytest.approx(1)


def test_it_is_the_published_steps_on_a_case_counted_by_hand() -> None:
    # One layer, two heads, four tokens. The layer's mean is 1/4.
    attention = np.array([[[0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25]]])
    found = differential_map(attention, (2, 2), drop=0)
    # The even head has no variance, hence no weight; of the other only the first token is above.
    assert found.values.tolist() == [[1, 0], [0, 0]]
    attention = np.array([[[0.5, 0.4, 0.1, 0.0], [0.4, 0.3, 0.2, 0.1]]])
    first, second = np.var(attention[0, 0]), np.var(attention[0, 1])
    raw = np.array([0.25 * first + 0.15 * second, 0.15 * first + 0.05 * second, 0, 0]) ** 2
    found = differential_map(attention, (2, 2), drop=0)
    assert found.values.ravel() == pytest.approx(raw / raw.sum())


def test_heads_without_an_opinion_do_not_drown_the_one_that_has_one() -> None:
    many = np.concatenate([np.repeat(even(2, 1), 30, axis=1), planted(7)[:, 1:2]], axis=1)
    assert differential_map(many, GRID).values.ravel()[7] > 0.99


def test_scaling_a_head_changes_nothing() -> None:
    attention = np.random.default_rng(0).uniform(0, 1, (2, 3, TOKENS))
    scaled = attention * np.array([1, 5, 0.1])[None, :, None]
    a, b = (differential_map(x, GRID).values for x in (attention, scaled))
    assert a == pytest.approx(b)


def test_the_lowest_quarter_is_dropped() -> None:
    attention = np.random.default_rng(1).uniform(0.5, 1, (1, 8, 100))
    kept = differential_map(attention, (10, 10), drop=25).values
    whole = differential_map(attention, (10, 10), drop=0).values
    assert (kept == 0).sum() >= 25
    assert (kept > 0).sum() < (whole > 0).sum() or (whole == 0).sum() >= 25
    assert (differential_map(attention, (10, 10), drop=90).values > 0).sum() == 10


def test_a_sink_is_set_aside() -> None:
    attention = planted(7)
    attention[:, :, 0] = 20.0
    background = np.full((2, TOKENS), 0.01)
    background[:, 0] = 0.8
    sinks = find_sinks(background, 8.0)
    assert sinks.tolist() == [True] + [False] * 11
    with_sink = differential_map(attention, GRID)
    without = differential_map(attention, GRID, sinks=sinks)
    assert with_sink.values.argmax() == 0
    assert without.values.argmax() == 7
    assert without.values.ravel()[0] == 0
    assert without.sinks.ravel().tolist() == sinks.tolist()


def test_no_ratio_no_sink() -> None:
    background = np.zeros((2, TOKENS))
    background[:, 3] = 1
    assert not find_sinks(background, None).any()
    assert find_sinks(background, 5.0)[3]


def test_nothing_that_stands_out_gives_an_empty_map() -> None:
    found = differential_map(even(), GRID)
    assert found.values.sum() == 0
    assert share_inside(enlarge(found.values, (30, 40)), np.ones((30, 40), bool)) is None


@pytest.mark.parametrize(
    "attention",
    [
        np.zeros((0, 3, TOKENS)),
        np.zeros((2, 0, TOKENS)),
        np.zeros((2, 3, 5)),
        np.zeros((3, TOKENS)),
    ],
)
def test_what_does_not_fit_is_an_error(attention: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"layers|fill"):
        differential_map(attention, GRID)


def test_a_number_that_is_none_is_an_error() -> None:
    attention = even()
    attention[0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="finite"):
        differential_map(attention, GRID)


def test_enlarged_the_share_inside_is_that_of_the_cell() -> None:
    values = np.zeros(GRID)
    values[1, 2] = 1.0
    large = enlarge(values, (96, 128))
    assert large.shape == (96, 128)
    assert large.min() >= 0
    assert large.sum() == pytest.approx(1, abs=1e-5)
    mask = np.zeros((96, 128), bool)
    mask[32:64, 64:96] = True
    inside = share_inside(large, mask)
    assert inside is not None
    assert inside > 0.5  # cubic enlargement spreads the rest over the neighbours
    outside = share_inside(large, ~mask)
    assert outside is not None
    assert inside + outside == pytest.approx(1)


def test_a_mask_of_another_size_is_an_error() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        share_inside(enlarge(np.ones(GRID), (30, 40)), np.ones((40, 30), bool))
