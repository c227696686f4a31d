"""The recogniser against scenes whose contents are known, and against pictures without any."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import cv2
import numpy as np
import pytest

from stages.models.demo import paint, scene, scenery, shapes, sight, world

SEEDS = range(5000, 5032)
FLIPPED = {"left": "right", "right": "left", None: None}


@cache
def crowded(seed: int) -> scene.Painted:
    """A scene with as many kinds as fit, in the places by turns."""
    rng = np.random.default_rng(seed)
    place = list(scenery.PLACES.values())[seed % 4](640, 480, rng)
    placed: list[scene.Placed] = []
    for kind in rng.permutation(shapes.KINDS):
        try:
            placed.append(scene._place(world.Asked(str(kind)), place, placed, rng))
        except scene._NoRoomError:
            continue
    pixels = place.pixels
    for thing in placed:
        pixels = paint.stamp(pixels, thing.look, thing.box)
    return scene.Painted(scenery.develop(pixels, rng), tuple(placed))


def readings(pixels):
    return Counter((t.kind, t.colour, t.pattern, t.facing) for t in sight.see(pixels))


def truth(painted, *, mirrored=False):
    looks = [thing.look for thing in painted.things]
    if mirrored:
        looks = [look._replace(facing=FLIPPED[look.facing]) for look in looks]
    return Counter(tuple(look) for look in looks)


def jpeg(pixels):
    coded = cv2.imencode(".jpg", pixels[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 80])[1]
    return np.ascontiguousarray(cv2.imdecode(coded, 1)[..., ::-1])


def scaled(pixels, across, down):
    return cv2.resize(pixels, None, fx=across, fy=down, interpolation=cv2.INTER_AREA)


def moved(pixels):
    move = np.array([[1, 0, 3], [0, 1, -4]], np.float32)
    return cv2.warpAffine(pixels, move, (640, 480), borderMode=cv2.BORDER_REFLECT)


VIEWS = {
    "as painted": lambda p: p,
    "jpeg": jpeg,
    "moved": moved,
    "smaller": lambda p: scaled(p, 0.95, 0.95),
    "larger": lambda p: scaled(p, 1.05, 1.05),
    "much larger": lambda p: scaled(p, 1.5, 1.5),
    "wider": lambda p: scaled(p, 1.1, 1.0),
    "higher": lambda p: scaled(p, 1.0, 1.1),
    "darker": lambda p: (p * 0.85).astype(np.uint8),
    "mirrored": lambda p: np.ascontiguousarray(p[:, ::-1]),
}


@pytest.mark.parametrize("view", VIEWS)
def test_reads_at_least_995_of_1000_things_and_no_others(view):
    planned = wrong = 0
    for seed in SEEDS:
        painted = crowded(seed)
        wanted = truth(painted, mirrored=view == "mirrored")
        found = readings(VIEWS[view](painted.pixels))
        planned += wanted.total()
        wrong += max((wanted - found).total(), (found - wanted).total())
    assert planned > 150
    assert wrong <= 0.005 * planned


def test_every_look_is_read_wherever_it_stands():
    wrong = []
    for kind in shapes.KINDS:
        rng = np.random.default_rng(len(kind))
        for colour in shapes.LIGHTS if kind == "traffic light" else shapes.PALETTE:
            for facing in ("left", "right") if kind in shapes.FACING_KINDS else (None,):
                for pattern in shapes.PATTERNS if kind == "ball" else ("plain",):
                    look = paint.Look(kind, colour, pattern, facing)
                    width, height = paint.size_of(kind, sum(paint.LONG_SIDE[kind]) / 2)
                    x, y = int(rng.integers(8, 190 - width)), int(rng.integers(8, 190 - height))
                    picture = np.full((200, 200, 3), 178, np.uint8)
                    picture = paint.stamp(picture, look, (x, y, x + width, y + height))
                    seen = sight.see(scenery.develop(picture, rng))
                    if [(t.kind, t.colour, t.pattern, t.facing) for t in seen] != [tuple(look)]:
                        wrong.append((look, seen and seen[0][:5]))
    assert wrong == []


def test_box_and_mask_lie_on_the_thing():
    for seed in SEEDS[:12]:
        painted = crowded(seed)
        drawn = {thing.look.kind: thing for thing in painted.things}
        for thing in sight.see(painted.pixels):
            look, box = drawn[thing.kind]
            assert np.abs(np.subtract(thing.box, box)).max() <= 7
            true = np.zeros((480, 640), bool)
            true[box[1] : box[3], box[0] : box[2]] = (
                paint.cut_out(look, box[2] - box[0], box[3] - box[1]).alpha > 0.5
            )
            overlap = (true & thing.mask).sum() / (true | thing.mask).sum()
            assert overlap > 0.8, (seed, thing.kind)
            assert thing.mask.dtype == np.bool_
            assert thing.mask.shape == painted.pixels.shape[:2]


@pytest.mark.parametrize("place", scenery.PLACES)
def test_an_empty_place_shows_nothing(place):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        pixels = scenery.develop(scenery.PLACES[place](640, 480, rng).pixels, rng)
        assert sight.see(pixels) == ()


@pytest.mark.parametrize("shape", [(1, 1), (1, 700), (9, 9), (37, 500), (480, 640), (1200, 900)])
def test_odd_pictures_show_nothing_and_break_nothing(shape):
    rng = np.random.default_rng(0)
    flat = np.full((*shape, 3), (214, 38, 42), np.uint8)
    noise = rng.integers(0, 256, (*shape, 3)).astype(np.uint8)
    grey = np.repeat(rng.integers(0, 256, (*shape, 1)), 3, axis=2).astype(np.uint8)
    for pixels in (noise, grey, np.zeros_like(flat), flat):
        assert {thing.kind for thing in sight.see(pixels)} <= {"chest", "ball", "bench"}
    assert sight.see(noise) == sight.see(grey) == ()


def test_seeing_leaves_the_picture_alone():
    pixels = crowded(SEEDS[0]).pixels.copy()
    pixels.flags.writeable = False
    before = pixels.copy()
    sight.see(pixels)
    assert np.array_equal(pixels, before)


def test_silhouettes_are_drawn_once_however_many_threads_look(monkeypatch):
    drawn, draw = Counter(), sight._template

    def counted(look):
        drawn[look] += 1
        time.sleep(0.001)  # lets the others in, if they may
        return draw(look)

    monkeypatch.setattr(sight, "_template", counted)
    sight._drawn_templates.cache_clear()
    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(lambda _: sight._templates(), range(4)))
    assert set(drawn.values()) == {1}
    assert all(templates is seen[0] for templates in seen)
