"""Reading an artefact: row by row, checked, pictures only when they are asked for.

What is read comes from strangers. Rows are validated as records; a picture must be a PNG file
whose SHA-256 is the one that its row names. Memory is bounded by the row group: 64 MiB a picture,
512 MiB a group, whatever a file's header says of the rest.
"""

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stages.imaging import codec
from stages.models.artefact import schema
from stages.models.artefact.layout import FILE, FORMAT, Provenance, Table, folder_of
from stages.models.picture import Picture
from stages.records.base import Record
from stages.records.errors import UserError

MAX_PICTURE_BYTES = 64 << 20
MAX_GROUP_BYTES = 512 << 20
MAX_PROVENANCE_BYTES = 16 << 20
_AGAIN = "Get the artefact again, or ask who made it."
_PNG = b"\x89PNG\r\n\x1a\n"
_KEPT_GROUPS = 6


@dataclass(frozen=True)
class Place:
    """Where a row lies."""

    file: Path
    group: int
    row: int
    """Row of the group, from 0."""
    number: int
    """Row of the file, from 1, for messages."""

    def __str__(self) -> str:
        return f"{self.file}: row {self.number}"


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    place: Place
    split: str
    axes: Mapping[str, Any]
    record: Any
    """A record of the table's kind."""
    extra: Mapping[str, str | None]


