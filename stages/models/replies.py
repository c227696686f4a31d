"""Replies of extractors, verifiers and judges: from text to typed values, or a reason why not.

A reply may have prose, thinking aloud or fences around its JSON, and commas too many in it. The
last object counts, since models quote, try and then settle; where the last one is broken or cut
off, nothing counts, since what stands before it was not the last word. An object that the judged
text itself holds is a quotation, wherever it stands, so that no answer can vote for itself.
Values are checked and never clamped, rounded or guessed.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from stages.records.concept import Concept
from stages.records.instruction import EditType


class Unparsed(ValueError):  # noqa: N818 - a name of a status, as in the records
    """A reply that can't be read; its text is the reason, fit for a repair request."""


class Parts(NamedTuple):
    """The four parts of an edit instruction."""

    keep: str
    change: str
    appearance: str
    avoid: str


class Edit(NamedTuple):
    """How verification reads an instruction."""

    edit_type: EditType
    target_object: str


class Verdict(NamedTuple):
    """A binary verdict: answer consistency and explanation faithfulness, each 0 or 1."""

    answer_consistent: int
    explanation_faithful: int
    reason: str


class Grade(NamedTuple):
    """A graded verdict on the rubric from 1 to 5."""

    grade: int
    reason: str


class Look(NamedTuple):
    """What a verifier saw in an image and its edit."""

    change_present: bool
    rest_unchanged: bool
    reason: str


EDIT_TYPES: tuple[EditType, ...] = get_args(EditType)
MAX_TARGET_LENGTH = 80
"""Characters of a noun phrase that a detector can still be asked for."""


