"""Masks and sizes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.imaging import mask, size


def test_boxes_are_clipped_united_and_rounded_outwards():
    drawn = mask.boxes((10, 20, 3), [(-5, -5, 2, 2), (17.5, 8.2, 40, 40), (5, 5, 5, 9)])
    wanted = np.zeros((10, 20), dtype=bool)
    wanted[:2, :2] = True
    wanted[8:, 17:] = True
    assert np.array_equal(drawn, wanted)


def test_a_box_outside_the_image_covers_nothing():
    assert not mask.boxes((10, 10), [(-9, -9, -1, -1), (11, 11, 20, 20)]).any()


def test_dilation_is_round_and_relative_to_the_diagonal():
    point = np.zeros((300, 400), dtype=bool)
    point[150, 200] = True
    wide = mask.dilate(point, radius_share=0.02)  # diagonal 500: radius 10
    ys, xs = np.nonzero(wide)
    assert np.hypot(ys - 150, xs - 200).max() == pytest.approx(10)
    assert wide.sum() == pytest.approx(np.pi * 100, rel=0.05)


@given(st.integers(0, 2**32 - 1), st.floats(0, 0.2), st.floats(0, 0.2))
@settings(max_examples=25, deadline=None)
def test_dilation_grows(seed, first, second):
    some = np.random.default_rng(seed).random((24, 33)) < 0.02
    low, high = sorted((first, second))
    narrow, wide = (mask.dilate(some, radius_share=share) for share in (low, high))
    assert (some <= narrow).all()
    assert (narrow <= wide).all()


def test_dilation_leaves_its_input_and_the_empty_mask():
    empty = np.zeros((9, 9), dtype=bool)
    assert not mask.dilate(empty, radius_share=0.5).any()
    one = empty.copy()
    one[4, 4] = True
    kept = one.copy()
    result = mask.dilate(one, radius_share=0.0)
    result[:] = True
    assert np.array_equal(one, kept)


def test_fit_resamples_within_the_tolerance():
    flat = np.full((100, 202, 3), 77, np.uint8)
    fitted = size.fit(flat, (50, 100, 3), aspect_tolerance=0.02)
    assert fitted is not None
    assert fitted.shape == (50, 100, 3)
    assert (fitted == 77).all()


@pytest.mark.parametrize("shape", [(100, 210, 3), (100, 190, 3), (200, 100, 3)])
def test_fit_refuses_another_aspect(shape):
    assert size.fit(np.zeros(shape, np.uint8), (100, 200, 3), aspect_tolerance=0.02) is None


def test_fit_keeps_what_fits_already():
    image = np.zeros((7, 9, 3), np.uint8)
    assert size.fit(image, (7, 9, 3), aspect_tolerance=0.0) is image


def test_fit_allows_for_whole_pixels():
    # 333 x 500 at a third is 111 x 166.7.
    image = np.zeros((333, 500, 3), np.uint8)
    assert size.fit(image, (111, 167, 3), aspect_tolerance=0.0) is not None


def test_fit_enlarges_one_pixel():
    fitted = size.fit(np.full((1, 1, 3), 9, np.uint8), (8, 8, 3), aspect_tolerance=0.02)
    assert fitted is not None
    assert (fitted == 9).all()


@pytest.mark.parametrize("box", [(0, 0, 3, 2), (50, 30, 60, 40), (20, 0, 60, 40), (7, 9, 8, 10)])
def test_dilation_reaches_as_far_as_the_radius_and_no_farther(box):
    inside = mask.boxes((40, 60), [box])
    dilated = mask.dilate(inside, radius_share=0.1)
    ys, xs = np.nonzero(inside)
    rows, columns = np.mgrid[:40, :60]
    distance = np.hypot(rows[..., None] - ys, columns[..., None] - xs).min(axis=-1)
    assert np.array_equal(dilated, distance <= round(0.1 * np.hypot(40, 60)))
