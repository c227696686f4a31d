"""Edits of a demo picture: erase, recolour, draw over, draw anew, all near one thing only.

Covers what a careful hand does to pixels; which edit is asked for, and what goes wrong on the way,
is the editor's. Pictures are ``(H, W, 3)`` uint8 RGB and are never modified in place.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from stages.models.demo import paint, sight
from stages.models.demo.changes import Change
from stages.models.demo.inpaint import fill
from stages.models.demo.shapes import PALETTE

Pixels = NDArray[np.uint8]
Bools = NDArray[np.bool_]
Box = tuple[int, int, int, int]

MARGIN = 8
"""How far beyond a thing and its shadow an edit reaches at most, in pixels."""
_GAP = 13
"""Distance that new things keep from others, in pixels."""


def apply(
    pixels: Pixels, change: Change, things: tuple[sight.Thing, ...], rng: np.random.Generator
) -> Pixels | None:
    """Make one change; None where its object is not among the things, or it makes no sense."""
    if change.action == "add":
        return add(pixels, change.kind, things, rng)
    thing = next((thing for thing in things if thing.kind == change.kind), None)
    if thing is None:
        return None
    match change.action:
        case "recolour" if change.new in PALETTE:
            return recolour(pixels, thing, change.new, rng)
        case "repattern" if thing.kind == "ball" and change.new:
            return redraw(pixels, thing, _look(thing)._replace(pattern=change.new), rng)
        case "turn" if thing.facing is not None:
            facing = change.new or ("left" if thing.facing == "right" else "right")
            return turn(pixels, thing, facing, things, rng)
        case "remove":
            return erase(pixels, thing, things, rng)
        case "replace" if change.new:
            return replace(pixels, thing, change.new, things, rng)
    return None


def recolour(
    pixels: Pixels, thing: sight.Thing, colour: str, rng: np.random.Generator
) -> Pixels | None:
    """Give a thing another body colour and keep its shading; None for a lamp that can't have it."""
    if thing.kind == "traffic light":
        if colour not in ("red", "yellow", "green"):
            return None
        return redraw(pixels, thing, _look(thing)._replace(colour=colour), rng)
    x0, y0, x1, y1 = thing.box
    region = pixels[y0:y1, x0:x1].astype(np.float32)
    drawn = paint.cut_out(_look(thing), x1 - x0, y1 - y0)
    body = cv2.GaussianBlur(cv2.dilate(drawn.body, _disc(2)), (3, 3), 0)
    old, new = (np.array(PALETTE[name], np.float32) for name in (thing.colour, colour))
    # A pixel is a share of the body colour, told by its chroma, and something colourless.
    smooth = cv2.GaussianBlur(region, (3, 3), 0)
    share = (smooth.max(axis=2) - smooth.min(axis=2)) / float(old.max() - old.min())
    # Dark lines and their soft edges have a trace of chroma, which is no body colour.
    share = (body * np.clip((share - 0.06) / 0.94, 0, 1.2))[..., None]
    out = pixels.copy()
    out[y0:y1, x0:x1] = np.clip(region + share * (new - old) + 0.5, 0, 255).astype(np.uint8)
    return out


def redraw(
    pixels: Pixels, thing: sight.Thing, look: paint.Look, rng: np.random.Generator
) -> Pixels:
    """Draw over a thing in its own box, in the light that it stands in."""
    return _grain(pixels, paint.lay(pixels, look, thing.box, tone=_tone(pixels, thing)), rng)


def turn(
    pixels: Pixels,
    thing: sight.Thing,
    facing: str,
    things: tuple[sight.Thing, ...],
    rng: np.random.Generator,
) -> Pixels:
    """Let a thing face the given way; the same pixels where it does."""
    if thing.facing == facing:
        return pixels.copy()
    return _draw(pixels, thing, _look(thing)._replace(facing=facing), thing.box, things, rng)


