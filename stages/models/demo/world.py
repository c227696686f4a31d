"""What the built-in world contains, which questions are asked about it, and what follows from what.

A question belongs to a family. A family has a rule that takes any scene to an answer and to the
evidence that supports it, and a typical scene, which depends on the question text alone: what a
model would guess without looking. How scenes are drawn and how evidence is put into words is
said elsewhere (`paint`, `language`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Literal, NamedTuple

import numpy as np

from stages.models.demo import questions

KINDS = (
    "ball",
    "apple",
    "tree",
    "pumpkin",
    "cat",
    "dog",
    "lamp",
    "plant",
    "chest",
    "bench",
    "car",
    "bus",
    "truck",
    "traffic light",
    "pedestrian",
    "arrow sign",
    "bird",
    "fish",
)
"""What a scene can contain, each kind at most once."""
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink")
LIGHTS = ("red", "yellow", "green")
"""Colours of a traffic light: that of its lit lamp."""
PATTERNS = ("plain", "lined", "spotted")
"""Patterns of a ball."""
FACINGS = ("left", "right")
FACING_KINDS = ("car", "bus", "truck", "arrow sign", "bird", "fish", "cat", "dog")
"""Kinds that face left or right."""
PETS = ("cat", "dog", "bird", "fish")
VEHICLES = ("car", "bus", "truck")

UNCLEAR = "unclear"
"""The answer where a scene does not say."""
NOTHING = "nothing"
"""The answer where a scene shows none of what is asked for."""

Aspect = Literal["colour", "pattern", "facing", "presence"]


class Evidence(NamedTuple):
    """A visual feature that supports an answer."""

    kind: str
    """One of KINDS, or ``road``, whose only feature is that it is empty."""
    aspect: Aspect
    value: str | None = None
    """The colour, pattern or facing; None for presence."""


EMPTY_ROAD = Evidence("road", "presence")


@dataclass(frozen=True)
class Features:
    """What is known of one thing; None where it is unknown or does not apply."""

    colour: str | None = None
    pattern: str | None = None
    facing: str | None = None


@dataclass(frozen=True)
class Scene:
    """What is there: a scene that was seen, guessed, or put together from words."""

    things: Mapping[str, Features]
    """Kinds present."""
    left_of: Mapping[str, str] = field(default_factory=dict)
    """Anchor kind → the kind directly left of it; no entry where there is none."""

    def of(self, kind: str) -> Features:
        """What is known of a kind; nothing where it is absent."""
        return self.things.get(kind, Features())


@dataclass(frozen=True)
class Question:
    """A question that was understood."""

    family: str
    text: str
    """The question itself, without what stood around it."""
    kinds: tuple[str, ...] = ()
    """The kinds that it names, in its order, where the family leaves them open."""


class Decision(NamedTuple):
    """An answer, and the evidence for it, the most important first."""

    answer: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class Asked:
    """A thing that a scene must show; None leaves a feature to the painter."""

    kind: str
    colour: str | None = None
    pattern: str | None = None
    facing: str | None = None
    place: str | None = None
    """``on the road``, ``left of <kind>`` (directly), or None."""


@dataclass(frozen=True)
class Brief:
    """An item to be painted: the question, and the scene that it is about."""

    question: str
    system_prompt: str | None
    things: tuple[Asked, ...]
    """The typical scene of the question."""
    reference: str
    """The answer to the scene as painted."""
    exclude: tuple[str, ...]
    """Kinds that must not be in the scene beside the things."""


@dataclass(frozen=True)
class Family:
    """A kind of question: its typical scene, its rule, and what must stay out of its scenes."""

    name: str
    typical: Callable[[Question], tuple[Asked, ...]]
    rule: Callable[[Question, Scene], Decision]
    exclude: tuple[str, ...] = ()
    kinds: tuple[tuple[str, ...], ...] = ((),)
    """What a question can name, one of these at a time."""
    driving: bool = False


# --- rules: total functions from a scene to an answer and its evidence ---------------------------


def _sport(_: Question, scene: Scene) -> Decision:
    ball = scene.of("ball")
    pattern = Evidence("ball", "pattern", ball.pattern)
    colour = Evidence("ball", "colour", ball.colour)
    answer = {"lined": "basketball", "spotted": "football"}.get(ball.pattern or "")
    if answer is None and ball.pattern == "plain" and ball.colour:
        answer = "tennis" if ball.colour == "yellow" else "bowling"
    return Decision(answer or UNCLEAR, _known(pattern, colour))


_SEASON = {"green": "summer", "orange": "autumn", "yellow": "autumn", "pink": "spring"}


def _season(_: Question, scene: Scene) -> Decision:
    tree = Evidence("tree", "colour", scene.of("tree").colour)
    by_tree = _SEASON.get(tree.value or "", UNCLEAR)
    if "pumpkin" not in scene.things:
        return Decision(by_tree, _known(tree))
    pumpkin = Evidence("pumpkin", "presence")
    return Decision("autumn", (tree, pumpkin) if by_tree == "autumn" else (pumpkin,))


def _ripe(_: Question, scene: Scene) -> Decision:
    colour = scene.of("apple").colour
    if colour is None:
        return Decision(UNCLEAR, ())
    answer = "yes" if colour in ("red", "yellow") else "no"
    return Decision(answer, (Evidence("apple", "colour", colour),))


def _first_present(kinds: tuple[str, ...], scene: Scene) -> Decision:
    for kind in kinds:
        if kind in scene.things:
            return Decision(kind, (Evidence(kind, "presence"),))
    return Decision(NOTHING, ())


def _pet(_: Question, scene: Scene) -> Decision:
    return _first_present(PETS, scene)


def _ahead(_: Question, scene: Scene) -> Decision:
    return _first_present(VEHICLES, scene)


def _drive_on(_: Question, scene: Scene) -> Decision:
    light = Evidence("traffic light", "colour", scene.of("traffic light").colour)
    reasons = [light] if light.value in ("red", "yellow") else []
    if "pedestrian" in scene.things:
        reasons.append(Evidence("pedestrian", "presence"))
    if reasons:
        return Decision("stop", tuple(reasons))
    return Decision("go", (*_known(light), EMPTY_ROAD))


def _turn(_: Question, scene: Scene) -> Decision:
    return _faces("arrow sign", scene)


def _facing(question: Question, scene: Scene) -> Decision:
    return _faces(question.kinds[0], scene)


def _faces(kind: str, scene: Scene) -> Decision:
    facing = Evidence(kind, "facing", scene.of(kind).facing)
    return Decision(facing.value or UNCLEAR, _known(facing))


def _same_direction(question: Question, scene: Scene) -> Decision:
    facings = [Evidence(kind, "facing", scene.of(kind).facing) for kind in question.kinds]
    first, second = (facing.value for facing in facings)
    if first is None or second is None:
        return Decision(UNCLEAR, _known(*facings))
    return Decision("yes" if first == second else "no", tuple(facings))


def _colour(question: Question, scene: Scene) -> Decision:
    kind = question.kinds[0]
    colour = Evidence(kind, "colour", scene.of(kind).colour)
    return Decision(colour.value or UNCLEAR, _known(colour))


def _left_of(question: Question, scene: Scene) -> Decision:
    kind = scene.left_of.get(question.kinds[0])
    return Decision(kind, (Evidence(kind, "presence"),)) if kind else Decision(NOTHING, ())


def _known(*evidence: Evidence) -> tuple[Evidence, ...]:
    return tuple(item for item in evidence if item.value is not None)


# --- families ------------------------------------------------------------------------------------

NEIGHBOURS = {"chest": "lamp", "bench": "plant", "tree": "pumpkin", "lamp": "ball"}
"""Anchor kind → what typically stands directly left of it."""
TYPICAL_COLOUR = {
    "car": "blue",
    "bus": "yellow",
    "ball": "red",
    "tree": "green",
    "chest": "purple",
    "bird": "orange",
}
"""Kind → the colour that a model names which does not look."""
REPLACEMENTS = {
    "lamp": "plant",
    "plant": "lamp",
    "pumpkin": "ball",
    "ball": "pumpkin",
    "cat": "dog",
    "dog": "cat",
    "bird": "fish",
    "fish": "bird",
    "car": "bus",
    "bus": "truck",
    "truck": "car",
}
"""What can take a thing's place without leaving a question about it pointless."""
_TYPICAL_FACING = {"car": "left", "bus": "right", "truck": "left", "bird": "right", "fish": "left"}
_ROAD = "on the road"


