"""Where an edit changed the image: planted changes, nuisances, laws and bad input."""

import math

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from skimage import data
from skimage.metrics import structural_similarity

from stages.imaging import change, localization, mask
from stages.imaging.settings import Settings

SETTINGS = Settings()
BOX = (130, 345, 210, 425)


@pytest.fixture(scope="module")
def photo():
    pixels = data.astronaut()
    pixels.flags.writeable = False  # whoever writes to an input fails
    return pixels


@pytest.fixture(scope="module")
def target(photo):
    inside = mask.boxes(photo.shape, [BOX])
    inside.flags.writeable = False
    return inside


def localize(source, edited, inside, **changes):
    return localization.localize(source, edited, inside, settings=Settings(**changes))


def moved(pixels, *, angle=0.0, scale=1.0, shift=(0.0, 0.0)):
    height, width = pixels.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), angle, scale)
    matrix[:, 2] += shift
    return cv2.warpAffine(
        pixels, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT
    )


def patched(pixels, box, patch):
    out = pixels.copy()
    x0, y0, x1, y1 = box
    out[y0:y1, x0:x1] = patch
    return out


def jpeg(pixels, quality):
    coded = cv2.imencode(".jpg", pixels[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
    return cv2.imdecode(coded, cv2.IMREAD_COLOR)[..., ::-1].copy()


def noisy(pixels, sigma):
    noise = np.random.default_rng(0).normal(0, sigma, pixels.shape)
    return np.clip(np.rint(pixels + noise), 0, 255).astype(np.uint8)


def test_equal_images_show_no_change(photo, target):
    found = localize(photo, photo, target)
    assert (found.r_in, found.r_out, found.residual, found.shift_px) == (0.0, 0.0, 0.0, 0.0)
    assert found.registration == "identity"
    assert not found.delta.any()
    assert found.mask_share == pytest.approx(80 * 80 / 512**2)


@pytest.mark.parametrize(
    "motion",
    [
        {"shift": (4.0, -3.0)},
        {"shift": (12.3, 7.6)},
        {"angle": 1.5},
        {"angle": -4.0},
        {"scale": 1.03},
        {"scale": 0.96},
        {"angle": 1.0, "scale": 1.02, "shift": (3.4, 5.1)},
    ],
)
def test_a_global_motion_is_no_change(photo, target, motion):
    found = localize(photo, moved(photo, **motion), target)
    assert found.registration == "similarity"
    assert found.r_in < 0.02
    assert found.r_out < 0.02


def test_shift_is_reported_in_pixels_of_the_source(photo, target):
    large = cv2.resize(photo, (1024, 1024), interpolation=cv2.INTER_CUBIC)
    inside = np.kron(target, np.ones((2, 2), dtype=bool))
    found = localize(large, moved(large, shift=(8.0, 6.0)), inside)
    assert found.shift_px == pytest.approx(10.0, abs=0.5)
    assert found.delta.shape == large.shape[:2]


def test_a_motion_out_of_bounds_is_a_change(photo, target):
    found = localize(photo, moved(photo, shift=(150.0, 0.0)), target, max_shift_share=0.02)
    assert found.registration == "failed"
    assert found.r_out > 0.3


@pytest.mark.parametrize(
    "nuisance",
    [
        lambda p: jpeg(p, 80),
        lambda p: jpeg(p, 90),
        lambda p: noisy(p, 4),
        lambda p: noisy(p, 6),
        lambda p: cv2.resize(cv2.resize(p, (700, 700)), (512, 512), interpolation=cv2.INTER_AREA),
    ],
)
def test_compression_noise_and_resampling_are_no_change(photo, target, nuisance):
    found = localize(photo, nuisance(photo), target)
    assert found.r_in < 0.03
    assert found.r_out < 0.03


@pytest.mark.parametrize("colour", [(40, 90, 200), (60, 160, 70), (150, 60, 160)])
def test_flat_recolouring_of_a_plain_surface_is_a_change(colour):
    plain = np.full((240, 320, 3), (200, 60, 50), np.uint8)
    box = (100, 60, 200, 160)
    found = localize(plain, patched(plain, box, colour), mask.boxes(plain.shape, [box]))
    assert found.r_in > 0.95
    assert found.r_out < 0.02


def test_recolouring_at_equal_luminance_is_a_change():
    red = np.array([[[200, 60, 50]]], np.uint8)
    grey = int(cv2.cvtColor(red, cv2.COLOR_RGB2GRAY)[0, 0])
    plain = np.full((240, 320, 3), red[0, 0], np.uint8)
    box = (100, 60, 200, 160)
    found = localize(plain, patched(plain, box, grey), mask.boxes(plain.shape, [box]))
    assert found.r_in > 0.95


def test_texture_at_equal_colour_is_a_change():
    plain = np.full((240, 320, 3), 120, np.uint8)
    xs = np.arange(100)
    stripes = (120 + 24 * np.sign(np.sin(xs * 2 * math.pi / 6)))[None, :, None]
    box = (100, 60, 200, 160)
    found = localize(plain, patched(plain, box, stripes), mask.boxes(plain.shape, [box]))
    assert found.r_in > 0.8
    assert found.r_out < 0.02


def test_removal(photo):
    box = (365, 0, 470, 270)
    inside = mask.boxes(photo.shape, [box])
    removed = cv2.inpaint(photo.copy(), inside.astype(np.uint8), 5, cv2.INPAINT_TELEA)
    found = localize(photo, removed, inside)
    assert found.r_in > 0.5
    assert found.r_out < 0.02


def test_addition(photo):
    box = (285, 60, 355, 150)
    cat = cv2.resize(data.chelsea()[60:200, 100:220], (70, 90))
    found = localize(photo, patched(photo, box, cat), mask.boxes(photo.shape, [box]))
    assert found.r_in > 0.7
    assert found.r_out < 0.02


def test_an_edit_survives_the_alignment(photo, target):
    # Flow must not pull the surroundings over what was changed in the target.
    edited = moved(patched(photo, BOX, (30, 200, 60)), angle=0.8, shift=(3.0, -2.0))
    found = localize(photo, edited, target)
    assert found.r_in > 0.8
    assert found.r_out < 0.03
    assert found.r_in == pytest.approx(found.r_in_unwarped, abs=0.1)


def test_an_object_moved_within_the_target_stays_a_change(photo):
    box = (365, 0, 470, 270)
    slid = photo.copy()
    slid[:270, 365:470] = np.roll(photo[:270, 365:470], 12, axis=0)
    found = localize(photo, slid, mask.boxes(photo.shape, [box]))
    assert found.r_in > 0.3
    assert found.r_out < 0.03


def test_flow_undoes_a_small_bend(photo, target):
    ys, xs = np.mgrid[0:512, 0:512].astype(np.float32)
    bend = 2.5 * np.sin(ys / 512 * 2 * math.pi)
    bent = cv2.remap(
        photo, (xs + bend).astype(np.float32), ys, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT
    )
    found = localize(photo, bent, target)
    assert found.r_out_unwarped > 0.05
    assert found.r_out < 0.5 * found.r_out_unwarped


def test_spill_over_is_seen(photo, target):
    edited = photo.copy()
    edited[:, 200:] = edited[:, 200:][..., [2, 0, 1]] // 2
    edited = patched(edited, BOX, (30, 200, 60))
    found = localize(photo, edited, target)
    assert found.r_in > 0.8
    assert found.r_out > 0.4


def test_a_change_elsewhere_leaves_the_target(photo, target):
    found = localize(photo, patched(photo, (300, 300, 380, 380), (255, 255, 0)), target)
    assert found.r_in < 0.01
    # Blur and window widen a strong change by up to ten pixels on each side.
    assert 80**2 <= found.delta.sum() <= 100**2


def test_a_mask_of_everything_leaves_no_outside(photo):
    whole = np.ones(photo.shape[:2], dtype=bool)
    found = localize(photo, 255 - photo, whole)
    assert found.r_in > 0.5
    assert found.r_out is None
    assert found.r_out_unwarped is None
    assert math.isfinite(found.residual)


def test_an_empty_mask_has_no_inside(photo):
    found = localize(photo, photo, np.zeros(photo.shape[:2], dtype=bool))
    assert found.r_in is None
    assert found.r_out == 0.0


def test_max_mask_share_is_the_bound(photo):
    half = mask.boxes(photo.shape, [(0, 0, 256, 512)])
    assert localize(photo, photo, half, max_mask_share=0.5).r_out == 0.0
    assert localize(photo, photo, half, max_mask_share=0.49).r_out is None


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (2, 2), (8, 8), (15, 40), (3, 900), (17, 17)])
def test_tiny_images_are_measured(shape):
    black, white = np.zeros((*shape, 3), np.uint8), np.full((*shape, 3), 255, np.uint8)
    inside = np.zeros(shape, dtype=bool)
    inside[0, 0] = True
    found = localize(black, white, inside)
    assert found.r_in == 1.0
    assert found.r_out == (1.0 if inside.size > 1 else None)
    assert localize(black, black, inside).r_in == 0.0


