"""3DSRBench: its four forms, empty options, flipped and circular rows."""

import base64
import csv
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from stages.benchmarks.threedsrbench import ThreeDSRBench, image_names, name_of
from stages.imaging import codec
from stages.records.errors import UserError

SAMPLES = Path(os.environ.get("EDCT_SAMPLES") or Path(__file__).parents[3] / "shared/samples")
URL = "http://images.cocodataset.org/train2017/{:012d}.jpg"


def pixels(seed: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)


def row(qid: str, photo: int = 1, **values: object) -> dict:
    fields = {
        "index": qid,
        "question": "Which side faces the camera?",
        "A": "front",
        "B": "left",
        "C": None,
        "D": None,
        "answer": "B",
        "category": "orientation_viewpoint",
        "image_source": "MS-COCO",
        "image_url": URL.format(photo),
    }
    return {**fields, **values}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    (tmp_path / "train2017").mkdir()
    for number in range(1, 5):
        path = tmp_path / f"train2017/{number:012d}.jpg"
        path.write_bytes(codec.encode_png(pixels(number)))
    return tmp_path


def load(folder: Path, file: str, **values: object) -> ThreeDSRBench:
    plain = {"folder": str(folder), "images": str(folder), "file": file, "count": None}
    return ThreeDSRBench(**{**plain, **values})


def jsonl(folder: Path, *rows: dict, **values: object) -> ThreeDSRBench:
    text = "".join(json.dumps(one) + "\n" for one in rows)
    (folder / "b.jsonl").write_text(text, encoding="utf-8")
    return load(folder, "b.jsonl", **values)


