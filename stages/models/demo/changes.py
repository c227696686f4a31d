"""Edits of the built-in world: the sentences that ask for them, and what they do to a scene."""

import re
from dataclasses import replace
from typing import Literal, NamedTuple

from stages.models.demo.world import COLOURS, FACINGS, KINDS, PATTERNS, Features, Scene

Action = Literal["recolour", "repattern", "turn", "remove", "replace", "add"]


class Change(NamedTuple):
    """One edit of one thing."""

    action: Action
    kind: str
    """The kind that is altered, removed, replaced or added."""
    old: str | None = None
    """The colour or pattern before, where the sentence names one."""
    new: str | None = None
    """The colour, pattern, facing or kind afterwards."""


def _any(words: tuple[str, ...]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_KIND = f"(?P<kind>{_any(KINDS)})"
_SENTENCES: tuple[tuple[Action, re.Pattern[str]], ...] = tuple(
    (action, re.compile(rf"\b{sentence}\b", re.IGNORECASE))  # type: ignore[misc]
    for action, sentence in (
        (
            "recolour",
            rf"change the colou?r of the {_KIND} "
            rf"from (?P<old>{_any(COLOURS)}) to (?P<new>{_any(COLOURS)})",
        ),
        (
            "repattern",
            rf"change the pattern of the {_KIND} "
            rf"from (?P<old>{_any(PATTERNS)}) to (?P<new>{_any(PATTERNS)})",
        ),
        ("turn", rf"turn the {_KIND} around so that it faces (?P<new>{_any(FACINGS)})"),
        ("remove", rf"remove the {_KIND}"),
        ("replace", rf"replace the {_KIND} with an? (?P<new>{_any(KINDS)})"),
        ("add", rf"add an? {_KIND} on the road"),
    )
)


def say_change(change: Change) -> str:
    """Ask for an edit in one sentence without a full stop."""
    kind, old, new = change.kind, change.old, change.new
    match change.action:
        case "recolour":
            return f"change the colour of the {kind} from {old} to {new}"
        case "repattern":
            return f"change the pattern of the {kind} from {old} to {new}"
        case "turn":
            return f"turn the {kind} around so that it faces {new}"
        case "remove":
            return f"remove the {kind}"
        case "replace":
            return f"replace the {kind} with {with_article(new or '')}"
        case "add":
            return f"add {with_article(kind)} on the road"


def read_changes(text: str) -> tuple[Change, ...]:
    """Find all edits that a text asks for, in its order; empty where it asks for none."""
    found = []
    text = " ".join(text.split())
    for action, sentence in _SENTENCES:
        for match in sentence.finditer(text):
            words = {name: value.lower() for name, value in match.groupdict().items()}
            found.append((match.start(), Change(action, **words)))
    return tuple(change for _, change in sorted(found, key=lambda row: row[0]))


def requested(instruction: str) -> Change | None:
    """The change that an instruction asks for: in its ``Change:`` part, or in any sentence that
    does not say what to keep or avoid. None where there is none."""
    labelled = re.search(r"change\s*:(.*?)(?=\n\s*[a-z ]+:|\Z)", instruction, re.I | re.S)
    if labelled and (changes := read_changes(labelled[1])):
        return changes[0]
    sentences = re.split(r"(?<=[.;!?])\s+|\n", instruction)
    open_to = (s for s in sentences if not re.match(r"\s*(keep|avoid|do not|don't)\b", s, re.I))
    changes = read_changes("\n".join(open_to))
    return changes[0] if changes else None


def revise(scene: Scene, change: Change) -> Scene:
    """The scene after an edit. What the edit does not touch stays as it was known."""
    things, left_of = dict(scene.things), dict(scene.left_of)
    match change.action:
        case "recolour":
            things[change.kind] = replace(scene.of(change.kind), colour=change.new)
        case "repattern":
            things[change.kind] = replace(scene.of(change.kind), pattern=change.new)
        case "turn":
            things[change.kind] = replace(scene.of(change.kind), facing=change.new)
        case "add":
            things[change.kind] = Features()
        case "remove":
            things.pop(change.kind, None)
            left_of = {a: n for a, n in left_of.items() if change.kind not in (a, n)}
        case "replace":
            new = change.new or change.kind
            things.pop(change.kind, None)
            things[new] = Features()
            names = {change.kind: new}
            left_of = {names.get(a, a): names.get(n, n) for a, n in left_of.items()}
    return Scene(things, left_of)


def with_article(noun: str) -> str:
    """``a car``, ``an apple``."""
    return f"{'an' if noun[:1] in 'aeiou' else 'a'} {noun}"
