"""Tiny checkpoints of what sees and edits, made once a run."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """A folder with random weights by the name of its builder, e.g. ``sam2``."""
    made: dict[str, Path] = {}

    def make(name: str) -> str:
        if name not in made:
            from tests.models.local import tiny_editors, tiny_sam2, tiny_vision

            builders = {
                **vars(tiny_editors),
                **vars(tiny_vision),
                "sam2_package": tiny_sam2.package,
            }
            made[name] = builders[name](tmp_path_factory.mktemp(name) / name)
        return str(made[name])

    return make
