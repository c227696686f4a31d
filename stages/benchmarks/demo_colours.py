"""One question about painted scenes: what colour is the …? For studies of training.

The thing that is asked about has the colour that is typical for its kind, so that a model which
never looks answers as well as one that does, until the thing is painted over. The scenes are those
of `models.demo.cells`, which a small model can learn to see. They say nothing about real models.
"""

from functools import partial

import numpy as np

from stages.benchmarks.protocol import Benchmark, Item, Selection
from stages.models.demo import cells, world
from stages.models.picture import Picture
from stages.records.errors import UserError


class DemoColours(Benchmark):
    """Painted scenes with a question for the colour of one thing.

    Parameters
    ----------
    domain : str
        Name of the samples in tables by domain, e.g. ``train``.
    samples : int
        How many.
    seed : int
        Another seed gives other scenes.
    typical : float
        Share of things with their typical colour among those that are asked about, in [0, 1]. The
        others in a scene have any colour.
    """

    def __init__(self, domain: str, samples: int = 60, seed: int = 0, typical: float = 1.0) -> None:
        most = world.capacity("colour")
        for key, value, low, high in (
            ("samples", samples, 1, most * len(cells.KINDS)),
            ("seed", seed, 0, 2**32 - 1),
            ("typical", typical, 0, 1),
        ):
            if isinstance(value, bool) or not low <= value <= high:
                raise UserError(
                    f"benchmarks.{domain}.{key}",
                    f"{value!r} is out of range",
                    f"Give a number from {low} to {high}.",
                )
        self.domain, self.samples, self.seed, self.typical = domain, samples, seed, typical

    def select(self) -> Selection:
        """Compose the items; kinds take turns."""
        return Selection(tuple(self._item(number) for number in range(self.samples)))

    def _item(self, number: int) -> Item:
        kind = cells.KINDS[number % len(cells.KINDS)]
        question = world.ask("colour", number // len(cells.KINDS), (kind,))
        rng = np.random.default_rng([self.seed, number])
        usual = bool(rng.random() < self.typical)
        colour = world.TYPICAL_COLOUR[kind] if usual else None
        things = cells.draw_things(rng, kinds=(kind,), colours=(colour,), typical=0.0)
        return Item(
            id=f"{self.domain}-{number + 1:03d}",
            domain=self.domain,
            question=question.text,
            picture=partial(self._picture, things, number),
            reference=things[0].look.colour,
            group=kind,
            source=f"colour/{number}",
        )

    def _picture(self, things: tuple[cells.Thing, ...], number: int) -> Picture:
        rng = np.random.default_rng([self.seed, number, 1])
        return Picture.of(cells.render(things, rng))
