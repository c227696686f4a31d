"""Replies: read where they can be, refused with a reason where not, never bent into range."""

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.models import replies
from stages.models.replies import (
    Unparsed,
    read_concepts,
    read_edit,
    read_grade,
    read_instructions,
    read_look,
    read_verdict,
)

VERDICT = {"reason": "because", "answer_consistent": 1, "explanation_faithful": 0}
LOOK = {"reason": "because", "change_present": True, "rest_unchanged": False}
PARTS = {"keep": "all", "change": "remove the car", "appearance": "road", "avoid": "blur"}


def concept(text: str, thing: str = "car", attribute: str | None = "red colour") -> dict[str, Any]:
    return {"text": text, "object": thing, "attribute": attribute}


def wrapped(value: Any) -> str:
    return f"Let me see.\n```json\n{json.dumps(value, indent=1)}\n```\nThat is all."


def test_a_verdict_in_prose_and_fences() -> None:
    assert read_verdict(wrapped(VERDICT)) == (1, 0, "because")


def test_booleans_count_as_scores_and_nothing_else_does() -> None:
    assert read_verdict(json.dumps(VERDICT | {"explanation_faithful": True}))[:2] == (1, 1)
    for value in (2, -1, 0.5, 1.0, "1", None, [1]):
        with pytest.raises(Unparsed, match='"answer_consistent" must be one of 0, 1'):
            read_verdict(json.dumps(VERDICT | {"answer_consistent": value}))


@pytest.mark.parametrize("grade", [0, 6, 4.0, 4.5, True, "4", None])
def test_grades_outside_the_rubric_are_not_clamped(grade: Any) -> None:
    with pytest.raises(Unparsed, match='"grade" must be one of 1, 2, 3, 4, 5'):
        read_grade(json.dumps({"reason": "r", "grade": grade}))


@pytest.mark.parametrize("grade", [1, 2, 3, 4, 5])
def test_a_grade(grade: int) -> None:
    assert read_grade(wrapped({"reason": "r", "grade": grade})) == (grade, "r")


def test_a_look_is_read_where_both_values_are_true_or_false() -> None:
    assert read_look(wrapped(LOOK)) == (True, False, "because")
    for key, value in product(("change_present", "rest_unchanged"), (0, 1, "true", None, [True])):
        with pytest.raises(Unparsed, match=f'"{key}" must be true or false'):
            read_look(json.dumps({**LOOK, key: value}))
    for key in LOOK:
        with pytest.raises(Unparsed, match=key):
            read_look(json.dumps({k: v for k, v in LOOK.items() if k != key}))


def test_the_last_object_counts() -> None:
    quoted = 'The model wrote {"reason": "x", "grade": 5}. I say {"reason": "y", "grade": 2}'
    assert read_grade(quoted) == (2, "y")


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ('{"reason": "y", "gra', "not complete"),
        ('{"reason": "y", "grade": 2', "not complete"),
        ('{"reason": "y', "not complete"),
        ('{"reason": "y" "grade": 2}', "broken"),
        ('{"reason": "y", "grade": 2, "grade": 5}', "twice"),
        ('{"reason": "y", "grade": NaN}', "NaN"),
    ],
)
def test_nothing_counts_where_the_last_object_is_no_good(end: str, reason: str) -> None:
    with pytest.raises(Unparsed, match=reason):
        read_grade('It said {"reason": "x", "grade": 5}. I say ' + end)


def test_inner_objects_do_not_stand_for_a_broken_outer_one() -> None:
    with pytest.raises(Unparsed):
        read_grade('{"verdict": {"reason": "x", "grade": 5}, "final":')


def test_braces_and_tags_in_prose_are_passed_over() -> None:
    assert read_grade('{a} {{x}} {"reason": "in } and { and \\" too", "grade": 3} {}?'[:-4])[0] == 3


def test_trailing_commas_and_raw_line_ends_are_tolerated() -> None:
    assert read_grade('{"reason": "a, }\nb",\n "grade": 3,\n}') == (3, "a, }\nb")


@pytest.mark.parametrize("text", ["", "no", "[1, 2]", "null", '"{"', "{}"])
def test_no_object_no_reading(text: str) -> None:
    with pytest.raises(Unparsed):
        read_verdict(text)


def test_concepts_in_order_at_most_k_without_repeats() -> None:
    text = wrapped(
        {
            "concepts": [
                concept("red colour of the car"),
                concept("The red colour of car"),
                concept("its redness"),
                concept("dog", "dog", None),
                concept("cat", "cat", ""),
            ]
        }
    )
    found = read_concepts(text, 2)
    assert [(c.text, c.object, c.attribute) for c in found] == [
        ("red colour of the car", "car", "red colour"),
        ("dog", "dog", None),
    ]
    assert read_concepts(text, 9)[-1].attribute is None


