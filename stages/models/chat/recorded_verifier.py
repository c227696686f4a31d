"""What a verifier said elsewhere, from a file: a row an edit, found by its two images.

A JSONL file or a JSON list; paths are relative to it:

    {"source": "a.png", "edited": "b.png", "instruction": "remove the lamp",
     "change_present": true, "rest_unchanged": false, "reason": "the sign lost a letter"}
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from stages.models import recorded
from stages.models.prompt import blocks
from stages.models.protocol import CallError, Chat, Completion, Conversation
from stages.models.replies import Unparsed, read_look
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.usage import Usage


class RecordedVerifier(Chat):
    """Recorded words on edits; an edit that nobody looked at is ``not_recorded``.

    Parameters
    ----------
    index : str
        The file, relative to the workspace.
    name : str
        What the verifier is called.
    """

    durable: ClassVar[bool] = False
    concurrency = 4

    def __init__(self, index: str, name: str = "recorded") -> None:
        self.name = name
        self._said: dict[tuple[str, str, str], str] = {}
        for where, row in recorded.rows(Path(index)):
            source, edited = (
                recorded.pixel_digest(recorded.image_field(where, row, field, Path(index)))
                for field in ("source", "edited")
            )
            wording = recorded.normal(recorded.text_field(where, row, "instruction"))
            kept = ("reason", "change_present", "rest_unchanged")
            reply = json.dumps({key: row.get(key) for key in kept}, ensure_ascii=False)
            try:
                read_look(reply)
            except Unparsed as error:
                raise UserError(where, str(error), "Mend or remove that row.") from None
            recorded.put(self._said, (source, edited, wording), reply, where)
        self._digest = recorded.digest_of(self._said)

    def identity(self) -> Mapping[str, Any]:
        """The name and the digest of all that was said."""
        return {"provider": "recorded", "model": self.name, "recorded": self._digest}

    async def complete(self, conversation: Conversation) -> Completion:
        """What was said of these two pictures and this instruction."""
        asked = conversation.turns[0]
        source, edited = (recorded.pixel_digest(picture.pixels) for picture in asked.pictures)
        wording = recorded.normal(blocks(asked.text).get("instruction", ""))
        reply = self._said.get((source, edited, wording))
        if reply is None:
            raise CallError(Status.NOT_RECORDED, "nobody looked at this edit")
        return Completion(reply, usage=Usage(served_model=self.name))