class Artefact:
    """An EDCT-Bench folder.

    Parameters
    ----------
    folder : Path
        The folder.

    Raises
    ------
    UserError
        From any method: where a file is missing or damaged, or a row is not what it should be.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        _need_pyarrow()
        self.provenance = _read_provenance(folder / "provenance.json")
        self._groups: OrderedDict[tuple[Path, int, str], list[Any]] = OrderedDict()
        self._rows: dict[str, tuple[Row, ...]] = {}

    @classmethod
    def open(cls, folder: str) -> "Artefact":
        """The artefact in a folder; several adapters of one process share what was read."""
        path = Path(folder).expanduser()
        return _opened(path, path.resolve())

    def rows(self, table: Table) -> tuple[Row, ...]:
        """All rows of a table in order, without their pictures."""
        if table.name not in self._rows:
            self._rows[table.name] = tuple(self.read(table))
        return self._rows[table.name]

    def read(self, table: Table) -> Iterator[Row]:
        """Yield the rows of a table; one that occurs twice is an error."""
        seen: dict[tuple[Any, ...], Place] = {}
        for split in table.splits:
            n = 0
            for path in self.files(table, split):
                for place, cells in _rows(path, table):
                    row = _as_row(place, split, cells, table)
                    key = _key(row, table)
                    if key in seen:
                        raise UserError(str(place), f"{key} stands in {seen[key]} already", _AGAIN)
                    seen[key] = place
                    n += 1
                    yield row
            said = self.provenance.rows.get(f"{table.name}/{split}")
            if n != said:
                raise UserError(
                    str(folder_of(self.folder, table)),
                    f"split {split} has {n} rows where provenance.json says {said}",
                    _AGAIN,
                )

    def files(self, table: Table, split: str) -> list[Path]:
        """The files of a split in order; one that is missing is an error."""
        folder = folder_of(self.folder, table)
        found = {}
        for path in sorted(folder.glob(f"{split}-*.parquet")):
            if not (match := FILE.fullmatch(path.name)):
                raise UserError(str(path), "is no name of a shard", "Remove the file.")
            found[int(match[2]), int(match[3])] = path
        total = max((of for _, of in found), default=1)
        wanted = [(shard, total) for shard in range(total)] if total <= len(found) + 1 else []
        for shard in wanted or [(0, total)]:
            if shard not in found:
                name = f"{split}-{shard[0]:05d}-of-{total:05d}.parquet"
                raise UserError(str(folder / name), "the file is missing", _AGAIN)
        if len(found) != len(wanted):
            raise UserError(
                str(folder), f"holds shards of two exports of {split}", "Use an empty folder."
            )
        return [found[shard] for shard in wanted]

    def picture(self, row: Row, column: str, sha256: str) -> Picture:
        """Read a picture of a row: decodable, and the one that its row names."""
        place = row.place
        cell = self._group(place, column)[place.row]
        data = cell.get("bytes") if isinstance(cell, dict) else None
        if not isinstance(data, bytes):
            raise UserError(str(place), f"holds no bytes under {column}", _AGAIN)
        if len(data) > MAX_PICTURE_BYTES:
            limit = MAX_PICTURE_BYTES >> 20
            raise UserError(str(place), f"{column} is larger than {limit} MiB", _AGAIN)
        picture = Picture(data)
        if not data.startswith(_PNG) or picture.sha256 != sha256:
            raise UserError(str(place), f"{column} is not the PNG file that it names", _AGAIN)
        try:
            _ = picture.pixels
        except codec.ImageError as error:
            raise UserError(str(place), f"{column} is unusable ({error})", _AGAIN) from None
        return picture

    def _group(self, place: Place, column: str) -> list[Any]:
        """One column of a row group; the last few stay, since rows are asked for in order."""
        key = (place.file, place.group, column)
        if key not in self._groups:
            self._groups[key] = _read_group(place.file, place.group, [column])[column]
            while len(self._groups) > _KEPT_GROUPS:
                self._groups.popitem(last=False)
        self._groups.move_to_end(key)
        return self._groups[key]


@lru_cache(maxsize=4)
def _opened(folder: Path, place: Path) -> Artefact:
    return Artefact(folder)


def _need_pyarrow() -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise UserError("EDCT-Bench", "needs pyarrow", 'Run `pip install -e ".[hf]"`.') from None


def _read_provenance(path: Path) -> Provenance:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_PROVENANCE_BYTES + 1)
    except OSError:
        raise UserError(
            str(path), "the file is missing", "Name the folder of an EDCT-Bench export."
        ) from None
    try:
        if len(data) > MAX_PROVENANCE_BYTES:
            raise ValueError("it is too large")
        given = json.loads(data)
        if isinstance(given, dict) and given.get("format") != FORMAT:
            raise ValueError(f"format {str(given.get('format'))[:20]!r} is not {FORMAT}")
        return Provenance.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (ValueError, RecursionError) as error:
        what = f"is no provenance of EDCT-Bench ({_flat(error)})"
    raise UserError(str(path), what, _AGAIN)


def _rows(path: Path, table: Table) -> Iterator[tuple[Place, dict[str, Any]]]:
    shapes = schema.columns(table)
    text = [name for name, of in shapes.items() if of != schema.IMAGE]
    optional = {name for name, info in table.record.model_fields.items() if not info.is_required()}
    with _parquet(path) as file:
        found = file.schema_arrow
        present = set(found.names)
        for name in shapes:
            if name not in present:
                if name in optional:  # written before the record had this field
                    continue
                raise UserError(str(path), f"lacks the column {name!r}", _AGAIN)
            if not schema.same_type(found.field(name).type, shapes[name]):
                kind = _flat(found.field(name).type)
                raise UserError(str(path), f"column {name!r} is {kind}", _AGAIN)
        groups = file.metadata.num_row_groups
    wanted = [name for name in text if name in present]
    number = 0
    for group in range(groups):
        columns = _read_group(path, group, wanted)
        for row, cells in enumerate(zip(*columns.values(), strict=True)):
            number += 1
            yield Place(path, group, row, number), dict(zip(columns, cells, strict=True))


def _read_group(path: Path, group: int, columns: list[str]) -> dict[str, list[Any]]:
    import pyarrow as pa

    with _parquet(path) as file:
        try:
            meta = file.metadata.row_group(group)
            size = sum(
                column.total_uncompressed_size
                for column in map(meta.column, range(meta.num_columns))
                if column.path_in_schema.split(".")[0] in columns
            )
            if size > MAX_GROUP_BYTES:
                limit = MAX_GROUP_BYTES >> 20
                raise UserError(str(path), f"row group {group} is over {limit} MiB", _AGAIN)
            read = file.read_row_group(group, columns=columns, use_threads=False)
            return {name: read.column(name).to_pylist() for name in columns}
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise UserError(
                str(path), f"row group {group} can't be read ({_flat(error)})", _AGAIN
            ) from None


def _parquet(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, page_checksum_verification=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(str(path), f"is no whole parquet file ({_flat(error)})", _AGAIN) from None


def _as_row(place: Place, split: str, cells: dict[str, Any], table: Table) -> Row:
    axes = {axis: cells.pop(axis) for axis in table.axes}
    extra = {name: cells.pop(name) for name in table.extra}
    try:
        record: Record = table.record.model_validate(cells)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "row"
        raise UserError(str(place), f"{field}: {_flat(first['msg'])}", _AGAIN) from None
    return Row(place, split, axes, record, extra)


def _key(row: Row, table: Table) -> tuple[Any, ...]:
    return (*row.axes.values(), *(getattr(row.record, name) for name in table.key))


def _flat(message: object) -> str:
    return " ".join(str(message).split())[:200]
