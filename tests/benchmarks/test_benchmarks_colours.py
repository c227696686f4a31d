"""Scenes of one question: what is asked is there, in its typical colour, and can be edited."""

import asyncio
from collections import Counter

import numpy as np
import pytest

from stages.benchmarks.demo_colours import DemoColours
from stages.models.chat.demo_target import DemoTarget
from stages.models.demo import cells, sight, world
from stages.models.editor.demo import edit
from stages.models.protocol import Conversation, Turn
from stages.records.errors import UserError


def test_kinds_take_turns_and_answers_are_typical() -> None:
    items = DemoColours("train", samples=18, seed=1).select().items
    assert Counter(item.group for item in items) == dict.fromkeys(cells.KINDS, 3)
    assert all(item.reference == world.TYPICAL_COLOUR[str(item.group)] for item in items)
    assert len({item.question for item in items}) == 18
    assert items[0].id == "train-001"


def test_what_is_asked_is_seen_as_it_was_painted() -> None:
    for item in DemoColours("train", samples=12, seed=3, typical=0.0).select().items:
        seen = {thing.kind: thing.colour for thing in sight.see(item.picture().pixels)}
        assert seen[str(item.group)] == item.reference


def test_a_faithful_target_answers_before_and_after_an_edit() -> None:
    item = DemoColours("train", samples=1, seed=1).select().items[0]  # a car
    target = DemoTarget("looks")

    def ask(picture: object) -> str:
        turns = (Turn("user", item.question, (picture,)),)  # type: ignore[arg-type]
        return asyncio.run(target.complete(Conversation(turns, max_tokens=16))).text

    picture = item.picture()
    assert ask(picture) == "It is blue."
    painted = edit(
        picture.pixels,
        "Change: change the colour of the car from blue to orange",
        fault=None,
        rng=np.random.default_rng(0),
    )
    assert ask(type(picture).of(painted)) == "It is orange."


def test_no_thing_crosses_the_border_of_its_cell() -> None:
    rng = np.random.default_rng(0)
    for kind in cells.KINDS:
        for _ in range(50):
            x0, y0, x1, y1 = cells.box_in_cell(kind, rng)
            assert 0 < x0 < x1 < cells.CELL
            assert 0 < y0 < y1 < cells.CELL


def test_equal_recipes_give_equal_bytes_and_seeds_differ() -> None:
    def names(seed: int) -> list[str]:
        return [
            item.picture().sha256 for item in DemoColours("a", samples=3, seed=seed).select().items
        ]

    assert names(1) == names(1)
    assert not set(names(1)) & set(names(2))


def test_typical_is_a_share() -> None:
    items = DemoColours("a", samples=200, seed=0, typical=0.5).select().items
    usual = [item.reference == world.TYPICAL_COLOUR[str(item.group)] for item in items]
    assert 0.45 < np.mean(usual) < 0.7  # a seventh of the rest is typical by chance


@pytest.mark.parametrize("values", [{"samples": 0}, {"typical": 1.5}, {"seed": -1}])
def test_values_out_of_range_are_one_line(values: dict[str, float]) -> None:
    with pytest.raises(UserError, match=next(iter(values))):
        DemoColours("train", **values)  # type: ignore[arg-type]
