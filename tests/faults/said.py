"""What models say, who reads it, and what may come out; for the tests that damage it."""

import json
from collections.abc import Callable
from typing import Any

from stages.models import replies

SAID: dict[str, tuple[Callable[[str], Any], dict[str, Any]]] = {
    "concept lists": (
        lambda text: replies.read_concepts(text, 2),
        {"concepts": [{"text": "red colour", "object": "car", "attribute": "colour"}] * 2},
    ),
    "instruction lists": (
        lambda text: replies.read_instructions(text, 1),
        {"instructions": [{"keep": "a", "change": "b", "appearance": "c", "avoid": "d"}]},
    ),
    "edit parses": (replies.read_edit, {"edit_type": "replace", "target_object": "the car"}),
    "verdicts": (
        replies.read_verdict,
        {"reason": "so", "answer_consistent": 1, "explanation_faithful": 0},
    ),
    "grades": (replies.read_grade, {"reason": "so", "grade": 4}),
    "looks": (replies.read_look, {"change_present": True, "rest_unchanged": False, "reason": "r"}),
}


def sound(found: Any) -> None:
    """What was read lies in range, and says something."""
    match found:
        case replies.Verdict():
            assert {found.answer_consistent, found.explanation_faithful} <= {0, 1}
            assert type(found.answer_consistent) is type(found.explanation_faithful) is int
        case replies.Grade():
            assert type(found.grade) is int
            assert 1 <= found.grade <= 5
        case replies.Edit():
            assert found.edit_type in replies.EDIT_TYPES
            assert found.target_object.strip()
        case replies.Look():
            assert isinstance(found.change_present, bool)


def fenced(name: str) -> bytes:
    """A good reply as models give it: talk, a fence, talk."""
    return f"I think:\n```json\n{json.dumps(SAID[name][1])}\n```\nThat is all.".encode()
