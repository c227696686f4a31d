"""DriveLM: its forms, its tags, what the front camera can answer, and broken files."""

import json
import os
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from stages.benchmarks import frontcamera
from stages.benchmarks.drivelm import DriveLM, image_names
from stages.benchmarks.fields import RowError
from stages.benchmarks.frontcamera import Frame
from stages.benchmarks.options import split_options
from stages.imaging import codec
from stages.records.errors import UserError

SAMPLES = Path(os.environ.get("EDCT_SAMPLES") or Path(__file__).parents[3] / "shared/samples")
FRONT = "<c1,CAM_FRONT,1043.2,82.2>"
BACK = "<c2,CAM_BACK,864.2,468.3>"
UNKNOWN = Frame(False, 0, 0)
SIGNAL = "What is the traffic signal that the ego vehicle should pay attention to?"


def frame(number: int, *, tags: tuple[str, ...] | None = (FRONT,), **tasks: list) -> dict:
    empty: dict = {task: [] for task in ("perception", "prediction", "planning", "behavior")}
    made = {
        "QA": {**empty, **tasks},
        "image_paths": {
            "CAM_FRONT": f"../nuscenes/samples/CAM_FRONT/n{number}.jpg",
            "CAM_BACK": f"../nuscenes/samples/CAM_BACK/n{number}.jpg",
        },
    }
    if tags is not None:
        made["key_object_infos"] = {
            tag: {"Category": "Vehicle", "Status": status, "2d_bbox": [1.0, 2.0, 3.0, 4.0]}
            for tag, status in zip(tags, (None, "None"), strict=False)
        }
    return made


def pair(question: object, answer: object = "Red light.") -> dict:
    return {"Q": question, "A": answer, "C": None, "con_up": None, "cluster": None, "layer": None}


def scenes(*frames: Mapping) -> dict:
    return {
        f"scene{number}": {"scene_description": "It drives.", "key_frames": {f"f{number}": one}}
        for number, one in enumerate(frames)
    }


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "nuscenes/samples/CAM_FRONT"
    folder.mkdir(parents=True)
    for number in range(4):
        pixels = np.random.default_rng(number).integers(0, 256, (6, 8, 3), dtype=np.uint8)
        (folder / f"n{number}.jpg").write_bytes(codec.encode_png(pixels))
    return tmp_path


def load(folder: Path, content: object, **values: object) -> DriveLM:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "d.json").write_text(text, encoding="utf-8")
    return DriveLM(**{"folder": str(folder), "file": "d.json", "count": None, **values})


def test_an_item_is_wrapped_as_seen_from_the_ego_vehicle(raw: Path) -> None:
    (item,) = load(raw, scenes(frame(1, planning=[pair(SIGNAL)]))).select().items
    assert item.question == SIGNAL
    assert item.reference == "Red light."
    assert item.group == "scene0"
    assert item.id.startswith("drivelm-f0-")
    assert item.system_prompt is not None
    assert "ego vehicle" in item.system_prompt
    assert "nuscenes/samples/CAM_FRONT/n1.jpg" in (item.source or "")
    assert item.picture().pixels.shape == (6, 8, 3)


@pytest.mark.parametrize(
    ("task", "question", "answer", "reason"),
    [
        ("planning", f"Is {FRONT} to be considered?", "Yes.", "object_tag_in_question"),
        ("perception", "What is at [12, 40]?", "A car.", "coordinates_in_question"),
        ("planning", "What is next to < c1, CAM_FRONT, 4, 5>?", "A", "object_tag_in_question"),
        ("perception", "List them as (c, s, x1, y1, x2, y2).", "A", "coordinates_in_question"),
        ("perception", "What is at (100.5, 200.0)?", "A car.", "coordinates_in_question"),
        ("perception", "Draw a bounding box around it.", "A car.", "coordinates_in_question"),
        ("perception", "What is in CAM_BACK?", "A car.", "question_about_another_camera"),
        (
            "perception",
            "Are there cars to the back of the ego car?",
            "Yes.",
            "question_about_another_camera",
        ),
        (
            "perception",
            "Are there cars to the front left of the ego car?",
            "Yes.",
            "question_about_another_camera",
        ),
        ("planning", "What comes first?", f"{BACK}, {FRONT}.", "object_tag_in_answer"),
        ("perception", "Where is the car?", "At [12.5, 13.0].", "coordinates_in_answer"),
        (
            "perception",
            "Please describe the current scene.",
            "One bus behind the ego car.",
            "answer_needs_another_camera",
        ),
        ("planning", "What are dangerous actions to take?", "Back up, turn right.", None),
        ("planning", "What are dangerous actions to take?", "Backing up.", None),
        ("perception", "What are objects to the front of the ego car?", "Two cars.", None),
        ("planning", SIGNAL, None, None),
    ],
)
def test_what_the_front_camera_cannot_answer_is_left_out(
    task: str, question: str, answer: str | None, reason: str | None
) -> None:
    assert frontcamera.objection(task, question, answer, UNKNOWN) == reason


