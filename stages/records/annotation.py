"""A person's judgement of one intervention, and the CSV files that hold such judgements.

One row is one annotator's word on one edit. What was not judged is an empty cell: missing, never 0.
"""

import csv
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from stages.records.base import Record
from stages.records.errors import UserError, quoted
from stages.records.sheet import read_sheet, with_formula, without_formula

Key = tuple[str, str, str, int, str, int]
"""Target, extractor, editor, seed, sample and position: what an annotation is about."""
Binary = Annotated[int, Field(ge=0, le=1)]


class Annotation(Record):
    """One annotator's judgement of one edit, and of the answer and explanation after it."""

    sample_id: str
    """The sample."""
    target: str
    """Name of the target whose explanation was tested."""
    extractor: str
    """Name of the extractor."""
    editor: str
    """Name of the editor."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the run."""
    position: Annotated[int, Field(ge=1)]
    """Step of the chain, from 1."""
    attempt: Annotated[int, Field(ge=1)] | None = None
    """The attempt that was shown; None: the last one of that step."""
    edited: str | None = None
    """SHA-256 of the PNG that was shown; None: not noted. Where it is another image than the
    study's, the row is out of date and counts nowhere."""
    annotator: str
    """Who judged."""
    valid: Literal["yes", "no", "cant_tell"] | None = None
    """Is the edit what the instruction asked for, where it asked for it?"""
    ac: Binary | None = None
    """Answer consistency, 0 or 1."""
    ef: Binary | None = None
    """Explanation faithfulness, 0 or 1."""
    note: str | None = None
    """Anything else."""

    @property
    def ccs(self) -> int | None:
        """AC · EF; None unless the edit was marked valid and both were given."""
        if self.valid != "yes" or self.ac is None or self.ef is None:
            return None
        return self.ac * self.ef

    @property
    def key(self) -> Key:
        """What the annotation is about."""
        return self.target, self.extractor, self.editor, self.seed, self.sample_id, self.position


def read_annotations(folder: Path) -> list[Annotation]:
    """Read every ``*.csv`` of a folder, in the order of file names; a missing folder has none.

    Raises
    ------
    UserError
        Where a column is unknown, a value can't be, or one annotator judged one edit twice; names
        file and row.
    """
    rows: list[Annotation] = []
    seen: dict[tuple[Key, int | None, str], str] = {}
    for path in sorted(folder.glob("*.csv")):
        for where, row in read_annotation_file(path):
            known = row.key, row.attempt, row.annotator
            if known in seen:
                raise UserError(
                    where,
                    f"{row.annotator!r} judged this edit already in {seen[known]}",
                    "Keep one of the two rows.",
                )
            seen[known] = where
            rows.append(row)
    return rows


def read_annotation_file(path: Path) -> Iterator[tuple[str, Annotation]]:
    """Yield the annotations of one file, each with file and line."""
    sheet = read_sheet(path, Annotation.model_fields)
    unknown = sorted(set(sheet.columns) - set(Annotation.model_fields))
    if unknown:
        raise UserError(
            str(path),
            f"no such column: {', '.join(unknown)}",
            f"Known: {', '.join(Annotation.model_fields)}.",
        )
    for line, cells in sheet.rows:
        if "note" in cells:
            cells["note"] = with_formula(cells["note"])
        yield f"{path}:{line}", parse_annotation(cells, f"{path}:{line}")


def parse_annotation(cells: Mapping[str, Any], where: str) -> Annotation:
    """Read the cells of one row that are not empty; an error names the place and the column."""
    given = dict(cells)
    if isinstance(given.get("valid"), str):
        given["valid"] = given["valid"].casefold()
    try:
        return Annotation.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        is_missing = first["type"] == "missing"
        what = "is empty" if is_missing else f"is {quoted(cells[field])}: {first['msg'].lower()}"
        raise UserError(where, f"{field} {what}", "Mend that row.") from None


def write_annotations(path: Path, rows: Iterable[Annotation]) -> None:
    """Write annotations as a CSV file that `read_annotations` and spreadsheets read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(Annotation.model_fields), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            cells = row.model_dump()
            writer.writerow({**cells, "note": without_formula(row.note or "")})
    os.replace(partial, path)
