"""Users' own data: JSONL, CSV, VLMEvalKit's TSV, Hugging Face on disk; and the YAML files."""

import base64
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from stages.benchmarks.hf import HuggingFace
from stages.benchmarks.protocol import Benchmark
from stages.benchmarks.table import QuestionTable
from stages.benchmarks.vlmevalkit import VLMEvalKit
from stages.imaging import codec
from stages.records.errors import UserError
from stages.workflow import adapters

CONF = Path(__file__).parents[2] / "conf/benchmark"


def png(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return codec.encode_png(pixels)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    (tmp_path / "img").mkdir()
    for number in range(4):
        (tmp_path / f"img/{number}.png").write_bytes(png(number))
    return tmp_path


ROWS: list[dict[str, Any]] = [
    {"id": "a", "question": "What is it?", "image": "img/0.png", "reference": "A dog."},
    {"id": 2, "question": "Which?", "image": "img/1.png", "A": "cat", "B": "cow", "reference": "B"},
    {"id": "c", "question": "Où?", "image": "img/2.png", "category": "k", "group": "g"},
]


def save_jsonl(folder: Path, rows: list[dict[str, Any]]) -> str:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / "q.jsonl").write_text(text, encoding="utf-8")
    return "q.jsonl"


def save_csv(folder: Path, rows: list[dict[str, Any]]) -> str:
    columns = ["id", "question", "image", "reference", "category", "group", "A", "B"]
    with (folder / "q.csv").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    return "q.csv"


@pytest.mark.parametrize("save", [save_jsonl, save_csv])
def test_a_table_gives_its_rows(raw: Path, save) -> None:
    loader = QuestionTable(str(raw), save(raw, ROWS), "own", system_prompt="Look.")
    found = {item.id: item for item in loader.select().items}
    assert set(found) == {"own-a", "own-2", "own-c"}
    assert found["own-a"].reference == "A dog."
    assert found["own-2"].question == "Which?\nOptions:\nA. cat\nB. cow"
    assert found["own-2"].reference == "B. cow"
    assert (found["own-c"].question, found["own-c"].group) == ("Où?", "g")
    assert found["own-c"].reference is None
    assert found["own-a"].system_prompt == "Look."
    assert found["own-2"].picture().png == png(1)


def test_columns_may_have_other_names(raw: Path) -> None:
    rows = [{"qid": "a", "text": "What?", "file": "0.png", "answer": "dog"}]
    columns = {"id": "qid", "question": "text", "image": "file", "reference": "answer"}
    for file in (save_jsonl(raw, rows),):
        loader = QuestionTable(str(raw), file, "own", images=str(raw / "img"), columns=columns)
        (item,) = loader.select().items
        assert (item.id, item.question, item.reference) == ("own-a", "What?", "dog")
    with pytest.raises(ValueError, match="'answer' is none of"):
        QuestionTable(str(raw), "q.jsonl", "own", columns={"answer": "x"})


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b'{"id": "b", "question": "cut', "is no JSON"),
        (b"[1]", "is list, not an object"),
        (b'{"id": "b", "question": "caf\xe9", "image": "img/1.png"}', "not UTF-8"),
        (b'{"id": "b", "question": "?", "image": "../x.png"}', "leaves the data folder"),
        (b'{"id": "b", "question": NaN, "image": "img/1.png"}', "question is empty"),
        (b'{"id": "b", "question": {}, "image": "img/1.png"}', "question is dict"),
        (b'{"id": 1.5, "question": "?", "image": "img/1.png"}', "id is float"),
        (b'{"question": "?", "image": "img/1.png"}', "id is empty"),
        (b'{"id": "b", "question": "\\ud800", "image": "img/1.png"}', "damaged"),
        (b'{"id": "b", "question": "?", "image": "x.png", "A": "x", "reference": "C"}', "no opt"),
        (b'{"id": "b", "question": "' + b"x" * 5_000_000 + b'"}', "longer than 4 MiB"),
        (b'{"id": "b", "question": ' + b"[" * 100_000, "is no JSON"),
        (b'{"id": "a", "question": "?", "image": "img/1.png"}', "occurs before"),
    ],
)  # fmt: skip
def test_broken_lines_are_skipped_counted_and_listed(raw: Path, line: bytes, fault: str) -> None:
    good = json.dumps(ROWS[0]).encode()
    (raw / "q.jsonl").write_bytes(good + b"\n" + line + b"\n")
    chosen = QuestionTable(str(raw), "q.jsonl", "own").select()
    assert [item.id for item in chosen.items] == ["own-a"]
    assert sum(chosen.left_out.values()) == 1
    (listed,) = chosen.skipped
    assert listed.startswith("q.jsonl:2: ")
    assert fault in listed
    assert len(listed) < 400