def test_no_concept_is_a_good_reply() -> None:
    assert read_concepts('{"concepts": []}', 2) == ()


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"concepts": "car"},
        {"concepts": ["car"]},
        {"concepts": [concept("", "car")]},
        {"concepts": [concept("x", " ")]},
        {"concepts": [concept("x", "car", 3)]},  # type: ignore[arg-type]
        {"concepts": [{"text": "x", "attribute": None}]},
    ],
)
def test_concepts_of_another_shape_are_refused(value: Any) -> None:
    with pytest.raises(Unparsed):
        read_concepts(json.dumps(value), 2)


def test_instructions_are_exactly_n() -> None:
    text = wrapped({"instructions": [PARTS, PARTS]})
    assert read_instructions(text, 2)[1] == ("all", "remove the car", "road", "blur")
    for n in (1, 3):
        with pytest.raises(Unparsed, match=f"exactly {n} instructions, not 2"):
            read_instructions(text, n)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_says_something(part: str) -> None:
    for value in ("", "  ", None, 1):
        with pytest.raises(Unparsed, match=f'"{part}"'):
            read_instructions(json.dumps({"instructions": [PARTS | {part: value}]}), 1)


def test_an_edit() -> None:
    text = '{"edit_type": " Modify", "target_object": " traffic\\nlight "}'
    assert read_edit(text) == ("modify", "traffic light")


@pytest.mark.parametrize(
    "value",
    [
        {"edit_type": "recolour", "target_object": "car"},
        {"edit_type": "modify", "target_object": ""},
        {"edit_type": "modify", "target_object": "car " * 40},
        {"edit_type": "modify"},
    ],
)
def test_an_edit_of_another_shape_is_refused(value: Any) -> None:
    with pytest.raises(Unparsed):
        read_edit(json.dumps(value))


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(Unparsed, match="Unicode"):
        read_grade('{"reason": "\\ud800", "grade": 3}')


@pytest.mark.parametrize("text", ['{"a":' * 100_000, "{" * 100_000, '{"' * 50_000, '{"a":1}' * 900])
def test_hostile_lengths_end_soon(text: str) -> None:
    with pytest.raises(Unparsed):
        read_verdict(text)


READERS = [
    lambda text: read_concepts(text, 2),
    lambda text: read_instructions(text, 1),
    read_edit,
    read_verdict,
    read_grade,
    read_look,
]
ROWS = ("instructions", "edit_type", "target_object")
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [*PARTS, *VERDICT, "grade", "concepts", "text", "object", "attribute", *ROWS]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)
texts = st.one_of(
    st.text(),
    st.text(alphabet='{}[]",:0123456789 \n\\abtrue'),
    json_values.map(json.dumps),
    st.tuples(st.text(), json_values.map(json.dumps), st.text()).map("".join),
)


@pytest.mark.parametrize("reader", READERS)
@given(text=texts)
def test_any_text_is_read_or_refused(reader: Any, text: str) -> None:
    try:
        reader(text)
    except Unparsed as error:
        assert str(error)  # noqa: PT017 - a reason there must be, if it is refused


@given(
    st.fixed_dictionaries(
        {"reason": st.text(), "answer_consistent": json_values, "explanation_faithful": json_values}
    ),
    st.fixed_dictionaries({"reason": st.just("r"), "grade": json_values}),
)
def test_what_is_read_lies_in_range(verdict: Any, grade: Any) -> None:
    try:
        found = read_verdict(json.dumps(verdict))
        assert found.answer_consistent in (0, 1)
        assert found.answer_consistent == verdict["answer_consistent"]
        assert found.explanation_faithful == verdict["explanation_faithful"]
        assert type(found.explanation_faithful) is int
    except Unparsed:
        pass
    try:
        assert read_grade(json.dumps(grade)).grade == grade["grade"]
        assert 1 <= grade["grade"] <= 5
    except Unparsed:
        pass


@given(st.text(), st.text(), st.integers(1, 5))
def test_reasons_come_back_whole(before: str, reason: str, grade: int) -> None:
    text = before.replace("{", "(") + json.dumps({"reason": f"x{reason}x", "grade": grade})
    assert read_grade(text) == (grade, f"x{reason}x")


def test_schemas_ask_for_what_readers_read() -> None:
    for schema, reply in (
        (replies.VERDICT_SCHEMA, VERDICT),
        (replies.LOOK_SCHEMA, LOOK),
        (replies.GRADE_SCHEMA, {"reason": "r", "grade": 1}),
        (replies.EDIT_SCHEMA, {"edit_type": "add", "target_object": "x"}),
        (replies.CONCEPTS_SCHEMA["properties"]["concepts"]["items"], concept("x")),
        (replies.INSTRUCTIONS_SCHEMA["properties"]["instructions"]["items"], PARTS),
    ):
        assert schema["required"] == list(schema["properties"]) == list(reply)
        assert schema["additionalProperties"] is False
