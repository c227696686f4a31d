"""The verifier of an EDCT-Bench artefact: what it said of exactly the edits that it was shown."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from stages.models import recorded
from stages.models.artefact import lookup
from stages.models.artefact.layout import EDITS
from stages.models.artefact.reading import Artefact
from stages.models.prompt import blocks
from stages.models.protocol import CallError, Chat, Completion, Conversation
from stages.records.attempt import Attempt
from stages.records.base import Status


class BenchVerifier(Chat):
    """Exported words of a verifier; what failed fails again in the same way.

    Parameters
    ----------
    folder : str
        The artefact.
    """

    durable: ClassVar[bool] = False
    concurrency = 4

    def __init__(self, folder: str) -> None:
        artefact = Artefact.open(folder)
        self._said: dict[tuple[int, str, str, str], Attempt] = {}
        for row in artefact.rows(EDITS):
            attempt: Attempt = row.record
            edited = row.extra["edited_pixels"]
            if attempt.inspection is None or attempt.source is None or edited is None:
                continue
            source = lookup.pixels_of(artefact, row, attempt.source)
            key = row.axes["seed"], source, edited, recorded.normal(attempt.instruction)
            if key not in self._said or attempt.inspection.status is Status.OK:
                self._said[key] = attempt
        self._digest = recorded.digest_of(
            {key: said.inspection for key, said in self._said.items()}
        )

    def identity(self) -> Mapping[str, Any]:
        """The digest of all that it said."""
        return {"provider": "edct_bench", "model": "verifier", "recorded": self._digest}

    async def complete(self, conversation: Conversation) -> Completion:
        """What it said of these two pictures and this instruction, as JSON."""
        asked = conversation.turns[0]
        source, edited = (recorded.pixel_digest(picture.pixels) for picture in asked.pictures)
        wording = recorded.normal(blocks(asked.text).get("instruction", ""))
        attempt = self._said.get((conversation.seed, source, edited, wording))
        if attempt is None or attempt.inspection is None:
            raise CallError(Status.NOT_RECORDED, "no word of the verifier on this edit")
        said = attempt.inspection
        if said.accepted is None:
            raise lookup.failure(said.status, said.reason)
        reply = {
            "reason": said.words,
            "change_present": said.change_present,
            "rest_unchanged": said.rest_unchanged,
        }
        text = json.dumps(reply, ensure_ascii=False)
        return Completion(text, usage=lookup.usage(attempt.calls, "verifier"))
