"""The built-in verifier: looks at an image and its edit, and says what it sees of the request.

It is given two pictures and the instruction, like any verifier. It sees the things of both, checks
the requested change on the thing that was meant, and looks for anything else that differs: things
that came, went or look otherwise, and a background that is another one.
"""

import asyncio
import json
import os
from collections.abc import Mapping
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from stages.models.demo import sight
from stages.models.demo.changes import Change, requested, say_change
from stages.models.fingerprint import fingerprint
from stages.models.picture import Picture
from stages.models.prompt import blocks
from stages.models.protocol import Chat, Completion, Conversation

Things = tuple[sight.Thing, ...]

MIN_OVERLAP = 0.3
"""Intersection over union from which two boxes are one place; a shift by some pixels is none."""
GRID = (40, 30)
"""Columns and rows in which backgrounds are compared."""
MAX_STEP = 24.0
"""Mean difference of a cell's colour, in [0, 255], up to which it is the same background."""
MAX_OTHER = 0.15
"""Share of cells that may be another background."""


class DemoVerifier(Chat):
    """Compares pictures of the built-in world."""

    durable: ClassVar[bool] = False

    def __init__(self) -> None:
        self.concurrency = os.cpu_count() or 1

    def identity(self) -> Mapping[str, Any]:
        return {
            "provider": "demo",
            "id": "demo-verifier",
            "source": fingerprint(__name__, "stages.models.demo"),
        }

    async def complete(self, conversation: Conversation) -> Completion:
        return Completion(await asyncio.to_thread(_reply, conversation))


def _reply(conversation: Conversation) -> str:
    asked = next(turn for turn in conversation.turns if turn.role == "user")
    change = requested(blocks(asked.text).get("instruction", ""))
    if change is None or len(asked.pictures) != 2:
        return "I compare two pictures of the built-in world, and can't read this."
    source, edited = asked.pictures
    before, after = sight.see(source.pixels), sight.see(edited.pixels)
    present = _is_present(change, before, after)
    others = _others(change, before, after)
    if _is_other_place(source, edited, (*before, *after)):
        others += ("the background",)
    seen = f"I {'see' if present else 'do not see'} the request to {say_change(change)} carried out"
    rest = f"something else differs: {', '.join(others)}" if others else "all else is as it was"
    return json.dumps(
        {
            "reason": f"{seen}; {rest}.",
            "change_present": present,
            "rest_unchanged": not others,
        }
    )


def _is_present(change: Change, before: Things, after: Things) -> bool:
    """Whether the thing that was meant looks, or is gone, as was asked."""
    was = [thing for thing in before if thing.kind == change.kind]
    now = [thing for thing in after if thing.kind == change.kind]
    if change.action == "add":
        return len(now) > len(was)
    if change.action == "remove":
        return len(now) < len(was)
    if change.action == "replace":
        came = [thing for thing in after if thing.kind == change.new]
        return len(now) < len(was) and any(_same_place(t, old) for t in came for old in was)
    aspect = {"recolour": "colour", "repattern": "pattern", "turn": "facing"}[change.action]
    here = [thing for thing in now if any(_same_place(thing, old) for old in was)]
    return any(getattr(thing, aspect) == change.new for thing in here)


def _others(change: Change, before: Things, after: Things) -> tuple[str, ...]:
    """Kinds of the things that differ and were not meant."""
    meant = {change.kind, change.new} if change.action == "replace" else {change.kind}
    old = [thing for thing in before if thing.kind not in meant]
    new = [thing for thing in after if thing.kind not in meant]
    lost = {a.kind for a in old if not any(_looks_alike(a, b) for b in new)}
    came = {b.kind for b in new if not any(_looks_alike(a, b) for a in old)}
    return tuple(f"the {kind}" for kind in sorted(lost | came))


def _looks_alike(a: sight.Thing, b: sight.Thing) -> bool:
    same = (a.kind, a.colour, a.pattern, a.facing) == (b.kind, b.colour, b.pattern, b.facing)
    return same and _same_place(a, b)


def _same_place(a: sight.Thing, b: sight.Thing) -> bool:
    wide = min(a.box[2], b.box[2]) - max(a.box[0], b.box[0])
    high = min(a.box[3], b.box[3]) - max(a.box[1], b.box[1])
    shared = max(wide, 0) * max(high, 0)
    return shared > MIN_OVERLAP * (_area(a) + _area(b) - shared)


def _area(thing: sight.Thing) -> int:
    x0, y0, x1, y1 = thing.box
    return (x1 - x0) * (y1 - y0)


def _is_other_place(source: Picture, edited: Picture, things: Things) -> bool:
    """Whether much of what shows no thing differs by more than a shade."""
    if source.pixels.shape != edited.pixels.shape:
        return True
    covered = np.zeros(source.pixels.shape[:2], np.bool_)
    for thing in things:
        x0, y0, x1, y1 = thing.box
        covered[y0:y1, x0:x1] = True
    step = np.abs(_cells(source.pixels) - _cells(edited.pixels)).max(axis=2)
    free = _cells(covered.astype(np.uint8) * 255) < 1
    return bool(free.any()) and float((step[free] > MAX_STEP).mean()) > MAX_OTHER


def _cells(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    small: NDArray[np.float32] = cv2.resize(
        pixels.astype(np.float32), GRID, interpolation=cv2.INTER_AREA
    )
    return small
