"""Broken and hostile artefacts: one line that names the file, whoever reads them first."""

import hashlib
import io
import json
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from stages.exchange import replay
from stages.models.artefact import reading
from stages.models.segmenter.bench import BenchSegmenter
from stages.records.errors import UserError

Rows = list[dict[str, Any]]


def a_copy(exported: Path, tmp_path: Path) -> Path:
    shutil.copytree(exported, tmp_path / "bench")
    return tmp_path / "bench"


def shard(folder: Path, table: str, split: str = "test") -> Path:
    return next((folder / "data" / table).glob(f"{split}-*"))


def rewrite(path: Path, change: Callable[[Rows], Rows]) -> None:
    found = pq.read_table(path)
    pq.write_table(pa.Table.from_pylist(change(found.to_pylist()), schema=found.schema), path)


def reshape(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def first(**values: Any) -> Callable[[Rows], Rows]:
    return lambda rows: [{**rows[0], **values}, *rows[1:]]


def fault(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        replay.check(folder)
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 700
    return line


def picture(data: bytes, table_hash: str) -> Callable[[Rows], Rows]:
    """The first row shows this file, and names it rightly."""
    sha = hashlib.sha256(data).hexdigest()
    return first(picture={"bytes": data, "path": "x.png"}, **{table_hash: sha})


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def huge_png(side: int = 20_000) -> bytes:
    """A file of a few kilobytes that claims four hundred million pixels."""
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def jpeg() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.zeros((480, 640, 3), np.uint8)).save(file, "JPEG")
    return file.getvalue()


def test_an_untouched_artefact_is_whole(exported: Path) -> None:
    replay.check(exported)


def test_what_datasets_or_polars_wrote_again_is_still_read(exported: Path, tmp_path: Path) -> None:
    folder = a_copy(exported, tmp_path)
    wide = {"string": pa.large_string()}
    for table in ("answers", "verdicts"):
        reshape(
            shard(folder, table),
            lambda t: t.cast(
                pa.schema([f.with_type(wide.get(str(f.type), f.type)) for f in t.schema])
            ),
        )
    replay.check(folder)


SAMPLES: list[tuple[str, Callable[[Rows], Rows], str]] = [
    ("a duplicate id", lambda rows: [*rows[:-1], rows[0]], "already"),
    ("no bytes", first(picture={"bytes": None, "path": "../../etc/passwd"}), "no bytes"),
    ("null picture", first(picture=None), "no bytes"),
    ("other bytes", first(picture={"bytes": huge_png(), "path": None}), "not the PNG file"),
    ("a JPEG", picture(jpeg(), "image"), "not the PNG file"),
    ("text", picture(b"hello", "image"), "not the PNG file"),
    ("a huge image", picture(huge_png(), "image"), "more than the 64000000 allowed"),
    ("a cut PNG", picture(huge_png(64)[:60], "image"), "unusable"),
    ("another size", first(width=7), "another size"),
    ("wrong pixels", first(pixels="0" * 64), "pixels is not that of the picture"),
    ("a null id", first(id=None), "id: Input should be a valid string"),
    ("a missing row", lambda rows: rows[1:], "5 rows where provenance.json says 6"),
]


@pytest.mark.parametrize(("change", "said"), [s[1:] for s in SAMPLES], ids=[s[0] for s in SAMPLES])
def test_samples(exported: Path, tmp_path: Path, change: Callable[[Rows], Rows], said: str) -> None:
    folder = a_copy(exported, tmp_path)
    rewrite(shard(folder, "samples"), change)
    line = fault(folder)
    assert said in line
    assert "samples" in line


def with_r_in(value: float | None) -> Callable[[Rows], Rows]:
    return lambda rows: [
        {**rows[0], "measurement": {**rows[0]["measurement"], "r_in": value}},
        *rows[1:],
    ]


EDITS: list[tuple[str, Callable[[Rows], Rows], str]] = [
    ("NaN", with_r_in(float("nan")), "r_in: Input should be a finite number"),
    ("no sample", first(sample_id="nobody"), "there is no sample 'nobody'"),
    ("a strange type of edit", first(edit_type="paint"), "edit_type"),
    ("a rejected one among them", first(status="refused"), "is refused in accepted"),
    ("no such cell", first(editor="../../x"), "the editor '../../x' is in no cell"),
    ("no mask", first(mask=None), "accepted without all pictures"),
    ("an unknown source", first(source="0" * 64), "names the image 000000000000…"),
]


@pytest.mark.parametrize(("change", "said"), [e[1:] for e in EDITS], ids=[e[0] for e in EDITS])
def test_edits(exported: Path, tmp_path: Path, change: Callable[[Rows], Rows], said: str) -> None:
    folder = a_copy(exported, tmp_path)
    rewrite(shard(folder, "edits", "accepted"), change)
    line = fault(folder)
    assert said in line
    assert "accepted-00000-of-00001.parquet: row 1" in line


def test_a_verdict_on_nothing(exported: Path, tmp_path: Path) -> None:
    folder = a_copy(exported, tmp_path)
    rewrite(shard(folder, "verdicts"), first(position=9))
    assert "judges an edit that is not there" in fault(folder)


def test_columns(exported: Path, tmp_path: Path) -> None:
    folder = a_copy(exported, tmp_path)
    path = shard(folder, "answers")
    reshape(path, lambda table: table.drop_columns(["image"]))
    assert "lacks the column 'image'" in fault(folder)
    shutil.copy(shard(exported, "answers"), path)
    reshape(path, lambda table: table.set_column(0, "target", pa.array(range(table.num_rows))))
    assert "column 'target' is int64" in fault(folder)
    shutil.copy(shard(exported, "answers"), path)
    # A field that records got later has its default in what was written before.
    reshape(path, lambda table: table.drop_columns(["thinking"]))
    replay.check(folder)


@pytest.mark.parametrize("kept", [0, 3, 200, -9, -2000])
def test_a_file_that_is_cut_off(exported: Path, tmp_path: Path, kept: int) -> None:
    folder = a_copy(exported, tmp_path)
    path = shard(folder, "edits", "accepted")
    path.write_bytes(path.read_bytes()[:kept])
    assert "accepted-00000-of-00001.parquet: is no whole parquet file" in fault(folder)


def test_flipped_bytes_are_found_wherever_they_are(exported: Path, tmp_path: Path) -> None:
    folder = a_copy(exported, tmp_path)
    path = shard(folder, "samples")
    data = path.read_bytes()
    footer = struct.unpack("<I", data[-8:-4])[0]
    for at in np.linspace(8, len(data) - footer - 16, 12).astype(int):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        assert "samples" in fault(folder), f"byte {at} of {len(data)} was flipped"


def test_shards(exported: Path, tmp_path: Path) -> None:
    folder = a_copy(exported, tmp_path)
    path = shard(folder, "concepts")
    path.rename(path.with_name("test-00001-of-00002.parquet"))
    assert "test-00000-of-00002.parquet: the file is missing" in fault(folder)
    path.with_name("test-00001-of-00002.parquet").rename(path)
    shutil.copy(path, path.with_name("test-00000-of-00002.parquet"))
    shutil.copy(path, path.with_name("test-00001-of-00002.parquet"))
    assert "shards of two exports" in fault(folder)
    shutil.copy(path, path.with_name("test-99999-of-99999.parquet"))
    assert "the file is missing" in fault(folder)
    path.with_name("test-99999-of-99999.parquet").rename(path.with_name("test-x.parquet"))
    assert "no name of a shard" in fault(folder)
    shutil.rmtree(folder / "data")
    assert "samples/test-00000-of-00001.parquet: the file is missing" in fault(folder)


def test_bounds(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_PICTURE_BYTES", 1 << 19)
    assert "picture is larger than 0 MiB" in fault(exported)
    monkeypatch.setattr(reading, "MAX_GROUP_BYTES", 1 << 20)
    assert "row group 0 is over 1 MiB" in fault(exported)


PROVENANCE: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    ("a later format", lambda made: {**made, "format": 2}, "format '2' is not 1"),
    ("a list", lambda made: [made], "Input should be"),
    ("no cells", lambda made: {**made, "cells": []}, "cells: "),
    (
        "a name that leaves its folder",
        lambda made: {**made, "cells": [{**made["cells"][0], "target": "../../etc"}]},
        "cells.0.target: String should match",
    ),
    ("a further key", lambda made: {**made, "run": "rm -rf /"}, "run: Extra inputs"),
    ("other tables", lambda made: {**made, "rows": {}}, "counts other tables"),
]


@pytest.mark.parametrize(
    ("change", "said"), [p[1:] for p in PROVENANCE], ids=[p[0] for p in PROVENANCE]
)
def test_provenance(
    exported: Path, tmp_path: Path, change: Callable[[dict[str, Any]], Any], said: str
) -> None:
    folder = a_copy(exported, tmp_path)
    path = folder / "provenance.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    line = fault(folder)
    assert said in line
    assert "provenance.json" in line


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"format": NaN}', "\x00"])
def test_provenance_that_is_no_json(exported: Path, tmp_path: Path, text: str) -> None:
    folder = a_copy(exported, tmp_path)
    (folder / "provenance.json").write_text(text)
    assert "provenance.json" in fault(folder)


