"""Files as they come: archives, streamed JSON, CSV and TSV, hostile images; memory stays small."""

import io
import json
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.benchmarks import archive, delimited, jsonstream, vlmevalkit
from stages.benchmarks.archive import (
    ImageStore,
    MissingImageError,
    Origin,
    open_data,
    raw_folder,
    safe_name,
)
from stages.benchmarks.delimited import Table
from stages.benchmarks.table import QuestionTable
from stages.imaging import codec
from stages.imaging.codec import ImageError
from stages.records.errors import UserError

ORIGIN = Origin("https://example.org", "CC0")
GOOD = codec.encode_png(np.full((4, 5, 3), 7, dtype=np.uint8))


def bomb_png(width: int = 20_000, height: int = 20_000) -> bytes:
    """A PNG of a few kilobytes that says it has 400 million pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes(1 << 20))
    signature = b"\x89PNG\r\n\x1a\n"
    return signature + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def own(folder: Path, *images: str, **values: object) -> QuestionTable:
    rows = [{"id": str(n), "question": "What?", "image": name} for n, name in enumerate(images)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "q.jsonl").write_text(text, encoding="utf-8")
    return QuestionTable(str(folder), "q.jsonl", "own", **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        bomb_png(),
        b"this is text\n" * 9,
        b"",
        GOOD[:-30],
        b"GIF89a",
        b"\xff\xd8\xff\xe0" + b"x" * 50,
    ],
    ids=["20000x20000", "text", "empty", "cut off", "gif head", "jpeg head"],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_hostile_images_are_skipped_counted_and_listed(
    tmp_path: Path, data: bytes, zipped: bool
) -> None:
    (tmp_path / "good.png").write_bytes(GOOD)
    if zipped:
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as opened:
            opened.writestr("deep/bad.jpg", data)
    else:
        (tmp_path / "bad.jpg").write_bytes(data)
    chosen = own(tmp_path, "bad.jpg", "good.png").select()
    assert [item.id for item in chosen.items] == ["own-1"]
    assert chosen.left_out == {"unusable_image": 1}
    (line,) = chosen.skipped
    assert line.startswith("q.jsonl:1: ")
    assert len(line) < 400


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_IMAGE_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("bad.jpg", bytes(200 << 20))
    (tmp_path / "good.png").write_bytes(GOOD)
    tracemalloc.start()
    chosen = own(tmp_path, "bad.jpg", "good.png").select()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "larger than 1 MiB" in chosen.skipped[0]
    assert peak < 30 << 20


def test_a_damaged_or_locked_member_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("bad.png", GOOD)
    content = path.read_bytes()
    spoiled = content.replace(GOOD[20:40], bytes(20), 1)
    assert spoiled != content
    path.write_bytes(spoiled)
    with pytest.raises(ImageError, match=r"bad\.png"):
        ImageStore(tmp_path, ORIGIN).read(["bad.png"], "q:1")
    locked = bytearray(content)
    for signature, flag in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.index(signature) + flag] |= 1
    path.write_bytes(bytes(locked))
    with pytest.raises(ImageError, match="encrypted"):
        ImageStore(tmp_path, ORIGIN).read(["bad.png"], "q:1")


def test_a_broken_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(UserError, match=r"a\.zip: is no whole zip archive"):
        ImageStore(tmp_path, ORIGIN).read(["x.png"], "q:1")
    with pytest.raises(UserError, match=r"a\.zip: is no whole zip archive"):
        open_data(tmp_path, "x.json", ORIGIN)


def test_a_folder_comes_before_an_archive_and_names_end_at_a_slash(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as opened:
        opened.writestr("deep/1.png", b"zipped")
        opened.writestr("11.png", b"other")
    store = ImageStore(tmp_path, ORIGIN)
    assert store.read(["1.png"], "q:1") == b"zipped"
    (tmp_path / "1.png").write_bytes(b"plain")
    assert store.read(["1.png"], "q:1") == b"plain"
    with pytest.raises(MissingImageError, match=r"q:1: its image other/11.png"):
        store.read(["other/11.png"], "q:1")


@given(st.text(max_size=30))
def test_no_name_leaves_its_folder(name: str) -> None:
    found = safe_name(name)
    if found is not None:
        joined = (Path("/raw") / found).resolve()
        assert joined != Path("/raw")
        assert joined.is_relative_to("/raw")


@pytest.mark.parametrize("name", ["", ".", "..", "/", "a/../../b", "\\\\host\\x", "C:/x", "a\nb"])
def test_unsafe_names(name: str) -> None:
    assert safe_name(name) is None
    assert safe_name("./a/b c.jpg") == "a/b c.jpg"


def test_raw_data_may_lie_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDCT_RAW", raising=False)
    assert raw_folder("data/raw/okvqa") == Path("data/raw/okvqa")
    monkeypatch.setenv("EDCT_RAW", "/big/disk")
    assert raw_folder("data/raw/okvqa") == Path("/big/disk/okvqa")
    assert raw_folder("elsewhere") == Path("elsewhere")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


@settings(max_examples=80, deadline=None)
@given(
    VALUES.filter(lambda value: isinstance(value, dict | list)), st.integers(1, 9), st.booleans()
)
def test_streaming_gives_what_json_gives(value: object, chunk: int, ascii_only: bool) -> None:
    data = b"\xef\xbb\xbf" + json.dumps(value, indent=1, ensure_ascii=ascii_only).encode()
    before, jsonstream.CHUNK = jsonstream.CHUNK, chunk
    try:
        found = list(jsonstream.entries(io.BytesIO(data), "x.json"))
    finally:
        jsonstream.CHUNK = before
    if isinstance(value, dict):
        assert found == list(value.items())
    else:
        assert [entry for _, entry in found] == value


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 60), st.integers(1, 20))
def test_a_file_cut_off_anywhere_is_an_error(cut: int, chunk: int) -> None:
    data = b'{"a": {"b": [1, 22, "x\\"y"]}, "c": 33, "d": "e"}'
    before, jsonstream.CHUNK = jsonstream.CHUNK, chunk
    try:
        with pytest.raises(UserError, match=r"x\.json: .*near character"):
            list(jsonstream.entries(io.BytesIO(data[: min(cut, len(data) - 1)]), "x.json"))
    finally:
        jsonstream.CHUNK = before


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b'["caf\xe9"]', "not UTF-8"),
        (b"[" * 200_000, "nested too deeply"),
        (b'[{"a": }]', "is no JSON|cut off or no JSON"),
        (b"[1,]", "no JSON"),
        (b"[1 2]", "a comma is expected after entry 1"),
    ],
)
def test_broken_json_is_named(data: bytes, match: str) -> None:
    with pytest.raises(UserError, match=match) as error:
        list(jsonstream.entries(io.BytesIO(data), "x.json"))
    assert "\n" not in str(error.value)


def test_a_fault_is_found_without_reading_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonstream, "CHUNK", 64)
    stream = io.BytesIO(b'{"a": {"b": 1, oops' + b" " * 1_000_000 + b"}}")
    with pytest.raises(UserError, match="is no JSON"):
        list(jsonstream.entries(stream, "x.json"))
    assert stream.tell() < 10_000


def test_one_endless_value_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonstream, "MAX_VALUE", 1 << 20)
    stream = io.BytesIO(b'{"a": "' + b"x" * (8 << 20))
    with pytest.raises(UserError, match="longer than 1 MiB"):
        list(jsonstream.entries(stream, "x.json"))


def test_streaming_holds_one_entry_at_a_time() -> None:
    entry = json.dumps({"QA": ["x" * 1000] * 100})
    data = b"{" + ",".join(f'"{n}": {entry}' for n in range(300)).encode() + b"}"
    stream = io.BytesIO(data)
    tracemalloc.start()
    assert sum(1 for _ in jsonstream.entries(stream, "x.json")) == 300
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(data) > 30_000_000
    assert peak < 8_000_000


def table(folder: Path, content: bytes, name: str = "t.tsv") -> Table:
    (folder / name).write_bytes(content)
    return Table(folder / name)


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_rows_and_their_places(tmp_path: Path, newline: bytes, mark: bytes) -> None:
    lines = [b"id\tq", "1\tcafé".encode(), b'2\t"two\nlines ""quoted"""', b"", b"3\tc"]
    found = table(tmp_path, mark + newline.join(lines))
    rows = list(found.rows())
    assert found.columns == ["id", "q"]
    assert [row.cells.get("q") for row in rows] == ["café", 'two\nlines "quoted"', "c"]
    assert [row.line for row in rows] == [2, 3, 6]
    assert [found.reread(row).cells for row in rows] == [row.cells for row in rows]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"2\tcaf\xe9", "not UTF-8"),
        (b"2", "has 1 cells where the header has 2"),
        (b"2\tb\tc", "has 3 cells"),
        (b'2\t"b" c', "can't be read"),
    ],
)
def test_a_broken_row_costs_no_other(tmp_path: Path, line: bytes, fault: str) -> None:
    rows = list(table(tmp_path, b"id\tq\n1\ta\n" + line + b"\n3\tc\n").rows())
    assert [row.cells.get("id") for row in rows] == ["1", None, "3"]
    assert fault in (rows[1].fault or "")
    assert rows[1].line == 3


