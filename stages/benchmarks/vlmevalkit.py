"""VLMEvalKit's TSV form: a question, options and a base64 image a row, in one large file.

The file is read row by row. An image is decoded when its row is chosen, from the row's place in the
file, and never held otherwise.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from stages.benchmarks.archive import MAX_IMAGE_BYTES, Origin, raw_folder
from stages.benchmarks.delimited import Row, Table
from stages.benchmarks.fields import RowError, identifier, required, text
from stages.benchmarks.options import LETTERS, present, reference_of, with_options
from stages.benchmarks.protocol import Benchmark, Selection
from stages.benchmarks.selection import Candidate, Pool, Recipe
from stages.imaging.codec import ImageError
from stages.records.errors import UserError

_SHORTEST_IMAGE = 64
"""VLMEvalKit takes a shorter cell for the index of the row that holds the image."""


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the file without its image."""

    where: str
    row: Row
    """Its place; the cells are those of ``cells``."""
    cells: Mapping[str, str]
    """All columns but the image's."""
    image: str
    """SHA-256 of the base64 text, or the index that stands in its place."""
    refers: bool
    """Whether it is such an index."""


def lines(table: Table, column: str) -> Iterator[Line | tuple[str, str]]:
    """Yield all rows without their images, or ``(where, fault)`` for one that can't be read."""
    for row in table.rows():
        where = f"{table.path.name}:{row.line}"
        if row.fault:
            yield where, row.fault
            continue
        image = row.cells[column].strip()
        cells = {name: cell for name, cell in row.cells.items() if name != column}
        refers = len(image) <= _SHORTEST_IMAGE
        name = image if refers else hashlib.sha256(image.encode()).hexdigest()
        yield Line(where, Row(row.line, row.offset, {}), cells, name, refers)


def read_image(table: Table, row: Row, column: str) -> bytes:
    """Read and decode a row's image from its place in the file."""
    cell = table.reread(row).cells[column].strip()
    if cell.startswith("["):
        raise ImageError("the row holds a list of images; one is needed")
    if len(cell) > MAX_IMAGE_BYTES * 4 // 3 + 4:
        raise ImageError(f"the image is larger than {MAX_IMAGE_BYTES >> 20} MiB")
    try:
        return base64.b64decode(cell.partition("base64,")[2] or cell, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ImageError(f"the image is no base64 ({error})") from None


def options_of(cells: Mapping[str, str | None]) -> dict[str, str]:
    """Options by letter; columns that are null, blank or ``nan`` hold none."""
    return {letter: str(cells[letter]).strip() for letter in LETTERS if present(cells.get(letter))}


def open_table(path: Path, needed: Sequence[str], origin: Origin | None = None) -> Table:
    """Open a CSV or TSV file that must have these columns."""
    if not path.is_file():
        remedy = origin.remedy(path) if origin else "Put it there, or name another file."
        raise UserError(str(path), "the file is missing", remedy)
    table = Table(path)
    if missing := [name for name in needed if name not in table.columns]:
        raise UserError(
            f"{path}:1",
            f"has no column {missing[0]!r} (it has {', '.join(table.columns[:12])})",
            "Name the columns in the benchmark's YAML.",
        )
    return table


class VLMEvalKit(Benchmark):
    """Any benchmark in VLMEvalKit's TSV form.

    Parameters
    ----------
    folder, file : str
        Where the file lies.
    domain : str
        Name of the benchmark: the domain in tables, and the first part of every id.
    count, seed, images_once, missing_images, ids
        The recipe, see `stages.benchmarks.selection.Recipe`.
    categories : sequence of str or None
        Only rows of these categories; None: all.
    id_column, image_column : str
        Names of these columns.
    system_prompt : str or None
        What the target is told beforehand.
    """

    def __init__(
        self,
        folder: str,
        file: str,
        domain: str,
        count: int | None = None,
        seed: int = 0,
        images_once: bool = True,
        missing_images: str = "error",
        ids: str | None = None,
        categories: Sequence[str] | None = None,
        id_column: str = "index",
        image_column: str = "image",
        system_prompt: str | None = None,
    ) -> None:
        self._path, self._domain, self._prompt = raw_folder(folder) / file, domain, system_prompt
        self._recipe = Recipe.of(count, seed, images_once, missing_images, ids)
        self._categories = None if categories is None else frozenset(categories)
        self._id, self._image = id_column, image_column

    def select(self) -> Selection:
        """Choose the rows."""
        table = open_table(self._path, (self._id, "question", self._image))
        pool = Pool(self._recipe)
        found: list[Line] = []
        holders: dict[str, Line] = {}
        for line in lines(table, self._image):
            if isinstance(line, tuple):
                pool.skip(*line)
                continue
            found.append(line)
            if not line.refers:
                holders.setdefault(line.cells[self._id].strip(), line)
        for line in found:
            try:
                self._offer(pool, table, line, holders)
            except RowError as error:
                pool.skip(line.where, str(error))
        return pool.choose(str(self._path))

    def _offer(self, pool: Pool, table: Table, line: Line, holders: Mapping[str, Line]) -> None:
        number = f"{self._domain}-{identifier(line.cells, self._id)}"
        question, options = required(line.cells, "question"), options_of(line.cells)
        if hint := text(line.cells, "hint"):
            question = f"{hint}\n{question}" if present(hint) else question
        answer = text(line.cells, "answer")
        reference = reference_of(answer, options)
        if answer is not None and reference is None:
            raise RowError(f"answer {answer[:40]!r} names no option")
        category = text(line.cells, "category") or ""
        holder = holders.get(line.image) if line.refers else line
        if holder is None:
            raise RowError("holds no image, and names no row that does")
        source = holder
        unwanted = self._categories is not None and category not in self._categories
        pool.offer(
            number,
            line.where,
            "other_category" if unwanted else None,
            lambda: Candidate(
                id=number,
                domain=self._domain,
                question=with_options(question, options),
                image=source.image,
                read=partial(read_image, table, source.row, self._image),
                where=line.where,
                category=category,
                group=category or None,
                system_prompt=self._prompt,
                reference=reference,
                source=line.where,
            ),
        )
