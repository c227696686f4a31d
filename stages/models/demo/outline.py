"""Parts of a drawing: filled outlines and lines in a unit box, (x, y) with y downwards."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Role = Literal[
    "body", "shade", "deep", "dark", "pale", "wood", "metal", "skin", "leaf", "beak", "unlit"
]
Point = tuple[float, float]


class Layer(NamedTuple):
    """One part of a thing: a filled outline, or a line where `width` is given."""

    role: Role
    points: NDArray[np.float64]
    """``(N, 2)`` corners in the unit box."""
    width: float | None = None
    """Line width as a share of the box's height; None: filled."""


def _smooth(points: tuple[Point, ...], *, closed: bool, steps: int = 10) -> NDArray[np.float64]:
    """Catmull-Rom curve through the points."""
    knots = np.array(points, dtype=np.float64)
    if closed:
        padded = np.concatenate([knots[-1:], knots, knots[:2]])
    else:
        padded = np.concatenate([knots[:1], knots, knots[-1:]])
    t = (np.arange(steps) / steps)[:, None]
    pieces = []
    for a, b, c, d in zip(padded, padded[1:], padded[2:], padded[3:], strict=False):
        cubic = 2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2
        pieces.append((cubic + (3 * b - a - 3 * c + d) * t**3) / 2)
    curve = np.concatenate(pieces)
    return curve if closed else np.concatenate([curve, knots[-1:]])


def blob(role: Role, *points: Point) -> Layer:
    """A smooth closed outline through the points."""
    return Layer(role, _smooth(points, closed=True))


def poly(role: Role, *points: Point) -> Layer:
    """A polygon."""
    return Layer(role, np.array(points, dtype=np.float64))


def rect(role: Role, x0: float, y0: float, x1: float, y1: float) -> Layer:
    """A rectangle."""
    return poly(role, (x0, y0), (x1, y0), (x1, y1), (x0, y1))


def rounded(role: Role, x0: float, y0: float, x1: float, y1: float, rx: float, ry: float) -> Layer:
    """A rectangle with rounded corners."""
    angles = np.linspace(0, np.pi / 2, 7)
    arc = np.stack([np.cos(angles) * rx, np.sin(angles) * ry], axis=1)
    corners = (
        arc * (1, 1) + (x1 - rx, y1 - ry),
        arc[::-1] * (-1, 1) + (x0 + rx, y1 - ry),
        -arc + (x0 + rx, y0 + ry),
        arc[::-1] * (1, -1) + (x1 - rx, y0 + ry),
    )
    return Layer(role, np.concatenate(corners))


def oval(role: Role, cx: float, cy: float, rx: float, ry: float) -> Layer:
    """An ellipse."""
    angles = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    return Layer(role, np.stack([cx + rx * np.cos(angles), cy + ry * np.sin(angles)], axis=1))


def line(role: Role, width: float, *points: Point) -> Layer:
    """A smooth line; `width` is a share of the height of the box."""
    return Layer(role, _smooth(points, closed=False), width)
