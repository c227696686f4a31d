"""Thumbnails, heat maps, overlays and the album."""

import numpy as np
import pytest
from numpy.typing import NDArray

from stages.records.attempt import Box
from stages.reporting.forest import Mark, row
from stages.reporting.palette import BLUE, ORANGE, rgb
from stages.reporting.pictures import Album, box_and_mask, fit, heat_map


@pytest.fixture
def grey() -> NDArray[np.uint8]:
    return np.full((60, 80, 3), 128, np.uint8)


def test_fit_shrinks_and_never_enlarges(grey: NDArray[np.uint8]) -> None:
    assert fit(grey, width=40).shape == (30, 40, 3)
    assert fit(grey, width=800) is grey
    tall = np.zeros((900, 30, 3), np.uint8)
    assert fit(tall, width=40).shape[0] == 60
    assert min(fit(np.zeros((1, 4000, 3), np.uint8), width=40).shape) == 1


def test_heat_lies_where_the_change_is(grey: NDArray[np.uint8]) -> None:
    changed = np.zeros((120, 160), np.uint8)
    changed[20:60, 20:60] = 255
    heat = heat_map(grey, changed).astype(int)
    assert heat[20, 20, 0] - heat[20, 20, 2] > 60  # deep orange
    far = heat[50, 70]
    assert far[0] == far[1] == far[2] > 128  # pale grey
    assert (heat_map(grey, np.zeros((60, 80), np.uint8)) == far[0]).all()


def test_more_change_is_darker(grey: NDArray[np.uint8]) -> None:
    half = np.zeros((60, 80), np.uint8)
    half[:, ::4] = 255
    whole = np.full((60, 80), 255, np.uint8)
    assert heat_map(grey, whole).mean() < heat_map(grey, half).mean()


def test_box_and_mask_are_drawn_to_scale(grey: NDArray[np.uint8]) -> None:
    mask = np.zeros((120, 160), np.uint8)
    mask[40:80, 40:80] = 255
    before = grey.copy()
    drawn = box_and_mask(grey, mask, [Box(x0=100, y0=20, x1=140, y1=100)], scale=0.5)
    assert (grey == before).all()
    tinted = np.rint(0.6 * 128 + 0.4 * np.array(rgb(BLUE)))
    assert (drawn[30, 30] == tinted).all()
    assert (drawn[30, 50] == rgb(ORANGE)).all()  # left edge of the box
    assert (drawn[55, 5] == 128).all()


def test_album_keeps_equal_images_once(grey: NDArray[np.uint8]) -> None:
    album = Album()
    first, second = album.add(grey), album.add(grey.copy())
    other = album.add(255 - grey)
    assert first == second != other
    assert set(album.files) == {
        first.src.removeprefix("images/"),
        other.src.removeprefix("images/"),
    }
    assert (first.width, first.height) == (80, 60)


def test_forest_row_puts_marks_on_the_scale() -> None:
    svg = row([Mark("binary", 0.5, 0.25, 0.75), Mark("planted", 1.0)], description='<a "b">')
    assert 'cx="110.0"' in svg
    assert 'd="M59.5 13.0H160.5"' in svg
    assert "M211.0 6.5" in svg
    assert "<a" not in svg
    assert "&lt;a" in svg


def test_forest_row_without_estimates_is_an_empty_scale() -> None:
    svg = row([Mark("binary", None)], description="nothing")
    assert "circle" not in svg
    assert svg.count("grid") == 5