def test_an_open_quote_is_reported_with_the_lines_it_swallows(tmp_path: Path) -> None:
    rows = list(table(tmp_path, b'id\tq\n1\ta\n2\t"b\n3\tc\n').rows())
    assert [row.cells.get("id") for row in rows] == ["1", None]
    assert "can't be read (to line 4)" in (rows[1].fault or "")


def test_an_endless_line_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "MAX_LINE", 1000)
    content = b"id\tq\n1\ta\n2\t" + b"x" * 5000 + b"\n3\tc\n"
    rows = list(table(tmp_path, content).rows())
    assert [row.cells.get("id") for row in rows] == ["1", None, "3"]
    assert rows[2].offset == content.index(b"3\tc")


@pytest.mark.parametrize("content", [b"", b"a,a\n1,2\n", b"\xff\xfea\x00,\x00"])
def test_a_table_without_a_header_is_named(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UserError, match=r"t\.csv:1"):
        table(tmp_path, content, "t.csv")


def test_a_large_table_is_not_held(tmp_path: Path) -> None:
    with (tmp_path / "t.tsv").open("wb") as file:
        file.write(b"index\tquestion\timage\n")
        for number in range(150):
            file.write(b"%d\tWhat?\t" % number + b"A" * 200_000 + b"\n")
    found = Table(tmp_path / "t.tsv")
    tracemalloc.start()
    rows = [line for line in vlmevalkit.lines(found, "image") if not isinstance(line, tuple)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(rows) == 150
    assert peak < 6_000_000
    assert found.reread(rows[149].row).cells["index"] == "149"


def test_a_zipped_data_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_DATA_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("x.json", bytes(2 << 20))
    with pytest.raises(UserError, match="larger than 1 MiB"):
        open_data(tmp_path, "x.json", ORIGIN)