def replace(
    pixels: Pixels,
    thing: sight.Thing,
    kind: str,
    things: tuple[sight.Thing, ...],
    rng: np.random.Generator,
) -> Pixels:
    """Put a thing of another kind where one stands, of similar size and clear of the others."""
    others = [other.box for other in things if other is not thing]
    x0, _, x1, y1 = thing.box
    box = _fit(pixels.shape, kind, ((x0 + x1) // 2, y1), others)
    facing = thing.facing or "right"
    look = paint.Look(kind, paint.NATURAL[kind], "plain", facing)
    return _draw(pixels, thing, look, box or thing.box, things, rng)


def add(
    pixels: Pixels, kind: str, things: tuple[sight.Thing, ...], rng: np.random.Generator
) -> Pixels | None:
    """Put a new thing on the ground, near the middle; None where there is no room."""
    h, w = pixels.shape[:2]
    boxes = [thing.box for thing in things]
    spots = [(x, y) for y in np.arange(0.7, 0.96, 0.04) for x in np.arange(0.2, 0.81, 0.04)]
    spots.sort(key=lambda spot: (round(abs(spot[0] - 0.5) + abs(spot[1] - 0.82), 6), spot))
    for shrunk in (False, True):
        for x, y in spots:
            box = _fit(pixels.shape, kind, (round(x * w), round(y * h)), boxes, shrink=shrunk)
            if box is not None:
                look = paint.Look(kind, paint.NATURAL[kind], "plain", "right")
                return _grain(pixels, paint.stamp(pixels, look, box), rng)
    return None


def erase(
    pixels: Pixels,
    thing: sight.Thing,
    things: tuple[sight.Thing, ...],
    rng: np.random.Generator,
) -> Pixels:
    """Remove a thing with its shadow and continue the background over the place."""
    taken = _footprint(thing, pixels.shape, 1)
    for other in things:
        if other is not thing:
            taken |= _footprint(other, pixels.shape, 4)
    return _grain(pixels, fill(pixels, _footprint(thing, pixels.shape, MARGIN - 1), taken), rng)


def _footprint(thing: sight.Thing, shape: tuple[int, ...], margin: int) -> Bools:
    """``(H, W)``: True on a thing, its shadow, and a margin around both."""
    cover = cv2.dilate(thing.mask.astype(np.uint8), _disc(margin))
    x0, y0, x1, y1 = _grown(paint.shadow_box(thing.kind, thing.box), 4, shape)
    middle, axes = ((x0 + x1) // 2, (y0 + y1) // 2), ((x1 - x0) // 2, (y1 - y0) // 2)
    cv2.ellipse(cover, middle, axes, 0, 0, 360, (1,), -1)
    return np.asarray(cover > 0)


def noise_of(pixels: Pixels) -> float:
    """Standard deviation of the fine grain of a picture, in grey levels."""
    grey = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY).astype(np.float32)
    if min(grey.shape) < 3:
        return 0.0
    # Second differences cancel slopes; their gain is 6, and 0.6745 turns a median into a deviation.
    kernel = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32)
    fine = np.abs(cv2.filter2D(grey, -1, kernel)[1:-1, 1:-1])
    # A grey level averages three channels of independent noise.
    return float(np.median(fine) / 0.6745 / 6 / 0.67)


def _draw(
    pixels: Pixels,
    thing: sight.Thing,
    look: paint.Look,
    box: Box,
    things: tuple[sight.Thing, ...],
    rng: np.random.Generator,
) -> Pixels:
    """Erase a thing and draw another in the same light."""
    ground = erase(pixels, thing, things, rng)
    return _grain(ground, paint.stamp(ground, look, box, tone=_tone(pixels, thing)), rng)


def _grain(before: Pixels, after: Pixels, rng: np.random.Generator) -> Pixels:
    """Give what was changed the grain of the picture."""
    changed = (before != after).any(axis=2)
    sigma = noise_of(before)
    noise = rng.normal(0, 1, (int(changed.sum()), 3)) * sigma
    out = after.copy()
    out[changed] = np.clip(after[changed] + noise + 0.5, 0, 255).astype(np.uint8)
    return out


def _tone(pixels: Pixels, thing: sight.Thing) -> NDArray[np.float32]:
    """Factors on R, G and B between a thing as drawn and as it stands in the picture."""
    x0, y0, x1, y1 = thing.box
    drawn = paint.cut_out(_look(thing), x1 - x0, y1 - y0).colour
    inside = cv2.erode(thing.mask[y0:y1, x0:x1].astype(np.uint8), _disc(3)) > 0
    if not inside.any():
        return np.ones(3, np.float32)
    seen = pixels[y0:y1, x0:x1][inside].mean(axis=0)
    factors: NDArray[np.float32] = np.clip(
        (seen + 12) / (drawn[inside].mean(axis=0) + 12), 0.8, 1.15
    ).astype(np.float32)
    return factors


def _look(thing: sight.Thing) -> paint.Look:
    return paint.Look(thing.kind, thing.colour, thing.pattern, thing.facing)


def _fit(
    shape: tuple[int, ...],
    kind: str,
    foot: tuple[int, int],
    others: list[Box],
    *,
    shrink: bool = True,
) -> Box | None:
    """The largest box on a foot point that stays in the picture and clear of others."""
    h, w = shape[:2]
    usual = sum(paint.LONG_SIDE[kind]) / 2 * paint.scale_of(w, h)
    for factor in (1.0, 0.9, 0.8, 0.7, 0.6) if shrink else (1.0,):
        wide, high = paint.size_of(kind, usual * factor)
        box = (foot[0] - wide // 2, foot[1] - high, foot[0] - wide // 2 + wide, foot[1])
        inside = box[0] >= 2 and box[1] >= 2 and box[2] <= w - 2 and box[3] <= h - 2
        if inside and all(apart(box, other, _GAP) for other in others):
            return box
    return None


def apart(a: Box, b: Box, gap: int) -> bool:
    """Whether at least `gap` pixels lie between two boxes."""
    return a[0] >= b[2] + gap or a[2] + gap <= b[0] or a[1] >= b[3] + gap or a[3] + gap <= b[1]


def _grown(box: Box, margin: int, shape: tuple[int, ...]) -> Box:
    x0, y0, x1, y1 = box
    h, w = shape[:2]
    return max(0, x0 - margin), max(0, y0 - margin), min(w, x1 + margin), min(h, y1 + margin)


def _disc(radius: int) -> Pixels:
    disc: Pixels = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
    return disc