def tsv(folder: Path, *rows: dict, **values: object) -> ThreeDSRBench:
    """VLMEvalKit's form: ``qid`` for the id, a running index, and the image in the row."""
    columns = ["index", "qid", "question", "A", "B", "C", "D", "answer", "category", "image"]
    with (folder / "b.tsv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, delimiter="\t", extrasaction="ignore")
        writer.writeheader()
        for number, one in enumerate(rows):
            shown = pixels(one.get("seed", 1))
            if "-flip" in one["index"]:
                shown = np.ascontiguousarray(shown[:, ::-1])
            image = one.get("image", base64.b64encode(codec.encode_png(shown)).decode())
            writer.writerow({**one, "qid": one["index"], "index": number, "image": image})
    return load(folder, "b.tsv", **values)


@pytest.mark.parametrize("write", [jsonl, tsv])
def test_options_stand_in_the_question_and_empty_ones_do_not(raw: Path, write) -> None:
    odd = [row("AAAAAAAA"), row("BBBBBBBB", 2, seed=2, C="nan", D="")]
    chosen = write(raw, *odd).select()
    assert len(chosen.items) == 2
    for item in chosen.items:
        assert item.question == "Which side faces the camera?\nOptions:\nA. front\nB. left"
        assert item.reference == "B. left"
        assert item.group == "orientation_viewpoint"


@pytest.mark.parametrize(
    ("qid", "name"),
    [
        ("VIN6MS3J", ("VIN6MS3J", False, False)),
        ("VIN6MS3J-1", ("VIN6MS3J", False, True)),
        ("VIN6MS3J-flip", ("VIN6MS3J", True, False)),
        ("VIN6MS3J-flip-3", ("VIN6MS3J", True, True)),
    ],
)
def test_ids_tell_variants(qid: str, name: tuple) -> None:
    assert name_of({"qid": qid}) == name
    assert name_of({"index": qid}) == name
    assert name_of({"index": 7, "qid": qid}) == name


@pytest.mark.parametrize("write", [jsonl, tsv])
def test_circular_and_flipped_rows_are_left_out(raw: Path, write) -> None:
    names = ("AAAAAAAA", "AAAAAAAA-1", "AAAAAAAA-flip", "AAAAAAAA-flip-1")
    chosen = write(raw, *(row(name) for name in names)).select()
    assert [item.id for item in chosen.items] == ["3dsrbench-AAAAAAAA"]
    assert chosen.left_out == {"flipped_row": 1, "options_in_another_order": 2}


@pytest.mark.parametrize("write", [jsonl, tsv])
@pytest.mark.parametrize("seed", range(6))
def test_of_flipped_twins_one_stays_and_its_picture_is_the_mirrored_one(
    raw: Path, write, seed: int
) -> None:
    rows = (row("AAAAAAAA-flip", answer="A"), row("AAAAAAAA"))
    chosen = write(raw, *rows, flipped=True, seed=seed).select()
    (item,) = chosen.items
    assert chosen.left_out == {"twin_of_a_better_one": 1}
    expected = pixels(1)[:, ::-1] if item.id.endswith("-flip") else pixels(1)
    assert np.array_equal(item.picture().pixels, expected)


def test_both_twins_come_up(raw: Path) -> None:
    rows = (row("AAAAAAAA-flip", answer="A"), row("AAAAAAAA"))
    ids = {jsonl(raw, *rows, flipped=True, seed=s).select().items[0].id for s in range(12)}
    assert ids == {"3dsrbench-AAAAAAAA", "3dsrbench-AAAAAAAA-flip"}


@pytest.mark.parametrize("write", [jsonl, tsv])
def test_a_mirrored_photograph_is_not_used_beside_itself(raw: Path, write) -> None:
    """Another question about the photograph of a flipped row: one image, not two."""
    rows = [row("AAAAAAAA"), row("AAAAAAAA-flip"), row("BBBBBBBB")]
    for seed in range(5):
        chosen = write(raw, *rows, flipped=True, seed=seed).select()
        assert len(chosen.items) == 1


def test_other_categories_are_left_out(raw: Path) -> None:
    rows = [row("AAAAAAAA"), row("BBBBBBBB", 2, category="height_higher")]
    chosen = jsonl(raw, *rows).select()
    assert [item.id for item in chosen.items] == ["3dsrbench-AAAAAAAA"]
    assert chosen.left_out == {"other_category": 1}
    assert len(jsonl(raw, *rows, categories=["height_higher"]).select().items) == 1


@pytest.mark.parametrize(
    "broken",
    [
        {"answer": "C"},
        {"answer": None},
        {"question": ""},
        {"category": 5},
        {"A": None, "B": None},
        {"image_url": "http://images.cocodataset.org/../../etc/passwd.jpg"},
        {"image_url": "http://images.cocodataset.org/"},
        {"image_url": None},
        {"index": ""},
        {"index": "x" * 300},
        {"question": "x" * 30_000},
    ],
)
def test_broken_rows_are_skipped_counted_and_listed(raw: Path, broken: dict) -> None:
    chosen = jsonl(raw, row("AAAAAAAA"), row("BBBBBBBB", 2, **broken)).select()
    assert [item.id for item in chosen.items] == ["3dsrbench-AAAAAAAA"]
    assert chosen.left_out == {"unusable_row": 1}
    assert chosen.skipped[0].startswith("b.jsonl:2: ")


@pytest.mark.parametrize(
    "image",
    ["!!!no base64!!!" * 10, base64.b64encode(b"plain text " * 20).decode(), "['a', 'b']" * 9],
    ids=["no base64", "text", "list"],
)
def test_an_unusable_embedded_image_is_listed(raw: Path, image: str) -> None:
    chosen = tsv(raw, row("AAAAAAAA"), row("BBBBBBBB", image=image)).select()
    assert [item.id for item in chosen.items] == ["3dsrbench-AAAAAAAA"]
    assert chosen.left_out == {"unusable_image": 1}
    assert chosen.skipped[0].startswith("b.tsv:3: ")
    assert len(chosen.skipped[0]) < 400


def test_coco_zip_is_read_without_unpacking(raw: Path) -> None:
    path = raw / "train2017/000000000001.jpg"
    with zipfile.ZipFile(raw / "coco_images.zip", "w") as archive:
        archive.write(path, "coco_images/000000000001.jpg")
    path.unlink()
    (item,) = jsonl(raw, row("AAAAAAAA")).select().items
    assert np.array_equal(item.picture().pixels, pixels(1))


def test_parquet_gives_what_jsonl_gives(raw: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rows = [row(f"AAAAAA{n:02d}", n % 4 + 1) for n in range(20)]
    pq.write_table(pa.Table.from_pylist(rows), raw / "b.parquet", row_group_size=7)
    read, expected = load(raw, "b.parquet").select(), jsonl(raw, *rows).select()
    assert [item.id for item in read.items] == [item.id for item in expected.items]
    assert read.items[0].question == expected.items[0].question
    assert read.items[0].picture() == expected.items[0].picture()


def raw_csv(folder: Path, *rows: dict) -> ThreeDSRBench:
    columns = ["qid", "image", "qtype", "relation", "subject", "object1", "object2", "answer"]
    with (folder / "3dsrbench_v1.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows({"image": URL.format(1), "object2": "nan", **one} for one in rows)
    return load(folder, "3dsrbench_v1.csv", images_once=False)


def test_the_raw_csv_is_put_into_words(raw: Path) -> None:
    view = {"qtype": "orientation", "relation": "viewpoint", "subject": "cat", "object1": ""}
    facing = {"qtype": "multi_object", "relation": "facing", "subject": "cat"}
    same = {"qtype": "multi_object", "relation": "same direction", "subject": "cat"}
    chosen = raw_csv(
        raw,
        {"qid": "A", **view, "answer": "left"},
        {"qid": "B", **facing, "object1": "dog", "object2": "bus", "answer": "bus"},
        {"qid": "C", **same, "object1": "dog", "answer": "Yes"},
        {"qid": "D", "qtype": "height", "relation": "higher", "subject": "cat", "answer": "cat"},
        {"qid": "E", **view, "answer": "above"},
        {"qid": "F", **same, "object1": "nan", "answer": "yes"},
    ).select()
    found = {item.id[-1]: item for item in chosen.items}
    assert sorted(found) == ["A", "B", "C"]
    assert found["A"].reference == "B. left"
    assert found["A"].question.endswith("A. front\nB. left\nC. back\nD. right")
    assert found["B"].reference == "B. bus"
    assert "same direction" in found["C"].question
    assert found["C"].reference == "A. yes"
    assert found["B"].group == "multi_object_facing"
    assert chosen.left_out == {"other_category": 1, "unusable_row": 2}


def test_absent_files_and_columns_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"vlmevalkit.tsv.*ccvl/3DSRBench.*CC BY 4.0"):
        ThreeDSRBench(folder=str(tmp_path)).select()
    (tmp_path / "b.tsv").write_text("index\tquestion\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"b.tsv:1: has no column 'answer'"):
        load(tmp_path, "b.tsv").select()


def test_image_names_keep_the_split() -> None:
    assert image_names(URL.format(557944))[0] == "train2017/000000557944.jpg"


@pytest.mark.samples
@pytest.mark.skipif(not (SAMPLES / "3dsrbench").is_dir(), reason="no samples here")
def test_real_excerpt_loads(raw: Path) -> None:
    record = (SAMPLES / "3dsrbench/EXCERPT_hf_record.jsonl").read_text(encoding="utf-8")
    (raw / "b.jsonl").write_text(record, encoding="utf-8")
    (raw / "train2017/000000557944.jpg").write_bytes(codec.encode_png(pixels(1)))
    (item,) = load(raw, "b.jsonl", categories=["height_higher"]).select().items
    assert item.id == "3dsrbench-VIN6MS3J"
    assert item.reference == "B. red hat of the person in red in the back"
    assert item.question.count("\n") == 3
