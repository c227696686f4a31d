"""Thumbnails, heat maps, overlays, layers, and the prints beside the pages."""

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from stages.records.attempt import Box
from stages.reporting.forest import Mark, row
from stages.reporting.palette import BLUE, ORANGE, rgb
from stages.reporting.pictures import box_and_mask, fit, heat_layer, heat_map, mask_layer
from stages.reporting.prints import Prints
from stages.reporting.reading import read_study


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


def test_heat_layer_over_grey_is_the_heat_map(grey: NDArray[np.uint8]) -> None:
    changed = np.zeros((60, 80), np.uint8)
    changed[10:30, 10:30] = 255
    layer = heat_layer(changed, width=80, levels=256)
    drawn = layer.palette[layer.levels].astype(float)
    weight = drawn[..., 3:] / 255
    pale = 255 - 0.55 * (255 - 128.0)
    laid = pale * (1 - weight) + drawn[..., :3] * weight
    assert np.abs(laid - heat_map(grey, changed)).max() < 4


def test_mask_layer_is_clear_outside_tinted_inside_and_outlined() -> None:
    mask = np.zeros((120, 160), np.uint8)
    mask[40:80, 40:120] = 255
    layer = mask_layer(mask, width=80)
    opacity = layer.palette[layer.levels][..., 3]
    assert layer.levels.shape == (60, 80)
    assert opacity[5, 5] == 0
    assert opacity[30, 40] == 102
    assert opacity[20, 40] == 255
    assert (layer.palette[1:, :3] == rgb(BLUE)).all()


def test_prints_are_named_by_content_and_kept_once(
    workspace: Callable[..., tuple[Path, dict[str, Any]]],
) -> None:
    root, params = workspace()
    study = read_study(root, params)
    made = []
    for name in ("first", "second"):
        prints = Prints(root / name, view_px=100, thumbnail_px=40)
        prints.make(study)
        made.append({p.name: p.read_bytes() for p in (root / name / "images").iterdir()})
    assert made[0] == made[1]
    for name, data in made[0].items():
        assert hashlib.sha256(data).hexdigest()[:20] == name.partition(".")[0]
        assert Image.open(io.BytesIO(data)).format == {"jpg": "JPEG", "png": "PNG"}[name[-3:]]
    attempt = next(a for a in study.records[0].attempts["s-003"] if a.status == "ok")
    views = prints.views(attempt)
    assert views.searched is views.before
    assert views.before
    assert views.after
    assert views.heat
    assert views.mask
    assert (views.after.view.width, views.after.view.height) == (100, 75)
    assert (views.after.thumbnail.width, views.after.width) == (40, 160)
    layer = Image.open(root / "second" / views.mask.src).convert("RGBA")
    assert layer.getpixel((2, 2))[3] == 0
    assert layer.getpixel((45, 40))[3] == 102
    assert prints.photo(None) is None


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
