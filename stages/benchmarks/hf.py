"""Hugging Face data sets on disk: parquet files as on the Hub, or what ``save_to_disk`` writes.

Reads the files themselves with pyarrow (extra ``hf``), without the ``datasets`` library and
without its cache: batch by batch, images only as hashes until their row is chosen.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from stages.benchmarks.archive import MAX_IMAGE_BYTES, ImageStore, Origin, raw_folder, safe_name
from stages.benchmarks.fields import RowError, identifier, required, text
from stages.benchmarks.options import LETTERS, present, reference_of, with_options
from stages.benchmarks.protocol import Benchmark, Selection
from stages.benchmarks.selection import Candidate, Pool, Recipe
from stages.imaging.codec import ImageError
from stages.records.errors import UserError

_BATCH = 64
_BUFFER = 1 << 20
FIELDS = ("id", "question", "image", "reference", "category", "group")


class Place(NamedTuple):
    """Where a row lies, so that it can be read again."""

    path: Path
    row: int
    """Row of the file, from 0."""


def rows(
    path: Path, columns: Sequence[str] | None = None
) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the rows of a parquet or arrow file with these columns, 64 in memory at a time.

    Raises
    ------
    UserError
        If the file is none, is damaged, or lacks a column.
    """
    import pyarrow as pa

    number = 0
    try:
        for batch in _batches(path, columns):
            for row in batch.to_pylist():
                yield Place(path, number), row
                number += 1
    except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError) as error:
        raise UserError(
            f"{path}: row {number}", f"can't be read ({str(error)[:200]})", "Get the file again."
        ) from None


def reread(place: Place, column: str) -> Any:
    """Read one cell again."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    at = place.row
    try:
        if place.path.suffix == ".parquet":
            with pq.ParquetFile(place.path, buffer_size=_BUFFER) as file:
                for group in range(file.num_row_groups):
                    size = file.metadata.row_group(group).num_rows
                    if at < size:
                        for batch in file.iter_batches(_BATCH, [group], [column]):
                            if at < batch.num_rows:
                                return batch.column(0)[at].as_py()
                            at -= batch.num_rows
                    at -= size
        for batch in _batches(place.path, [column]):
            if at < batch.num_rows:
                return batch.column(batch.schema.get_field_index(column))[at].as_py()
            at -= batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise ImageError(f"{place.path}, row {place.row}: {str(error)[:200]}") from None
    raise ImageError(f"{place.path} has lost row {place.row}")


def _batches(path: Path, columns: Sequence[str] | None) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        with pq.ParquetFile(path, buffer_size=_BUFFER) as file:
            yield from file.iter_batches(_BATCH, columns=None if columns is None else list(columns))
        return
    with pa.memory_map(str(path)) as source:
        try:
            yield from pa.ipc.open_stream(source)
        except pa.ArrowInvalid:
            source.seek(0)
            opened = pa.ipc.open_file(source)
            for index in range(opened.num_record_batches):
                yield opened.get_batch(index)


def files_of(folder: Path, split: str | None) -> list[Path]:
    """The data files of a split: in a folder of its name, or with names that begin with it."""
    found = sorted([*folder.rglob("*.parquet"), *folder.rglob("*.arrow")])
    found = [path for path in found if not path.name.startswith("cache-")]
    if split is not None:
        found = [
            path
            for path in found
            if path.name.startswith((f"{split}-", f"{split}."))
            or split in path.relative_to(folder).parts[:-1]
        ]
    if not found:
        wanted = f" of the split {split!r}" if split else ""
        raise UserError(
            str(folder),
            f"holds no parquet or arrow file{wanted}",
            "Download the data set there (`hf download … --local-dir`), or `save_to_disk` it.",
        )
    return found


class HuggingFace(Benchmark):
    """Any data set in Hugging Face's forms on disk.

    Parameters
    ----------
    folder : str
        The data set's folder.
    domain : str
        Name of the benchmark: the domain in tables, and the first part of every id.
    split : str or None
        Split to read; None: all files.
    columns : mapping or None
        Names of the columns that hold id, question, image, reference, category and group; by
        default they are named so. Without an id column, ids are hashes of question and image.
    images : str or None
        Folder of the image files, where the rows hold only their paths; None: the data set's.
    count, seed, images_once, missing_images, ids
        The recipe, see `stages.benchmarks.selection.Recipe`.
    categories : sequence of str or None
        Only rows of these categories; None: all.
    system_prompt : str or None
        What the target is told beforehand.
    """

    def __init__(
        self,
        folder: str,
        domain: str,
        split: str | None = None,
        columns: Mapping[str, str] | None = None,
        images: str | None = None,
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
        need_pyarrow(domain)
        self._folder, self._domain, self._split = raw_folder(folder), domain, split
        self._columns = {name: name for name in FIELDS} | dict(columns or {})
        self._store = ImageStore(
            raw_folder(images or folder), Origin("the data set's publisher", "as named there")
        )
        self._recipe = Recipe.of(count, seed, images_once, missing_images, ids)
        self._categories = None if categories is None else frozenset(categories)
        self._prompt = system_prompt

    def select(self) -> Selection:
        """Choose the rows."""
        pool = Pool(self._recipe)
        for path in files_of(self._folder, self._split):
            for place, row in rows(path):
                where = f"{path.name}: row {place.row}"
                try:
                    self._offer(pool, place, where, row)
                except RowError as error:
                    pool.skip(where, str(error))
        return pool.choose(str(self._folder))

    def _offer(self, pool: Pool, place: Place, where: str, row: Mapping[str, Any]) -> None:
        names = self._columns
        question = required(row, names["question"])
        image = image_key(row.get(names["image"]))
        options = options_of_row(row)
        answer = text(row, names["reference"])
        reference = reference_of(answer, options)
        if answer is not None and reference is None:
            raise RowError(f"{names['reference']} {answer[:40]!r} names no option")
        category = text(row, names["category"]) or ""
        group = text(row, names["group"])
        if names["id"] in row:
            number = f"{self._domain}-{identifier(row, names['id'])}"
        else:
            lot = hashlib.sha256(f"{question}\n{image}".encode()).hexdigest()
            number = f"{self._domain}-{lot[:16]}"
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
                read=partial(read_cell, place, names["image"], self._store, where),
                where=where,
                category=category,
                group=group or category or None,
                system_prompt=self._prompt,
                reference=reference,
                source=where,
            ),
        )


def need_pyarrow(domain: str) -> None:
    """Say which extra to install where pyarrow is missing."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise UserError(
            f"benchmark {domain}", "needs pyarrow", 'Run `pip install -e ".[hf]"`.'
        ) from None


