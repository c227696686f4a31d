"""Examples: labels from the publisher or from the edit, and which edits are taken."""

from pathlib import Path

import pytest

from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.sample import Sample
from stages.training.examples import (
    check,
    counterfactuals,
    label_of,
    masks_of,
    originals,
    read_labels,
)

SAMPLE = Sample(
    id="s",
    domain="train",
    image="0" * 64,
    width=640,
    height=480,
    question="What colour is the car in Norbeck?",
    reference="blue",
)


def attempt(
    position: int, number: int, status: Status, change: str, edited: str | None = "e"
) -> Attempt:
    return Attempt(
        sample_id="s",
        position=position,
        attempt=number,
        status=status,
        instruction=f"Edit this image in one place only.\nChange: {change}\nKeep: all else",
        edit_type="modify",
        target_object="car",
        edited=f"{edited}{position}{number}" if edited else None,
        mask=f"m{position}{number}",
    )


TO_ORANGE = "change the colour of the car from blue to orange"
TO_PINK = "change the colour of the car from orange to pink"


def test_an_original_has_the_publisher_s_answer() -> None:
    silent = SAMPLE.model_copy(update={"id": "t", "reference": None})
    (made,) = originals([SAMPLE, silent], {"s": "m"})
    assert (made.label, made.images, made.position, made.mask) == ("blue", "original", 0, "m")


def test_the_label_follows_from_the_edits_so_far() -> None:
    chain = [attempt(1, 1, Status.OK, TO_ORANGE), attempt(2, 1, Status.OK, TO_PINK)]
    made = counterfactuals([SAMPLE], chain, None, verified=True)
    assert [(e.label, e.image, e.position) for e in made] == [
        ("orange", "e11", 1),
        ("pink", "e21", 2),
    ]


def test_only_accepted_edits_are_taken_and_a_retry_counts() -> None:
    chain = [
        attempt(1, 1, Status.OUTSIDE_CHANGED, TO_ORANGE),
        attempt(1, 2, Status.OK, TO_ORANGE),
    ]
    assert [e.image for e in counterfactuals([SAMPLE], chain, None, verified=True)] == ["e12"]
    assert [e.image for e in counterfactuals([SAMPLE], chain, None, verified=False)] == ["e11"]
    assert masks_of(chain) == {"s": "m12"}


def test_without_an_image_there_is_no_example() -> None:
    lost = [attempt(1, 1, Status.API_ERROR, TO_ORANGE, edited=None)]
    assert not counterfactuals([SAMPLE], lost, None, verified=False)
    assert not counterfactuals([], [attempt(1, 1, Status.OK, TO_ORANGE)], None, verified=True)


def test_labels_of_a_file_beat_those_of_the_edit_and_what_it_lacks_is_left_out() -> None:
    chain = [attempt(1, 1, Status.OK, TO_ORANGE), attempt(2, 1, Status.OK, TO_PINK)]
    made = counterfactuals([SAMPLE], chain, {("s", 1): "amber"}, verified=True)
    assert [e.label for e in made] == ["amber"]


def test_labels_are_read_from_a_table_and_what_is_wrong_with_it_is_one_line(tmp_path: Path) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("sample_id,position,answer\ns,1,3\n")
    assert read_labels(table) == {("s", 1): "3"}
    table.write_text("sample_id,answer\ns,3\n")
    for path in (table, tmp_path / "none.csv"):
        with pytest.raises(UserError, match=path.name):
            read_labels(path)


def test_a_scene_that_is_in_both_parts_is_an_error() -> None:
    made = originals([SAMPLE], {})
    edited = counterfactuals([SAMPLE], [attempt(1, 1, Status.OK, TO_ORANGE)], None, verified=True)
    other = [e._replace(sample=SAMPLE.model_copy(update={"image": "1" * 64})) for e in edited]
    check({"train": edited, "held_out": other}, edited[:0] + made)
    with pytest.raises(UserError, match="held-out"):
        check({"train": edited, "held_out": edited}, made)
    with pytest.raises(UserError, match="no accepted"):
        check({"train": made, "held_out": other}, made)


def test_a_question_of_another_world_has_no_label_from_an_edit() -> None:
    other = SAMPLE.model_copy(update={"question": "How many wheel axles does the van have?"})
    assert label_of(other, [TO_ORANGE]) is None
    assert label_of(SAMPLE, ["Make it sadder."]) is None
    assert label_of(SAMPLE, [TO_ORANGE]) == "orange"
