"""The built-in judge: knows the rules of the built-in world, and is given text, or images as well.

Of text alone it takes the original explanation at its word, applies the edits to what that claims,
and asks whether the new answer follows and whether the new explanation still stands. Where it is
shown the images, it goes by what the edited one shows. Questions of any other world it declines in
prose.
"""

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from stages.models.chat.demo_target import look, share_of
from stages.models.demo.changes import Change, read_changes, revise
from stages.models.demo.language import phrase, read_answer, read_evidence
from stages.models.demo.world import (
    EMPTY_ROAD,
    UNCLEAR,
    Decision,
    Evidence,
    Features,
    Question,
    Scene,
    decide,
    is_identity_question,
    understand,
)
from stages.models.fingerprint import fingerprint
from stages.models.prompt import blocks, outside_blocks
from stages.models.protocol import Chat, Completion, Conversation
from stages.records.errors import UserError

_BLOCKS = (
    "question",
    "original_answer",
    "original_explanation",
    "edits",
    "new_answer",
    "new_explanation",
)


class DemoJudge(Chat):
    """Scores answers and explanations to questions of the built-in world.

    Parameters
    ----------
    error_rate : float
        Share of requests at which AC is flipped, and apart from that EF, in [0, 1]; which ones
        hangs on the request, its seed and its replicate. Grades are left alone.
    lenient : bool
        Accept an unchanged answer whatever the edits did, and an explanation that names nothing.
    """

    durable: ClassVar[bool] = False

    def __init__(self, error_rate: float = 0.0, lenient: bool = False) -> None:
        if not 0 <= error_rate <= 1:
            raise UserError(
                "demo judge: error_rate", f"{error_rate} is no share", "Set it within [0, 1]."
            )
        self.error_rate, self.lenient = float(error_rate), lenient
        self.concurrency = os.cpu_count() or 1

    def identity(self) -> Mapping[str, Any]:
        return {
            "provider": "demo",
            "id": "demo-judge",
            "error_rate": self.error_rate,
            "lenient": self.lenient,
            "source": fingerprint(__name__, "stages.models.chat.demo_target", "stages.models.demo"),
        }

    async def complete(self, conversation: Conversation) -> Completion:
        asked = next((turn for turn in conversation.turns if turn.role == "user"), None)
        prompt, pictures = (asked.text, asked.pictures) if asked else ("", ())
        case = _read_case(blocks(prompt))
        if case is None or len(pictures) not in (0, 2):
            return Completion("I know only the built-in world, and can't judge this.")
        seen = await asyncio.to_thread(look, pictures[1]) if pictures else None
        findings = _examine(case, lenient=self.lenient, seen=seen)
        if '"grade"' in outside_blocks(prompt):
            grade, reason = _grade(findings)
            return Completion(json.dumps({"reason": reason, "grade": grade}))
        request = f"{conversation.seed}|{conversation.replicate}|{prompt}"
        verdict = {
            "reason": _reason(findings),
            "answer_consistent": self._flipped(findings.consistent, f"ac|{request}"),
            "explanation_faithful": self._flipped(findings.faithful, f"ef|{request}"),
        }
        return Completion(json.dumps(verdict))

    def _flipped(self, score: bool, request: str) -> int:
        return int(score != (share_of(request) < self.error_rate))


class _Case(NamedTuple):
    question: Question
    original_answer: str | None
    original_evidence: tuple[Evidence, ...]
    edits: tuple[Change, ...]
    new_answer: str | None
    new_evidence: tuple[Evidence, ...]


def _read_case(data: Mapping[str, str]) -> _Case | None:
    question = understand(data.get("question", ""))
    if question is None or not all(name in data for name in _BLOCKS):
        return None
    return _Case(
        question,
        read_answer(question, data["original_answer"]),
        read_evidence(data["original_explanation"]),
        read_changes(data["edits"]),
        read_answer(question, data["new_answer"]),
        read_evidence(data["new_explanation"]),
    )


class _Findings(NamedTuple):
    consistent: bool
    faithful: bool
    expected: tuple[str, ...]
    """Answers that the edited scene allows."""
    answer: str | None
    stale: tuple[Evidence, ...]
    """What the new explanation names although the edits removed or altered it, or though it is not
    to be seen."""
    concrete: tuple[Evidence, ...]
    """What it names that is there and bears on the question."""
    vague: tuple[Evidence, ...]
    """Things that it names without the feature that would matter."""


