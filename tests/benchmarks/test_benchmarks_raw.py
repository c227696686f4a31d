"""Pointers to raw data: they name the publisher and can't break or bloat anybody's run."""

from pathlib import Path

import pytest
import yaml

RAW = Path(__file__).parents[2] / "data/raw"
POINTERS = sorted(RAW.glob("*.dvc"))


def test_there_are_pointers() -> None:
    assert len(POINTERS) == 4


@pytest.mark.parametrize("path", POINTERS, ids=lambda path: path.stem)
def test_a_pointer_is_frozen_uncached_and_listed(path: Path) -> None:
    pointer = yaml.safe_load(path.read_text(encoding="utf-8"))
    (source,), (out,) = pointer["deps"], pointer["outs"]
    assert pointer["frozen"] is True  # or `dvc repro` would fetch it
    assert out["cache"] is False  # or `dvc pull` would fail and `dvc push` would pass it on
    assert pointer["meta"]["licence"]
    readme = (RAW / "README.md").read_text(encoding="utf-8")
    row = next(line for line in readme.splitlines() if f"`{out['path']}`" in line)
    assert source["path"] in row
    assert f"dvc update data/raw/{path.name}" in row