@given(st.integers(0, 2**32 - 1))
@examples(max_examples=15, deadline=None)
def test_shares_add_up(seed):
    rng = np.random.default_rng(seed)
    height, width = rng.integers(20, 120, 2)
    source = cv2.resize(rng.integers(0, 256, (5, 6, 3), dtype=np.uint8), (int(width), int(height)))
    edited = cv2.resize(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8), (int(width), int(height)))
    x, y = int(rng.integers(1, width)), int(rng.integers(1, height))
    inside = mask.boxes(source.shape, [(0, 0, x, y)])
    found = localize(source, edited, inside, max_mask_share=1.0)
    total = found.r_in * inside.sum() + (found.r_out or 0.0) * (~inside).sum()
    assert total == pytest.approx(found.delta.sum())
    assert 0 <= found.r_in <= 1
    assert found.r_out is None or 0 <= found.r_out <= 1
    assert 0 <= found.residual <= 1


def test_mirroring_both_images_mirrors_the_change(photo, target):
    edited = noisy(patched(photo, BOX, (30, 200, 60)), 3)
    plain = localize(photo, edited, target)
    mirrored = localize(*(np.ascontiguousarray(x[:, ::-1]) for x in (photo, edited, target)))
    assert mirrored.r_in == pytest.approx(plain.r_in, abs=0.01)
    assert mirrored.r_out == pytest.approx(plain.r_out, abs=0.01)
    assert (mirrored.delta[:, ::-1] != plain.delta).mean() < 0.01


