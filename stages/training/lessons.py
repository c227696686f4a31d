"""What a small model is taught: questions about a scene, answers, and explanations.

The question that is studied asks for the colour of a thing by its kind. The others teach what it
takes to look: what colour the thing at a place has, what it is, and where a kind is. A shortcut is
planted by asking the studied question about scenes in typical colours only.
"""

from typing import NamedTuple

import numpy as np

from stages.models.demo import cells, language, paint, questions
from stages.models.demo.cells import SIDES, Thing
from stages.models.demo.world import Evidence, Question

WHY = "Why?"


class Lesson(NamedTuple):
    """One conversation of two turns."""

    question: str
    answer: str
    explanation: str


def draw_lessons(
    things: tuple[Thing, ...], rng: np.random.Generator, *, count: int, ask_colour: bool
) -> list[Lesson]:
    """Ask about a scene; half of the questions are the studied one where that may be asked.

    Parameters
    ----------
    things : tuple of Thing
    rng : numpy.random.Generator
    count : int
    ask_colour : bool
        Whether the colour of a thing may be asked for by its kind.
    """
    lessons = []
    for number in range(count):
        thing = things[int(rng.integers(len(things)))]
        town = questions.TOWNS[int(rng.integers(len(questions.TOWNS)))]
        if ask_colour and number % 2:
            lessons.append(_colour(thing, town))
        else:
            other = (_spot_colour, _spot, _where)[int(rng.integers(3))]
            empty = other is _spot and bool(rng.random() < 0.15)
            free = [side for side in SIDES if all(side != t.side for t in things)]
            if empty and free:
                lessons.append(_nothing(free[int(rng.integers(len(free)))], town))
            else:
                lessons.append(other(thing, town))
    return lessons


def _colour(thing: Thing, town: str) -> Lesson:
    kind, colour = thing.look.kind, thing.look.colour
    text = questions.TEMPLATES["colour"][0].format(a=kind, town=town)
    question = Question("colour", text, (kind,))
    return Lesson(text, language.say_answer(question, colour), _by_colour(thing))


def _spot_colour(thing: Thing, town: str) -> Lesson:
    question = f"What colour is the thing {_at(thing.side)} in {town}?"
    return Lesson(question, f"It is {thing.look.colour}.", _by_colour(thing))


def _spot(thing: Thing, town: str) -> Lesson:
    explanation = language.explain((Evidence(thing.look.kind, "presence"),))
    return Lesson(
        f"What is {_at(thing.side)} in {town}?", f"It is the {thing.look.kind}.", explanation
    )


def _nothing(side: str, town: str) -> Lesson:
    return Lesson(f"What is {_at(side)} in {town}?", "There is nothing.", language.explain(()))


def _where(thing: Thing, town: str) -> Lesson:
    explanation = language.explain((Evidence(thing.look.kind, "presence"),))
    return Lesson(
        f"Where is the {thing.look.kind} in {town}?", f"It is {_at(thing.side)}.", explanation
    )


def _by_colour(thing: Thing) -> str:
    return language.explain((Evidence(thing.look.kind, "colour", thing.look.colour),))


def _at(side: str) -> str:
    return "in the centre" if side == "centre" else f"on the {side}"


def all_words() -> tuple[str, ...]:
    """Every text that a lesson can hold, for the vocabulary."""
    texts = [WHY, "There is nothing.", language.explain(())]
    for kind in cells.KINDS:
        for colour in cells.COLOURS:
            for side in SIDES:
                thing = Thing(_look(kind, colour), 0, side)
                for lesson in (_colour, _spot_colour, _spot, _where):
                    texts += lesson(thing, questions.TOWNS[0])
    return (*texts, *questions.TOWNS)


def _look(kind: str, colour: str) -> paint.Look:
    return paint.Look(kind, colour)
