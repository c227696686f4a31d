"""A target whose answers were recorded elsewhere.

Index: JSONL, a row per image and question:

    {"image": "images/12.jpg", "question": "…", "answer": "…", "explanation": "…"}

The image is found by its pixels, so that answers to edited images need the edited image's file.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from stages.models import recorded
from stages.models.protocol import CallError, Chat, Completion, Conversation
from stages.records.base import Status
from stages.records.usage import Usage


class RecordedTarget(Chat):
    """Answers from a file; what is not in it has the status ``not_recorded``.

    Parameters
    ----------
    index : str
        The JSONL file, relative to the workspace.
    name : str
        What the recorded model is called, shown as the served model.
    """

    durable: ClassVar[bool] = False
    concurrency = 2

    def __init__(self, index: str, name: str) -> None:
        self.name = name
        self._replies: dict[tuple[str, str], tuple[str, str]] = {}
        file = Path(index)
        for where, row in recorded.rows(file):
            image = recorded.pixel_digest(recorded.image_field(where, row, "image", file))
            question = recorded.normal(recorded.text_field(where, row, "question"))
            said = (
                recorded.text_field(where, row, "answer"),
                recorded.text_field(where, row, "explanation"),
            )
            recorded.put(self._replies, (image, question), said, where)
        self._digest = recorded.digest_of(self._replies)

    def identity(self) -> Mapping[str, Any]:
        """The recorded model's name and the digest of all that was recorded."""
        return {"provider": "recorded", "model": self.name, "recorded": self._digest}

    async def complete(self, conversation: Conversation) -> Completion:
        """The recorded answer in the first turn, the recorded explanation in the second."""
        asked = next(turn for turn in conversation.turns if turn.pictures)
        why = any(turn.role == "assistant" for turn in conversation.turns)
        image = recorded.pixel_digest(asked.pictures[0].pixels)
        questions = [question for known, question in self._replies if known == image]
        question = recorded.longest_within(questions, asked.text)
        if question is None:
            raise CallError(Status.NOT_RECORDED, "no recorded reply to this image and question")
        reply = self._replies[image, question]
        return Completion(reply[why], usage=Usage(served_model=self.name))
