"""Sees the things of a demo picture from its pixels alone.

A thing stands out by its saturated body. Each connected patch of saturated colour is compared with
the silhouettes that `paint` draws, mirrored ones included; the part around it that has no
saturated colour (wheels, housing, legs) must fit too. Nothing but pixels goes in.
"""

import threading
from functools import cache
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from stages.models.demo import paint, shapes

Pixels = NDArray[np.uint8]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float32]
Box = tuple[int, int, int, int]
_Frame = tuple[float, float, float, float]

MIN_CHROMA = 46
"""Channel difference above which a pixel can count as saturated."""
MIN_SATURATION = 0.36
"""Channel difference over the largest channel above which it does: in light and shade alike."""
MAX_DARK = 66
"""Largest channel up to which a pixel counts as dark."""
MIN_SCORE = 0.7
"""Agreement in [0, 1] below which a patch is no thing."""
MIN_LAMP_SCORE = 0.55
"""The same for a lamp, whose dark surroundings speak for it already."""
_WORKING = (320, 240)
_GRID = 32
_MIN_SIDE = 9
_CANDIDATES = 4
_DRAWING = threading.Lock()
_HUES = {
    name: float(np.degrees(np.arctan2(np.sqrt(3) * (g - b), 2 * r - g - b)))
    for name, (r, g, b) in shapes.PALETTE.items()
}


class Thing(NamedTuple):
    """A thing that was seen."""

    kind: str
    colour: str
    pattern: str
    """``plain`` where the kind has no pattern."""
    facing: str | None
    """``left``, ``right``, or None where the kind has no sides."""
    box: Box
    """``(x0, y0, x1, y1)`` in pixels, right and bottom open, within the picture."""
    mask: Bools
    """``(H, W)``, True on the thing."""


class _Template(NamedTuple):
    """A silhouette to compare with."""

    look: paint.Look
    body: Floats
    """``(G, G)`` share of saturated pixels within the body's bounding box."""
    aspect: float
    """Width over height of that bounding box."""
    frame: _Frame
    """The whole thing's box, in units of the body's bounding box."""
    dark: Floats
    """``(G, G)`` share of dark pixels within the whole box."""
    cover: Pixels
    """Silhouette in the whole box, 0 to 255."""


