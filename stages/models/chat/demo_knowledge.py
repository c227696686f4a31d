"""What the built-in extractor knows of edits: which one contradicts a concept, and its four parts.

Edits stay within the built-in world and plausible there (a traffic light is red, yellow or green),
leave the question askable, and bring in nothing that is already there.
"""

from collections.abc import Set

from stages.models.demo.changes import Change, say_change
from stages.models.demo.world import (
    EMPTY_ROAD,
    PETS,
    REPLACEMENTS,
    VEHICLES,
    Evidence,
    Question,
    is_identity_question,
)
from stages.models.replies import Parts

_OTHER_COLOUR = {
    "red": "green",
    "orange": "blue",
    "yellow": "purple",
    "green": "orange",
    "blue": "orange",
    "purple": "yellow",
    "pink": "green",
}
_PLAUSIBLE_COLOUR = {
    ("traffic light", "green"): "red",
    ("traffic light", "yellow"): "green",
    ("tree", "orange"): "green",
    ("tree", "yellow"): "green",
    ("apple", "green"): "red",
    ("apple", "yellow"): "green",
}
_OTHER_PATTERN = {"lined": "spotted", "spotted": "lined", "plain": "lined"}
_OTHER_FACING = {"left": "right", "right": "left"}
_GROUPS = {"pet": PETS, "ahead": VEHICLES, "left_of": ("plant", "lamp", "ball", "pumpkin", "chest")}


def choose_change(concept: Evidence, question: Question | None, known: Set[str]) -> Change:
    """Choose the edit that contradicts a concept.

    ``known`` are the kinds that are, or once were, in the scene: none of them is brought in, since
    that would make a second one, or undo an earlier edit.
    """
    kind, value = concept.kind, concept.value or ""
    match concept.aspect:
        case "colour":
            colour = _PLAUSIBLE_COLOUR.get((kind, value), _OTHER_COLOUR[value])
            return Change("recolour", kind, value, colour)
        case "pattern":
            return Change("repattern", kind, value, _OTHER_PATTERN[value])
        case "facing":
            return Change("turn", kind, None, _OTHER_FACING[value])
        case "presence":
            if concept == EMPTY_ROAD:
                return Change("add", "pedestrian")
            substitute = _substitute(kind, question, known)
            if substitute is None:
                return Change("remove", kind)
            return Change("replace", kind, None, substitute)


def _substitute(kind: str, question: Question | None, known: Set[str]) -> str | None:
    """What can take a thing's place where the question asks what is there, or None: remove it."""
    if question is None or not is_identity_question(question):
        return None
    candidates = (REPLACEMENTS.get(kind), *_GROUPS[question.family])
    return next((k for k in candidates if k and k not in known), None)


def instruct(change: Change) -> Parts:
    """Put an edit into the four parts of an instruction."""
    kind, new = change.kind, change.new
    others = "all other things and the background"
    shape = f"the place, size and shape of the {kind}, its light and shadow, and {others}"
    match change.action:
        case "recolour":
            lit = "only its lit lamp is" if kind == "traffic light" else "it is"
            keep, appearance = shape, f"the {kind} as before, but {lit} {new}, in natural shades"
        case "repattern":
            keep = f"the colour of the {kind}, {shape}"
            appearance = f"the {kind} is {new} all over, following its form"
        case "turn":
            keep = f"the place, size and colour of the {kind}, and {others}"
            appearance = f"the {kind} is seen from its other side, with its front to the {new}"
        case "remove":
            keep, appearance = others, "the background goes on where it stood, without a shadow"
        case "replace":
            keep, appearance = others, f"the {new} stands in the same place, at a natural size"
        case "add":
            keep, appearance = others, f"the {kind} is well visible, at a natural size"
    return Parts(keep, say_change(change), appearance, "side effects elsewhere in the image")
