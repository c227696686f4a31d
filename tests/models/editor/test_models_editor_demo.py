"""The built-in editor: each instruction does what it says and nothing else; faults are as named."""

import asyncio
from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.imaging import codec
from stages.models.demo import paint, retouch, scenery, sight
from stages.models.demo.changes import Change, requested
from stages.models.editor import demo
from stages.models.editor.demo import FAULTS, DemoEditor
from stages.models.picture import Picture
from stages.records.errors import UserError

REACH = 30
"""Pixels beyond a thing's box that belong to its neighbourhood: shadow and margins."""
SCENES = {
    "street": (
        (paint.Look("traffic light", "red"), (40, 130, 100, 297)),
        (paint.Look("pedestrian", "blue"), (300, 250, 363, 400)),
        (paint.Look("car", "yellow", facing="left"), (460, 330, 620, 410)),
        (paint.Look("arrow sign", "orange", facing="right"), (480, 150, 604, 281)),
    ),
    "room": (
        (paint.Look("ball", "orange", "lined"), (60, 320, 160, 420)),
        (paint.Look("lamp", "purple"), (270, 170, 360, 331)),
        (paint.Look("chest", "green"), (400, 340, 525, 436)),
        (paint.Look("cat", "pink", facing="right"), (500, 190, 610, 318)),
    ),
}


@cache
def picture(name: str) -> Picture:
    rng = np.random.default_rng(11)
    pixels = scenery.PLACES[name](640, 480, rng).pixels
    for look, box in SCENES[name]:
        pixels = paint.stamp(pixels, look, box)
    return Picture.of(scenery.develop(pixels, rng))


def looks(pixels):
    return Counter((t.kind, t.colour, t.pattern, t.facing) for t in sight.see(pixels))


def edited(name, instruction, fault=None, seed=0):
    return demo.edit(
        picture(name).pixels, instruction, fault=fault, rng=np.random.default_rng(seed)
    )


EDITS = [
    (
        "room",
        "change the colour of the ball from orange to blue",
        "ball",
        ("ball", "blue", "lined", None),
    ),
    (
        "room",
        "Change the colour of the lamp from purple to yellow.",
        "lamp",
        ("lamp", "yellow", "plain", None),
    ),
    (
        "room",
        "change the pattern of the ball from lined to spotted",
        "ball",
        ("ball", "orange", "spotted", None),
    ),
    (
        "room",
        "change the pattern of the ball from lined to plain",
        "ball",
        ("ball", "orange", "plain", None),
    ),
    ("room", "turn the cat around so that it faces left", "cat", ("cat", "pink", "plain", "left")),
    ("room", "remove the chest", "chest", None),
    ("room", "replace the lamp with a plant", "lamp", ("plant", "green", "plain", None)),
    ("room", "replace the cat with a dog", "cat", ("dog", "orange", "plain", "right")),
    (
        "street",
        "change the colour of the traffic light from red to green",
        "traffic light",
        ("traffic light", "green", "plain", None),
    ),
    (
        "street",
        "turn the car around so that it faces right",
        "car",
        ("car", "yellow", "plain", "right"),
    ),
    (
        "street",
        "turn the arrow sign around so that it faces left",
        "arrow sign",
        ("arrow sign", "orange", "plain", "left"),
    ),
    ("street", "remove the pedestrian", "pedestrian", None),
    (
        "street",
        "change the colour of the pedestrian from blue to yellow",
        "pedestrian",
        ("pedestrian", "yellow", "plain", None),
    ),
    ("street", "replace the car with a bus", "car", ("bus", "yellow", "plain", "left")),
]


