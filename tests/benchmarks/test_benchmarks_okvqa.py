"""OK-VQA: the publisher's files and their odd cases, small and synthetic; the real excerpt."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from stages.benchmarks.archive import MissingImageError
from stages.benchmarks.okvqa import OKVQA, majority
from stages.imaging import codec
from stages.records.errors import UserError

SAMPLES = Path(os.environ.get("EDCT_SAMPLES") or Path(__file__).parents[3] / "shared/samples")
QUESTIONS = "OpenEnded_mscoco_val2014_questions.json"
ANNOTATIONS = "mscoco_val2014_annotations.json"


def photograph(seed: int) -> bytes:
    """A PNG of 8 x 6 pixels, another for every seed."""
    pixels = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return codec.encode_png(pixels)


def answers(*raw: str, stem: str = "stem") -> list[dict]:
    return [
        {"answer_id": n, "raw_answer": word, "answer_confidence": "yes", "answer": stem}
        for n, word in enumerate(raw, 1)
    ]


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Six questions over five images, with answers in two categories."""
    questions, notes = [], []
    for number, image in enumerate((1, 2, 3, 4, 5, 5)):
        ids = {"image_id": image, "question_id": image * 10 + 5 + (number == 5)}
        questions.append({**ids, "question": f"What is this used for, {number}?"})
        kind = "one" if number % 2 else "two"
        notes.append({**ids, "question_type": kind, "answers": answers("racing", "riding")})
        (tmp_path / f"COCO_val2014_{image:012d}.jpg").write_bytes(photograph(image))
    write(tmp_path, questions, notes)
    return tmp_path


def write(folder: Path, questions: list, notes: list, split: object = "val2014") -> None:
    (folder / QUESTIONS).write_text(
        json.dumps({"data_subtype": split, "questions": questions}), encoding="utf-8"
    )
    kinds = {"one": "Sports and Recreation", "two": "Plants and Animals"}
    (folder / ANNOTATIONS).write_text(
        json.dumps({"question_types": kinds, "annotations": notes}), encoding="utf-8"
    )


def load(folder: Path, **values: object) -> OKVQA:
    return OKVQA(**{"folder": str(folder), "images": str(folder), "count": None, **values})


def test_reference_is_the_majority_in_the_annotators_own_words() -> None:
    assert majority({"answers": answers("riding", "racing", "racing", stem="race")}) == "racing"
    assert majority({"answers": answers("riding", "racing")}) == "riding"  # of equals, the first


def test_stemmed_answers_are_no_reference() -> None:
    stemmed = [{"answer_id": 1, "answer": "race"}]
    assert majority({"answers": stemmed}) is None
    assert majority({"answers": stemmed, "multiple_choice_answer": "racing"}) == "racing"


def test_items_hold_what_the_files_say(raw: Path) -> None:
    chosen = load(raw, images_once=False).select()
    item = next(item for item in chosen.items if item.id == "okvqa-25")
    assert len(chosen.items) == 6
    assert item.question == "What is this used for, 1?"
    assert (item.reference, item.group) == ("racing", "Sports and Recreation")
    assert item.source == "val2014/COCO_val2014_000000000002.jpg"
    assert np.array_equal(item.picture().pixels, codec.decode(photograph(2)))


def test_an_image_serves_once_unless_asked(raw: Path) -> None:
    chosen = load(raw).select()
    assert len(chosen.items) == 5
    assert chosen.left_out == {"image_of_a_better_one": 1}


def test_the_split_comes_from_the_question_file(raw: Path) -> None:
    content = json.loads((raw / QUESTIONS).read_text())
    write(raw, content["questions"], [], split="train2014")
    with pytest.raises(MissingImageError, match="COCO_train2014_"):
        load(raw).select()
    write(raw, content["questions"], [], split="val; rm")
    with pytest.raises(UserError, match="data_subtype"):
        load(raw).select()


def test_plain_coco_names_are_found(raw: Path) -> None:
    for path in raw.glob("COCO_*.jpg"):
        path.rename(raw / path.name.removeprefix("COCO_val2014_"))
    assert len(load(raw).select().items) == 5


def test_publishers_zips_are_read_without_unpacking(raw: Path) -> None:
    before = load(raw).select()
    with zipfile.ZipFile(raw / "val2014.zip", "w") as archive:
        for path in raw.glob("COCO_*.jpg"):
            archive.write(path, f"val2014/{path.name}")
            path.unlink()
    for name in (QUESTIONS, ANNOTATIONS):
        with zipfile.ZipFile(raw / f"{name}.zip", "w") as archive:
            archive.write(raw / name, name)
        (raw / name).unlink()
    after = load(raw).select()
    assert [item.id for item in after.items] == [item.id for item in before.items]
    assert after.items[0].picture() == before.items[0].picture()
    assert not list(raw.glob("COCO_*"))


