"""GrabCut: boxes to masks."""

import asyncio
import hashlib
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from skimage import data

from stages.models.picture import Picture
from stages.models.segmenter import grabcut
from stages.models.segmenter.grabcut import GrabCut
from stages.records.attempt import Box


def box(x0, y0, x1, y1):
    return Box(x0=x0, y0=y0, x1=x1, y1=y1)


def segment(pixels, *boxes, **options):
    return asyncio.run(GrabCut(**options).segment(Picture.of(pixels), boxes)).mask


@pytest.fixture(scope="module")
def disks():
    """Two red disks on a mottled green ground."""
    rng = np.random.default_rng(0)
    pixels = np.full((240, 320, 3), (70, 140, 80), np.uint8)
    for centre in ((90, 120), (240, 100)):
        cv2.circle(pixels, centre, 40, (200, 40, 40), -1)
    return np.clip(pixels + rng.normal(0, 8, pixels.shape), 0, 255).astype(np.uint8)


def disk(centre):
    ys, xs = np.mgrid[0:240, 0:320]
    return np.hypot(xs - centre[0], ys - centre[1]) <= 40


def overlap(first, second):
    return (first & second).sum() / (first | second).sum()


def test_a_disk_is_cut_out_of_its_box(disks):
    found = segment(disks, box(45, 75, 135, 165))
    assert found.dtype == bool
    assert found.shape == (240, 320)
    assert overlap(found, disk((90, 120))) > 0.9


def test_the_mask_is_the_union_over_boxes(disks):
    boxes = box(45, 75, 135, 165), box(195, 55, 285, 145)
    both = segment(disks, *boxes)
    assert np.array_equal(both, segment(disks, boxes[0]) | segment(disks, boxes[1]))
    assert overlap(both, disk((90, 120)) | disk((240, 100))) > 0.9


def test_the_mask_stays_in_the_box(disks):
    found = segment(disks, box(60, 90, 120, 150))
    found[90:150, 60:120] = False
    assert not found.any()


def test_no_box_is_an_empty_mask(disks):
    assert not segment(disks).any()


def test_boxes_are_clipped(disks):
    assert not segment(disks, box(400, 10, 500, 90), box(-90, -90, -1, -1)).any()
    found = segment(disks, box(-30, -30, 40, 40))
    assert found[:40, :40].any()
    found[:40, :40] = False
    assert not found.any()


def test_a_box_without_an_object_is_itself_the_mask():
    plain = np.full((100, 100, 3), 128, np.uint8)
    found = segment(plain, box(30, 30, 60, 70))
    assert found[30:70, 30:60].all()
    assert found.sum() == 40 * 30


def test_a_box_without_surroundings_is_itself_the_mask():
    cat = data.chelsea()
    height, width = cat.shape[:2]
    assert segment(cat, box(0, 0, width, height)).all()
    assert segment(cat, box(2, 2, width - 2, height - 2)).mean() > 0.95


@pytest.mark.parametrize("shape", [(1, 1, 3), (3, 2, 3), (8, 8, 3), (2, 300, 3)])
def test_tiny_images(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    assert segment(pixels, box(0, 0, shape[1], shape[0])).all()


def test_fractions_of_a_pixel_are_rounded_outwards():
    plain = np.full((20, 20, 3), 128, np.uint8)
    assert segment(plain, box(4.4, 4.4, 4.6, 4.6)).sum() == 1


def test_equal_calls_give_equal_masks_whatever_was_drawn_before(disks):
    pixels = data.astronaut()
    masks = []
    before = cv2.getNumThreads()
    try:
        for threads in (1, 2, 4):
            cv2.setRNGSeed(99 + threads)
            cv2.setNumThreads(threads)
            masks.append(segment(pixels, box(155, 15, 300, 185)))
    finally:
        cv2.setNumThreads(before)
    assert np.array_equal(masks[0], masks[1])
    assert np.array_equal(masks[0], masks[2])


def test_calls_under_way_at_once_do_not_disturb_each_other(disks):
    async def many():
        cutter, picture = GrabCut(), Picture.of(disks)
        target = (box(45, 75, 135, 165),)
        return await asyncio.gather(*(cutter.segment(picture, target) for _ in range(6)))

    alone = segment(disks, box(45, 75, 135, 165))
    assert all(np.array_equal(found.mask, alone) for found in asyncio.run(many()))


def test_identity_is_json_and_follows_options_and_code():
    plain = GrabCut().identity()
    json.dumps(plain)
    assert plain == GrabCut().identity()
    for option, value in (
        ("iterations", 2),
        ("margin_share", 0.5),
        ("working_side_px", 64),
        ("min_box_share", 0.2),
        ("min_frame_share", 0.2),
    ):
        assert GrabCut(**{option: value}).identity() != plain
    source = Path(grabcut.__file__).read_bytes()
    assert plain["code"] == hashlib.sha256(source).hexdigest()


@pytest.mark.parametrize(
    "bad",
    [{"iterations": 0}, {"margin_share": 0}, {"working_side_px": 4}, {"min_box_share": 2}],
)
def test_bad_options_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        GrabCut(**bad)