def _typical_neighbours(question: Question) -> tuple[Asked, ...]:
    anchor = question.kinds[0]
    return Asked(anchor), Asked(NEIGHBOURS[anchor], place=f"left of {anchor}")


_ALL = (
    Family(
        "sport",
        lambda _: (Asked("ball", colour="orange", pattern="lined"),),
        _sport,
    ),
    Family(
        "season",
        lambda _: (Asked("tree", colour="orange"), Asked("pumpkin")),
        _season,
    ),
    Family("ripe", lambda _: (Asked("apple", colour="red"),), _ripe),
    Family("pet", lambda _: (Asked("cat"),), _pet, exclude=PETS),
    Family(
        "stop",
        lambda _: (Asked("traffic light", colour="red"), Asked("pedestrian", place=_ROAD)),
        _drive_on,
        exclude=VEHICLES,
        driving=True,
    ),
    Family(
        "go",
        lambda _: (Asked("traffic light", colour="green"),),
        _drive_on,
        exclude=("pedestrian", *VEHICLES),
        driving=True,
    ),
    Family("turn", lambda _: (Asked("arrow sign", facing="left"),), _turn, driving=True),
    Family(
        "ahead",
        lambda _: (Asked("car", place=_ROAD),),
        _ahead,
        exclude=VEHICLES,
        driving=True,
    ),
    Family(
        "same_direction",
        lambda question: tuple(Asked(kind, facing="left") for kind in question.kinds),
        _same_direction,
        kinds=tuple(permutations((*VEHICLES, *PETS), 2)),
    ),
    Family(
        "facing",
        lambda question: tuple(
            Asked(kind, facing=_TYPICAL_FACING[kind]) for kind in question.kinds
        ),
        _facing,
        kinds=tuple((kind,) for kind in _TYPICAL_FACING),
    ),
    Family(
        "left_of",
        _typical_neighbours,
        _left_of,
        kinds=tuple((anchor,) for anchor in NEIGHBOURS),
    ),
    Family(
        "colour",
        lambda question: tuple(Asked(kind, colour=TYPICAL_COLOUR[kind]) for kind in question.kinds),
        _colour,
        kinds=tuple((kind,) for kind in TYPICAL_COLOUR),
    ),
)
_BY_NAME = {family.name: family for family in _ALL}

