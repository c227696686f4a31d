"""A small model with random weights, and examples that need no study."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stages.models.demo import cells, world
from stages.models.picture import Picture
from stages.records.sample import Sample
from stages.training.examples import Example

COUNT = 6


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of Qwen3-VL's kind, the smallest there is."""
    from stages.training import checkpoint

    folder = tmp_path_factory.mktemp("weights")
    checkpoint.save(checkpoint.new_model(hidden=32, layers=2, seed=0), folder)
    return folder


@pytest.fixture(scope="session")
def drawn() -> dict[str, Picture]:
    """Pictures of painted scenes by their digest."""
    found = {}
    for number in range(COUNT):
        rng = np.random.default_rng([3, number])
        things = cells.draw_things(rng, typical=1.0, kinds=(cells.KINDS[number],))
        picture = Picture.of(cells.render(things, rng))
        found[picture.sha256] = picture
    return found


@pytest.fixture(scope="session")
def examples(drawn: dict[str, Picture]) -> list[Example]:
    """A question about each picture; every second one is said to be a counterfactual."""
    made = []
    for number, image in enumerate(drawn):
        kind = cells.KINDS[number]
        sample = Sample(
            id=f"s-{number}",
            domain="train",
            image=image,
            width=cells.WIDTH,
            height=cells.HEIGHT,
            question=world.ask("colour", number, (kind,)).text,
            reference=world.TYPICAL_COLOUR[kind],
        )
        images: Any = "counterfactual" if number % 2 else "original"
        made.append(Example(sample, images, number % 2, image, str(sample.reference), None))
    return made