def test_actions_that_hang_on_other_cameras_are_left_out_or_come_later(raw: Path) -> None:
    ask = "What is the target action of the ego vehicle?"
    content = scenes(
        frame(0, tags=(BACK,), planning=[pair(ask, "Turn left.")]),
        frame(1, tags=(FRONT, BACK), planning=[pair(ask, "Turn left.")]),
        frame(2, tags=(FRONT,), planning=[pair(ask, "Turn left.")]),
    )
    chosen = load(raw, content).select()
    assert [item.group for item in chosen.items] == ["scene2", "scene1"]
    assert chosen.left_out == {"key_objects_in_other_cameras": 1}
    strict = load(raw, content, worst_tier=0).select()
    assert [item.group for item in strict.items] == ["scene2"]
    assert strict.left_out["not_about_visible_objects"] == 1


def test_visible_causes_come_before_behaviour_prediction_and_absence() -> None:
    front = Frame(True, 1, 0)
    assert frontcamera.tier("planning", SIGNAL, "Red light.", front) == 0
    assert frontcamera.tier("perception", "Is there a car in the front?", "Yes.", front) == 0
    assert frontcamera.tier("perception", "Is there a car in the front?", "No.", front) == 2
    assert frontcamera.tier("planning", SIGNAL, "None.", front) == 2
    assert frontcamera.tier("behavior", "Predict the behavior.", "Straight.", front) == 2
    assert frontcamera.tier("planning", SIGNAL, None, UNKNOWN) == 2


def test_the_list_of_tags_after_an_answer_is_not_part_of_it(raw: Path) -> None:
    answer = f"There is a green light to the front. The IDs of these objects are {FRONT}."
    (item,) = load(raw, scenes(frame(1, perception=[pair("What matters?", answer)]))).select().items
    assert item.reference == "There is a green light to the front."


def test_an_image_serves_once_and_another_task_is_counted(raw: Path) -> None:
    asked = [pair(SIGNAL), pair("What will affect driving judgment in this scene?", "Rain.")]
    content = scenes(frame(1, planning=asked, behavior=[pair("Predict it.", "Straight.")]))
    chosen = load(raw, content, tasks=["planning", "perception"]).select()
    assert len(chosen.items) == 1
    assert chosen.left_out == {"image_of_a_better_one": 1, "other_task": 1}


def test_challenge_choices_are_laid_out_and_the_letter_is_put_into_words(raw: Path) -> None:
    question = (
        "What is the moving status ahead? Please select the correct answer from the following "
        "options: A. Going ahead. It is fast. B. Turn left. C. Stopped, e.g. at a sign. D. Back up."
    )
    one = frame(1, tags=None, perception=[{**pair(question, "C"), "tag": [0]}])
    one.pop("key_object_infos", None)
    (item,) = load(raw, {"s": {"key_frames": {"f": one}}}).select().items
    assert item.question.splitlines() == [
        "What is the moving status ahead?",
        "Options:",
        "A. Going ahead. It is fast.",
        "B. Turn left.",
        "C. Stopped, e.g. at a sign.",
        "D. Back up.",
    ]
    assert item.reference == "C. Stopped, e.g. at a sign."