def see(pixels: Pixels) -> tuple[Thing, ...]:
    """Find the things in ``(H, W, 3)`` uint8 RGB, from left to right.

    Sizes between a half and twice those that `paint` uses are understood. A picture without such
    things, of whatever size, gives an empty tuple.
    """
    h, w = pixels.shape[:2]
    if min(h, w) < _MIN_SIDE:
        return ()
    scale = max(_WORKING[0] / w, _WORKING[1] / h)
    if scale < 1:
        size = (max(1, round(w * scale)), max(1, round(h * scale)))
        small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    else:
        small = cv2.GaussianBlur(pixels, (3, 3), 0)
    small = cv2.blur(small, (2, 2)) if scale > 0.75 else small
    strongest, chroma, saturated = _measure(small)
    dark = (strongest < MAX_DARK).astype(np.uint8)
    closed = cv2.morphologyEx(saturated, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(closed, connectivity=8)
    things = []
    for label in range(1, count):
        x, y, wide, high, area = (int(v) for v in stats[label])
        if min(wide, high) < _MIN_SIDE or area < 0.25 * wide * high:
            continue
        part = np.s_[y : y + high, x : x + wide]
        patch = saturated[part] * (labels[part] == label)
        if not patch.any():
            continue
        colour = _colour(small[part], chroma[part], patch)
        lamp = colour if _in_housing(dark, (x, y, x + wide, y + high)) else None
        read = _read(patch, dark, (x, y), lamp)
        if read is not None:
            template, (x0, y0, x1, y1) = read
            sx, sy = w / small.shape[1], h / small.shape[0]
            frame = (x0 * sx, y0 * sy, x1 * sx, y1 * sy)
            if lamp is not None:
                frame = _housing(pixels, frame)
            things.append(_thing(template, colour, frame, (w, h)))
    return tuple(sorted(things, key=lambda thing: thing.box))


def _measure(pixels: Pixels) -> tuple[Pixels, Pixels, Pixels]:
    """Largest channel, chroma, and 1 where a pixel is saturated."""
    strongest = _largest_channel(pixels)
    chroma = strongest - cv2.min(cv2.min(pixels[..., 0], pixels[..., 1]), pixels[..., 2])
    colourful = (chroma > MIN_CHROMA) & (chroma > MIN_SATURATION * strongest.astype(np.float32))
    return strongest, chroma, colourful.astype(np.uint8)


def _largest_channel(pixels: Pixels) -> Pixels:
    largest: Pixels = cv2.max(cv2.max(pixels[..., 0], pixels[..., 1]), pixels[..., 2])
    return largest


def _grid(mask: Pixels) -> Floats:
    """Shares of a mask on a fixed grid, flat or square as the caller reshapes it."""
    out: Floats = cv2.resize(mask.astype(np.float32), (_GRID, _GRID), interpolation=cv2.INTER_AREA)
    return out


def _in_housing(dark: Pixels, box: Box) -> bool:
    """Whether a patch is surrounded by darkness, as a lit lamp is."""
    h, w = dark.shape
    x0, y0, x1, y1 = box
    reach_x, reach_y = max(2, round(0.2 * (x1 - x0))), max(2, round(0.2 * (y1 - y0)))
    around = np.zeros((h, w), np.bool_)
    around[max(0, y0 - reach_y) : y1 + reach_y, max(0, x0 - reach_x) : x1 + reach_x] = True
    around[max(0, y0 - 1) : y1 + 1, max(0, x0 - 1) : x1 + 1] = False
    return bool(around.any()) and float(dark[around].mean()) > 0.55


def _read(
    patch: Pixels, dark: Pixels, corner: tuple[int, int], lamp: str | None
) -> tuple[_Template, _Frame] | None:
    """The silhouette that fits a patch best, and the whole thing's box; None where none fits.

    `lamp` is the patch's colour where it is lit in the dark: then it is a traffic light's or none.
    """
    high, wide = patch.shape
    bodies, aspects = _stack()
    body = _grid(patch).ravel()
    overlap = np.minimum(bodies, body).sum(axis=1) / np.maximum(bodies, body).sum(axis=1)
    stretch = np.abs(np.log(wide / high / aspects))
    fit = overlap * np.exp(-2.0 * np.maximum(stretch - 0.1, 0))
    best: tuple[float, _Template, _Frame] | None = None
    lights = [_lamp_of(template) for template in _templates()]
    order = [int(index) for index in np.argsort(-fit, kind="stable") if lights[index] == lamp]
    for index in order[:_CANDIDATES]:
        template = _templates()[index]
        fx0, fy0, fx1, fy1 = template.frame
        frame = (
            corner[0] + fx0 * wide,
            corner[1] + fy0 * high,
            corner[0] + fx1 * wide,
            corner[1] + fy1 * high,
        )
        score = float(fit[index])
        if lamp is None:
            score *= _dark_fit(template, dark, frame)
        if best is None or score > best[0]:
            best = (score, template, frame)
    if best is None or best[0] < (MIN_SCORE if lamp is None else MIN_LAMP_SCORE):
        return None
    return best[1], best[2]


def _lamp_of(template: _Template) -> str | None:
    return template.look.colour if template.look.kind == "traffic light" else None


def _dark_fit(template: _Template, dark: Pixels, frame: _Frame) -> float:
    """Factor in (0, 1]: how well dark parts around a patch are those of the template."""
    x0, y0, x1, y1 = (round(v) for v in frame)
    h, w = dark.shape
    window = dark[max(y0, 0) : min(y1, h), max(x0, 0) : min(x1, w)]
    if not window.size:
        return 0.5
    window = cv2.copyMakeBorder(
        window,
        *(max(-y0, 0), max(y1 - h, 0), max(-x0, 0), max(x1 - w, 0)),
        borderType=cv2.BORDER_REPLICATE,
    )
    difference = float(np.abs(_grid(window) - template.dark).mean())
    return float(np.exp(-0.6 * difference))


def _colour(pixels: Pixels, chroma: Pixels, patch: Pixels) -> str:
    """Name of the palette colour whose hue is nearest to that of a patch."""
    inside = patch > 0
    strong = inside & (chroma >= np.percentile(chroma[inside], 40))
    r, g, b = pixels[strong].astype(np.float64).mean(axis=0)
    hue = np.degrees(np.arctan2(np.sqrt(3) * (g - b), 2 * r - g - b))
    return min(_HUES, key=lambda name: abs((hue - _HUES[name] + 180) % 360 - 180))


def _housing(pixels: Pixels, frame: _Frame) -> _Frame:
    """Measure a traffic light's box on its dark housing: its lamp alone is a short ruler."""
    h, w = pixels.shape[:2]
    reach_x, reach_y = 0.12 * (frame[2] - frame[0]), 0.06 * (frame[3] - frame[1])
    left, top = max(0, round(frame[0] - reach_x)), max(0, round(frame[1] - reach_y))
    right, bottom = min(w, round(frame[2] + reach_x)), min(h, round(frame[3] + reach_y))
    window = cv2.blur(np.ascontiguousarray(pixels[top:bottom, left:right]), (3, 3))
    dark = _largest_channel(window) < MAX_DARK
    upper = dark[: max(1, round(0.6 * len(dark)))]
    columns = np.flatnonzero(upper.mean(axis=0) > 0.4)
    if not columns.size:
        return frame
    rows = np.flatnonzero(dark[:, columns[0] : columns[-1] + 1].mean(axis=1) > 0.3)
    if not rows.size:
        return frame
    housing = rows[rows <= 0.72 * len(dark) + reach_y]
    high = (housing[-1] + 1 - housing[0]) / shapes.HOUSING
    wide, y0 = columns[-1] + 1 - columns[0], top + float(housing[0])
    if not (0.8 < wide / (frame[2] - frame[0]) < 1.2 and 0.8 < high / (frame[3] - frame[1]) < 1.2):
        return frame
    middle = left + (columns[0] + columns[-1] + 1) / 2
    half = wide / 2 / shapes.HOUSING_WIDTH
    return middle - half, y0, middle + half, y0 + float(high)


def _thing(template: _Template, colour: str, frame: _Frame, size: tuple[int, int]) -> Thing:
    """The thing in the picture's own pixels."""
    w, h = size
    left, top, right, bottom = (round(v) for v in frame)
    x0, y0, x1, y1 = max(0, left), max(0, top), min(w, right), min(h, bottom)
    wide, high = right - left, bottom - top
    cover = cv2.resize(template.cover, (wide, high), interpolation=cv2.INTER_LINEAR) > 127
    mask = np.zeros((h, w), np.bool_)
    mask[y0:y1, x0:x1] = cover[y0 - top : y1 - top, x0 - left : x1 - left]
    look = template.look
    return Thing(look.kind, colour, look.pattern, look.facing, (x0, y0, x1, y1), mask)


def _templates() -> tuple[_Template, ...]:
    """Every silhouette that a thing can show."""
    with _DRAWING:  # pictures are looked at in threads, which would all draw them at once
        return _drawn_templates()


@cache
def _drawn_templates() -> tuple[_Template, ...]:
    looks = []
    for kind in shapes.KINDS:
        colours = shapes.LIGHTS if kind == "traffic light" else ("red",)
        patterns = shapes.PATTERNS if kind == "ball" else ("plain",)
        facings = ("left", "right") if kind in shapes.FACING_KINDS else (None,)
        looks += [
            paint.Look(kind, colour, pattern, facing)
            for colour in colours
            for pattern in patterns
            for facing in facings
        ]
    return tuple(_template(look) for look in looks)


def _template(look: paint.Look) -> _Template:
    low, high = paint.LONG_SIDE[look.kind]
    width, height = paint.size_of(look.kind, (low + high) / 2)
    drawn = paint.cut_out(look, width, height)
    alpha = drawn.alpha[..., None]
    shown = (drawn.colour * alpha + 200 * (1 - alpha)).clip(0, 255).astype(np.uint8)
    strongest, _, saturated = _measure(cv2.GaussianBlur(shown, (3, 3), 0))
    x, y, wide, tall = cv2.boundingRect(saturated)
    return _Template(
        look=look,
        body=_grid(saturated[y : y + tall, x : x + wide]),
        aspect=wide / tall,
        frame=(-x / wide, -y / tall, (width - x) / wide, (height - y) / tall),
        dark=_grid((strongest < MAX_DARK).astype(np.uint8)),
        cover=np.round(drawn.alpha * 255).astype(np.uint8),
    )


@cache
def _stack() -> tuple[Floats, NDArray[np.float64]]:
    """Bodies ``(T, G * G)`` and aspects ``(T,)`` of all templates."""
    templates = _templates()
    bodies = np.stack([template.body.ravel() for template in templates])
    return bodies, np.array([template.aspect for template in templates])
