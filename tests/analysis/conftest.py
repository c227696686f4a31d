"""Small studies drawn as records, with everything that the analysis reads."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from stages.analysis.fates import Trail, follow
from stages.analysis.measures import Resampling
from stages.analysis.simulation import Design, draw
from stages.records.sample import Sample
from stages.records.score import Cell, Intervention

DESIGN = Design(60, 2, 0.5, 0.5, 0.75, 2, 0.05, domains=("okvqa", "drivelm"))


class Study(NamedTuple):
    """A drawn study."""

    samples: list[Sample]
    trails: dict[Cell, Trail]
    rows: list[Intervention]

    def of(self, **axes: object) -> list[Intervention]:
        """Interventions of the cells with these axes."""
        return [row for row in self.rows if all(getattr(row.cell, a) == v for a, v in axes.items())]


def make_study(planted: dict[Cell, float], design: Design = DESIGN, seed: int = 0) -> Study:
    """One cell for each planted CCS; cells that share all but the judge share their edits."""
    samples: list[Sample] = []
    trails: dict[Cell, Trail] = {}
    for index, (cell, ccs) in enumerate(planted.items()):
        drawn = draw(design._replace(planted=ccs), np.random.default_rng([seed, index]))
        samples, trails[cell] = list(drawn.samples), drawn.trail
    rows = [row for cell, trail in trails.items() for row in follow(cell, samples, trail)]
    return Study(samples, trails, rows)


def make_cell(
    target: str = "t", extractor: str = "x", editor: str = "e", judge: str = "j", seed: int = 0
) -> Cell:
    """A cell with default names."""
    return Cell(target=target, extractor=extractor, editor=editor, judge=judge, seed=seed)


@pytest.fixture(scope="session")
def cell() -> Callable[..., Cell]:
    """Makes cells."""
    return make_cell


@pytest.fixture(scope="session")
def study() -> Callable[..., Study]:
    """Draws studies."""
    return make_study


@pytest.fixture(scope="session")
def quick() -> Resampling:
    """Few resamples, seed 0."""
    return Resampling(500, 0.95, 0)
