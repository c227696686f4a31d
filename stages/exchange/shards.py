"""Writing tables as parquet: row group by row group, equal rows to equal bytes.

Nothing of the clock or the machine gets into a file. Row groups and shards are cut by what is in
them. Pictures are PNG files, which no codec makes smaller, and row groups of 8 MiB keep a reader
that wants one picture from reading hundreds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stages.models.artefact import schema
from stages.models.artefact.layout import Table, folder_of

GROUP_ROWS = 256
GROUP_BYTES = 8 << 20
SHARD_BYTES = 512 << 20


@dataclass
class Shards:
    """The files of one split, written in order."""

    root: Path
    table: Table
    split: str
    rows: int = 0
    """Rows written."""
    memory: int = 0
    """Bytes of all rows as Arrow holds them: ``num_bytes`` of a data card."""
    _waiting: list[Mapping[str, Any]] = field(default_factory=list)
    _waiting_bytes: int = 0
    _shard_bytes: int = 0
    _paths: list[Path] = field(default_factory=list)
    _writer: Any = None

    def add(self, row: Mapping[str, Any], pictures: Mapping[str, tuple[str, bytes] | None]) -> None:
        """Write a row; a picture is its SHA-256 and its bytes."""
        shown = {
            name: None if given is None else {"bytes": given[1], "path": f"{given[0]}.png"}
            for name, given in pictures.items()
        }
        self._waiting.append({**row, **shown})
        self._waiting_bytes += sum(len(given[1]) for given in pictures.values() if given)
        if len(self._waiting) >= GROUP_ROWS or self._waiting_bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> int:
        """Finish the files and give them their names; returns their size in bytes."""
        self._flush()
        if not self._paths:
            self._open()
        self._finish()
        total, size = len(self._paths), 0
        for number, path in enumerate(self._paths):
            size += path.stat().st_size
            path.rename(path.with_name(f"{self.split}-{number:05d}-of-{total:05d}.parquet"))
        return size

    def _flush(self) -> None:
        import pyarrow as pa

        if not self._waiting:
            return
        group = pa.Table.from_pylist(self._waiting, schema=schema.arrow_schema(self.table))
        if self._writer is None:
            self._open()
        self._writer.write_table(group, row_group_size=len(self._waiting))
        self.rows += len(self._waiting)
        self.memory += group.nbytes
        self._shard_bytes += self._waiting_bytes
        self._waiting, self._waiting_bytes = [], 0
        if self._shard_bytes >= SHARD_BYTES:
            self._finish()

    def _open(self) -> None:
        import pyarrow.parquet as pq

        folder = folder_of(self.root, self.table)
        folder.mkdir(parents=True, exist_ok=True)
        self._paths.append(folder / f"{self.split}-{len(self._paths):05d}.parquet")
        shapes = schema.columns(self.table)
        self._writer = pq.ParquetWriter(
            self._paths[-1],
            schema.arrow_schema(self.table),
            version="2.6",
            compression="zstd",
            compression_level=3,
            use_dictionary=[name for name, of in shapes.items() if of == "string"],
            write_statistics=False,
            write_page_checksum=True,
            store_schema=True,
        )

    def _finish(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer, self._shard_bytes = None, 0
