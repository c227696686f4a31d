"""Things and places as painted: within bounds, within their boxes, and the same every time."""

import numpy as np
import pytest

from stages.models.demo import inpaint, paint, scene, scenery, shapes, world


def test_vocabulary_is_that_of_the_questions():
    assert shapes.KINDS == world.KINDS
    assert tuple(shapes.PALETTE) == world.COLOURS
    assert shapes.PATTERNS == world.PATTERNS
    assert set(shapes.FACING_KINDS) == set(world.FACING_KINDS)
    assert shapes.LIGHTS == world.LIGHTS
    assert set(paint.LONG_SIDE) == set(paint.NATURAL) == set(shapes.KINDS)


@pytest.mark.parametrize("kind", shapes.KINDS)
def test_a_thing_fills_its_box_and_stays_within(kind):
    width, height = paint.size_of(kind, sum(paint.LONG_SIDE[kind]) / 2)
    drawn = paint.cut_out(paint.Look(kind, "red", facing="left"), width, height)
    assert drawn.alpha.shape == (height, width)
    assert drawn.alpha.min() >= 0
    assert drawn.alpha.max() <= 1
    rows, columns = (np.flatnonzero((drawn.alpha > 0.3).any(axis=axis)) for axis in (1, 0))
    assert rows[0] <= 4
    assert rows[-1] >= height - 5
    assert columns[0] <= 4
    assert columns[-1] >= width - 5
    assert (drawn.body <= 1).all()


@pytest.mark.parametrize("kind", shapes.FACING_KINDS)
def test_turning_changes_much_of_a_thing(kind):
    width, height = paint.size_of(kind, sum(paint.LONG_SIDE[kind]) / 2)
    left, right = (
        paint.stamp(
            np.full((220, 220, 3), 180, np.uint8),
            paint.Look(kind, "blue", facing=facing),
            (20, 20, 20 + width, 20 + height),
        ).astype(int)
        for facing in ("left", "right")
    )
    mask = paint.cut_out(paint.Look(kind, "blue", facing="left"), width, height).alpha > 0.5
    difference = np.abs(left - right).max(axis=2)[20 : 20 + height, 20 : 20 + width]
    assert (difference[mask] > 40).mean() > 0.1


@pytest.mark.parametrize("place", scenery.PLACES)
def test_places_are_of_low_saturation_and_repeat(place):
    first, second = (
        scenery.PLACES[place](800, 600, np.random.default_rng(4)).pixels for _ in range(2)
    )
    assert np.array_equal(first, second)
    assert first.shape == (600, 800, 3)
    assert np.ptp(first.astype(int), axis=2).max() <= scenery.MAX_CHROMA
    other = scenery.PLACES[place](800, 600, np.random.default_rng(5)).pixels
    assert not np.array_equal(first, other)


def test_stamping_cuts_at_the_rim():
    picture = np.full((60, 60, 3), 180, np.uint8)
    out = paint.stamp(picture, paint.Look("ball", "red"), (-50, -50, 40, 40))
    assert (out != picture).any()
    assert (picture == 180).all()
    far = paint.stamp(picture, paint.Look("ball", "red"), (200, 200, 290, 290))
    assert np.array_equal(far, picture)


@pytest.mark.parametrize("family", world.FAMILIES)
def test_a_scene_shows_what_was_asked_for_and_nothing_excluded(family):
    for index in range(4):
        rng = np.random.default_rng([7, index])
        brief = world.compose(family, index, rng)
        painted = scene.render(
            brief, driving=brief.system_prompt is not None, width=640, height=480, rng=rng
        )
        kinds = [thing.look.kind for thing in painted.things]
        assert len(kinds) == len(set(kinds))
        assert not set(kinds) & set(brief.exclude)
        for asked, placed in zip(brief.things, painted.things, strict=False):
            assert placed.look.kind == asked.kind
            for feature in ("colour", "pattern", "facing"):
                wanted = getattr(asked, feature)
                assert wanted is None or getattr(placed.look, feature) == wanted
            if asked.place and asked.place.startswith("left of "):
                anchor = painted.things[kinds.index(asked.place.removeprefix("left of "))]
                assert 0 < anchor.box[0] - placed.box[2] < 60
                assert anchor.box[3] == placed.box[3]
        boxes = [thing.box for thing in painted.things]
        for i, a in enumerate(boxes):
            assert 0 <= a[0] < a[2] <= 640
            assert 0 <= a[1] < a[3] <= 480
            for b in boxes[:i]:
                assert (
                    a[0] >= b[2] + 12 or b[0] >= a[2] + 12 or a[1] >= b[3] + 12 or b[1] >= a[3] + 12
                )


def test_filling_stays_in_the_hole_and_continues_stripes():
    picture = np.zeros((120, 200, 3), np.uint8)
    picture[:] = np.where(np.arange(200) // 10 % 2, 90, 170)[None, :, None]
    hole = np.zeros((120, 200), bool)
    hole[40:80, 70:115] = True
    damaged = picture.copy()
    damaged[hole] = (255, 0, 0)
    out = inpaint.fill(damaged, hole, hole)
    assert np.array_equal(out[~hole], damaged[~hole])
    assert np.abs(out.astype(int) - picture)[hole].mean() < 8
    everything = np.ones_like(hole)
    assert inpaint.fill(damaged, everything, everything).shape == damaged.shape
    assert np.array_equal(inpaint.fill(damaged, ~everything, hole), damaged)