FAMILIES: tuple[str, ...] = tuple(_BY_NAME)
"""Names of the families."""
SYSTEM_PROMPT = (
    "You assist the driver of the ego vehicle, a passenger car. "
    "The image is the view of its front camera: you see the road from the ego vehicle."
)
"""What driving questions are wrapped in."""


def capacity(family: str) -> int:
    """How many distinct questions a family has: `compose` takes indices below this."""
    return len(questions.TEMPLATES[family]) * len(questions.TOWNS)


def compose(family: str, index: int, rng: np.random.Generator) -> Brief:
    """Make the index-th item of a family; the texts of different indices differ.

    Parameters
    ----------
    family : str
        One of FAMILIES.
    index : int
        From 0 up to `capacity`, which is excluded.
    rng : numpy.random.Generator
        Draws the kinds that the question names, where the family leaves them open.
    """
    if not 0 <= index < capacity(family):
        raise ValueError(f"{family} has {capacity(family)} distinct questions, not {index + 1}")
    rules = _BY_NAME[family]
    kinds = rules.kinds[int(rng.integers(len(rules.kinds)))]
    question = ask(family, index, kinds)
    things = rules.typical(question)
    shown = {thing.kind for thing in things}
    exclude = {*rules.exclude, *(REPLACEMENTS[kind] for kind in _replaceable(question, shown))}
    return Brief(
        question=question.text,
        system_prompt=SYSTEM_PROMPT if rules.driving else None,
        things=things,
        reference=expect(question).answer,
        exclude=tuple(kind for kind in KINDS if kind in exclude - shown),
    )


def ask(family: str, index: int, kinds: tuple[str, ...]) -> Question:
    """The index-th question of a family about given kinds."""
    return Question(family, questions.write(family, index, kinds), kinds)


def is_identity_question(question: Question) -> bool:
    """Whether the question asks what kind of thing is there, so that edits replace the thing."""
    return question.family in ("pet", "ahead", "left_of")


def _replaceable(question: Question, shown: Iterable[str]) -> list[str]:
    if not is_identity_question(question):
        return []
    return [kind for kind in shown if kind not in question.kinds]


def understand(text: str) -> Question | None:
    """Find a question of this world in a text; None where there is none."""
    found = questions.find(text)
    return Question(*found) if found else None


def decide(question: Question, scene: Scene) -> Decision:
    """Apply the rule of the question's family to any scene."""
    return _BY_NAME[question.family].rule(question, scene)


def expect(question: Question) -> Decision:
    """What is typical for the question: a function of its text alone."""
    things = _BY_NAME[question.family].typical(question)
    return decide(
        question,
        Scene(
            things={t.kind: Features(t.colour, t.pattern, t.facing) for t in things},
            left_of={
                t.place.removeprefix("left of "): t.kind
                for t in things
                if t.place and t.place.startswith("left of ")
            },
        ),
    )