def test_absent_tables_and_columns_are_named(raw: Path) -> None:
    with pytest.raises(UserError, match=r"q\.jsonl: the file is missing"):
        QuestionTable(str(raw), "q.jsonl", "own").select()
    (raw / "q.csv").write_text("id,question\n1,?\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"q\.csv:1: has no column 'image'"):
        QuestionTable(str(raw), "q.csv", "own").select()
    (raw / "q.jsonl").write_text("\n\n", encoding="utf-8")
    with pytest.raises(UserError, match="0 samples can be chosen"):
        QuestionTable(str(raw), "q.jsonl", "own").select()


def save_tsv(folder: Path, rows: list[dict[str, Any]]) -> VLMEvalKit:
    columns = ["index", "question", "hint", "A", "B", "C", "answer", "category", "image"]
    with (folder / "t.tsv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
    return VLMEvalKit(str(folder), "t.tsv", "mmb", images_once=False)


def test_vlmevalkit_rows_may_share_an_image(raw: Path) -> None:
    image = base64.b64encode(png(3)).decode()
    plain = {"question": "Which?", "A": "cat", "B": "cow", "C": "nan", "answer": "A"}
    loader = save_tsv(
        raw,
        [
            {"index": 5, **plain, "image": image, "hint": "Look left."},
            {"index": 6, **plain, "image": "5", "category": "k"},
            {"index": 7, **plain, "image": "99"},
            {"index": 8, **plain, "image": f"data:image/png;base64,{image}"},
            {"index": 9, "question": "Open?", "answer": "a dog", "image": image},
        ],
    )
    chosen = loader.select()
    found = {item.id: item for item in chosen.items}
    assert set(found) == {"mmb-5", "mmb-6", "mmb-8", "mmb-9"}
    assert found["mmb-5"].question == "Look left.\nWhich?\nOptions:\nA. cat\nB. cow"
    assert found["mmb-6"].question == "Which?\nOptions:\nA. cat\nB. cow"
    assert found["mmb-6"].picture().png == found["mmb-8"].picture().png == png(3)
    assert found["mmb-9"].reference == "a dog"
    assert chosen.left_out == {"unusable_row": 1}
    assert chosen.skipped[0].startswith("t.tsv:4: ")


def hf_rows() -> list[dict[str, Any]]:
    return [
        {
            "qid": f"r{n}",
            "question": f"What is it, {n}?",
            "image": {"bytes": png(n), "path": f"{n}.png"},
            "answer": "A dog.",
        }
        for n in range(150)
    ]


def test_hub_parquet_is_read(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    (tmp_path / "data").mkdir()
    rows = hf_rows()
    for part, piece in enumerate((rows[:100], rows[100:])):
        path = tmp_path / f"data/test-{part:05d}-of-00002.parquet"
        pq.write_table(pa.Table.from_pylist(piece), path, row_group_size=30)
    pq.write_table(pa.Table.from_pylist(rows[:1]), tmp_path / "data/train-00000-of-00001.parquet")
    columns = {"id": "qid", "reference": "answer"}
    loader = HuggingFace(str(tmp_path), "mine", split="test", columns=columns)
    found = {item.id: item for item in loader.select().items}
    assert len(found) == 150
    for number in (0, 29, 64, 99, 100, 149):
        assert found[f"mine-r{number}"].question == f"What is it, {number}?"
        assert found[f"mine-r{number}"].picture().png == png(number)
    with pytest.raises(UserError, match="split 'validation'"):
        HuggingFace(str(tmp_path), "mine", split="validation").select()


@pytest.mark.parametrize("stream", [True, False])
def test_saved_arrow_is_read(tmp_path: Path, stream: bool) -> None:
    pa = pytest.importorskip("pyarrow")
    (tmp_path / "test").mkdir()
    data = pa.Table.from_pylist(hf_rows())
    path = tmp_path / "test/data-00000-of-00001.arrow"
    opened = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as sink, opened(sink, data.schema) as writer:
        writer.write_table(data, max_chunksize=40)
    loader = HuggingFace(str(tmp_path), "mine", split="test", columns={"id": "qid"})
    found = {item.id: item for item in loader.select().items}
    assert len(found) == 150
    assert found["mine-r85"].picture().png == png(85)


def test_rows_without_ids_get_them_from_what_they_hold(raw: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rows = [
        {"question": "Which?", "image": "img/1.png", "choices": ["cat", "cow"], "answer": "cow"},
        {"question": "Where?", "image": "../1.png", "choices": [], "answer": None},
    ]
    pq.write_table(pa.Table.from_pylist(rows), raw / "x.parquet")
    loader = HuggingFace(str(raw), "mine", columns={"reference": "answer"})
    chosen = loader.select()
    (item,) = chosen.items
    assert item.id.startswith("mine-")
    assert item.question.endswith("A. cat\nB. cow")
    assert item.reference == "B. cow"
    assert item.picture().png == png(1)
    assert "leaves the data folder" in chosen.skipped[0]


def test_broken_parquet_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "x.parquet").write_bytes(b"PAR1 cut off")
    with pytest.raises(UserError, match=r"x\.parquet: row 0: can't be read") as error:
        HuggingFace(str(tmp_path), "mine").select()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("okvqa", 160),
        ("drivelm", 80),
        ("threedsrbench", 60),
        ("own_table", None),
        ("own_vlmevalkit", None),
        ("own_hf", None),
    ],
)
def test_yaml_files_make_benchmarks(
    name: str, count: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "own_hf":
        pytest.importorskip("pyarrow")
    text = (CONF / f"{name}.yaml").read_text(encoding="utf-8")
    assert text.startswith(f"# @package benchmarks.{name}\n")
    values = yaml.safe_load(text)
    assert values["count"] == count
    monkeypatch.chdir(tmp_path)
    made = adapters.build({"benchmarks": {name: values}}, f"benchmarks.{name}", Benchmark)
    with pytest.raises(UserError):
        made.select()
