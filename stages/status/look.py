"""One look at a study: each stage in each cell, its rows by status, and why rows lack a reply."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from stages.records.errors import UserError
from stages.spending.estimate import Estimate, estimate
from stages.spending.made import FILES
from stages.status.graph import Asked, Node, nodes
from stages.workflow import endings
from stages.workflow.endings import Ending
from stages.workflow.tally import CALL_FAILURES

_REASON_LENGTH = 100


class Line(NamedTuple):
    """A stage in a cell."""

    node: Node
    state: str
    """``done``, ``changed`` (would run again), ``missing``, ``failed``, ``killed``, ``under way``
    or ``unknown`` (DVC could not say)."""
    why: str
    """What changed, or what it said last; empty where it is done."""
    rows: Mapping[str, int]
    """Rows by status; empty where there are none, or the stage has no rows with a status."""


@dataclass(frozen=True)
class Standing:
    """Where a study stands."""

    study: str
    lines: list[Line]
    reasons: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Rows without a reply, by stage, status and reason."""
    left: Estimate | str = ""
    """What is left to call and to pay, or why that can't be said."""
    silence: str | None = None
    """Why DVC could not say what changed."""


def look(root: Path, params: Mapping[str, Any]) -> Standing:
    """Look at a study; no model is called and nothing is written."""
    listed = nodes(root, params)
    asked = Asked(root)
    reasons: Counter[tuple[str, str, str]] = Counter()
    rows = {node: _rows(root, node, reasons) for node in listed}
    try:
        left: Estimate | str = estimate(root, params)
    except UserError as error:
        left = str(error)
    ended, word = endings.read(root), asked.answer()
    lines = [
        Line(node, *_state(node, word.changes, word.unknown, ended), rows[node]) for node in listed
    ]
    return Standing(str(params.get("study", "")), lines, reasons, left, word.unknown)


def _state(
    node: Node,
    changes: Mapping[str, list[str]],
    unknown: str | None,
    ended: Mapping[str, Ending],
) -> tuple[str, str]:
    """State and reason of a stage. A note of an earlier failure counts while there is work left."""
    changed = changes.get(node.name)
    note = ended.get(node.name)
    if note is not None and (changed or unknown or note.state == "under way"):
        return note.state, note.line
    if unknown is not None:
        return "unknown", ""
    if not changed:
        return "done", ""
    missing = [word for word in changed if word.startswith("missing ")]
    return ("missing", "") if missing else ("changed", "; ".join(changed))


def _rows(root: Path, node: Node, reasons: Counter[tuple[str, str, str]]) -> dict[str, int]:
    """Rows of a stage by status, and the reasons of those that got no reply.

    Read as plain JSON: a row that a stage could not read has a line of its own there.
    """
    if node.stage not in FILES:
        return {}
    path = root / "data" / node.stage / node.cell / FILES[node.stage][0]
    counts: Counter[str] = Counter()
    for row in _objects(path):
        for prefix in ("", "graded_"):
            if f"{prefix}status" not in row:
                continue
            status, reason = str(row[f"{prefix}status"]), row.get(f"{prefix}reason")
            if not prefix:
                counts[status] += 1
            if status in CALL_FAILURES:
                stage = f"{node.stage} (grade)" if prefix else node.stage
                reasons[stage, status, _short(reason)] += 1
    return dict(counts)


def _objects(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = {"status": "unreadable"}
        if isinstance(row, dict):
            yield row


def _short(reason: object) -> str:
    text = " ".join(str(reason or "no reason is given").split())
    return text if len(text) <= _REASON_LENGTH else f"{text[: _REASON_LENGTH - 1]}…"
