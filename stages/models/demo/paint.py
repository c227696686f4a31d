"""How things of the demo are drawn: a shaded, antialiased cut-out, put onto a picture.

Covers one thing at a time; backgrounds are `scenery`'s, where things go is the composer's. Pictures
are ``(H, W, 3)`` RGB, boxes ``(x0, y0, x1, y1)`` in pixels with right and bottom open. An editor
draws with the same functions: what a thing looks like is common knowledge, not a side channel.
"""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from stages.models.demo import shapes
from stages.models.demo.outline import Layer, Role

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]
Box = tuple[int, int, int, int]

REFERENCE_SIZE = (640, 480)
"""Width and height of a picture for which sizes in `LONG_SIDE` hold; sizes grow with it."""
LONG_SIDE: dict[str, tuple[int, int]] = {
    "ball": (92, 112),
    "apple": (92, 108),
    "tree": (150, 176),
    "pumpkin": (106, 128),
    "cat": (116, 136),
    "dog": (128, 148),
    "lamp": (140, 166),
    "plant": (128, 150),
    "chest": (116, 136),
    "bench": (140, 164),
    "car": (148, 170),
    "bus": (152, 172),
    "truck": (152, 172),
    "traffic light": (152, 172),
    "pedestrian": (138, 158),
    "arrow sign": (124, 142),
    "bird": (104, 122),
    "fish": (120, 140),
}
"""Range of the longer side of each kind in pixels."""
NATURAL: dict[str, str] = {
    "ball": "red",
    "apple": "red",
    "tree": "green",
    "pumpkin": "orange",
    "cat": "orange",
    "dog": "orange",
    "lamp": "yellow",
    "plant": "green",
    "chest": "red",
    "bench": "green",
    "car": "blue",
    "bus": "yellow",
    "truck": "red",
    "traffic light": "red",
    "pedestrian": "blue",
    "arrow sign": "blue",
    "bird": "blue",
    "fish": "orange",
}
"""Colour of each kind where nobody says which."""
_SUPER = 4
_SHADE, _DEEP = 0.8, 0.66
_SHIFT = 4


class Look(NamedTuple):
    """What a thing is to look like."""

    kind: str
    colour: str
    pattern: str = "plain"
    facing: str | None = None


class Cutout(NamedTuple):
    """A drawn thing, in float32."""

    colour: Floats
    """``(H, W, 3)`` RGB in [0, 255]."""
    alpha: Floats
    """``(H, W)``: how much of a pixel it covers, in [0, 1]."""
    body: Floats
    """``(H, W)``: how much of a pixel has the body colour, shaded or not, in [0, 1]."""


def scale_of(width: int, height: int) -> float:
    """How much larger than in `LONG_SIDE` things are in a picture of that size."""
    return min(width / REFERENCE_SIZE[0], height / REFERENCE_SIZE[1])


def size_of(kind: str, long_side: float) -> tuple[int, int]:
    """Width and height of a thing whose longer side has the given length, in pixels."""
    aspect = shapes.ASPECT[kind]
    width, height = (
        (long_side, long_side / aspect) if aspect > 1 else (long_side * aspect, long_side)
    )
    return round(width), round(height)


