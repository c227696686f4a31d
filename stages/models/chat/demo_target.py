"""The built-in target: a small vision-language model whose faithfulness is planted.

It sees pixels and reads the conversation, nothing else. How far its explanations name the evidence
that its answers go by is an option, so that a study on it has a known right result.
"""

import asyncio
import hashlib
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, Literal, get_args

from stages.models.demo import language, sight
from stages.models.demo.world import Features, Question, Scene, decide, expect, understand
from stages.models.fingerprint import fingerprint
from stages.models.picture import Picture
from stages.models.protocol import Chat, Completion, Conversation
from stages.records.errors import UserError

Behaviour = Literal["looks", "prior", "usual", "mixture"]


class DemoTarget(Chat):
    """Answers questions of the built-in world.

    Parameters
    ----------
    behaviour : str
        ``looks``: answers by what it sees and names the evidence that it saw. ``prior``: answers
        and explains by what is typical for the question, without looking. ``usual``: answers by
        what it sees and explains by what is typical. ``mixture``: looks at some questions and goes
        by the prior at the others; at which ones hangs on seed and question, not on the image.
    rate : float, optional
        Share of questions at which a mixture looks, in [0, 1]; for mixtures only.
    """

    durable: ClassVar[bool] = False

    def __init__(self, behaviour: str, rate: float | None = None) -> None:
        if behaviour not in get_args(Behaviour):
            raise UserError(
                "demo target: behaviour",
                f"{behaviour!r} is unknown",
                f"Choose one of {', '.join(get_args(Behaviour))}.",
            )
        if (rate is not None) != (behaviour == "mixture"):
            raise UserError(
                "demo target: rate",
                "a mixture needs a rate, and nothing else has one",
                "Set behaviour: mixture and a rate, or leave the rate out.",
            )
        if rate is not None and not 0 <= rate <= 1:
            raise UserError("demo target: rate", f"{rate} is no share", "Set it within [0, 1].")
        self.behaviour, self.rate = behaviour, rate
        self.concurrency = os.cpu_count() or 1

    @property
    def planted_ccs(self) -> float:
        """The CCS that a faithful measurement of this target finds, in [0, 1]."""
        if self.rate is not None:
            return self.rate
        return 1.0 if self.behaviour == "looks" else 0.0

    def identity(self) -> Mapping[str, Any]:
        return {
            "provider": "demo",
            "id": "demo-target",
            "behaviour": self.behaviour,
            "rate": self.rate,
            "planted_ccs": self.planted_ccs,
            "source": fingerprint(__name__, "stages.models.demo"),
        }

    async def complete(self, conversation: Conversation) -> Completion:
        return Completion(await asyncio.to_thread(self._reply, conversation))

    def _reply(self, conversation: Conversation) -> str:
        asked = next((turn for turn in conversation.turns if turn.role == "user"), None)
        question = understand(asked.text) if asked else None
        explaining = any(turn.role == "assistant" for turn in conversation.turns)
        if asked is None or question is None:
            return "I do not know what to look for." if explaining else "I can't tell."
        behaviour = self._behaviour(question, conversation.seed)
        typical = expect(question)
        if behaviour == "prior" or (behaviour == "usual" and explaining):
            decision = typical
        elif asked.pictures:
            decision = decide(question, look(asked.pictures[-1]))
        else:
            decision = decide(question, Scene({}))._replace(answer="unclear", evidence=())
        if explaining:
            return language.explain(decision.evidence)
        return language.say_answer(question, decision.answer)

    def _behaviour(self, question: Question, seed: int) -> str:
        if self.rate is None:
            return self.behaviour
        return "looks" if share_of(f"{seed}|{question.text}") < self.rate else "prior"


def share_of(text: str) -> float:
    """A number in [0, 1) that depends on the text alone, spread evenly over texts."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48


@lru_cache(maxsize=32)
def look(picture: Picture) -> Scene:
    """The scene that a picture shows, with the nearest thing left of each."""
    seen = sight.see(picture.pixels)
    things = {
        thing.kind: Features(
            colour=thing.colour,
            pattern=thing.pattern if thing.kind == "ball" else None,
            facing=thing.facing,
        )
        for thing in seen
    }
    neighbours = {thing.kind: _left_neighbour(thing, seen) for thing in seen}
    return Scene(things, {kind: left for kind, left in neighbours.items() if left is not None})


def _left_neighbour(anchor: sight.Thing, seen: tuple[sight.Thing, ...]) -> str | None:
    """The nearest thing left of another one, of those that share some height with it."""
    x0, y0, _, y1 = anchor.box
    beside = [
        thing
        for thing in seen
        if (thing.box[0] + thing.box[2]) / 2 < x0 and thing.box[1] < y1 and thing.box[3] > y0
    ]
    return max(beside, key=lambda thing: thing.box[2]).kind if beside else None
