"""A part of the built-in world that is easy to see: few kinds of things, one to a cell of a grid.

A small model with square patches sees such a scene well, since a thing never lies across the border
of two cells. Pictures are 640 × 480; cells are 160 × 160 and count row by row from above left.
Things look, are edited and are detected as in the whole world.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.models.demo import paint, scenery, shapes
from stages.models.demo.world import TYPICAL_COLOUR

Pixels = NDArray[np.uint8]
Box = tuple[int, int, int, int]

WIDTH, HEIGHT = paint.REFERENCE_SIZE
CELL = 160
"""Side of a cell in pixels."""
COLUMNS, ROWS = WIDTH // CELL, HEIGHT // CELL
KINDS = tuple(TYPICAL_COLOUR)
"""What can stand in a scene, each kind at most once."""
COLOURS = tuple(shapes.PALETTE)
SIDES = ("left", "centre", "right")
"""Where things can stand: the outer columns, and one of the two in the middle."""
_SIDE_COLUMNS = ((0,), (1, 2), (3,))
_STANDING_ROWS = (1, 2)
_LONG_SIDE = (116, 142)
_MARGIN = 7


class Thing(NamedTuple):
    """A thing and where it stands."""

    look: paint.Look
    cell: int
    """Number of its cell."""
    side: str
    """One of SIDES."""


def draw_things(
    rng: np.random.Generator,
    *,
    kinds: Sequence[str] = (),
    typical: float,
    colours: Sequence[str | None] = (),
) -> tuple[Thing, ...]:
    """Draw two or three things of different kinds at different sides.

    Parameters
    ----------
    rng : numpy.random.Generator
    kinds : sequence of str
        Kinds that must be there; the others are drawn.
    typical : float
        Probability with which a thing has the colour that is typical for its kind, in [0, 1]; any
        of COLOURS otherwise.
    colours : sequence of str or None
        Colours of the first of `kinds`; None or nothing leaves them to chance.
    """
    others = [kind for kind in KINDS if kind not in kinds]
    count = max(len(kinds), int(rng.integers(2, 4)))
    drawn = [others[int(i)] for i in rng.permutation(len(others))[: count - len(kinds)]]
    sides = rng.permutation(len(SIDES))[:count]
    things = []
    for number, (kind, side) in enumerate(zip((*kinds, *drawn), sides, strict=True)):
        given = colours[number] if number < len(colours) else None
        usual = bool(rng.random() < typical)
        chance = COLOURS[int(rng.integers(len(COLOURS)))]
        facing = ("left", "right")[int(rng.integers(2))]
        columns = _SIDE_COLUMNS[int(side)]
        column = columns[int(rng.integers(len(columns)))]
        row = _STANDING_ROWS[int(rng.integers(len(_STANDING_ROWS)))]
        things.append(
            Thing(
                paint.Look(
                    kind=kind,
                    colour=given or (TYPICAL_COLOUR[kind] if usual else chance),
                    facing=facing if kind in shapes.FACING_KINDS else None,
                ),
                row * COLUMNS + column,
                SIDES[int(side)],
            )
        )
    return tuple(things)


def box_in_cell(kind: str, rng: np.random.Generator) -> Box:
    """A box of random size and place for a thing within a cell, relative to the cell."""
    width, height = paint.size_of(kind, float(rng.uniform(*_LONG_SIDE)))
    x0 = int(rng.integers(_MARGIN, CELL - _MARGIN - width + 1))
    y0 = int(rng.integers(_MARGIN, CELL - _MARGIN - height + 1))
    return x0, y0, x0 + width, y0 + height


def render(things: Sequence[Thing], rng: np.random.Generator) -> Pixels:
    """Paint a scene as ``(HEIGHT, WIDTH, 3)`` RGB."""
    names = tuple(scenery.PLACES)
    place = scenery.PLACES[names[int(rng.integers(len(names)))]](WIDTH, HEIGHT, rng)
    pixels = place.pixels
    for thing in sorted(things, key=lambda thing: thing.cell):
        row, column = divmod(thing.cell, COLUMNS)
        x0, y0, x1, y1 = box_in_cell(thing.look.kind, rng)
        dx, dy = column * CELL, row * CELL
        pixels = paint.stamp(pixels, thing.look, (x0 + dx, y0 + dy, x1 + dx, y1 + dy))
    return scenery.develop(pixels, rng)
