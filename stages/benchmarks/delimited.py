"""Large CSV and TSV files row by row, with the place of each row, so that one can be read again."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from stages.records.errors import UserError

MAX_LINE = 128 << 20


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the file."""

    line: int
    """Line of the file at which it begins, from 1."""
    offset: int
    """Byte at which it begins."""
    cells: dict[str, str]
    """Column → text, as it stands in the file. Empty where the row can't be used."""
    fault: str | None = None
    """Why it can't be used; None for a good row."""


class Table:
    """A CSV or TSV file with a header, in UTF-8 with or without a byte order mark.

    Quotes are read as pandas and spreadsheets write them: a quoted cell may hold delimiters and
    line breaks. What can't be read is yielded as a row with a fault, never left out in silence.

    Parameters
    ----------
    path : Path
        The file.
    delimiter : str
        One sign; None: a tab for ``.tsv``, else a comma.
    """

    def __init__(self, path: Path, delimiter: str | None = None) -> None:
        self.path = path
        self._delimiter = delimiter or ("\t" if path.suffix.lower() == ".tsv" else ",")
        csv.field_size_limit(MAX_LINE)
        with path.open("rb") as file:
            header = next(self._parse(file, 1, 0), None)
        if header is None or header[3] is not None:
            reason = header[3] if header else "the file is empty"
            raise UserError(f"{path}:1", f"has no header ({reason})", "Get the file again.")
        self.columns = [name.strip() for name in header[2]]
        if len(set(self.columns)) != len(self.columns):
            raise UserError(f"{path}:1", "two columns have one name", "Rename one.")

    def rows(self) -> Iterator[Row]:
        """Yield all rows after the header; only one is in memory."""
        with self.path.open("rb") as file:
            parsed = self._parse(file, 1, 0)
            next(parsed)
            for line, offset, values, fault in parsed:
                yield self._row(line, offset, values, fault)

    def reread(self, row: Row) -> Row:
        """Read a row again from its place in the file."""
        with self.path.open("rb") as file:
            file.seek(row.offset)
            line, offset, values, fault = next(self._parse(file, row.line, row.offset))
        return self._row(line, offset, values, fault)

    def _row(self, line: int, offset: int, values: list[str], fault: str | None) -> Row:
        if fault is None and len(values) != len(self.columns):
            fault = f"has {len(values)} cells where the header has {len(self.columns)}"
        return Row(
            line,
            offset,
            {} if fault else dict(zip(self.columns, values, strict=True)),
            fault,
        )

    def _parse(
        self, file: BinaryIO, line: int, offset: int
    ) -> Iterator[tuple[int, int, list[str], str | None]]:
        lines = _Lines(file, line, offset)
        reader = csv.reader(lines, delimiter=self._delimiter, strict=True)
        while True:
            line, offset = lines.line, lines.offset
            lines.fault = None
            try:
                values = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                span = f" (to line {lines.line - 1})" if lines.line - line > 1 else ""
                yield line, offset, [], f"can't be read{span}: {error}"
            else:
                if values or lines.fault:
                    yield line, offset, values, lines.fault


class _Lines:
    """Lines of a binary file as text, with their number and place."""

    def __init__(self, file: BinaryIO, line: int, offset: int) -> None:
        self._file = file
        self.line, self.offset = line, offset
        self.fault: str | None = None

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        data = self._file.readline(MAX_LINE)
        if not data:
            raise StopIteration
        first, size = self.offset == 0, len(data)
        if size == MAX_LINE and not data.endswith(b"\n"):
            self.fault = f"a line is longer than {MAX_LINE >> 20} MiB"
            while (rest := self._file.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                size += len(rest)
            size += len(rest)
            data = b"\n"
        self.line += 1
        self.offset += size
        try:
            return data.decode("utf-8-sig" if first else "utf-8")
        except UnicodeDecodeError as error:
            self.fault = f"is not UTF-8 ({error.reason} at byte {error.start} of the line)"
            return data.decode("utf-8", errors="replace")