@pytest.mark.parametrize(("name", "instruction", "kind", "expected"), EDITS)
def test_an_edit_does_what_it_says_and_nothing_else(name, instruction, kind, expected):
    source = picture(name).pixels
    out = edited(name, instruction)
    before, after = looks(source), looks(out)
    assert [look[0] for look in (before - after).elements()] == [kind]
    assert list((after - before).elements()) == ([expected] if expected else [])

    changed = (out != source).any(axis=2)
    boxes = [thing.box for thing in (*sight.see(source), *sight.see(out))
             if thing.kind in (kind, expected and expected[0])]  # fmt: skip
    near = np.zeros_like(changed)
    for x0, y0, x1, y1 in boxes:
        near[max(y0 - REACH, 0) : y1 + REACH, max(x0 - REACH, 0) : x1 + REACH] = True
    assert not (changed & ~near).any()
    thing = next(thing for thing in sight.see(source) if thing.kind == kind)
    moved = np.abs(out.astype(int) - source).max(axis=2) > 25
    assert moved[thing.mask].mean() > 0.1


def test_what_is_added_stands_clear_of_the_rest():
    source = demo.edit(
        picture("street").pixels, "remove the pedestrian", fault=None, rng=np.random.default_rng(0)
    )
    out = demo.edit(
        source, "Change: add a pedestrian on the road", fault=None, rng=np.random.default_rng(0)
    )
    added = looks(out) - looks(source)
    assert [look[0] for look in added.elements()] == ["pedestrian"]
    assert not looks(source) - looks(out)
    x0, _, x1, y1 = next(thing.box for thing in sight.see(out) if thing.kind == "pedestrian")
    assert 200 < (x0 + x1) / 2 < 440
    assert y1 > 300


def test_a_recoloured_thing_keeps_its_shading():
    source, out = picture("room").pixels, edited("room", EDITS[0][1])
    ball = next(thing for thing in sight.see(source) if thing.kind == "ball")
    x0, y0, x1, y1 = ball.box
    region = source[y0:y1, x0:x1].astype(int)
    dark = (region.max(axis=2) < 60) & (np.ptp(region, axis=2) < 16)
    assert dark.sum() > 300
    difference = np.abs(out[y0:y1, x0:x1].astype(int) - source[y0:y1, x0:x1]).max(axis=2)
    assert difference[dark].mean() < 12


@pytest.mark.parametrize(
    "instruction",
    [
        "",
        "make it nicer",
        "remove the giraffe",
        "remove the fish",
        "turn the lamp around so that it faces left",
        "Keep: the lamp. Avoid: remove the ball",
        "Change: do something.\nKeep: remove the ball\nAvoid: replace the lamp with a plant",
        "change the pattern of the lamp from plain to spotted",
        "a" * 5000,
    ],
)
def test_what_it_cannot_do_leaves_the_picture_alone(instruction):
    assert np.array_equal(edited("room", instruction), picture("room").pixels)


def test_the_change_is_found_among_the_other_parts():
    text = (
        "Edit this image in one place only.\nChange: Change the colour of the ball from orange to "
        "blue.\nResult: a blue ball\nKeep: everything else; do not remove the lamp\n"
        "Avoid: replace the chest with a bench"
    )
    assert requested(text) == Change("recolour", "ball", "orange", "blue")
    assert requested("Please remove the lamp. Keep the ball.") == Change("remove", "lamp")
    assert requested("Avoid a mess. remove the ball; keep the rest") == Change("remove", "ball")


def test_unchanged_comes_back_with_a_trace_of_noise():
    source, out = picture("room").pixels, edited("room", "remove the ball", "unchanged")
    assert 0 < np.abs(out.astype(int) - source).mean() < 3
    assert looks(out) == looks(source)


def test_wrong_object_hits_another_thing():
    source = looks(picture("room").pixels)
    for seed in range(5):
        out = looks(edited("room", "remove the ball", "wrong_object", seed))
        assert [look[0] for look in (source - out).elements()] != ["ball"]
        assert (source - out).total() == 1
        assert not out - source
    turned = looks(edited("street", EDITS[9][1], "wrong_object"))
    assert ("arrow sign", "orange", "plain", "left") in turned
    assert ("car", "yellow", "plain", "left") in turned
    assert np.array_equal(edited("room", EDITS[2][1], "wrong_object"), picture("room").pixels)


def test_background_is_repainted_around_a_right_edit():
    source, out = picture("room").pixels, edited("room", "remove the ball", "background")
    assert (looks(source) - looks(out)).total() == 1
    assert not looks(out) - looks(source)
    assert (np.abs(out.astype(int) - source).max(axis=2) > 20).mean() > 0.6