@pytest.mark.parametrize("answer", [None, "", "absent"])
def test_question_only_files_have_no_reference(raw: Path, answer: str | None) -> None:
    asked = pair(SIGNAL, answer)
    if answer == "absent":
        del asked["A"]
    (item,) = load(raw, scenes(frame(1, tags=None, planning=[asked]))).select().items
    assert item.reference is None


def test_the_conversation_form_is_read(raw: Path) -> None:
    images = [f"data/nuscenes/samples/{name}/n2.jpg" for name in ("CAM_FRONT_LEFT", "CAM_FRONT")]
    turns = [{"from": "human", "value": f"<image>\n{SIGNAL}"}, {"from": "gpt", "value": "Red."}]
    content = [
        {"id": "s_f_0", "image": images, "conversations": turns},
        {"id": "odd", "image": images, "conversations": turns},
        {"id": "s_g_1", "image": images[:1], "conversations": turns},
    ]
    chosen = load(raw, content).select()
    (item,) = chosen.items
    assert (item.question, item.reference) == (SIGNAL, "Red.")
    assert (item.source or "").endswith("nuscenes/samples/CAM_FRONT/n2.jpg")
    assert chosen.left_out == {"no_front_image": 1, "unusable_row": 1}


def test_images_are_read_out_of_the_publishers_zip(raw: Path) -> None:
    path = raw / "nuscenes/samples/CAM_FRONT/n1.jpg"
    with zipfile.ZipFile(raw / "drivelm_nus_imgs_train.zip", "w") as archive:
        archive.write(path, "nuscenes/samples/CAM_FRONT/n1.jpg")
    path.unlink()
    (item,) = load(raw, scenes(frame(1, planning=[pair(SIGNAL)]))).select().items
    assert item.picture().pixels.shape == (6, 8, 3)


@pytest.mark.parametrize(
    "path",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "../nuscenes/samples/../../../secret.jpg",
        "..\\..\\secret.jpg",
        "C:\\secret.jpg",
        "nuscenes/\x00.jpg",
        "nuscenes/" + "x" * 2000,
        ["a.jpg"],
        5,
    ],
)
def test_a_path_that_leaves_the_folder_skips_its_row(raw: Path, path: object) -> None:
    bad = frame(0, planning=[pair(SIGNAL)])
    bad["image_paths"]["CAM_FRONT"] = path
    chosen = load(raw, scenes(bad, frame(1, planning=[pair(SIGNAL)]))).select()
    assert [item.group for item in chosen.items] == ["scene1"]
    assert chosen.left_out == {"unusable_row": 1}
    assert "scene scene0, frame f0, planning 1" in chosen.skipped[0]


@pytest.mark.parametrize(
    "text",
    [
        "<" * 20_000,
        "<" + "CAM_" * 4999,
        "1" * 20_000,
        "(" + "1" * 19_999,
        "1.1," * 5000,
        " " * 19_999,
        "The IDs of these objects are <" + ".1" * 9_900,
        "mov" * 6_000,
        "A. " * 6_600,
    ],
    ids=lambda text: text[:6],
)
def test_hostile_texts_take_no_time(text: str) -> None:
    begun = time.process_time()
    frontcamera.objection("planning", text, frontcamera.plain_answer(text), UNKNOWN)
    frontcamera.tier("planning", text, text, UNKNOWN)
    frontcamera.kind("planning", text)
    split_options(f"Which? Please select the correct answer from the following options: {text}")
    assert time.process_time() - begun < 0.5


def test_prefixes_of_image_paths() -> None:
    expected = ("nuscenes/samples/CAM_FRONT/a.jpg", "samples/CAM_FRONT/a.jpg", "a.jpg")
    for prefix in ("../nuscenes/", "data/nuscenes/", "nuscenes/", "", "../"):
        assert image_names(f"{prefix}samples/CAM_FRONT/a.jpg") == expected
    with pytest.raises(RowError):
        image_names("")