@pytest.mark.parametrize(
    ("section", "value", "said"),
    [
        ("chain", {"k": 10**9, "max_attempts": 2, "on_rejection": "stop"}, "chain.k"),
        ("chain", {"k": 2, "max_attempts": 2, "on_rejection": "${oc.env:HOME}"}, "on_rejection"),
        ("verify", {"tau_in": 2, "tau_out": 0.3}, "verify"),
        ("verify", None, "verify the section is missing"),
        ("score", None, "score"),
    ],
)
def test_parameters_are_checked_before_they_are_written_into_a_study(
    exported: Path,
    tmp_path: Path,
    section: str,
    value: Any,
    said: str,
) -> None:
    folder = a_copy(exported, tmp_path)
    path = folder / "provenance.json"
    made = json.loads(path.read_text())
    made["params"][section] = value
    path.write_text(json.dumps(made))
    shutil.copytree(exported / "prompts", tmp_path / "prompts" / "default")
    with pytest.raises(UserError, match=r"provenance\.json") as caught:
        replay.write_study(tmp_path, folder, "again")
    assert said in str(caught.value)
    assert not (tmp_path / "conf").exists()


def test_classes_and_keys_of_a_stranger_are_never_taken_over(
    exported: Path, tmp_path: Path
) -> None:
    folder = a_copy(exported, tmp_path)
    path = folder / "provenance.json"
    made = json.loads(path.read_text())
    made["params"]["targets"] = {"demo_mixture": {"_target_": "os.system", "command": "x"}}
    made["params"]["detector"] = {"_target_": "os.system"}
    path.write_text(json.dumps(made))
    shutil.copytree(exported / "prompts", tmp_path / "prompts" / "default")
    text = replay.write_study(tmp_path, folder, "again").read_text()
    assert "os.system" not in text
    assert text.count("_target_: stages.models.") == text.count("_target_") == 4


def test_a_mask_needs_the_radius_that_it_was_dilated_by(exported: Path, tmp_path: Path) -> None:
    folder = a_copy(exported, tmp_path)
    path = folder / "provenance.json"
    for share in (None, "0.01", 7, True):
        made = json.loads(path.read_text())
        made["params"]["verify"]["dilation_share"] = share
        path.write_text(json.dumps(made))
        reading._opened.cache_clear()
        with pytest.raises(UserError, match="dilation_share is no share"):
            BenchSegmenter(str(folder))
