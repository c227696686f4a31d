"""Tables as spreadsheets save them: CSV in any dialect that can be told for certain.

Comma, semicolon or tab; with or without a byte order mark, in UTF-8 or marked UTF-16; any line
ends; quoted cells over several lines; an Excel line ``sep=;``; columns in any order and their
names in any case; empty rows and empty cells beyond the header. What can't be told is an error
that names file and line.
"""

import codecs
import csv
import io
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from stages.records.errors import UserError, quoted

DELIMITERS = (",", ";", "\t")
_MAX_CELL = 1 << 28  # an export of Label Studio repeats images as text
_FORMULA = re.compile(r"'*[=+\-@\t\r]")


class Sheet(NamedTuple):
    """A table that was read."""

    columns: tuple[str, ...]
    """Names of the columns, in small letters."""
    rows: tuple[tuple[int, dict[str, str]], ...]
    """Line of the file at which the row begins, from 1, and its cells that are not empty."""


def read_sheet(path: Path, known: Collection[str]) -> Sheet:
    """Read a spreadsheet's CSV file.

    Parameters
    ----------
    path : Path
        The file.
    known : collection of str
        Names of columns that are expected, in small letters: they tell the delimiter.

    Raises
    ------
    UserError
        If the file is no table of text, two columns have one name, or a row has more cells than
        the header.
    """
    csv.field_size_limit(_MAX_CELL)
    text = _decode(path)
    first = io.StringIO(text, newline="").readline()
    skipped = 0
    if first.strip().casefold().startswith("sep=") and len(first.strip()) == 5:
        delimiter, text, skipped = first.strip()[4], text[len(first) :], 1
    else:
        delimiter = _delimiter(first, known)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    lines = _lines(reader, path, skipped)
    line, names = next(lines, (1, []))
    columns = [name.strip().casefold() for name in names]
    named = [name for name in columns if name]
    if not named:
        raise UserError(str(path), "has no header", "The first row names the columns.")
    if len(set(named)) != len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise UserError(f"{path}:{line}", f"has the column {quoted(twice)} twice", "Rename one.")
    return Sheet(tuple(named), tuple(_rows(lines, columns, path)))


def without_formula(text: str) -> str:
    """A cell that no spreadsheet takes for a formula: an apostrophe before what would be one.

    One more where apostrophes stand there already, so that `with_formula` can tell them apart.
    """
    return f"'{text}" if _FORMULA.match(text) else text


def with_formula(text: str) -> str:
    """The text that `without_formula` was given."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def _rows(
    lines: Iterator[tuple[int, list[str]]], columns: list[str], path: Path
) -> Iterator[tuple[int, dict[str, str]]]:
    for line, values in lines:
        cells = [value.strip() for value in values]
        if not any(cells):
            continue
        if any(cells[len(columns) :]):
            raise UserError(f"{path}:{line}", "has more cells than the header", "Mend that row.")
        found = dict(zip(columns, cells, strict=False))
        if found.pop("", None):
            raise UserError(
                f"{path}:{line}", "has a cell under a column without a name", "Mend that row."
            )
        yield line, {name: value for name, value in found.items() if value}


def _lines(reader: Any, path: Path, skipped: int) -> Iterator[tuple[int, list[str]]]:
    while True:
        line = reader.line_num + 1 + skipped
        try:
            yield line, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise UserError(
                f"{path}:{line}", f"can't be read: {error}", "Save it as CSV again."
            ) from None


def _delimiter(header: str, known: Collection[str]) -> str:
    """The sign that splits the header into the most names that are expected."""

    def names(delimiter: str) -> int:
        try:
            parts = next(csv.reader([header], delimiter=delimiter), [])
        except csv.Error:  # the rows will say what is wrong, and where
            return 0
        return sum(part.strip().casefold() in known for part in parts)

    return max(DELIMITERS, key=names)


def _decode(path: Path) -> str:
    data = path.read_bytes()
    marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(
            str(path), "is not UTF-8", "In a spreadsheet, save it as “CSV UTF-8”."
        ) from None
    if "\0" in text:
        line = len(list(io.StringIO(text[: text.index("\0") + 1], newline="")))
        raise UserError(
            f"{path}:{line}",
            "is no text: it has a NUL character",
            "Delete that character; of a workbook save a CSV.",
        )
    return text