@pytest.mark.parametrize(
    ("broken", "row"),
    [
        (pair(None), "planning 1: Q is empty"),
        (pair(5), "planning 1: Q is int"),
        (pair(SIGNAL, {"a": 1}), "planning 1: A is dict"),
        (pair("x" * 30_000), "planning 1: Q has 30000 characters"),
        ("text", "planning 1: is str, not an object"),
        (float("nan"), "planning 1: is float, not an object"),
    ],
)
def test_broken_questions_are_skipped_counted_and_listed(
    raw: Path, broken: object, row: str
) -> None:
    chosen = load(raw, scenes(frame(1, planning=[broken, pair(SIGNAL)]))).select()
    assert len(chosen.items) == 1
    assert chosen.left_out == {"unusable_row": 1}
    assert row in chosen.skipped[0]


def test_broken_frames_and_repeated_ones_are_listed(raw: Path) -> None:
    good = json.dumps(frame(1, planning=[pair(SIGNAL)]))
    text = (
        f'{{"s": {{"key_frames": {{"f": {good}, "f": {good}, "g": 5, "h": {{"QA": []}},'
        f' "i": {{"QA": {{"planning": 7}}}}}}}}, "t": {{"key_frames": null}}, "s": {{"key_frames":'
        f' {{"f": {good}}}}}}}'
    )
    chosen = load(raw, text).select()
    assert len(chosen.items) == 1
    assert chosen.left_out == {"duplicate_id": 2, "unusable_row": 4}
    assert len(chosen.skipped) == 6
    assert any("frame f: occurs before" in line for line in chosen.skipped)


def test_a_question_asked_twice_about_one_frame_is_taken_once(raw: Path) -> None:
    chosen = load(raw, scenes(frame(1, planning=[pair(SIGNAL), pair(SIGNAL)]))).select()
    assert chosen.left_out == {"duplicate_id": 1}


def test_a_frame_without_a_front_image_is_counted(raw: Path) -> None:
    bad = frame(0, planning=[pair(SIGNAL)])
    del bad["image_paths"]
    chosen = load(raw, scenes(bad, frame(1, planning=[pair(SIGNAL)]))).select()
    assert chosen.left_out == {"no_front_image": 1}


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ('{"s": {"key_frames": {"f": {"QA": {"planning": [{"Q": "Wh', "cut off"),
        ('{"s": {"key_frames": {}}', "comma is expected after entry 1"),
        ('{"s" {"key_frames": {}}}', "a key is expected"),
        ("plain text", "does not begin with"),
        ("", "does not begin with"),
        ('{"s": {"key_frames": {}}} {}', "goes on after its end"),
    ],
)
def test_a_broken_file_is_one_line_that_names_it(raw: Path, content: str, match: str) -> None:
    with pytest.raises(UserError, match=match) as error:
        load(raw, content).select()
    assert str(error.value).startswith("d.json: ")
    assert "\n" not in str(error.value)


def test_an_absent_file_says_what_to_accept(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"v1_1_train_nus.json.*nuScenes' terms"):
        DriveLM(folder=str(tmp_path)).select()


def test_other_questions_in_the_file_do_not_change_an_id(raw: Path) -> None:
    (alone,) = load(raw, scenes(frame(1, planning=[pair(SIGNAL)]))).select().items
    more = [pair("In this scenario, what are safe actions?", "Stop."), pair(SIGNAL)]
    items = load(raw, scenes(frame(1, planning=more)), images_once=False).select().items
    assert alone.id in {item.id for item in items}


@pytest.mark.samples
@pytest.mark.skipif(not (SAMPLES / "drivelm").is_dir(), reason="no samples here")
def test_real_excerpt_loads_completely() -> None:
    chosen = DriveLM(
        folder=str(SAMPLES / "drivelm"),
        images=str(SAMPLES / "drivelm/images"),
        file="train_sample.json",
        count=9,
    ).select()
    assert len(chosen.items) + sum(chosen.left_out.values()) == 790
    assert "unusable_row" not in chosen.left_out
    assert chosen.left_out["object_tag_in_question"] > 400
    assert len({item.picture().sha256 for item in chosen.items}) == 9
    for item in chosen.items:
        assert "<c" not in f"{item.question}{item.reference}"
        assert item.picture().pixels.shape[:2] == (900, 1600)
