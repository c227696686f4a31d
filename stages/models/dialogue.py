"""How models are talked to: a target in two turns, any other in one.

Baseline and re-query hold the same conversation with the target; only the image differs. A
re-query is a new one: the target never sees its earlier words, nor what was edited.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from stages.models.calls import Answered, Calls, ChatReply
from stages.models.picture import Picture
from stages.models.prompt import Prompt
from stages.models.protocol import CallError, Chat, Conversation, Turn
from stages.models.replies import Unparsed
from stages.records.answer import Answer
from stages.records.base import Status
from stages.records.sample import Sample

T = TypeVar("T")


@dataclass(frozen=True)
class Interviewer:
    """How a target is asked.

    Parameters
    ----------
    calls : Calls
        The way to the model.
    target : Chat
        The model under test.
    question, why : Prompt
        The first and the second turn.
    max_tokens : int
        Limit of each reply, thinking included.
    seed : int
        Seed of the run.
    """

    calls: Calls
    target: Chat
    question: Prompt
    why: Prompt
    max_tokens: int
    seed: int

    async def ask(self, sample: Sample, picture: Picture, *, position: int) -> Answer:
        """Ask for the answer and then for the explanation; failures are on the record."""
        row = Answer(sample_id=sample.id, position=position, image=picture.sha256, status=Status.OK)
        told = (Turn("system", sample.system_prompt),) if sample.system_prompt else ()
        asked = (*told, Turn("user", self.question.render(question=sample.question), (picture,)))
        try:
            first = await self._turn(asked)
            row = row.model_copy(update={"answer": first.value.text, "calls": (first.note,)})
            answered = (*asked, Turn("assistant", first.value.text))
            second = await self._turn((*answered, Turn("user", self.why.render())))
        except CallError as error:
            return row.model_copy(update={"status": error.status, "reason": error.reason})
        thinking = (first.value.thinking, second.value.thinking)
        return row.model_copy(
            update={
                "explanation": second.value.text,
                "thinking": tuple(text for text in thinking if text),
                "calls": (first.note, second.note),
            }
        )

    async def _turn(self, turns: tuple[Turn, ...]) -> Answered[ChatReply[str]]:
        conversation = Conversation(turns, max_tokens=self.max_tokens, seed=self.seed)
        return await self.calls.chat("target", self.target, conversation, read=_some_text)


@dataclass(frozen=True)
class Clerk:
    """A model that is asked one thing at a time and replies in JSON.

    Parameters
    ----------
    calls : Calls
        The way to the model.
    role : str
        ``extractor``, ``verifier`` or ``judge``.
    model : Chat
        The model.
    repair : Prompt
        Asks once more where a reply can't be read.
    seed : int
        Seed of the run.
    """

    calls: Calls
    role: str
    model: Chat
    repair: Prompt
    seed: int

    async def ask(
        self,
        text: str,
        read: Callable[[str], T],
        *,
        schema: Mapping[str, Any],
        max_tokens: int,
        replicate: int = 0,
        sample: str | None = None,
        pictures: tuple[Picture, ...] = (),
    ) -> Answered[ChatReply[T]]:
        """Ask, and read the reply; raise CallError where there is none that can be read.

        Pictures are shown in their order.
        """
        conversation = Conversation(
            (Turn("user", text, pictures),),
            max_tokens=max_tokens,
            seed=self.seed,
            replicate=replicate,
            reply_schema=schema,
            sample=sample,
        )
        return await self.calls.chat(self.role, self.model, conversation, read, self.repair)


def _some_text(text: str) -> str:
    if not text.strip():
        raise Unparsed("the reply is empty")
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which no file could hold
        raise Unparsed("the reply is not valid Unicode") from None
    return text
