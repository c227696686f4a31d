"""How much of bad input is tried, and how it is counted; for the tests of what is read."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings

from stages.imaging import codec
from stages.records.errors import UserError
from tests.faults import book
from tests.faults.mangle import mangled

PNG = codec.encode_png(np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3))

DEEP = 100_000
"""Levels of JSON that no decoder goes down to."""
tried: Counter[str] = Counter()
"""Inputs of the test that runs, by case."""


def some(short: int, long: int) -> settings:
    """How many inputs."""
    return settings(
        max_examples=long if book.LONG else short,
        deadline=None,
        derandomize=not book.LONG,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(autouse=True)
def counted(request: pytest.FixtureRequest) -> Iterator[None]:
    """What was tried is in the book; all of it survived, or the test has failed."""
    tried.clear()
    failed = request.session.testsfailed
    yield
    survived = request.session.testsfailed == failed
    for case, number in tried.items():
        book.note(book.INPUT, case, number, number if survived else 0)


@dataclass(frozen=True)
class Loader:
    """A file that is good, and what reads it."""

    file: str
    good: bytes
    load: Callable[[Path], object]
    beside: bool = False
    """Whether images lie beside it."""


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def sheet(delimiter: str, *rows: dict[str, Any]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def try_loader(name: str, loader: Loader, folder: Path, short: int = 40) -> None:
    """Read the good file, then damaged ones: each is read, or refused in one line."""
    path = folder / loader.file
    path.parent.mkdir(parents=True, exist_ok=True)
    if loader.beside:
        (folder / "0.png").write_bytes(PNG)
        (folder / "COCO_val2014_000000000001.jpg").write_bytes(PNG)
    path.write_bytes(loader.good)
    loader.load(path)

    @some(short, 10 * short)
    @given(mangled(loader.good))
    @example(loader.good.replace(b"}}", b"\n}}", 1))
    @example(b"[" * DEEP)
    @example(b'{"a":' * DEEP)
    def all_of_them(data: bytes) -> None:
        path.write_bytes(data)
        tried[name] += 1
        try:
            loader.load(path)
        except UserError as error:
            assert "\n" not in str(error)  # noqa: PT017 - refused, then in one line

    all_of_them()
