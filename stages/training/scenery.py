"""Scenes by the thousand: those of `models.demo.cells`, put together at the size that a model sees.

Backgrounds and cut-outs are painted and shrunk once, and then combined; a scene made so differs
from one that is painted whole and shrunk afterwards by a few grey levels at the rims of things.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.models.demo import cells, paint, scenery, shapes
from stages.models.demo.cells import CELL, COLUMNS, ROWS, Thing

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

SHRINK = 5
SMALL_CELL = CELL // SHRINK
SMALL = (ROWS * SMALL_CELL, COLUMNS * SMALL_CELL)
"""Height and width of a picture as the model sees it, in pixels."""
_GRAIN = 1.0
"""Standard deviation of noise in a shrunk picture, in grey levels."""
_GRAINS = 64


class Batch(NamedTuple):
    """Pictures with what is in each cell."""

    pixels: Floats
    """``(B, H, W, 3)`` RGB in [0, 255]."""
    kinds: Ints
    """``(B, CELLS)``: 0 for an empty cell, else 1 + index in `cells.KINDS`."""
    colours: Ints
    """``(B, CELLS)``: likewise for `cells.COLOURS`."""
    things: tuple[tuple[Thing, ...], ...]


class _Cutout(NamedTuple):
    colour: Floats
    """``(c, c, 3)``, times alpha."""
    alpha: Floats
    shade: Floats
    """Factor on the ground below."""


class Studio:
    """Backgrounds and cut-outs, painted once.

    Parameters
    ----------
    seed : int
    backgrounds : int
        How many backgrounds of each place.
    poses : int
        How many sizes and places within its cell each thing has.
    """

    def __init__(self, seed: int, *, backgrounds: int = 30, poses: int = 10) -> None:
        rng = np.random.default_rng([seed, 0])
        self._grounds = np.stack(
            [
                shrink(place(cells.WIDTH, cells.HEIGHT, rng).pixels.astype(np.float32))
                for place in scenery.PLACES.values()
                for _ in range(backgrounds)
            ]
        )
        self._cutouts = {
            look: tuple(_cut_out(look, rng) for _ in range(poses))
            for kind in cells.KINDS
            for colour in cells.COLOURS
            for facing in (("left", "right") if kind in shapes.FACING_KINDS else (None,))
            for look in (paint.Look(kind, colour, facing=facing),)
        }

        self._grain = rng.normal(0, _GRAIN, (_GRAINS, *SMALL, 3)).astype(np.float32)
        ys, xs = np.mgrid[0 : SMALL[0], 0 : SMALL[1]].astype(np.float32)
        self._across, self._down = xs / SMALL[1] - 0.5, ys / SMALL[0] - 0.5
        self._vignette = 1 - 0.1 * (self._across**2 + self._down**2)

    def _light(self, rng: np.random.Generator) -> Floats:
        """Factors ``(H, W, 3)`` of a light as `scenery.develop` has it."""
        direction, strength = rng.uniform(0, 2 * np.pi), rng.uniform(0.06, 0.14)
        slope = np.cos(direction) * self._across + np.sin(direction) * self._down
        cast = rng.uniform(0.95, 1.03) * (1 + rng.uniform(-0.025, 0.025, 3))
        light = (1 + strength * slope) * self._vignette
        return np.asarray(light[..., None] * cast, np.float32)

    def batch(self, scenes: Sequence[tuple[Thing, ...]], rng: np.random.Generator) -> Batch:
        """Paint scenes; the same generator state gives the same pixels."""
        kinds = np.zeros((len(scenes), ROWS * COLUMNS), np.int64)
        colours = np.zeros_like(kinds)
        pictures = np.empty((len(scenes), *SMALL, 3), np.float32)
        for number, things in enumerate(scenes):
            picture = self._grounds[int(rng.integers(len(self._grounds)))].copy()
            for thing in things:
                poses = self._cutouts[thing.look]
                drawn = poses[int(rng.integers(len(poses)))]
                y, x = (SMALL_CELL * i for i in divmod(thing.cell, COLUMNS))
                part = picture[y : y + SMALL_CELL, x : x + SMALL_CELL]
                part *= (drawn.shade * (1 - drawn.alpha))[..., None]
                part += drawn.colour
                kinds[number, thing.cell] = 1 + cells.KINDS.index(thing.look.kind)
                colours[number, thing.cell] = 1 + cells.COLOURS.index(thing.look.colour)
            picture *= self._light(rng)
            picture += self._grain[int(rng.integers(len(self._grain)))]
            pictures[number] = picture.clip(0, 255)
        return Batch(pictures, kinds, colours, tuple(scenes))


def shrink(image: Floats) -> Floats:
    """``(H, W, C)`` or ``(H, W)`` at a fifth of its size, bicubic as image processors do it."""
    from PIL import Image

    if image.ndim == 3:
        return np.stack([shrink(image[..., c]) for c in range(image.shape[2])], axis=2)
    height, width = image.shape
    size = (width // SHRINK, height // SHRINK)
    small = Image.fromarray(image).resize(size, Image.Resampling.BICUBIC)
    return np.asarray(small, np.float32)


def _cut_out(look: paint.Look, rng: np.random.Generator) -> _Cutout:
    x0, y0, x1, y1 = box = cells.box_in_cell(look.kind, rng)
    drawn = paint.cut_out(look, x1 - x0, y1 - y0)
    colour = np.zeros((CELL, CELL, 3), np.float32)
    alpha = np.zeros((CELL, CELL), np.float32)
    alpha[y0:y1, x0:x1] = drawn.alpha
    colour[y0:y1, x0:x1] = drawn.colour * drawn.alpha[..., None]
    ground = paint.shadow(np.full((CELL, CELL, 3), 250, np.uint8), look.kind, box)
    return _Cutout(
        shrink(colour), shrink(alpha), shrink(np.asarray(ground[..., 0] / 250, np.float32))
    )
