"""Alignment looks beside the target only, and what moved out of view is no change."""

import cv2
import numpy as np
import pytest
from skimage import data

from stages.imaging import localization, mask, registration
from stages.imaging.settings import Settings

SETTINGS = Settings()


@pytest.fixture(scope="module")
def photo():
    return data.astronaut()


def slid(pixels, inside, step):
    """The content of the target moved, and noise everywhere, so that there is something to do."""
    noise = np.random.default_rng(0).normal(0, 4, pixels.shape)
    out = np.where(inside[..., None], np.roll(pixels, step, axis=1), pixels)
    return np.clip(np.rint(out + noise), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("step", [5, -7])
def test_a_motion_inside_a_large_target_moves_nothing(photo, step):
    inside = mask.boxes(photo.shape, [(0, 100, 512, 512)])
    found = registration.register(photo, slid(photo, inside, step), inside, settings=SETTINGS)
    assert found.shift_px < 0.5
    if found.flow is not None:
        assert np.abs(found.flow).max() < 1.0


def test_the_target_follows_the_motion_around_it(photo):
    inside = mask.boxes(photo.shape, [(150, 150, 350, 350)])
    moved = cv2.warpAffine(
        photo, np.float32([[1, 0, 6], [0, 1, 0]]), (512, 512), borderMode=cv2.BORDER_REFLECT
    )
    moved[150:350, 150:350] = np.random.default_rng(0).integers(0, 256, (200, 200, 3))
    found = registration.register(photo, moved, inside, settings=SETTINGS)
    assert found.outcome == "similarity"
    reach = found.matrix @ np.array([250.0, 250.0, 1.0]) - (250, 250)
    reach += 0 if found.flow is None else found.flow[250, 250]
    assert reach == pytest.approx([6, 0], abs=0.7)


def test_what_moved_out_of_view_is_no_change(photo):
    inside = mask.boxes(photo.shape, [(200, 200, 300, 300)])
    matrix = np.float32([[1, 0, 40], [0, 1, 0]])
    moved = cv2.warpAffine(photo, matrix, (512, 512), borderValue=(255, 0, 255))
    found = localization.localize(photo, moved, inside, settings=SETTINGS)
    assert found.registration == "similarity"
    # The last forty columns of the source are nowhere in the edited image.
    assert not found.delta[:, 476:].any()


def test_warp_says_what_it_covers():
    image = np.arange(48, dtype=np.uint8).reshape(6, 8)
    moved, covered = registration.warp(image, np.array([[1.0, 0, 2], [0, 1, 0]]))
    assert np.array_equal(moved[:, :6], image[:, 2:])
    assert covered[:, :6].all()
    assert not covered[:, 6:].any()


def test_residual_is_over_the_place_asked_for():
    black, white = np.zeros((4, 4), np.uint8), np.zeros((4, 4), np.uint8)
    white[:, 2:] = 255
    where = np.zeros((4, 4), dtype=bool)
    assert registration.residual(black, white, where) is None
    where[:, 1:] = True
    assert registration.residual(black, white, where) == pytest.approx(2 / 3)