def test_swapping_the_images_changes_little(photo, target):
    edited = patched(photo, BOX, (30, 200, 60))
    there, back = localize(photo, edited, target), localize(edited, photo, target)
    assert np.array_equal(there.delta, back.delta)


def test_the_number_of_threads_does_not_matter(photo, target):
    edited = jpeg(moved(patched(photo, BOX, (30, 200, 60)), angle=1.0, shift=(2.0, 5.0)), 85)
    before = cv2.getNumThreads()
    try:
        results = []
        for threads in (1, 4, 2):
            cv2.setNumThreads(threads)
            cv2.setRNGSeed(threads)  # nor what was drawn before
            results.append(localize(photo, edited, target))
    finally:
        cv2.setNumThreads(before)
    for other in results[1:]:
        assert other[:-1] == results[0][:-1]
        assert np.array_equal(other.delta, results[0].delta)


def test_ssim_is_that_of_scikit_image(photo):
    # Tolerance: float32 and fixed-size kernels here, float64 there.
    first = cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY).astype(np.float32)
    second = cv2.GaussianBlur(np.roll(first, 2, axis=1), (0, 0), 1.0)
    for window in (1.5, 3.0):
        _, wanted = structural_similarity(
            first.astype(np.float64),
            second.astype(np.float64),
            data_range=255,
            gaussian_weights=True,
            sigma=window,
            use_sample_covariance=False,
            full=True,
        )
        found = change.ssim(first, second, window_px=window, data_range=255)
        assert np.abs(found - wanted).max() < 2e-3
        scaled = change.ssim(first / 255, second / 255, window_px=window, data_range=1.0)
        assert np.abs(scaled - wanted).max() < 2e-3


