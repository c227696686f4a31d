"""Recorded adapters: found by pixels and words, and what is missing or broken is named."""

import asyncio
import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from stages.benchmarks.pairs import PairFolder
from stages.models.chat.recorded import RecordedTarget
from stages.models.detector.recorded import RecordedDetector
from stages.models.editor.recorded import RecordedEditor
from stages.models.picture import Picture
from stages.models.protocol import CallError, Conversation, Turn
from stages.records.base import Status
from stages.records.errors import UserError


def image(shade: int, shape: tuple[int, int] = (24, 32)) -> NDArray[np.uint8]:
    grey = np.full((*shape, 3), shade, np.uint8)
    grey[4:12, 5:20] = (200, 30, shade)
    return grey


def write_image(path: Path, pixels: NDArray[np.uint8]) -> str:
    cv2.imwrite(str(path), cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))
    return path.name


def write_rows(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def asked(question: str, pixels: NDArray[np.uint8], *more: Turn) -> Conversation:
    told = Turn("user", f"Look.\n\n{question}\n\nAnswer shortly.", (Picture.of(pixels),))
    return Conversation((told, *more), max_tokens=50)


def test_a_target_answers_and_explains_what_was_recorded(tmp_path: Path) -> None:
    name = write_image(tmp_path / "a.png", image(10))
    index = write_rows(
        tmp_path / "answers.jsonl",
        {"image": name, "question": "Is the ball  red?", "answer": "Yes.", "explanation": "Red."},
        {
            "image": name,
            "question": "The sky is blue. Is the ball red?",
            "answer": "No.",
            "explanation": "Sky.",
        },
    )
    target = RecordedTarget(index, "model-x")
    why = (Turn("assistant", "Yes."), Turn("user", "Why?"))
    for question, answer, explanation in [
        ("Is the ball red?", "Yes.", "Red."),
        ("The sky is blue. Is the ball red?", "No.", "Sky."),
    ]:
        first = asyncio.run(target.complete(asked(question, image(10))))
        second = asyncio.run(target.complete(asked(question, image(10), *why)))
        assert (first.text, second.text) == (answer, explanation)
        assert first.usage.served_model == "model-x"


@pytest.mark.parametrize(
    ("question", "shade"), [("Is the ball redder?", 10), ("Is the ball red?", 11)]
)
def test_what_was_not_recorded_is_said(tmp_path: Path, question: str, shade: int) -> None:
    name = write_image(tmp_path / "a.png", image(10))
    row = {"image": name, "question": "Is the ball red", "answer": "a", "explanation": "e"}
    target = RecordedTarget(write_rows(tmp_path / "a.jsonl", row), "x")
    with pytest.raises(CallError) as caught:
        asyncio.run(target.complete(asked(question, image(shade))))
    assert caught.value.status is Status.NOT_RECORDED


def test_identity_is_what_was_recorded_and_not_where(tmp_path: Path) -> None:
    identities = []
    for folder, answer in [("one", "a"), ("two", "a"), ("three", "b")]:
        (tmp_path / folder).mkdir()
        name = write_image(tmp_path / folder / f"{folder}.png", image(10))
        row = {"image": name, "question": "q", "answer": answer, "explanation": "e"}
        index = write_rows(tmp_path / folder / "a.jsonl", row)
        identities.append(dict(RecordedTarget(index, "x").identity()))
    assert identities[0] == identities[1] != identities[2]


def test_an_editor_prefers_the_row_that_says_most(tmp_path: Path) -> None:
    original = write_image(tmp_path / "o.png", image(10))
    for shade in (1, 2, 3):
        write_image(tmp_path / f"{shade}.png", image(shade))
    index = write_rows(
        tmp_path / "edits.jsonl",
        {"original": original, "edited": "1.png"},
        {"original": original, "edited": "2.png", "instruction": "Remove the lamp"},
        {"original": original, "edited": "3.png", "instruction": "remove the lamp", "attempt": 2},
    )
    editor = RecordedEditor(index, "x")

    def edit(instruction: str, attempt: int) -> int:
        picture = Picture.of(image(10))
        made = asyncio.run(editor.edit(picture, instruction, seed=0, attempt=attempt))
        return int(Picture.read(made.data).pixels[0, 0, 0])

    assert edit("Edit this.\nChange: remove the lamp.\nKeep all else.", 1) == 2
    assert edit("Edit this.\nChange: remove the lamp.\nKeep all else.", 2) == 3
    assert edit("Change: remove the lampshade", 1) == 1
    with pytest.raises(CallError):
        asyncio.run(editor.edit(Picture.of(image(99)), "x", seed=0, attempt=1))


def test_a_picture_is_known_by_its_pixels_whatever_its_file(tmp_path: Path) -> None:
    pixels = np.full((16, 16, 3), 128, np.uint8)
    write_image(tmp_path / "a.jpg", pixels)
    row = {"image": "a.jpg", "phrase": "Car", "boxes": [[1, 2, 9, 8]]}
    detector = RecordedDetector(write_rows(tmp_path / "b.jsonl", row))
    found = asyncio.run(detector.detect(Picture.of(pixels), " car "))
    assert [(b.x0, b.y0, b.x1, b.y1) for b in found.boxes] == [(1, 2, 9, 8)]
    assert asyncio.run(detector.detect(Picture.of(pixels), "bus")).boxes == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"image": "a.png", ', ":1: broken JSON"),
        ("[1]", ":1: is no JSON object"),
        ('{"image": "none.png", "boxes": []}', ":1: the image"),
        ('{"image": "text.png", "boxes": []}', "is no usable image"),
        ('{"image": "a.png", "boxes": [[1, 2, 3]]}', "a box is not four numbers"),
        ('{"image": "a.png", "boxes": [[9, 2, 3, 4]]}', "a box has no area"),
        ('{"image": "a.png", "boxes": [[NaN, 2, 3, 4]]}', "a box is not four numbers"),
        ('{"image": "a.png"}', "has no list under 'boxes'"),
        ('{"image": 3, "boxes": []}', "has no text under 'image'"),
        ('{"image": "a\\u0000.png", "boxes": []}', ":1: the image"),
        ('{"image": "a.png", "boxes": [[40, 40, 50, 50]]}', "lies outside the image"),
        ('{"image": "a.png", "boxes": [[0.1, 0.1, 0.5, 0.9]]}', "no larger than a pixel"),
        ('{"image": "a.png", "boxes": [[1, 2, true, 8]]}', "a box is not four numbers"),
        ('{"image": "a.png", "boxes": [[1, 2, 5, 8, 9]]}', "a box is not four numbers"),
        ('{"image": "a.png", "boxes": [], "phrase": 5}', "has no text under 'phrase'"),
    ],
)
def test_a_broken_row_is_named(tmp_path: Path, text: str, said: str) -> None:
    write_image(tmp_path / "a.png", image(10))
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "b.jsonl").write_text(text + "\n")
    with pytest.raises(UserError) as caught:
        RecordedDetector(str(tmp_path / "b.jsonl"))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rows_that_contradict_each_other_are_an_error(tmp_path: Path) -> None:
    name = write_image(tmp_path / "a.png", image(10))
    rows = [{"image": name, "question": "Q?", "answer": a, "explanation": "e"} for a in "aab"]
    RecordedTarget(write_rows(tmp_path / "same.jsonl", *rows[:2]), "x")
    with pytest.raises(UserError, match=r"other.jsonl:3: says something else"):
        RecordedTarget(write_rows(tmp_path / "other.jsonl", *rows), "x")


