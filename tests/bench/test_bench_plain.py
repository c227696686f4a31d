"""The measurement against an independent reading of Algorithm 1, on photographs and real edits."""

import cv2
import numpy as np
import pytest
from skimage import data

from bench import edits, plain
from stages.imaging import localization, mask
from stages.imaging.settings import Settings

SETTINGS = Settings()
NEAR = 0.01
BOX = (130, 100, 260, 230)


def agree(source, edited, inside, settings=SETTINGS):
    """Both verdicts, after r_in and r_out were found near each other, with flow and without."""
    ours = localization.localize(source, edited, inside, settings=settings)
    theirs = plain.measure(source, edited, inside, settings=settings)
    for name in ("r_in", "r_out", "r_in_unwarped", "r_out_unwarped"):
        expected = getattr(theirs, name)
        near = None if expected is None else pytest.approx(expected, abs=NEAR)
        assert getattr(ours, name) == near, name
    assert np.mean(ours.delta != theirs.delta) < NEAR
    verdicts = {
        localization.verdict(
            found.r_in,
            found.r_out,
            found.mask_share,
            tau_in=0.10,
            tau_out=0.30,
            max_mask_share=settings.max_mask_share,
        )
        for found in (ours, theirs)
    }
    assert len(verdicts) == 1
    return verdicts.pop(), ours


def photograph(name):
    pixels = getattr(data, name)()
    return np.ascontiguousarray(pixels[:400, :400])


def recoloured(pixels):
    x0, y0, x1, y1 = BOX
    out = pixels.copy()
    out[y0:y1, x0:x1] = 255 - out[y0:y1, x0:x1]
    return out


def jpeg(pixels):
    sent = cv2.imencode(".jpg", pixels[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 60])[1]
    return cv2.imdecode(sent, cv2.IMREAD_COLOR_RGB)


def moved(pixels):
    by = np.float32([[1, 0, 6.3], [0, 1, -4.2]])
    return cv2.warpAffine(pixels, by, (400, 400), borderMode=cv2.BORDER_REFLECT)


def turned(pixels):
    by = cv2.getRotationMatrix2D((200, 200), 2.0, 1.03)
    return cv2.warpAffine(pixels, by, (400, 400), borderMode=cv2.BORDER_REFLECT)


def resampled(pixels):
    small = cv2.resize(pixels, (256, 256), interpolation=cv2.INTER_AREA)
    return cv2.resize(small, (400, 400), interpolation=cv2.INTER_CUBIC)


def spilt(pixels):
    return np.clip(pixels * np.array([1.0, 0.6, 1.3]), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("name", ["astronaut", "coffee"])
@pytest.mark.parametrize("pipeline", [np.copy, jpeg, moved, turned, resampled])
def test_a_planted_edit_measures_as_the_definition_says(name, pipeline):
    source = photograph(name)
    inside = mask.dilate(mask.boxes(source.shape, [BOX]), radius_share=0.01)
    verdict, ours = agree(source, pipeline(recoloured(source)), inside)
    assert verdict == "ok"
    assert ours.r_in > 0.5
    aligned = pipeline in (moved, turned)
    assert (ours.registration == "similarity") == aligned


@pytest.mark.parametrize("pipeline", [np.copy, jpeg, moved])
def test_no_edit_measures_as_the_definition_says(pipeline):
    source = photograph("chelsea")[:300]
    source = cv2.resize(source, (400, 400))
    inside = mask.boxes(source.shape, [BOX])
    verdict, _ = agree(source, pipeline(source), inside)
    assert verdict == "inside_unchanged"


def test_a_spilt_edit_measures_as_the_definition_says():
    source = photograph("astronaut")
    inside = mask.boxes(source.shape, [BOX])
    verdict, ours = agree(source, spilt(recoloured(source)), inside)
    assert verdict == "outside_changed"
    assert ours.r_out > 0.3


@pytest.mark.parametrize("side", [256, 4096])
def test_other_settings_measure_as_the_definition_says(side):
    edit = edits.planted(600, shift=(7, -5))
    settings = Settings(
        working_side_px=side, denoise_px=0.0, ssim_window_px=2.5, rgb_weight=0.2, hsv_weight=0.9
    )
    verdict, ours = agree(edit.source, edit.edited, edit.mask, settings)
    assert (verdict, ours.registration) == ("ok", "similarity")


def test_a_mask_without_inside_or_outside_has_no_share():
    source = photograph("coffee")
    for inside, verdict in ((False, "inside_unchanged"), (True, "mask_too_large")):
        whole = np.full(source.shape[:2], inside)
        assert agree(source, recoloured(source), whole)[0] == verdict


@pytest.mark.samples
@pytest.mark.skipif(not edits.samples().exists(), reason="samples are absent")
def test_labelled_pairs_measure_as_the_definition_says():
    verdicts = [agree(edit.source, edit.edited, edit.mask)[0] for edit in edits.labelled(SETTINGS)]
    assert len(verdicts) == 48  # two are of another aspect ratio
    assert {"ok", "outside_changed", "mask_too_large", "inside_unchanged"} == set(verdicts)