def test_shift_moves_a_right_edit_by_a_few_pixels():
    clean, out = (edited("room", "remove the ball", fault) for fault in (None, "shift"))
    offsets = [(x, y) for x in range(-4, 5) for y in range(-4, 5)]
    inner = np.s_[10:-10, 10:-10]
    fits = [o for o in offsets if np.array_equal(np.roll(clean, o, (1, 0))[inner], out[inner])]
    assert len(fits) == 1
    assert all(2 <= abs(step) <= 4 for step in fits[0])


def test_other_size_keeps_the_proportions_and_other_aspect_does_not():
    for seed in range(4):
        h, w = edited("room", "remove the ball", "other_size", seed).shape[:2]
        assert (h, w) != (480, 640)
        assert abs(w / h * 480 / 640 - 1) < 0.005
        out = edited("room", "remove the ball", "other_aspect", seed)
        assert abs(out.shape[1] / out.shape[0] * 480 / 640 - 1) > 0.02
        assert not any(look[0] == "ball" for look in looks(out))


def call(editor, instruction="remove the ball", seed=0, attempt=1):
    return asyncio.run(editor.edit(picture("room"), instruction, seed=seed, attempt=attempt)).data


def test_equal_requests_get_equal_bytes_and_attempts_differ():
    editor = DemoEditor("e", {"unchanged": 0.5})
    first = [call(editor, attempt=attempt) for attempt in range(1, 9)]
    assert first == [call(DemoEditor("e", {"unchanged": 0.5}), attempt=n) for n in range(1, 9)]
    gone = ["ball" not in {t.kind for t in sight.see(codec.decode(data))} for data in first]
    assert any(gone)
    assert not all(gone)
    assert call(editor, seed=1) != call(editor, seed=2)


def test_rates_are_kept():
    editor = DemoEditor("e", {"shift": 0.1, "background": 0.3})
    draws = np.linspace(0, 1, 1000, endpoint=False)
    counts = Counter(editor._fault(float(draw)) for draw in draws)
    assert counts == {"shift": 100, "background": 300, None: 600}


def test_identity_tells_editors_apart_and_is_plain():
    exact, clumsy = DemoEditor("a").identity(), DemoEditor("a", {"shift": 0.2}).identity()
    assert exact != clumsy
    assert exact == DemoEditor("a", {"shift": 0.0}).identity()
    assert exact["faults"] == dict.fromkeys(FAULTS, 0.0)
    assert len(exact["code"]) == 64


@pytest.mark.parametrize(
    ("faults", "word"),
    [
        ({"typo": 0.1}, "typo"),
        ({"shift": 1.5}, "shift"),
        ({"shift": -0.1}, "shift"),
        ({"shift": "often"}, "shift"),
        ({"shift": float("nan")}, "shift"),
        ({"shift": 0.6, "background": 0.6}, "1.2"),
    ],
)
def test_impossible_rates_are_named(faults, word):
    with pytest.raises(UserError, match=word):
        DemoEditor("e", faults)


@pytest.mark.parametrize("shape", [(1, 1), (3, 200), (200, 3), (64, 64), (300, 400)])
@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_odd_pictures_come_back_as_pictures(shape, fault):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (*shape, 3)).astype(np.uint8)
    for instruction in ("remove the ball", "add a pedestrian on the road"):
        out = demo.edit(pixels, instruction, fault=fault, rng=rng)
        assert out.ndim == 3
        assert out.dtype == np.uint8


@settings(max_examples=20, deadline=None)
@given(text=st.text(max_size=200))
def test_any_text_is_an_instruction(text):
    requested(text)


def test_grain_of_what_is_new_is_that_of_the_picture():
    source, out = picture("room").pixels, edited("room", "remove the chest")
    box = np.s_[350:430, 410:515]
    fresh, old = retouch.noise_of(out[box]), retouch.noise_of(source)
    assert 0.6 < fresh / old < 1.6
