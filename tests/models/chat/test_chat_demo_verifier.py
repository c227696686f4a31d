"""The built-in verifier: it sees planted faults, small ones too, and passes what is right."""

import asyncio
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from stages.models.chat.demo_verifier import DemoVerifier
from stages.models.demo import scene, sight, world
from stages.models.demo.changes import Change, say_change
from stages.models.editor import demo
from stages.models.picture import Picture
from stages.models.prompt import Prompt
from stages.models.protocol import Conversation, Turn
from stages.models.replies import Look, Unparsed, read_look

PROMPT = Prompt.load(Path(__file__).parents[3] / "prompts" / "default" / "verifier.txt")
CASES = 6


def look(source: np.ndarray, edited: np.ndarray, instruction: str) -> Look:
    pictures = Picture.of(source), Picture.of(edited)
    turn = Turn("user", PROMPT.render(instruction=instruction), pictures)
    said = asyncio.run(DemoVerifier().complete(Conversation((turn,), max_tokens=64)))
    return read_look(said.text)


@cache
def painted(index: int) -> np.ndarray:
    brief = world.compose("sport", index, np.random.default_rng([0, index]))
    rng = np.random.default_rng([1, index])
    return scene.render(brief, driving=False, width=640, height=480, rng=rng).pixels


def changes(index: int) -> list[str]:
    """A recolouring and a removal of something that is there, and not alone there."""
    seen = sight.see(painted(index))
    thing = next(t for t in seen if t.kind == "ball")
    new = "blue" if thing.colour != "blue" else "red"
    return [
        say_change(Change("recolour", "ball", thing.colour, new)),
        say_change(Change("remove", seen[0].kind)),
    ]


def edited(index: int, instruction: str, fault: str | None) -> np.ndarray:
    rng = np.random.default_rng([2, index])
    return demo.edit(painted(index), instruction, fault=fault, rng=rng)


@pytest.mark.parametrize("fault", [None, "shift"])
@pytest.mark.parametrize("index", range(CASES))
def test_a_right_edit_is_passed(index: int, fault: str | None) -> None:
    for instruction in changes(index):
        found = look(painted(index), edited(index, instruction, fault), instruction)
        assert found[:2] == (True, True), found.reason


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("unchanged", (False, True)),
        ("wrong_object", (False, False)),
        ("background", (True, False)),
        ("bystander", (True, False)),
    ],
)
@pytest.mark.parametrize("index", range(CASES))
def test_a_planted_fault_is_seen(index: int, fault: str, expected: tuple[bool, bool]) -> None:
    instruction = changes(index)[0]
    out = edited(index, instruction, fault)
    found = look(painted(index), out, instruction)
    assert found[:2] == expected, found.reason


def test_the_order_of_the_pictures_counts() -> None:
    instruction = changes(0)[1]
    out = edited(0, instruction, None)
    assert look(painted(0), out, instruction).change_present
    assert not look(out, painted(0), instruction).change_present


def test_what_it_can_t_read_it_declines() -> None:
    with pytest.raises(Unparsed):
        look(painted(0), painted(0), "Give the sign another letter.")
    turn = Turn("user", PROMPT.render(instruction="remove the ball"), (Picture.of(painted(0)),))
    said = asyncio.run(DemoVerifier().complete(Conversation((turn,), max_tokens=64)))
    with pytest.raises(Unparsed):
        read_look(said.text)