def _object(title: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "title": title,
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT = {"type": "string"}
_BOOLEAN = {"type": "boolean"}
_BINARY = {"type": "integer", "enum": [0, 1]}

CONCEPTS_SCHEMA: Mapping[str, Any] = _object(
    "concepts",
    {
        "concepts": {
            "type": "array",
            "items": _object(
                "concept",
                {"text": _TEXT, "object": _TEXT, "attribute": {"type": ["string", "null"]}},
            ),
        }
    },
)
INSTRUCTIONS_SCHEMA: Mapping[str, Any] = _object(
    "instructions",
    {
        "instructions": {
            "type": "array",
            "items": _object("instruction", dict.fromkeys(Parts._fields, _TEXT)),
        }
    },
)
EDIT_SCHEMA: Mapping[str, Any] = _object(
    "edit", {"edit_type": {"type": "string", "enum": list(EDIT_TYPES)}, "target_object": _TEXT}
)
VERDICT_SCHEMA: Mapping[str, Any] = _object(
    "verdict", {"reason": _TEXT, "answer_consistent": _BINARY, "explanation_faithful": _BINARY}
)
GRADE_SCHEMA: Mapping[str, Any] = _object(
    "grade", {"reason": _TEXT, "grade": {"type": "integer", "enum": [1, 2, 3, 4, 5]}}
)
LOOK_SCHEMA: Mapping[str, Any] = _object(
    "look",
    {"reason": _TEXT, "change_present": _BOOLEAN, "rest_unchanged": _BOOLEAN},
)


def read_concepts(text: str, k: int) -> tuple[Concept, ...]:
    """Read at most k concepts in their order; repeated ones are dropped, none is allowed."""
    concepts: list[Concept] = []
    seen: set[str] = set()
    for row in _rows(_last_object(text), "concepts"):
        thing, words = _string(row, "object"), _string(row, "text")
        attribute = _string(row, "attribute") if row.get("attribute") else None
        names = {_folded(words), _folded(f"{attribute or ''} of {thing}")}
        if names & seen:
            continue
        seen |= names
        concepts.append(Concept(object=thing, attribute=attribute, text=words))
    return tuple(concepts[:k])


def read_instructions(text: str, n: int) -> tuple[Parts, ...]:
    """Read exactly n instructions, each with four parts that say something."""
    rows = _rows(_last_object(text), "instructions")
    if len(rows) != n:
        raise Unparsed(f"there must be exactly {n} instructions, not {len(rows)}")
    return tuple(Parts(*(_string(row, part) for part in Parts._fields)) for row in rows)


def read_edit(text: str) -> Edit:
    """Read edit type and target object; the type in any case, the object on one line."""
    found = _last_object(text)
    kind = _string(found, "edit_type").lower()
    target = " ".join(_string(found, "target_object").split())
    if len(target) > MAX_TARGET_LENGTH:
        raise Unparsed(f'"target_object" must be a short noun phrase, not {len(target)} characters')
    for edit_type in EDIT_TYPES:
        if kind == edit_type:
            return Edit(edit_type, target)
    raise Unparsed(f'"edit_type" must be one of {", ".join(EDIT_TYPES)}')


def read_verdict(text: str, judged: Sequence[str] = ()) -> Verdict:
    """Read a binary verdict; ``true`` and ``false`` count as 1 and 0, all else is unread.

    `judged` is what the verdict is about: objects that stand in there are not the judge's.
    """
    found = _last_object(text, judged)
    consistent, faithful = (
        _integer(found, key, (0, 1)) for key in ("answer_consistent", "explanation_faithful")
    )
    return Verdict(consistent, faithful, _string(found, "reason"))


def read_grade(text: str, judged: Sequence[str] = ()) -> Grade:
    """Read a grade, a whole number from 1 to 5; `judged` as in `read_verdict`."""
    found = _last_object(text, judged)
    return Grade(_integer(found, "grade", (1, 2, 3, 4, 5)), _string(found, "reason"))


def read_look(text: str, judged: Sequence[str] = ()) -> Look:
    """Read what a verifier saw; only ``true`` and ``false`` are read, and both must be there.

    `judged` as in `read_verdict`.
    """
    found = _last_object(text, judged)
    present, unchanged = (_boolean(found, key) for key in ("change_present", "rest_unchanged"))
    return Look(present, unchanged, _string(found, "reason"))


# --- fields --------------------------------------------------------------------------------------


def _rows(found: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    rows = found.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Unparsed(f'"{key}" must be a list of objects')
    return rows


def _string(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    if not isinstance(value, str) or not value.strip():
        raise Unparsed(f'"{key}" must be a text that is not empty')
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which no file could hold
        raise Unparsed(f'"{key}" is not valid Unicode') from None
    return value.strip()


def _integer(found: Mapping[str, Any], key: str, allowed: tuple[int, ...]) -> int:
    value = found.get(key)
    if isinstance(value, bool) and allowed == (0, 1):
        return int(value)
    if type(value) is int and value in allowed:
        return value
    raise Unparsed(f'"{key}" must be one of {", ".join(map(str, allowed))}')


def _boolean(found: Mapping[str, Any], key: str) -> bool:
    value = found.get(key)
    if not isinstance(value, bool):
        raise Unparsed(f'"{key}" must be true or false')
    return value


def _folded(text: str) -> str:
    words = text.casefold().split()
    return " ".join(word for word in words if word not in ("the", "a", "an"))


# --- finding the object --------------------------------------------------------------------------

_OPENING = re.compile(r'\{\s*["}]')
_MAX_OPENINGS = 200
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+")|,(?=\s*[}\]])', re.DOTALL)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_unique, parse_constant=_no_constant)


def _last_object(text: str, judged: Sequence[str] = ()) -> dict[str, Any]:
    """Find the last top-level JSON object of a reply that is no quotation of what is judged."""
    quoted = [found for said in judged for found in _sound_objects(said)]
    found: dict[str, Any] | None = None
    reason = "there is no JSON object in the reply"
    position, tries = 0, 0
    while opening := _OPENING.search(text, position):
        tries += 1
        if tries > _MAX_OPENINGS:
            raise Unparsed("the reply has too many opening braces to be read")
        try:
            read, position = _decode(text, opening.start())
        except json.JSONDecodeError as error:
            if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated"):
                raise Unparsed("the last JSON object is not complete") from None
            found, reason = None, f"the last JSON object is broken: {error.msg}"
            position = opening.start() + 1
        except (ValueError, RecursionError) as error:
            raise Unparsed(f"a JSON object can't be read: {error}") from None
        else:
            if read not in quoted:
                found = read
    if found is None:
        raise Unparsed(reason)
    return found


def _sound_objects(text: str) -> Iterator[dict[str, Any]]:
    """Every object that a text holds, those within others and within broken ones included."""
    for number, opening in enumerate(_OPENING.finditer(text)):
        if number == _MAX_OPENINGS:
            return
        try:
            yield _decode(text, opening.start())[0]
        except (ValueError, RecursionError):
            continue


def _decode(text: str, start: int) -> tuple[dict[str, Any], int]:
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError:
        # Commas are blanked, not removed, so that positions in the text stay what they are.
        blanked = _TRAILING_COMMA.sub(lambda match: match[1] or " ", text[start:])
        found, length = _DECODER.raw_decode(blanked)
        return found, start + length
