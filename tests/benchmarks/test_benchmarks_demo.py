"""The embedded benchmark: proportions, distinct questions, equal bytes, and named mistakes."""

from collections import Counter
from pathlib import Path

import pytest
import yaml

from stages.benchmarks.demo import DOMAINS, Demo, _counts, _most_samples
from stages.models.demo import sight, world
from stages.records.errors import UserError

CONF = Path(__file__).resolve().parents[2] / "conf" / "benchmark" / "demo.yaml"


def test_sixty_samples_have_the_stated_proportions():
    selection = Demo().select()
    assert len(selection.items) == 60
    assert Counter(item.domain for item in selection.items) == {
        "everyday": 32,
        "driving": 16,
        "spatial": 12,
    }
    assert Counter(item.group for item in selection.items) == {
        family: n for families in DOMAINS.values() for family, n in families.items()
    }
    assert selection.items[0].id == "everyday-001"
    assert {item.group for item in selection.items} == set(world.FAMILIES) - {"colour"}
    assert not selection.left_out


@pytest.mark.parametrize("samples", [1, 2, 7, 59, 60, 61, 100, 300, _most_samples()])
def test_any_number_is_met_exactly_and_in_proportion(samples):
    counts = _counts(samples)
    weights = {family: n for families in DOMAINS.values() for family, n in families.items()}
    assert sum(counts.values()) == samples
    for family, count in counts.items():
        assert abs(count - samples * weights[family] / 60) < 1
        assert count <= world.capacity(family)


def test_ids_and_questions_are_distinct_however_many():
    items = Demo(samples=_most_samples()).select().items
    assert len({item.id for item in items}) == len(items)
    assert len({item.question for item in items}) == len(items)


def test_equal_recipes_give_equal_pictures_and_other_seeds_others():
    first, second, other = (Demo(samples=8, seed=seed).select().items for seed in (3, 3, 4))
    assert [item.id for item in first] == [item.id for item in other]
    for a, b in zip(first, second, strict=True):
        assert (a.question, a.reference) == (b.question, b.reference)
    assert first[2].picture() == second[2].picture()
    assert first[2].picture() != other[2].picture()


def test_more_samples_leave_pictures_as_they_were():
    few = {item.source: item for item in Demo(samples=10).select().items}
    many = {item.source: item for item in Demo(samples=20).select().items}
    assert set(few) < set(many)
    source = next(iter(few))
    assert few[source].picture() == many[source].picture()


@pytest.mark.parametrize("seed", [0, 1])
def test_every_picture_carries_what_its_question_is_about(seed):
    for item in Demo(samples=22, seed=seed).select().items:
        pixels = item.picture().pixels
        assert pixels.shape == (480, 640, 3)
        question = world.understand(item.question)
        assert question is not None
        assert question.family == item.group
        seen = {thing.kind: thing for thing in sight.see(pixels)}
        for asked in world._BY_NAME[item.group].typical(question):
            assert asked.kind in seen, item.id
            for feature in ("colour", "pattern", "facing"):
                wanted = getattr(asked, feature)
                assert wanted in (None, getattr(seen[asked.kind], feature)), item.id
        assert (item.system_prompt is not None) == (item.domain == "driving")
        assert item.reference == world.expect(question).answer


def test_other_sizes():
    item = Demo(samples=1, width=1000, height=700).select().items[0]
    pixels = item.picture().pixels
    assert pixels.shape == (700, 1000, 3)
    assert "ball" in {thing.kind for thing in sight.see(pixels)}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("samples", value) for value in (0, -3, 10**6, 2.5, True, "60")),
        *(("width", value) for value in (10, 0, 10**5)),
        *(("height", value) for value in (479, 10**5)),
        *(("seed", value) for value in (-1, 2**40, None)),
    ],
)
def test_a_wrong_value_names_its_key(key, value):
    with pytest.raises(UserError, match=f"benchmarks.demo.{key}"):
        Demo(**{key: value})


def test_the_file_in_conf_builds_it():
    text = CONF.read_text()
    assert text.startswith("# @package benchmarks.demo\n")
    options = yaml.safe_load(text)
    assert options.pop("_target_") == "stages.benchmarks.demo.Demo"
    assert len(Demo(**options).select().items) == 60