def pairs_folder(tmp_path: Path, **label: Any) -> Path:
    for name, shade in (("o.png", 10), ("e.png", 90)):
        write_image(tmp_path / name, image(shade))
    row = {"id": "p", "original": "o.png", "edited": "e.png", "instruction": "do"}
    (tmp_path / "pairs.json").write_text(json.dumps([{**row, "crop_both": [0, 0, 20, 10]}]))
    said = {"id": "p", "edit_type": "modify", "target": "t", "box": [1, 1, 5, 5], "valid": "yes"}
    (tmp_path / "labels.json").write_text(json.dumps([{**said, **label}]))
    return tmp_path


def test_pairs_are_cropped_and_labelled(tmp_path: Path) -> None:
    (pair,) = PairFolder(str(pairs_folder(tmp_path)), labels="labels.json").load()
    assert pair.original.shape == pair.edited.shape == (10, 20, 3)
    assert (pair.target, pair.valid, pair.boxes[0].x1) == ("t", "yes", 5)
    (bare,) = PairFolder(str(tmp_path)).load()
    assert (bare.target, bare.valid, bare.boxes) == (None, None, ())


def test_a_global_edit_counts_as_modify(tmp_path: Path) -> None:
    (pair,) = PairFolder(
        str(pairs_folder(tmp_path, edit_type="global")), labels="labels.json"
    ).load()
    assert pair.edit_type == "modify"


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ({"valid": "maybe"}, "valid is 'maybe'"),
        ({"edit_type": "swap"}, "edit_type is 'swap'"),
        ({"frame": "edited"}, "frame is 'edited'"),
    ],
)
def test_a_wrong_label_is_named(tmp_path: Path, label: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=r"labels\.json:1") as caught:
        PairFolder(str(pairs_folder(tmp_path, **label)), labels="labels.json").load()
    assert said in str(caught.value)
