"""The built-in world: questions, rules, words and edits fit each other."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.models.demo import world
from stages.models.demo.changes import Change, read_changes, revise, say_change
from stages.models.demo.language import (
    answers,
    explain,
    phrase,
    read_answer,
    read_evidence,
    say_answer,
)
from stages.models.demo.world import (
    COLOURS,
    EMPTY_ROAD,
    FACING_KINDS,
    FACINGS,
    FAMILIES,
    KINDS,
    PATTERNS,
    Evidence,
    Features,
    Question,
    Scene,
    compose,
    decide,
    expect,
    understand,
)

families = pytest.mark.parametrize("family", FAMILIES)

kind_of, colour_of = st.sampled_from(KINDS), st.sampled_from(COLOURS)
pattern_of, facing_of = st.sampled_from(PATTERNS), st.sampled_from(FACINGS)
evidence = st.one_of(
    st.tuples(kind_of, st.just("colour"), colour_of),
    st.tuples(st.just("ball"), st.just("pattern"), pattern_of),
    st.tuples(st.sampled_from(FACING_KINDS), st.just("facing"), facing_of),
    st.tuples(kind_of, st.just("presence")),
    st.just(tuple(EMPTY_ROAD)),
).map(lambda fields: Evidence(*fields))
features = st.builds(
    Features,
    st.none() | st.sampled_from(COLOURS),
    st.none() | st.sampled_from(PATTERNS),
    st.none() | st.sampled_from(FACINGS),
)
scenes = st.builds(
    Scene,
    st.dictionaries(st.sampled_from(KINDS), features),
    st.dictionaries(st.sampled_from(KINDS), st.sampled_from(KINDS)).map(
        lambda pairs: {anchor: kind for anchor, kind in pairs.items() if anchor != kind}
    ),
)
changes = st.one_of(
    st.tuples(st.just("recolour"), kind_of, colour_of, colour_of),
    st.tuples(st.just("repattern"), st.just("ball"), pattern_of, pattern_of),
    st.tuples(st.just("turn"), st.sampled_from(FACING_KINDS), st.none(), facing_of),
    st.tuples(st.sampled_from(["remove", "add"]), kind_of),
    st.tuples(st.just("replace"), kind_of, st.none(), kind_of),
).map(lambda fields: Change(*fields))


def question_of(family: str, index: int = 0, seed: int = 0) -> Question:
    found = understand(compose(family, index, np.random.default_rng(seed)).question)
    assert found is not None
    return found


def ball(colour: str, pattern: str) -> Scene:
    return Scene({"ball": Features(colour, pattern)})


def test_all_questions_differ_and_are_understood_within_other_text() -> None:
    texts: set[str] = set()
    for family in FAMILIES:
        for index in range(world.capacity(family)):
            brief = compose(family, index, np.random.default_rng(index))
            texts.add(brief.question)
            found = understand(f"Look here. {brief.question}\n\nAnswer in one sentence.")
            assert found is not None
            assert (found.family, found.text) == (family, brief.question)
    assert len(texts) == sum(world.capacity(family) for family in FAMILIES)


def test_a_question_beyond_the_capacity_is_refused() -> None:
    with pytest.raises(ValueError, match="246 distinct questions"):
        compose("sport", world.capacity("sport"), np.random.default_rng(0))


def test_other_questions_are_not_understood() -> None:
    assert understand("What is the capital of France?") is None


@families
def test_a_brief_paints_what_its_reference_says(family: str) -> None:
    for index in range(30):
        brief = compose(family, index, np.random.default_rng(index))
        found = understand(brief.question)
        assert found is not None
        things = {t.kind: Features(t.colour, t.pattern, t.facing) for t in brief.things}
        left_of = {
            t.place.removeprefix("left of "): t.kind
            for t in brief.things
            if t.place and t.place.startswith("left of")
        }
        painted = decide(found, Scene(things, left_of))
        assert painted.answer == brief.reference != world.UNCLEAR
        assert painted == expect(found)
        assert painted.evidence
        assert not set(brief.exclude) & set(things)
        assert set(things) | set(brief.exclude) <= set(KINDS)
        assert len(things) == len(brief.things)


def test_only_driving_questions_are_wrapped() -> None:
    wrapped = {f for f in FAMILIES if compose(f, 0, np.random.default_rng(0)).system_prompt}
    assert wrapped == {"stop", "go", "turn", "ahead"}


@families
@given(scene=scenes)
def test_rules_are_total_and_answer_within_the_known_answers(family: str, scene: Scene) -> None:
    question = question_of(family)
    assert decide(question, scene).answer in answers(question)


@pytest.mark.parametrize(
    ("scene", "answer"),
    [
        (ball("orange", "lined"), "basketball"),
        (ball("blue", "lined"), "basketball"),
        (ball("orange", "spotted"), "football"),
        (ball("yellow", "plain"), "tennis"),
        (ball("red", "plain"), "bowling"),
        (Scene({}), world.UNCLEAR),
    ],
)
def test_sport(scene: Scene, answer: str) -> None:
    assert decide(question_of("sport"), scene).answer == answer


def test_a_season_outlasts_the_colour_of_the_tree_while_the_pumpkin_is_there() -> None:
    question = question_of("season")
    assert [phrase(e) for e in expect(question).evidence] == [
        "the orange colour of the tree",
        "the pumpkin",
    ]
    green = Scene({"tree": Features("green"), "pumpkin": Features()})
    assert decide(question, green) == ("autumn", (Evidence("pumpkin", "presence"),))
    bare = revise(green, Change("remove", "pumpkin"))
    assert decide(question, bare) == ("summer", (Evidence("tree", "colour", "green"),))


@pytest.mark.parametrize("family", ["stop", "go"])
@pytest.mark.parametrize(
    ("light", "pedestrian", "answer", "named"),
    [
        ("red", True, "stop", ["the red colour of the traffic light", "the pedestrian"]),
        ("yellow", False, "stop", ["the yellow colour of the traffic light"]),
        ("green", True, "stop", ["the pedestrian"]),
        ("green", False, "go", ["the green colour of the traffic light", "the empty road"]),
    ],
)
def test_driving_on(
    family: str, light: str, pedestrian: bool, answer: str, named: list[str]
) -> None:
    things = {"traffic light": Features(light)} | ({"pedestrian": Features()} if pedestrian else {})
    decision = decide(question_of(family), Scene(things))
    assert decision.answer == answer
    assert [phrase(e) for e in decision.evidence] == named


@pytest.mark.parametrize(("first", "second"), list(product(FACINGS, FACINGS)))
def test_same_direction(first: str, second: str) -> None:
    question = question_of("same_direction")
    facings = (Features(facing=first), Features(facing=second))
    scene = Scene(dict(zip(question.kinds, facings, strict=True)))
    assert decide(question, scene).answer == ("yes" if first == second else "no")
    assert len(decide(question, scene).evidence) == 2


def test_left_of_is_about_the_anchor_that_is_named() -> None:
    question = Question("left_of", "", ("chest",))
    assert expect(question).answer == "lamp"
    scene = Scene({}, {"chest": "cat", "bench": "dog"})
    assert decide(question, scene).answer == "cat"
    assert decide(question, Scene({}, {"bench": "dog"})).answer == world.NOTHING


@given(st.lists(evidence, unique=True, max_size=4))
def test_evidence_is_read_as_it_was_said(items: list[Evidence]) -> None:
    described = {item.kind for item in items if item.aspect != "presence"}
    kept = tuple(i for i in items if i.aspect != "presence" or i.kind not in described)
    assert read_evidence(explain(tuple(items))) == kept


@given(evidence)
def test_a_phrase_names_one_piece_of_evidence(item: Evidence) -> None:
    assert read_evidence(phrase(item)) == (item,)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            "A lined orange ball.",
            ["the lined pattern of the ball", "the orange colour of the ball"],
        ),
        ("The traffic  light's on, a red Traffic Light", ["the red colour of the traffic light"]),
        ("the bus is facing to the right", ["the right-facing direction of the bus"]),
        ("the road is clear", ["the empty road"]),
        ("there is no pumpkin, and the tree stands without a ball", ["the tree"]),
        ("It is a nice scarf and a carpet.", []),
    ],
)
def test_looser_words_are_read(text: str, named: list[str]) -> None:
    assert [phrase(item) for item in read_evidence(text)] == named


@families
def test_answers_are_read_as_they_were_said(family: str) -> None:
    for index in range(12):
        question = question_of(family, index, seed=index)
        for answer in answers(question):
            assert read_answer(question, say_answer(question, answer)) == answer


def test_an_answer_that_names_two_is_none() -> None:
    assert read_answer(question_of("season"), "Summer or autumn.") is None
    assert read_answer(question_of("season"), "It's fall, I think.") == "autumn"


@given(change=changes)
def test_a_change_is_read_as_it_was_said(change: Change) -> None:
    sentence = say_change(change)
    assert read_changes(sentence) == (change,)
    assert read_changes(f"1. {sentence.capitalize()}.\n2. {sentence}") == (change, change)


@given(scene=scenes, change=changes)
def test_a_change_is_seen_in_the_scene_and_nowhere_else(scene: Scene, change: Change) -> None:
    after = revise(scene, change)
    touched = {change.kind, change.new}
    for kind in set(KINDS) - touched:
        assert after.things.get(kind) == scene.things.get(kind)
    match change.action:
        case "remove":
            assert change.kind not in after.things
            assert change.kind not in after.left_of.values()
        case "replace":
            assert change.new in after.things
            assert change.kind not in after.things or change.kind == change.new
        case "recolour":
            assert after.of(change.kind).colour == change.new
        case "repattern":
            assert after.of(change.kind).pattern == change.new
        case "turn":
            assert after.of(change.kind).facing == change.new
        case "add":
            assert change.kind in after.things