def test_category_filter_counts_what_it_leaves_out(raw: Path) -> None:
    chosen = load(raw, categories=["Plants and Animals"], images_once=False).select()
    assert {item.group for item in chosen.items} == {"Plants and Animals"}
    assert chosen.left_out == {"other_category": 3}


def test_categories_get_equal_shares(raw: Path) -> None:
    groups = [item.group for item in load(raw, count=4).select().items]
    assert sorted(groups) == ["Plants and Animals"] * 2 + ["Sports and Recreation"] * 2


@pytest.mark.parametrize(
    "broken",
    [
        7,
        None,
        {"image_id": "1", "question_id": 15, "question": "?"},
        {"image_id": 1, "question_id": True, "question": "?"},
        {"image_id": 1, "question_id": -4, "question": "?"},
        {"image_id": 1, "question_id": float("nan"), "question": "?"},
        {"image_id": 1, "question_id": 99, "question": None},
        {"image_id": 1, "question_id": 99, "question": ["What?"]},
        {"image_id": 1, "question_id": 99, "question": "x" * 20_001},
        {"image_id": 1, "question_id": 99, "question": "caf\ufffd"},
    ],
)
def test_broken_rows_are_skipped_counted_and_listed(raw: Path, broken: object) -> None:
    content = json.loads((raw / QUESTIONS).read_text())
    write(raw, [broken, *content["questions"]], [])
    chosen = load(raw, images_once=False).select()
    assert len(chosen.items) == 6
    assert chosen.left_out == {"unusable_row": 1}
    (listed,) = chosen.skipped
    assert listed.startswith(f"{QUESTIONS}: question 1: ")
    assert "\n" not in listed
    assert len(listed) < 400


def test_a_second_row_of_one_id_is_listed(raw: Path) -> None:
    content = json.loads((raw / QUESTIONS).read_text())
    write(raw, [*content["questions"], content["questions"][0]], [])
    chosen = load(raw, images_once=False).select()
    assert chosen.left_out == {"duplicate_id": 1}
    assert "question 7: the id 'okvqa-15' occurs before" in chosen.skipped[0]


def test_a_broken_answer_is_listed_and_costs_only_the_reference(raw: Path) -> None:
    content = json.loads((raw / QUESTIONS).read_text())
    write(raw, content["questions"], [{"question_id": 15, "answers": "racing"}, 5])
    chosen = load(raw, images_once=False).select()
    assert len(chosen.items) == 6
    assert all(item.reference is None for item in chosen.items)
    assert len(chosen.skipped) == 2


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b'{"data_subtype": "val2014", "questions": [{"image_id": 1, "que', "no whole JSON"),
        (b"", "no whole JSON"),
        (b"[" * 100_000, "no whole JSON"),
        ('{"questions": "café"}'.encode("latin-1"), "not UTF-8 at byte 18"),
        (b'{"data_subtype": "val2014", "questions": {}}', "no list 'questions'"),
        (b"[]", "no list 'questions'"),
    ],
)
def test_a_broken_file_is_one_line_that_names_it(raw: Path, content: bytes, match: str) -> None:
    (raw / QUESTIONS).write_bytes(content)
    with pytest.raises(UserError, match=match) as error:
        load(raw).select()
    assert str(error.value).startswith(QUESTIONS)
    assert "\n" not in str(error.value)


def test_absent_files_are_named_with_address_and_licence(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        load(tmp_path).select()
    message = str(error.value)
    assert str(tmp_path / QUESTIONS) in message
    assert "https://okvqa.allenai.org" in message
    assert "CC BY 4.0" in message


def test_absent_images_are_an_error_or_left_out(raw: Path) -> None:
    (raw / "COCO_val2014_000000000003.jpg").unlink()
    with pytest.raises(MissingImageError, match=r"val2014\.zip"):
        load(raw).select()
    chosen = load(raw, missing_images="leave_out").select()
    assert len(chosen.items) == 4
    assert chosen.left_out["image_missing"] == 1


def test_too_few_candidates_are_an_error_that_says_why(raw: Path) -> None:
    with pytest.raises(UserError, match=r"5 samples can be chosen where 6 .*image_of_a_better_one"):
        load(raw, count=6).select()


@pytest.mark.samples
@pytest.mark.skipif(not (SAMPLES / "okvqa").is_dir(), reason="no samples here")
def test_real_excerpt_loads_completely() -> None:
    chosen = OKVQA(
        folder=str(SAMPLES / "okvqa"),
        images=str(SAMPLES / "okvqa/images"),
        annotations="EXCERPT_val2014_annotation_2971475.json",
        count=None,
        images_once=False,
        missing_images="leave_out",
    ).select()
    assert len(chosen.items) + chosen.left_out["image_missing"] == 5046
    assert not chosen.skipped
    assert len(chosen.items) >= 12
    for item in chosen.items[:4]:
        assert item.picture().pixels.ndim == 3