def test_the_pixel_score_is_the_weighted_sum_it_says(photo):
    other = np.roll(photo, 7, axis=0)
    a, b = (change.describe(x, settings=SETTINGS) for x in (photo, other))
    rgb_a, rgb_b = (np.stack(x.rgb, axis=-1) for x in (a, b))

    def cone(rgb):
        red, green, blue = np.moveaxis(rgb, -1, 0)
        circle = (red - green / 2 - blue / 2, (green - blue) * math.sqrt(3) / 2)
        return np.stack([*circle, rgb.max(axis=-1)], axis=-1)

    wanted = (
        SETTINGS.rgb_weight * np.linalg.norm(rgb_a - rgb_b, axis=-1) / math.sqrt(3)
        + SETTINGS.hsv_weight * np.linalg.norm(cone(rgb_a) - cone(rgb_b), axis=-1) / math.sqrt(3)
        + SETTINGS.gradient_weight * np.abs(a.gradient - b.gradient)
    )
    found = change.pixel_score(a, b, settings=SETTINGS)
    assert np.abs(found - wanted).max() < 1e-5


@pytest.mark.parametrize("shape", [(300, 512), (512, 90), (40, 30), (7, 5), (1, 1)])
def test_bands_leave_no_trace(photo, shape, monkeypatch):
    source = np.ascontiguousarray(photo[: shape[0], : shape[1]])
    others = jpeg(source, 40), np.roll(source, 3, axis=0)
    pairs = []
    for rows in (10**6, 64, 8):  # one band, some, and those that are narrower than their halo
        monkeypatch.setattr(change, "_BAND_PIXELS", 1)
        monkeypatch.setattr(change, "_FEWEST_ROWS", rows)
        pairs.append(change.compare(source, *others, settings=SETTINGS))
    for whole, *banded in zip(*pairs, strict=True):
        for other in banded:
            assert np.abs(other.similarity - whole.similarity).max() < 1e-5
            assert np.abs(other.score - whole.score).max() < 1e-6


@pytest.mark.parametrize(
    ("r_in", "r_out", "share", "wanted"),
    [
        (0.5, 0.1, 0.2, "ok"),
        (0.10, 0.1, 0.2, "inside_unchanged"),
        (0.1001, 0.2999, 0.2, "ok"),
        (0.5, 0.30, 0.2, "outside_changed"),
        (0.05, 0.9, 0.2, "inside_unchanged"),
        (None, 0.0, 0.0, "inside_unchanged"),
        (0.5, None, 0.95, "mask_too_large"),
        (0.0, None, 0.95, "mask_too_large"),
        (0.5, 0.1, 0.95, "mask_too_large"),
        (0.5, None, 0.2, "mask_too_large"),
    ],
)
def test_verdict(r_in, r_out, share, wanted):
    found = localization.verdict(r_in, r_out, share, tau_in=0.10, tau_out=0.30, max_mask_share=0.9)
    assert found == wanted


@pytest.mark.parametrize(
    ("source", "edited", "inside", "message"),
    [
        (np.zeros((4, 4), np.uint8), np.zeros((4, 4), np.uint8), np.ones((4, 4), bool), "source"),
        (np.zeros((4, 4, 3)), np.zeros((4, 4, 3), np.uint8), np.ones((4, 4), bool), "source"),
        (
            np.zeros((4, 4, 3), np.uint8),
            np.zeros((4, 5, 3), np.uint8),
            np.ones((4, 4), bool),
            "fit",
        ),
        (
            np.zeros((4, 4, 3), np.uint8),
            np.zeros((4, 4, 3), np.uint8),
            np.ones((4, 5), bool),
            "mask",
        ),
        (np.zeros((4, 4, 3), np.uint8), np.zeros((4, 4, 3), np.uint8), np.ones((4, 4)), "mask"),
        (
            np.zeros((0, 4, 3), np.uint8),
            np.zeros((0, 4, 3), np.uint8),
            np.ones((0, 4), bool),
            "source",
        ),
    ],
)
def test_bad_input_is_named(source, edited, inside, message):
    with pytest.raises(ValueError, match=message):
        localize(source, edited, inside)