def image_key(cell: Any) -> str:
    """What image a cell holds: a hash of its bytes, or its path."""
    if isinstance(cell, list) and len(cell) == 1:
        cell = cell[0]
    if isinstance(cell, dict):
        cell = cell.get("bytes") or cell.get("path")
    if isinstance(cell, bytes) and cell:
        return hashlib.sha256(cell).hexdigest()
    if isinstance(cell, str):
        if (name := safe_name(cell)) is None:
            raise RowError(f"the image path {cell[:200]!r} leaves the data folder")
        return name
    raise RowError(f"holds no single image ({type(cell).__name__})")


def read_cell(place: Place, column: str, store: ImageStore, where: str) -> bytes:
    """Read a row's image: its bytes, or the file that its path names."""
    cell = reread(place, column)
    if isinstance(cell, list) and len(cell) == 1:
        cell = cell[0]
    if isinstance(cell, dict):
        cell = cell.get("bytes") or cell.get("path")
    if isinstance(cell, bytes):
        if len(cell) > MAX_IMAGE_BYTES:
            raise ImageError(f"the image is larger than {MAX_IMAGE_BYTES >> 20} MiB")
        return cell
    return store.read([image_key(cell)], where)


def options_of_row(row: Mapping[str, Any]) -> dict[str, str]:
    """Options in columns A to H, or in one column ``options`` or ``choices`` that holds a list."""
    for name in ("options", "choices"):
        if isinstance(listed := row.get(name), list) and all(isinstance(x, str) for x in listed):
            return dict(zip(LETTERS, listed, strict=False))
    cells = {letter: text(row, letter) for letter in LETTERS if letter in row}
    return {letter: cell for letter, cell in cells.items() if cell and present(cell)}
