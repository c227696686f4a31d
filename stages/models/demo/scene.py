"""Puts a scene together: chooses a place, lets things stand in it, and paints the picture."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.models.demo import paint, retouch, scenery, shapes
from stages.models.demo.world import Asked, Brief

Pixels = NDArray[np.uint8]
Box = tuple[int, int, int, int]

GAP = 14
"""Least distance between things, in pixels of a picture of `paint.REFERENCE_SIZE`."""
_CLUTTER: dict[str, tuple[str, ...]] = {
    "room": ("lamp", "plant", "chest", "bench", "ball", "cat", "dog"),
    "garden": ("tree", "bench", "plant", "ball", "bird", "dog", "pumpkin"),
    "street": ("tree", "bench", "plant", "bird", "dog"),
    "table": ("plant", "lamp", "ball", "pumpkin", "apple", "chest"),
}
_HOME: dict[str, tuple[str, ...]] = {
    "ball": ("room", "garden"),
    "apple": ("table",),
    "tree": ("garden",),
    "pumpkin": ("garden", "table"),
    "cat": ("room", "garden"),
    "dog": ("room", "garden", "street"),
    "lamp": ("room", "table"),
    "plant": ("room", "garden"),
    "chest": ("room",),
    "bench": ("garden", "room"),
    "bird": ("garden", "table", "street"),
    "fish": ("table",),
}
_GROWN = ("tree", "plant", "apple", "pumpkin", "cat", "dog")
"""Kinds whose colours nobody chooses."""
_ABROAD = ("street",)
_TRIES, _LAYOUTS = 120, 200


class Placed(NamedTuple):
    """A thing and where it stands."""

    look: paint.Look
    box: Box


class Painted(NamedTuple):
    """A picture, and what was put into it."""

    pixels: Pixels
    things: tuple[Placed, ...]


class _NoRoomError(Exception):
    """A layout in which not everything fits."""


def render(
    brief: Brief, *, driving: bool, width: int, height: int, rng: np.random.Generator
) -> Painted:
    """Paint the scene of a brief as ``(height, width, 3)`` RGB.

    What the brief leaves open is drawn at random, and one to three things are added that it does
    not mention or exclude. The same generator state gives the same bytes.
    """
    name = "street" if driving else _choose_place([thing.kind for thing in brief.things], rng)
    place = scenery.PLACES[name](width, height, rng)
    things = _lay_out(brief, name, place, rng)
    pixels = place.pixels
    for thing in sorted(things, key=lambda thing: thing.box[3]):
        pixels = paint.stamp(pixels, thing.look, thing.box)
    return Painted(scenery.develop(pixels, rng), things)


def _choose_place(kinds: list[str], rng: np.random.Generator) -> str:
    """A place where all kinds are at home; a table, as toys, where there is none."""
    common = [
        name for name in scenery.PLACES if all(name in _HOME.get(kind, _ABROAD) for kind in kinds)
    ]
    return common[int(rng.integers(len(common)))] if common else "table"


def _lay_out(
    brief: Brief, name: str, place: scenery.Place, rng: np.random.Generator
) -> tuple[Placed, ...]:
    shown = {thing.kind for thing in brief.things}
    for _ in range(_LAYOUTS):
        placed: list[Placed] = []
        try:
            for thing in brief.things:
                placed.append(_place(thing, place, placed, rng))
        except _NoRoomError:
            continue
        free = [kind for kind in _CLUTTER[name] if kind not in shown and kind not in brief.exclude]
        for index in rng.permutation(len(free))[: int(rng.integers(1, 4))]:
            try:
                placed.append(_place(Asked(free[int(index)]), place, placed, rng))
            except _NoRoomError:
                continue
        return tuple(placed)
    raise RuntimeError(f"no room for {', '.join(sorted(shown))}")


def _place(
    asked: Asked, place: scenery.Place, placed: list[Placed], rng: np.random.Generator
) -> Placed:
    h, w = place.pixels.shape[:2]
    scale = paint.scale_of(w, h)
    size = paint.size_of(asked.kind, float(rng.uniform(*paint.LONG_SIDE[asked.kind])) * scale)
    for _ in range(_TRIES):
        box = _spot(asked, size, place, placed, rng)
        if box is None or box[0] < 6 or box[1] < 6 or box[2] > w - 6 or box[3] > h - 6:
            continue
        if all(retouch.apart(box, other.box, round(GAP * scale)) for other in placed):
            return Placed(_look(asked, rng), box)
    raise _NoRoomError


def _spot(
    asked: Asked,
    size: tuple[int, int],
    place: scenery.Place,
    placed: list[Placed],
    rng: np.random.Generator,
) -> Box | None:
    """A random box where the thing may stand; None where the draw was no good."""
    h, w = place.pixels.shape[:2]
    wide, high = size
    if asked.place and asked.place.startswith("left of "):
        anchor = next(
            thing.box for thing in placed if thing.look.kind == asked.place.removeprefix("left of ")
        )
        right = anchor[0] - round(float(rng.uniform(18, 34)) * paint.scale_of(w, h))
        return right - wide, anchor[3] - high, right, anchor[3]
    base = float(rng.uniform(*place.ground))
    middle = float(rng.uniform(0, 1))
    road = place.road_at(base)
    if road is not None:
        if asked.place == "on the road":
            # Close enough to be in the way, and within the road as far as the thing's width allows.
            base = float(rng.uniform(0.76, 0.93))
            centre = sum(place.road_at(base) or (0.5, 0.5)) / 2
            middle = centre + float(rng.uniform(-0.14, 0.14))
        elif middle - wide / w / 2 < road[1] and middle + wide / w / 2 > road[0]:
            return None
    x0 = round(middle * w - wide / 2)
    y1 = round(base * h)
    return x0, y1 - high, x0 + wide, y1


def _look(asked: Asked, rng: np.random.Generator) -> paint.Look:
    palette = shapes.LIGHTS if asked.kind == "traffic light" else tuple(shapes.PALETTE)
    usual = 0.85 if asked.kind in _GROWN else 0.5
    natural, drawn = bool(rng.random() < usual), palette[int(rng.integers(len(palette)))]
    pattern = shapes.PATTERNS[int(rng.integers(len(shapes.PATTERNS)))]
    facing = ("left", "right")[int(rng.integers(2))]
    return paint.Look(
        kind=asked.kind,
        colour=asked.colour or (paint.NATURAL[asked.kind] if natural else drawn),
        pattern=asked.pattern or (pattern if asked.kind == "ball" else "plain"),
        facing=(asked.facing or facing) if asked.kind in shapes.FACING_KINDS else None,
    )
