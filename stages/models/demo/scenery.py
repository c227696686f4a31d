"""Backgrounds of the demo: a room, a garden, a street, a table; and the light that falls on all.

Everything here is of low saturation, so that the things of a scene stand out as they would to a
viewer: the largest channel difference stays below `MAX_CHROMA`. Pictures are ``(H, W, 3)`` RGB.
"""

from collections.abc import Callable
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Colour = tuple[float, float, float]

MAX_CHROMA = 46
"""Largest difference between channels in a background, before noise."""
_SHIFT = 4
_SUPER = 2


STREET_GAP = 0.13
"""Height between the horizon of a street and the farthest things on it."""


class Place(NamedTuple):
    """A background and where things can stand in it, as shares of the picture's height."""

    pixels: Pixels
    ground: tuple[float, float]
    """Highest and lowest base line of things."""
    road: tuple[float, float, float] | None = None
    """Where the road runs: middle, and half width at the horizon and at the lower rim."""

    def road_at(self, base: float) -> tuple[float, float] | None:
        """Left and right edge of the road at a base line, all as shares; None without a road."""
        if self.road is None:
            return None
        middle, far, near = self.road
        horizon = self.ground[0] - STREET_GAP
        half = far + (near - far) * (base - horizon) / (1 - horizon)
        return middle - half, middle + half


