"""Records on disk: one JSON object a line, UTF-8, written whole or not at all."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from stages.records.errors import UserError
from stages.records.held import Held

R = TypeVar("R", bound=BaseModel)


def read(path: Path, model: type[R]) -> list[R]:
    """Read all rows of a file as records of one kind.

    Raises
    ------
    UserError
        If the file is missing, or a row is no JSON or does not fit the record; names file and row.
    """
    return list(each(path, model))


def held(path: Path, model: type[R]) -> Held[R]:
    """The same, checked at once and held as they are on disk, for files of many long rows."""
    lines = []
    for row, line in _lines(path):
        parse_row(line, model, path, row)
        lines.append(line)
    return Held(lines, model.model_validate_json)


def each(path: Path, model: type[R]) -> Iterator[R]:
    """The same, one after the other, for who keeps only a part of them."""
    for row, line in _lines(path):
        yield parse_row(line, model, path, row)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Rows that are not blank, with their numbers from 1."""
    start = 0
    try:
        with path.open("rb") as file:
            for row, line in enumerate(file, 1):
                line.decode()
                if line.strip():
                    yield row, line
                start += len(line)
    except FileNotFoundError:
        raise UserError(str(path), "the file is missing", "Run `dvc repro` first.") from None
    except UnicodeDecodeError as error:
        at = start + error.start
        raise UserError(str(path), f"not UTF-8 at byte {at}", "Save it as UTF-8.") from None


def parse_row(line: str | bytes, model: type[R], path: Path, row: int) -> R:
    """Read one line as a record; an error names the file, the row and the field."""
    try:
        return model.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "row"
        raise UserError(
            f"{path}:{row}", f"{field}: {first['msg']}", "Mend or remove that row."
        ) from None


def write(path: Path, records: Iterable[BaseModel]) -> None:
    """Write records in the given order; the file appears only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(record.model_dump_json() + "\n" for record in records)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            partial.unlink(missing_ok=True)
        raise
