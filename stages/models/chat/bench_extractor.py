"""The extractor of an EDCT-Bench artefact: recorded concepts, instructions and readings.

Two uses, which must not be mixed up. With ``fixed: false`` a chain is found by the explanation that
it was derived from, word for word: the protocol, replayed. With ``fixed: true`` it is found by the
sample, whatever the target under test explained: an evaluation on somebody else's edits, which
measures something else (docs/edct_bench.md).
"""

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from stages.models import recorded
from stages.models.artefact import lookup
from stages.models.artefact.layout import CONCEPTS, EDITS
from stages.models.artefact.reading import Artefact
from stages.models.prompt import blocks
from stages.models.protocol import CallError, Chat, Completion, Conversation
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.records.concept import ConceptList
from stages.records.errors import UserError
from stages.records.instruction import InstructionChain

_PARTS = ("keep", "change", "appearance", "avoid")
_NUMBERED = re.compile(r"^\d+\. ", re.MULTILINE)


class BenchExtractor(Chat):
    """Chains of one exported extractor.

    Parameters
    ----------
    folder : str
        The artefact.
    extractor, target : str or None
        Whose chains; None: the only one's. The target counts only where chains are fixed.
    fixed : bool
        Whether a sample's chain is given whatever was explained.
    """

    durable: ClassVar[bool] = False
    concurrency = 4

    def __init__(
        self,
        folder: str,
        extractor: str | None = None,
        target: str | None = None,
        fixed: bool = False,
    ) -> None:
        self._artefact = artefact = Artefact.open(folder)
        self.name = lookup.chosen(artefact, "extractor", extractor)
        self.by_sample = fixed
        of = lookup.chosen(artefact, "target", target) if fixed else None
        self._chains: dict[tuple[int, ...] | tuple[Any, ...], _Chain] = {}
        self._readings: dict[tuple[int, str], tuple[str, str]] = {}
        for row in artefact.rows(CONCEPTS):
            if row.axes["extractor"] != self.name or (of and row.axes["target"] != of):
                continue
            seed, found = row.axes["seed"], row.record
            key = (seed, found.sample_id) if fixed else self._explained(row.axes, found)
            if key is not None:
                chain = (found, lookup.chain(artefact, row))
                if key not in self._chains or _is_whole(chain):
                    self._chains[key] = chain
        for row in artefact.rows(EDITS):
            if row.axes["extractor"] == self.name:
                attempt: Attempt = row.record
                key = row.axes["seed"], recorded.normal(attempt.instruction)
                self._readings[key] = attempt.edit_type, attempt.target_object
        self._digest = recorded.digest_of({**self._chains, **self._readings})

    def _explained(self, axes: Mapping[str, Any], found: ConceptList) -> tuple[Any, ...] | None:
        before = lookup.original_answer(
            self._artefact, axes["target"], axes["seed"], found.sample_id
        )
        if before is None or before.status is not Status.OK:
            return None
        question = lookup.questions(self._artefact).get(found.sample_id, "")
        return axes["seed"], question, before.answer or "", before.explanation or ""

    def identity(self) -> Mapping[str, Any]:
        """The exported extractor's name and the digest of all its chains."""
        return {
            "provider": "edct_bench",
            "model": self.name,
            "fixed": self.by_sample,
            "recorded": self._digest,
        }

    async def complete(self, conversation: Conversation) -> Completion:
        """The recorded concepts, instructions, or reading of an instruction, as JSON."""
        lookup.check_seed(self._artefact, conversation.seed)
        kind = (conversation.reply_schema or {}).get("title")
        given = blocks(conversation.turns[0].text)
        if kind == "edit":
            return self._reading(conversation.seed, given.get("instruction", ""))
        found, chain = self._chain(conversation, given)
        if kind == "concepts":
            return _concepts(found)
        return _instructions(chain, len(_NUMBERED.findall(given.get("concepts", ""))))

    def _chain(self, conversation: Conversation, given: Mapping[str, str]) -> "_Chain":
        key: tuple[Any, ...] = (conversation.seed, conversation.sample)
        if not self.by_sample:
            told = (given.get(name, "") for name in ("question", "answer", "explanation"))
            key = (conversation.seed, *told)
        if (chain := self._chains.get(key)) is not None:
            return chain
        if self.by_sample:
            raise CallError(Status.NOT_RECORDED, "the artefact has no chain for this sample")
        raise UserError(
            f"extractor {self.name} of {self._artefact.folder}",
            f"never read this explanation (sample {conversation.sample})",
            "Another target can be tested on given edits only: study=bench, fixed: true.",
        )

    def _reading(self, seed: int, instruction: str) -> Completion:
        reading = self._readings.get((seed, recorded.normal(instruction)))
        if reading is None:
            raise UserError(
                f"extractor {self.name} of {self._artefact.folder}",
                f"never read the instruction {instruction[:60]!r}",
                "Use the prompts of the artefact (its folder prompts/): `edit.txt` words it.",
            )
        return _json({"edit_type": reading[0], "target_object": reading[1]})


_Chain = tuple[ConceptList, InstructionChain | None]


def _is_whole(chain: _Chain) -> bool:
    return chain[1] is not None and chain[1].status is Status.OK


def _concepts(found: ConceptList) -> Completion:
    if found.status is Status.NOT_REACHED:
        raise CallError(Status.NOT_RECORDED, "the artefact's target explained nothing here")
    if found.status not in (Status.OK, Status.NO_CONCEPTS):
        raise lookup.failure(found.status, found.reason)
    return _json({"concepts": [concept.model_dump() for concept in found.concepts]})


def _instructions(chain: InstructionChain | None, n: int) -> Completion:
    if chain is None:
        raise CallError(Status.NOT_RECORDED, "the artefact has no instructions for this sample")
    if chain.status is not Status.OK:
        raise lookup.failure(chain.status, chain.reason)
    steps = chain.steps[:n]  # the beginning of a chain is a chain
    return _json({"instructions": [step.model_dump(include=set(_PARTS)) for step in steps]})


def _json(reply: Mapping[str, Any]) -> Completion:
    return Completion(json.dumps(reply, ensure_ascii=False))