class _Canvas:
    """Fills outlines given in shares of the width and height, antialiased by supersampling."""

    def __init__(self, width: int, height: int) -> None:
        self.size = (width * _SUPER, height * _SUPER)
        self.pixels = np.zeros((height * _SUPER, width * _SUPER, 3), np.uint8)

    def fade(self, y0: float, y1: float, top: Colour, bottom: Colour) -> None:
        """Fill rows with a vertical gradient."""
        h = self.size[1]
        first, last = round(y0 * h), round(y1 * h)
        t = np.linspace(0, 1, max(last - first, 1), dtype=np.float32)[:, None]
        rows = np.array(top, np.float32) * (1 - t) + np.array(bottom, np.float32) * t
        self.pixels[first:last] = rows[: last - first, None]

    def fill(self, colour: Colour, *points: tuple[float, float]) -> None:
        """Fill a polygon."""
        fixed = np.round(np.array(points) * self.size * 2**_SHIFT).astype(np.int32)
        cv2.fillPoly(self.pixels, [fixed], colour, lineType=cv2.LINE_AA, shift=_SHIFT)

    def rect(self, colour: Colour, x0: float, y0: float, x1: float, y1: float) -> None:
        """Fill a rectangle."""
        self.fill(colour, (x0, y0), (x1, y0), (x1, y1), (x0, y1))

    def disc(self, colour: Colour, x: float, y: float, rx: float, ry: float) -> None:
        """Fill an ellipse."""
        t = np.linspace(0, 2 * np.pi, 40, endpoint=False)
        points = zip(x + rx * np.cos(t), y + ry * np.sin(t), strict=True)
        self.fill(colour, *((float(px), float(py)) for px, py in points))

    def finish(self) -> Pixels:
        """The picture at its own size."""
        size = (self.size[0] // _SUPER, self.size[1] // _SUPER)
        out: Pixels = cv2.resize(self.pixels, size, interpolation=cv2.INTER_AREA)
        return out


def _pick(rng: np.random.Generator, *choices: Colour) -> Colour:
    return choices[int(rng.integers(len(choices)))]


def _scaled(colour: Colour, factor: float) -> Colour:
    r, g, b = (min(255.0, channel * factor) for channel in colour)
    return r, g, b


def room(width: int, height: int, rng: np.random.Generator) -> Place:
    """A wall with a window and pictures, a skirting board, a wooden floor."""
    canvas = _Canvas(width, height)
    wall = _pick(rng, (214, 208, 196), (200, 207, 210), (208, 202, 208), (204, 210, 200))
    floor = _pick(rng, (176, 158, 138), (158, 144, 130), (168, 160, 152))
    edge = float(rng.uniform(0.52, 0.58))
    canvas.fade(0, edge, _scaled(wall, 0.97), _scaled(wall, 1.03))
    if rng.random() < 0.5:
        for x in np.arange(0.02, 1.0, 0.06):
            canvas.rect(_scaled(wall, 0.965), x, 0, x + 0.018, edge)
    left = bool(rng.random() < 0.5)
    _window(canvas, 0.08 if left else 0.62, rng)
    _frames(canvas, 0.5 if left else 0.08, wall, rng)
    canvas.fade(edge, 1, _scaled(floor, 0.92), _scaled(floor, 1.06))
    _planks(canvas, edge, floor)
    canvas.rect(_scaled(wall, 1.12), 0, edge - 0.03, 1, edge)
    canvas.rect(_scaled(wall, 0.8), 0, edge - 0.034, 1, edge - 0.03)
    canvas.rect(_scaled(floor, 0.74), 0, edge, 1, edge + 0.006)
    if rng.random() < 0.7:
        rug = _pick(rng, (150, 146, 156), (140, 150, 150), (166, 154, 146))
        middle, spread = rng.uniform(0.35, 0.65), rng.uniform(0.26, 0.34)
        canvas.disc(_scaled(rug, 0.86), middle, 0.83, spread, 0.13)
        canvas.disc(rug, middle, 0.828, spread * 0.94, 0.115)
        canvas.disc(_scaled(rug, 1.08), middle, 0.828, spread * 0.7, 0.08)
    return Place(canvas.finish(), (edge + 0.045, 0.95))


def _window(canvas: _Canvas, x: float, rng: np.random.Generator) -> None:
    wide, top, bottom = float(rng.uniform(0.26, 0.3)), 0.06, float(rng.uniform(0.36, 0.4))
    canvas.rect((188, 184, 178), x - 0.018, top - 0.02, x + wide + 0.018, bottom + 0.024)
    canvas.rect((240, 239, 235), x - 0.013, top - 0.016, x + wide + 0.013, bottom + 0.016)
    half = wide / 2
    for pane in (x, x + half + 0.005):
        canvas.rect((190, 206, 220), pane, top, pane + half - 0.005, bottom)
        canvas.fill(
            (206, 219, 229),
            *((pane, top + 0.2), (pane + half * 0.7, top), (pane + half - 0.005, top)),
            *((pane + half - 0.005, top + 0.03), (pane, top + 0.28)),
        )
    canvas.rect(
        (240, 239, 235), x, (top + bottom) / 2 - 0.006, x + wide, (top + bottom) / 2 + 0.006
    )
    canvas.rect((228, 226, 220), x - 0.03, bottom + 0.012, x + wide + 0.03, bottom + 0.034)


def _frames(canvas: _Canvas, x: float, wall: Colour, rng: np.random.Generator) -> None:
    for step in range(2):
        x0 = x + step * 0.21 + float(rng.uniform(0, 0.03))
        y0, wide, high = float(rng.uniform(0.07, 0.13)), 0.13, float(rng.uniform(0.17, 0.23))
        canvas.rect(_scaled(wall, 0.86), x0 + 0.006, y0 + 0.01, x0 + wide + 0.006, y0 + high + 0.01)
        canvas.rect((108, 98, 90), x0, y0, x0 + wide, y0 + high)
        canvas.rect((236, 233, 226), x0 + 0.011, y0 + 0.014, x0 + wide - 0.011, y0 + high - 0.014)
        inside = (x0 + 0.026, y0 + 0.036, x0 + wide - 0.026, y0 + high - 0.036)
        canvas.rect((196, 206, 210), *inside)
        canvas.fill(
            (150, 158, 150),
            *((inside[0], inside[3]), (inside[0], inside[3] - 0.04), (x0 + 0.05, inside[1] + 0.04)),
            *((x0 + 0.075, inside[3] - 0.035), (x0 + 0.09, inside[3] - 0.06)),
            *((inside[2], inside[3] - 0.02), (inside[2], inside[3])),
        )


def _planks(canvas: _Canvas, edge: float, floor: Colour) -> None:
    """Boards that run towards the viewer."""
    for x in np.linspace(-1.2, 2.2, 24):
        top = 0.5 + (x - 0.5) * 0.52
        line = ((top - 0.001, edge), (top + 0.001, edge), (x + 0.002, 1.0), (x - 0.002, 1.0))
        canvas.fill(_scaled(floor, 0.83), *line)


def garden(width: int, height: int, rng: np.random.Generator) -> Place:
    """Sky, clouds, hills, a fence and a lawn."""
    canvas = _Canvas(width, height)
    edge = float(rng.uniform(0.46, 0.52))
    canvas.fade(0, edge, (184, 202, 218), (222, 228, 230))
    for _ in range(3):
        x, y = float(rng.uniform(0.05, 0.95)), float(rng.uniform(0.06, 0.22))
        for dx, dy, r in (
            (0, 0, 0.05),
            (0.05, 0.012, 0.042),
            (-0.05, 0.014, 0.036),
            (0.01, 0.02, 0.06),
        ):
            canvas.disc((238, 240, 240), x + dx, y + dy, r, r * 0.62)
    t = np.linspace(0, 1, 40)
    for colour, lift, waves in (((166, 178, 178), 0.13, 1.3), ((150, 164, 152), 0.07, 2.1)):
        phase = rng.uniform(0, 6)
        ridge = edge - lift * (0.6 + 0.4 * np.sin(waves * 2 * np.pi * t + phase))
        points = [(float(a), float(b)) for a, b in zip(t, ridge, strict=True)]
        canvas.fill(colour, *points, (1, edge), (0, edge))
    lawn = _pick(rng, (148, 162, 130), (158, 166, 134), (168, 166, 142))
    canvas.fade(edge, 1, _scaled(lawn, 0.94), _scaled(lawn, 1.08))
    if rng.random() < 0.7:
        for x in np.arange(-0.01, 1.0, 0.045):
            canvas.fill(
                (222, 220, 213),
                *((x, edge + 0.02), (x, edge - 0.075), (x + 0.012, edge - 0.095)),
                *((x + 0.024, edge - 0.075), (x + 0.024, edge + 0.02)),
            )
        for y in (edge - 0.055, edge - 0.012):
            canvas.rect((208, 206, 200), 0, y, 1, y + 0.014)
    for _ in range(90):
        x, y = float(rng.uniform(0, 1)), float(rng.uniform(edge + 0.04, 1))
        size = 0.006 + 0.012 * (y - edge)
        tuft = ((x, y), (x + 0.4 * size, y - 2.4 * size), (x + 0.7 * size, y), (x + 1.5 * size, y))
        canvas.fill(_scaled(lawn, float(rng.uniform(0.82, 0.9))), *tuft)
    return Place(canvas.finish(), (edge + 0.07, 0.95))


def street(width: int, height: int, rng: np.random.Generator) -> Place:
    """A road that runs away from the viewer, pavements, houses on both sides."""
    canvas = _Canvas(width, height)
    edge = float(rng.uniform(0.43, 0.47))
    middle = float(rng.uniform(0.47, 0.53))
    canvas.fade(0, edge, (182, 198, 214), (220, 225, 228))
    for side in (-1, 1):
        _houses(canvas, middle, side, edge, rng)
    canvas.fade(edge, 1, (160, 158, 152), (182, 180, 172))
    asphalt: Colour = (112, 114, 118)
    near, far = 0.43, 0.045
    for colour, extra in (((200, 198, 192), 0.025), (asphalt, 0.0)):
        canvas.fill(
            colour,
            *((middle - far - extra * 0.1, edge), (middle + far + extra * 0.1, edge)),
            *((middle + near + extra, 1.0), (middle - near - extra, 1.0)),
        )
    for start, end in ((0.03, 0.09), (0.14, 0.25), (0.34, 0.54), (0.68, 1.0)):
        points = []
        for depth, sign in ((start, -1), (start, 1), (end, 1), (end, -1)):
            points.append((middle + sign * 0.013 * (0.15 + depth), edge + depth * (1 - edge)))
        canvas.fill((222, 222, 216), *points)
    for side in (-1, 1):
        points = []
        for depth, wide in ((0.0, 0.0), (1.0, 0.0), (1.0, 0.014), (0.0, 0.002)):
            x = middle + side * ((far + (near - far) * depth) * 0.9 - wide)
            points.append((x, edge + depth * (1 - edge)))
        canvas.fill((206, 206, 200), *points)
    return Place(canvas.finish(), (edge + STREET_GAP, 0.95), (middle, far, near))


def _houses(
    canvas: _Canvas, middle: float, side: int, edge: float, rng: np.random.Generator
) -> None:
    x = 0.06
    while x < 0.62:
        wide, high = float(rng.uniform(0.1, 0.17)), float(rng.uniform(0.2, 0.38)) * (0.5 + x)
        shade = _pick(rng, (178, 170, 162), (160, 164, 168), (188, 182, 174), (166, 156, 150))
        x0, x1 = sorted((middle + side * x, middle + side * (x + wide)))
        top = edge + 0.02 - high
        canvas.rect(shade, x0, top, x1, edge + 0.02)
        canvas.rect(_scaled(shade, 0.8), x0, top, x1, top + 0.016)
        columns, rows = 3, max(2, int(high / 0.075))
        for column in range(columns):
            for row in range(rows):
                left = x0 + (x1 - x0) * (0.12 + 0.29 * column)
                upper = top + 0.035 + (high - 0.05) * row / rows
                pane = (left, upper, left + (x1 - x0) * 0.18, upper + (high - 0.05) / rows * 0.55)
                canvas.rect(_pick(rng, (120, 130, 140), (138, 146, 152), (206, 204, 192)), *pane)
        x += wide + 0.004


def table(width: int, height: int, rng: np.random.Generator) -> Place:
    """A table top with a cloth before a tiled wall."""
    canvas = _Canvas(width, height)
    edge = float(rng.uniform(0.44, 0.5))
    tile = _pick(rng, (206, 212, 212), (214, 208, 202), (202, 206, 214))
    canvas.fade(0, edge, _scaled(tile, 0.95), _scaled(tile, 1.04))
    for y in np.arange(0.02, edge, 0.11):
        canvas.rect(_scaled(tile, 0.9), 0, y, 1, y + 0.006)
    for row, y in enumerate(np.arange(0.02, edge, 0.11)):
        for x in np.arange(0.03 + 0.05 * (row % 2), 1, 0.1):
            canvas.rect(_scaled(tile, 0.9), x, y, x + 0.0045, min(y + 0.11, edge))
    wood = _pick(rng, (172, 154, 136), (150, 138, 128), (184, 170, 156))
    canvas.fade(edge, 1, _scaled(wood, 0.94), _scaled(wood, 1.06))
    for y in (0.1, 0.24, 0.44, 0.7):
        line = edge + y * (1 - edge)
        canvas.rect(_scaled(wood, 0.84), 0, line, 1, line + 0.004)
    canvas.rect(_scaled(wood, 0.78), 0, edge, 1, edge + 0.008)
    cloth = _pick(rng, (214, 212, 208), (196, 202, 206), (206, 198, 196))
    canvas.fill(_scaled(cloth, 0.84), (0.2, 0.6), (0.8, 0.6), (0.93, 0.985), (0.07, 0.985))
    canvas.fill(cloth, (0.205, 0.6), (0.795, 0.6), (0.92, 0.972), (0.08, 0.972))
    canvas.fill(_scaled(cloth, 0.95), (0.23, 0.625), (0.77, 0.625), (0.875, 0.945), (0.125, 0.945))
    canvas.fill(cloth, (0.236, 0.632), (0.764, 0.632), (0.864, 0.936), (0.136, 0.936))
    return Place(canvas.finish(), (edge + 0.06, 0.95))


PLACES: dict[str, Callable[[int, int, np.random.Generator], Place]] = {
    "room": room,
    "garden": garden,
    "street": street,
    "table": table,
}


def develop(picture: Pixels, rng: np.random.Generator, *, sigma: float = 4.0) -> Pixels:
    """Light, colour cast, coarse texture and sensor noise; returns a new picture.

    `sigma` is the standard deviation of the noise in grey levels.
    """
    h, w = picture.shape[:2]
    ys, xs = np.mgrid[0:h, 0:w].astype(np.float32)
    direction = rng.uniform(0, 2 * np.pi)
    slope = np.cos(direction) * (xs / w - 0.5) + np.sin(direction) * (ys / h - 0.5)
    light = 1 + float(rng.uniform(0.06, 0.14)) * slope
    vignette = 1 - 0.1 * ((xs / w - 0.5) ** 2 + (ys / h - 0.5) ** 2)
    coarse = rng.normal(0, 1, (9, 12)).astype(np.float32)
    texture = 1 + 0.012 * cv2.resize(coarse, (w, h), interpolation=cv2.INTER_CUBIC)
    cast = 1 + rng.uniform(-0.025, 0.025, 3).astype(np.float32)
    exposure = float(rng.uniform(0.95, 1.03))
    out = picture * (light * vignette * texture * exposure)[..., None] * cast
    out += rng.standard_normal(out.shape, dtype=np.float32) * sigma
    developed: Pixels = np.clip(out + 0.5, 0, 255).astype(np.uint8)
    return developed
