"""A user's own benchmark: a JSONL or CSV file with a row a question, and a folder of images.

Columns: ``id``, ``question`` and ``image`` (a path in the folder of images), and, where wanted,
``reference``, ``category``, ``group``, ``system_prompt`` and options in ``A`` to ``H``.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from stages.benchmarks.archive import ImageStore, Origin, raw_folder, safe_name
from stages.benchmarks.fields import RowError, identifier, required, text
from stages.benchmarks.hf import options_of_row
from stages.benchmarks.options import reference_of, with_options
from stages.benchmarks.protocol import Benchmark, Selection
from stages.benchmarks.selection import Candidate, Pool, Recipe
from stages.benchmarks.vlmevalkit import open_table
from stages.records.errors import UserError

MAX_LINE = 4 << 20
FIELDS = ("id", "question", "image", "reference", "category", "group", "system_prompt")


class QuestionTable(Benchmark):
    """A JSONL, CSV or TSV file and a folder of images.

    Parameters
    ----------
    folder, file : str
        Where the file lies; its ending tells the form.
    domain : str
        Name of the benchmark: the domain in tables, and the first part of every id.
    images : str or None
        Folder that the paths of the images start from (or zips in it); None: the same folder.
    columns : mapping or None
        Names of columns that are not named as above, e.g. ``{reference: answer}``.
    count, seed, images_once, missing_images, ids
        The recipe, see `stages.benchmarks.selection.Recipe`.
    categories : sequence of str or None
        Only rows of these categories; None: all.
    system_prompt : str or None
        What the target is told beforehand, where the row says nothing else.
    """

    def __init__(
        self,
        folder: str,
        file: str,
        domain: str,
        images: str | None = None,
        columns: Mapping[str, str] | None = None,
        count: int | None = None,
        seed: int = 0,
        images_once: bool = True,
        missing_images: str = "error",
        ids: str | None = None,
        categories: Sequence[str] | None = None,
        system_prompt: str | None = None,
    ) -> None:
        if unknown := [name for name in columns or {} if name not in FIELDS]:
            raise ValueError(f"columns: {unknown[0]!r} is none of {FIELDS}")
        self._path, self._domain, self._prompt = raw_folder(folder) / file, domain, system_prompt
        self._columns = {name: name for name in FIELDS} | dict(columns or {})
        self._store = ImageStore(
            raw_folder(images or folder), Origin("where the table comes from", "as stated there")
        )
        self._recipe = Recipe.of(count, seed, images_once, missing_images, ids)
        self._categories = None if categories is None else frozenset(categories)

    def select(self) -> Selection:
        """Choose the rows."""
        pool = Pool(self._recipe)
        needed = [self._columns[name] for name in ("id", "question", "image")]
        for where, row, fault in read_rows(self._path, needed):
            try:
                if fault is not None:
                    raise RowError(fault)
                self._offer(pool, where, row)
            except RowError as error:
                pool.skip(where, str(error))
        return pool.choose(str(self._path))

    def _offer(self, pool: Pool, where: str, row: Mapping[str, Any]) -> None:
        names = self._columns
        number = f"{self._domain}-{identifier(row, names['id'])}"
        question, options = required(row, names["question"]), options_of_row(row)
        path = required(row, names["image"])
        if (image := safe_name(path)) is None:
            raise RowError(f"the image path {path[:200]!r} leaves the data folder")
        answer = text(row, names["reference"])
        reference = reference_of(answer, options)
        if answer is not None and reference is None:
            raise RowError(f"{names['reference']} {answer[:40]!r} names no option")
        category = text(row, names["category"]) or ""
        group, prompt = text(row, names["group"]), text(row, names["system_prompt"])
        unwanted = self._categories is not None and category not in self._categories
        pool.offer(
            number,
            where,
            "other_category" if unwanted else None,
            lambda: Candidate(
                id=number,
                domain=self._domain,
                question=with_options(question, options),
                image=image,
                read=partial(self._store.read, (image,), where),
                where=where,
                category=category,
                group=group or category or None,
                system_prompt=prompt or self._prompt,
                reference=reference,
                source=image,
            ),
        )


def read_rows(
    path: Path, needed: Sequence[str], origin: Origin | None = None
) -> Iterator[tuple[str, Mapping[str, Any], str | None]]:
    """Yield ``(where, cells, fault)`` for the rows of a JSONL, CSV or TSV file."""
    if path.suffix.lower() not in (".jsonl", ".ndjson"):
        table = open_table(path, needed, origin)
        for row in table.rows():
            yield f"{path.name}:{row.line}", row.cells, row.fault
        return
    if not path.is_file():
        remedy = origin.remedy(path) if origin else "Put it there, or name another file."
        raise UserError(str(path), "the file is missing", remedy)
    with path.open("rb") as file:
        number = 0
        while data := file.readline(MAX_LINE + 1):
            number += 1
            where = f"{path.name}:{number}"
            if len(data) > MAX_LINE:
                while data and not data.endswith(b"\n"):
                    data = file.readline(MAX_LINE)
                yield where, {}, f"the line is longer than {MAX_LINE >> 20} MiB"
            elif data.strip():
                yield where, *_parsed(data)


def _parsed(data: bytes) -> tuple[Mapping[str, Any], str | None]:
    try:
        row = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return {}, f"is not UTF-8 ({error.reason} at byte {error.start} of the line)"
    except (ValueError, RecursionError) as error:
        return {}, f"is no JSON ({error})"
    return (row, None) if isinstance(row, dict) else ({}, f"is {type(row).__name__}, not an object")