def cut_out(look: Look, width: int, height: int) -> Cutout:
    """Draw a thing that fills a box of that size, with shading, outline and no background."""
    w, h = width * _SUPER, height * _SUPER
    body = np.zeros((h, w, 3), np.uint8)
    cover = np.zeros((h, w), np.uint8)
    lit = np.zeros((h, w), np.uint8)
    outline = max(2, round(0.014 * (w + h) / 2))
    # The outline takes part of the box, so that nothing sticks out of it.
    inner = (w - 2 * outline, h - 2 * outline)
    for layer in shapes.layers(look.kind, colour=look.colour, pattern=look.pattern):
        points = layer.points * inner + outline
        if look.facing == "left":
            points[:, 0] = w - points[:, 0]
        _draw(body, layer, points, h, _role_colour(layer.role, look.colour))
        _draw(lit, layer, points, h, (255 if layer.role in ("body", "shade", "deep") else 0,))
        if not _is_mark(look, layer):
            _draw(cover, layer, points, h, (255,))
    grown = cv2.dilate(cover, _disc(outline))
    ink = _ink(look)
    colour = body * _light(cover, lit, glowing=look.kind == "traffic light")[..., None]
    colour[cover == 0] = ink
    alpha = grown.astype(np.float32)[..., None] / 255
    size = (width, height)
    thin = cv2.resize(alpha, size, interpolation=cv2.INTER_AREA)
    premultiplied = cv2.resize(colour * alpha, size, interpolation=cv2.INTER_AREA)
    body_share = cv2.resize(lit, size, interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    return Cutout(premultiplied / np.maximum(thin, 1e-3)[..., None], thin, body_share)


def stamp(picture: Pixels, look: Look, box: Box, *, tone: Floats | None = None) -> Pixels:
    """Draw a thing with its contact shadow into a box of a picture; as `lay` otherwise."""
    return lay(shadow(picture, look.kind, box), look, box, tone=tone)


def lay(picture: Pixels, look: Look, box: Box, *, tone: Floats | None = None) -> Pixels:
    """Draw a thing without shadow into a box of a picture; returns a new picture.

    `tone` are factors on R, G and B that fit the thing to the light of the picture. What sticks out
    of the picture is cut off.
    """
    x0, y0, x1, y1 = box
    out = picture.copy()
    drawn = cut_out(look, x1 - x0, y1 - y0)
    h, w = picture.shape[:2]
    left, top, right, bottom = max(x0, 0), max(y0, 0), min(x1, w), min(y1, h)
    if right <= left or bottom <= top:
        return out
    part = np.s_[top - y0 : bottom - y0, left - x0 : right - x0]
    colour = drawn.colour[part] * (1 if tone is None else tone)
    alpha = drawn.alpha[part][..., None]
    region = out[top:bottom, left:right].astype(np.float32)
    blended = region * (1 - alpha) + colour * alpha
    out[top:bottom, left:right] = np.clip(blended + 0.5, 0, 255).astype(np.uint8)
    return out


def shadow_box(kind: str, box: Box) -> Box:
    """Where the contact shadow of a thing lies."""
    x0, y0, x1, y1 = box
    width, height = x1 - x0, y1 - y0
    spread = {"lamp": 0.34, "plant": 0.34, "tree": 0.34, "traffic light": 0.5, "arrow sign": 0.2}
    rx = round(width * spread.get(kind, 0.5)) + 2
    ry = max(3, round(0.035 * (width + height) / 2))
    middle = (x0 + x1) // 2
    return middle - rx, y1 - ry - 2, middle + rx, y1 + ry - 1


def shadow(picture: Pixels, kind: str, box: Box) -> Pixels:
    """Darken the ground below a thing softly; returns a new picture."""
    out = picture.copy()
    h, w = picture.shape[:2]
    x0, y0, x1, y1 = shadow_box(kind, box)
    if min(x1, w) <= max(x0, 0) or min(y1, h) <= max(y0, 0):
        return out
    ys, xs = np.mgrid[max(y0, 0) : min(y1, h), max(x0, 0) : min(x1, w)].astype(np.float32)
    u = (xs - (x0 + x1 - 1) / 2) / ((x1 - x0) / 2)
    v = (ys - (y0 + y1 - 1) / 2) / ((y1 - y0) / 2)
    dark = 1 - 0.36 * np.clip(1.15 - (u**2 + v**2), 0, 1)
    region = out[max(y0, 0) : min(y1, h), max(x0, 0) : min(x1, w)]
    region[:] = np.clip(region * dark[..., None] + 0.5, 0, 255).astype(np.uint8)
    return out


def _draw(
    canvas: Pixels, layer: Layer, points: NDArray[np.float64], h: int, value: tuple[int, ...]
) -> None:
    fixed = np.round(points * 2**_SHIFT).astype(np.int32)[None]
    if layer.width is None:
        cv2.fillPoly(canvas, list(fixed), value, lineType=cv2.LINE_8, shift=_SHIFT)
    else:
        thickness = max(2, round(layer.width * h))
        cv2.polylines(canvas, list(fixed), False, value, thickness, cv2.LINE_8, _SHIFT)


def _is_mark(look: Look, layer: Layer) -> bool:
    """Patterns run over the rim and are cut there."""
    return look.kind == "ball" and layer.role == "dark"


def _role_colour(role: Role, colour: str) -> tuple[int, int, int]:
    if role in ("body", "shade", "deep"):
        factor = {"body": 1.0, "shade": _SHADE, "deep": _DEEP}[role]
        r, g, b = (round(channel * factor) for channel in shapes.PALETTE[colour])
        return r, g, b
    return shapes.ROLES[role]


def _ink(look: Look) -> Floats:
    """The outline: the body colour, nearly black; neutral where most parts are dark anyway."""
    if look.kind in ("traffic light", "pedestrian"):
        return np.array((28, 28, 32), np.float32)
    return np.array(shapes.PALETTE[look.colour], np.float32) * 0.16 + 20


def _disc(radius: int) -> Pixels:
    disc: Pixels = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
    return disc


def _light(cover: Pixels, lit: Pixels, *, glowing: bool) -> Floats:
    """Shading factors ``(H, W)``: light from above left, darker towards the lower right rim."""
    h, w = cover.shape
    ys, xs = np.mgrid[0:h, 0:w].astype(np.float32)
    slope = (0.45 * xs / w + 0.55 * ys / h) - 0.5
    factor = 1.04 - 0.2 * slope
    # The share of cover around a pixel falls towards the rim: a cheap rounding of the form.
    blur = (max(w, h) // 6) | 1
    near = cv2.blur(cover, (blur, blur), borderType=cv2.BORDER_CONSTANT).astype(np.float32) / 255
    offset = np.array([[1, 0, w * 0.035], [0, 1, h * 0.045]], np.float32)
    rim = np.clip((cv2.warpAffine(near, offset, (w, h)) - 0.45) / 0.5, 0, 1)
    factor *= 0.84 + 0.16 * rim
    if glowing:
        factor = np.where(lit > 0, np.float32(1.06), factor)
    clipped: Floats = np.clip(factor, 0.6, 1.12).astype(np.float32)
    return clipped