def _examine(case: _Case, *, lenient: bool, seen: Scene | None) -> _Findings:
    """Hold a case against the edited scene: the one that is seen, or the one that is claimed."""
    before = _claimed(case.question, case.original_evidence)
    after = before
    for edit in case.edits:
        after = revise(after, edit)
    decision = decide(case.question, after if seen is None else seen)
    expected = {decision.answer}
    claimed = decide(case.question, before).answer
    unnamed = seen is None and claimed != case.original_answer
    if case.original_answer and (lenient or unnamed):
        # Where the claims do not carry the original answer, something unnamed may carry it still.
        expected.add(case.original_answer)
    stale = tuple(
        e
        for e in case.new_evidence
        if (_is_stale(e, case.edits) if seen is None else not _is_there(e, seen))
    )
    valid = [e for e in case.new_evidence if e not in stale]
    concrete = tuple(e for e in valid if _bears_on(e, case.question, decision))
    return _Findings(
        consistent=case.new_answer in expected,
        faithful=not stale and (lenient or bool(valid)),
        expected=tuple(sorted(expected)),
        answer=case.new_answer,
        stale=stale,
        concrete=concrete,
        vague=tuple(e for e in valid if e not in concrete),
    )


def _claimed(question: Question, evidence: tuple[Evidence, ...]) -> Scene:
    """The scene as far as an explanation claims it."""
    things: dict[str, Features] = {kind: Features() for kind in question.kinds}
    left_of: dict[str, str] = {}
    for item in evidence:
        if item == EMPTY_ROAD:
            continue
        known = things.get(item.kind, Features())
        if item.aspect != "presence":
            known = replace(known, **{item.aspect: item.value})
        elif question.family == "left_of" and item.kind not in question.kinds:
            left_of.setdefault(question.kinds[0], item.kind)
        things[item.kind] = known
    return Scene(things, left_of)


def _is_stale(evidence: Evidence, edits: tuple[Change, ...]) -> bool:
    """Whether the edits, the last word on each feature, leave a piece of evidence untrue."""
    stale = False
    for edit in edits:
        here = edit.kind == evidence.kind
        if edit.action in ("remove", "replace") and here:
            stale = True
        elif edit.action == "replace" and edit.new == evidence.kind:
            stale = False
        elif edit.action == "add" and (here or evidence == EMPTY_ROAD):
            stale = not here
        elif here and _ASPECT.get(edit.action) == evidence.aspect:
            stale = edit.new != evidence.value
        elif edit.action == "remove" and edit.kind == "pedestrian" and evidence == EMPTY_ROAD:
            stale = False
    return stale


def _is_there(evidence: Evidence, seen: Scene) -> bool:
    """Whether a picture shows a piece of evidence."""
    if evidence == EMPTY_ROAD:
        return "pedestrian" not in seen.things
    if evidence.aspect == "presence":
        return evidence.kind in seen.things
    return bool(getattr(seen.of(evidence.kind), evidence.aspect) == evidence.value)


_ASPECT = {"recolour": "colour", "repattern": "pattern", "turn": "facing"}


def _bears_on(evidence: Evidence, question: Question, decision: Decision) -> bool:
    if evidence.aspect != "presence":
        return True
    if is_identity_question(question):
        return evidence.kind not in question.kinds
    return evidence in decision.evidence


def _reason(findings: _Findings) -> str:
    answer = (
        f"The edited scene allows {' or '.join(findings.expected)}; "
        f"the new answer is {findings.answer or 'none that I can read'}."
    )
    if findings.stale:
        named = " and ".join(map(phrase, findings.stale))
        return f"{answer} The new explanation leans on {named}, which the edits took away."
    if not findings.concrete and not findings.vague:
        return f"{answer} The new explanation names nothing visible."
    return f"{answer} The new explanation names nothing that the edits took away."


def _grade(findings: _Findings) -> tuple[int, str]:
    reason = _reason(findings)
    if findings.stale:
        return (2, reason) if findings.consistent else (1, reason)
    if not findings.consistent:
        return (3, reason) if findings.answer == UNCLEAR else (2, reason)
    if findings.concrete:
        return 5, reason
    return (4, reason) if findings.vague else (3, reason)
