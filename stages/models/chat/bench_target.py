"""The target of an EDCT-Bench artefact: its recorded answers, found by image and question."""

from collections.abc import Mapping
from typing import Any, ClassVar

from stages.models import recorded
from stages.models.artefact import lookup
from stages.models.artefact.layout import ANSWERS, SAMPLES
from stages.models.artefact.reading import Artefact
from stages.models.protocol import CallError, Chat, Completion, Conversation
from stages.records.answer import Answer
from stages.records.base import Status


class BenchTarget(Chat):
    """Answers of one exported target; what failed fails again in the same way.

    Parameters
    ----------
    folder : str
        The artefact.
    target : str or None
        Its name there; None: the only one.
    """

    durable: ClassVar[bool] = False
    concurrency = 2

    def __init__(self, folder: str, target: str | None = None) -> None:
        artefact = Artefact.open(folder)
        self.name = lookup.chosen(artefact, "target", target)
        # (seed, pixels, system prompt) → question → answer
        self._replies: dict[tuple[int, str, str], dict[str, Answer]] = {}
        samples = {row.record.id: row.record for row in artefact.rows(SAMPLES)}
        for row in artefact.rows(ANSWERS):
            answer: Answer = row.record
            if row.axes["target"] != self.name or answer.sample_id not in samples:
                continue
            sample = samples[answer.sample_id]
            image = lookup.pixels_of(artefact, row, answer.image)
            key = row.axes["seed"], image, sample.system_prompt or ""
            replies = self._replies.setdefault(key, {})
            question = recorded.normal(sample.question)
            if question not in replies or answer.status is Status.OK:
                replies[question] = answer
        self._digest = recorded.digest_of(
            {
                (*key, question): answer.model_dump_json(exclude={"calls"})
                for key, replies in self._replies.items()
                for question, answer in replies.items()
            }
        )

    def identity(self) -> Mapping[str, Any]:
        """The exported target's name and the digest of all that it answered."""
        return {"provider": "edct_bench", "model": self.name, "recorded": self._digest}

    async def complete(self, conversation: Conversation) -> Completion:
        """The recorded answer in the first turn, the recorded explanation in the second."""
        asked = next(turn for turn in conversation.turns if turn.pictures)
        told = next((turn.text for turn in conversation.turns if turn.role == "system"), "")
        image = recorded.pixel_digest(asked.pictures[0].pixels)
        replies = self._replies.get((conversation.seed, image, told), {})
        text = recorded.normal(asked.text)
        # A question may contain another one about the same image: the longer one is meant.
        question = max((q for q in replies if q in text), key=len, default=None)
        if question is None:
            raise CallError(Status.NOT_RECORDED, f"no answer of {self.name} to this image")
        answer = replies[question]
        why = any(turn.role == "assistant" for turn in conversation.turns)
        reply = answer.explanation if why else answer.answer
        if reply is None:
            raise lookup.failure(answer.status, answer.reason)
        return Completion(
            reply, _thinking(answer, why), lookup.usage(answer.calls, "target", int(why))
        )


def _thinking(answer: Answer, why: bool) -> str | None:
    """The turn's thinking text; a single one can't be told apart and goes to the second turn."""
    if len(answer.thinking) > 1:
        return answer.thinking[int(why)]
    return answer.thinking[0] if why and answer.thinking else None
