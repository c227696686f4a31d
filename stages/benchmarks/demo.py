"""The embedded benchmark: painted scenes with questions, made on the spot from a seed.

It exercises the protocol without downloads and keys. It says nothing about real models: its
pictures hold few kinds of things, and its questions follow fixed rules.
"""

from functools import partial

import numpy as np

from stages.benchmarks.protocol import Benchmark, Item, Selection
from stages.models.demo import paint, scene, world
from stages.models.picture import Picture
from stages.records.errors import UserError

DOMAINS: dict[str, dict[str, int]] = {
    "everyday": {"sport": 12, "season": 12, "ripe": 4, "pet": 4},
    "driving": {"stop": 6, "go": 4, "turn": 3, "ahead": 3},
    "spatial": {"same_direction": 6, "facing": 3, "left_of": 3},
}
"""Domain → family → its share of 60 samples."""
MAX_SIDE = 4096


class Demo(Benchmark):
    """Painted scenes.

    Parameters
    ----------
    samples : int
        How many; families keep the proportions of `DOMAINS` as far as whole numbers allow.
    seed : int
        Another seed gives other scenes and other objects in the questions.
    width, height : int
        Size of the pictures in pixels, from 640 × 480 up to 4096 a side.
    """

    def __init__(
        self, samples: int = 60, seed: int = 0, width: int = 640, height: int = 480
    ) -> None:
        most = _most_samples()
        for key, value, low, high in (
            ("samples", samples, 1, most),
            ("seed", seed, 0, 2**32 - 1),
            ("width", width, paint.REFERENCE_SIZE[0], MAX_SIDE),
            ("height", height, paint.REFERENCE_SIZE[1], MAX_SIDE),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise UserError(
                    f"benchmarks.demo.{key}",
                    f"{value!r} is out of range",
                    f"Give a whole number from {low} to {high}.",
                )
        self.samples, self.seed, self.width, self.height = samples, seed, width, height

    def select(self) -> Selection:
        """Compose the items, domain by domain."""
        counts = _counts(self.samples)
        items = []
        for domain, families in DOMAINS.items():
            members = [(family, index) for family in families for index in range(counts[family])]
            items += [
                self._item(f"{domain}-{number:03d}", domain, family, index)
                for number, (family, index) in enumerate(members, 1)
            ]
        return Selection(tuple(items))

    def _item(self, name: str, domain: str, family: str, index: int) -> Item:
        brief = world.compose(family, index, self._rng(family, index, 0))
        return Item(
            id=name,
            domain=domain,
            question=brief.question,
            picture=partial(self._picture, brief, domain, family, index),
            system_prompt=brief.system_prompt,
            reference=brief.reference,
            group=family,
            source=f"{family}/{index}",
        )

    def _picture(self, brief: world.Brief, domain: str, family: str, index: int) -> Picture:
        painted = scene.render(
            brief,
            driving=domain == "driving",
            width=self.width,
            height=self.height,
            rng=self._rng(family, index, 1),
        )
        return Picture.of(painted.pixels)

    def _rng(self, family: str, index: int, purpose: int) -> np.random.Generator:
        """Words and paint draw from streams of their own, item by item."""
        return np.random.default_rng([self.seed, world.FAMILIES.index(family), index, purpose])


def _weights() -> dict[str, int]:
    return {family: n for families in DOMAINS.values() for family, n in families.items()}


def _counts(samples: int) -> dict[str, int]:
    """Samples a family, by largest remainder; ties go to the family named first."""
    weights = _weights()
    total = sum(weights.values())
    counts = {family: samples * weight // total for family, weight in weights.items()}
    by_remainder = sorted(weights, key=lambda family: -(samples * weights[family] % total))
    for family in by_remainder[: samples - sum(counts.values())]:
        counts[family] += 1
    return counts


def _most_samples() -> int:
    """Up to this many, no family runs out of questions."""
    weights = _weights()
    total = sum(weights.values())
    return min((world.capacity(family) - 1) * total // n for family, n in weights.items())
