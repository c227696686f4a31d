"""The built-in extractor: reads explanations and writes edits, within the built-in world.

It is given text and tells its tasks apart by the blocks of data in the prompt: an instruction is
to be read, concepts are to be turned into instructions, an explanation is to be searched for
concepts. What lies outside its vocabulary it passes over; where nothing is left that it could
say, it says so in prose.
"""

import json
import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from stages.models.chat.demo_knowledge import choose_change, instruct
from stages.models.demo.changes import Change, read_changes
from stages.models.demo.language import phrase, read_evidence
from stages.models.demo.world import EMPTY_ROAD, KINDS, Evidence, understand
from stages.models.fingerprint import fingerprint
from stages.models.prompt import blocks
from stages.models.protocol import Chat, Completion, Conversation
from stages.models.replies import Edit

_AT_MOST = re.compile(r"at most (\d+)")
_EDIT_TYPES: Mapping[str, Any] = {"remove": "remove", "replace": "replace", "add": "add"}
_VERBS = {
    "add": r"add|insert",
    "remove": r"remove|delete|erase|take away",
    "replace": r"replace|swap|exchange",
    "modify": r"change|turn|make|recolou?r|repaint|paint|alter|modify|rotate",
}
_NOUNS = r"((?!(?:{0})\b)[\w-]+(?: (?!(?:{0})\b)[\w-]+){{0,3}})".format(
    "on|in|from|with|to|so|by|of|at|into|and|around"
)
_ASKS = tuple(
    (kind, re.compile(rf"\b(?:{verbs}) (?:(?:the \w+ of )?(?:the|an?) )?{_NOUNS}"))
    for kind, verbs in _VERBS.items()
)


class DemoExtractor(Chat):
    """Finds concepts, writes instructions and reads instructions, in JSON as the prompts ask."""

    durable: ClassVar[bool] = False

    def __init__(self) -> None:
        self.concurrency = os.cpu_count() or 1

    def identity(self) -> Mapping[str, Any]:
        return {
            "provider": "demo",
            "id": "demo-extractor",
            "source": fingerprint(
                __name__, "stages.models.chat.demo_knowledge", "stages.models.demo"
            ),
        }

    async def complete(self, conversation: Conversation) -> Completion:
        prompt = next((turn.text for turn in conversation.turns if turn.role == "user"), "")
        return Completion(_reply(prompt))


def _reply(prompt: str) -> str:
    data = blocks(prompt)
    if "instruction" in data:
        edit = _read_instruction(data["instruction"])
        return json.dumps(edit._asdict()) if edit else "I can't read this instruction."
    if "concepts" in data:
        return json.dumps({"instructions": _instructions(data)})
    if "explanation" in data:
        limit = _AT_MOST.search(prompt)
        concepts = _concepts(data["explanation"], data.get("question", ""))
        return json.dumps({"concepts": concepts[: int(limit[1]) if limit else None]})
    return "There is nothing here that I could read."


def _concepts(explanation: str, question: str) -> list[dict[str, str | None]]:
    asked = understand(question)
    given = asked.kinds if asked else ()  # what the question names is no evidence by being there
    return [
        _concept(evidence)
        for evidence in read_evidence(explanation)
        if evidence.aspect != "presence" or evidence.kind not in given
    ]


def _concept(evidence: Evidence) -> dict[str, str | None]:
    attribute = {
        "colour": f"{evidence.value} colour",
        "pattern": f"{evidence.value} pattern",
        "facing": f"{evidence.value}-facing direction",
        "presence": "empty" if evidence == EMPTY_ROAD else None,
    }[evidence.aspect]
    text = phrase(evidence).removeprefix("the ")
    return {"text": text, "object": evidence.kind, "attribute": attribute}


def _instructions(data: Mapping[str, str]) -> list[dict[str, str]]:
    question = understand(data.get("question", ""))
    concepts = [
        found[0] for line in data["concepts"].splitlines() if (found := read_evidence(line))
    ]
    named = (*read_evidence(data.get("explanation", "")), *concepts)
    known = {item.kind for item in named} | set(question.kinds if question else ())
    written = []
    for concept in concepts:
        change = choose_change(concept, question, known)
        if change.action == "replace" and change.new:
            known.add(change.new)
        written.append(instruct(change)._asdict())
    return written


def _read_instruction(text: str) -> Edit | None:
    if changes := read_changes(text):
        return _edit_of(changes[0])
    text = " ".join(text.lower().split())
    asks = [(match.start(), kind, match[1]) for kind, ask in _ASKS if (match := ask.search(text))]
    if not asks:
        return None
    _, edit_type, words = min(asks)
    known = [kind for kind in KINDS if re.search(rf"\b{kind}\b", words)]
    return Edit(edit_type, known[0] if known else words)  # type: ignore[arg-type]


def _edit_of(change: Change) -> Edit:
    return Edit(_EDIT_TYPES.get(change.action, "modify"), change.kind)
