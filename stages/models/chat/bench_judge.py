"""The judge of an EDCT-Bench artefact: recorded verdicts on exactly the texts that were judged."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from stages.models import recorded
from stages.models.artefact import lookup
from stages.models.artefact.reading import Artefact
from stages.models.prompt import blocks
from stages.models.protocol import Chat, Completion, Conversation
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.judgement import Judgement


class BenchJudge(Chat):
    """Verdicts of one exported judge; a case that it never saw is an error.

    A judge that saw the images is found by these as well, and one that did not is shown none.

    Parameters
    ----------
    folder : str
        The artefact.
    judge : str or None
        Its name there; None: the only one.
    """

    durable: ClassVar[bool] = False
    concurrency = 4

    def __init__(self, folder: str, judge: str | None = None) -> None:
        self._artefact = Artefact.open(folder)
        self.name = lookup.chosen(self._artefact, "judge", judge)
        asked = self._artefact.provenance.params.get("judge")
        self.sees_pictures = isinstance(asked, Mapping) and asked.get("sees_images") is True
        self._verdicts: dict[tuple[Any, ...], Judgement] = {}
        for row, case, images in lookup.cases(self._artefact, self.name):
            shown: tuple[str, ...] = ()
            if self.sees_pictures:
                shown = tuple(lookup.pixels_of(self._artefact, row, image) for image in images)
            key = row.axes["seed"], row.record.replicate, case, shown
            if key not in self._verdicts or row.record.status is Status.OK:
                self._verdicts[key] = row.record
        self._digest = recorded.digest_of(
            {key: v.model_dump_json(exclude={"calls"}) for key, v in self._verdicts.items()}
        )

    def identity(self) -> Mapping[str, Any]:
        """The exported judge's name and the digest of all its verdicts."""
        return {"provider": "edct_bench", "model": self.name, "recorded": self._digest}

    async def complete(self, conversation: Conversation) -> Completion:
        """The recorded verdict or grade as JSON."""
        asked = conversation.turns[0]
        if bool(asked.pictures) != self.sees_pictures:
            saw = "saw the images" if self.sees_pictures else "read text alone"
            raise UserError(
                f"judge {self.name} of {self._artefact.folder}",
                saw,
                f"Set it so: `-S judge.sees_images={str(self.sees_pictures).lower()}`.",
            )
        shown = tuple(recorded.pixel_digest(picture.pixels) for picture in asked.pictures)
        case = lookup.case(blocks(asked.text))
        verdict = self._verdicts.get((conversation.seed, conversation.replicate, case, shown))
        if verdict is None:
            raise UserError(
                f"judge {self.name} of {self._artefact.folder}",
                "never judged these words, and what is recorded can't be asked",
                "Choose a judge that can, e.g. `-S 'judge=[…]'` with the model that judged before.",
            )
        if (conversation.reply_schema or {}).get("title") == "grade":
            if verdict.grade is None:
                raise lookup.failure(verdict.graded_status, verdict.graded_reason)
            reply = {"reason": verdict.grade_reason, "grade": verdict.grade}
            turn = -1
        else:
            if verdict.ccs_binary is None:
                raise lookup.failure(verdict.status, verdict.reason)
            reply = {
                "reason": verdict.verdict_reason,
                "answer_consistent": verdict.answer_consistent,
                "explanation_faithful": verdict.explanation_faithful,
            }
            turn = 0
        text = json.dumps(reply, ensure_ascii=False)
        return Completion(text, usage=lookup.usage(verdict.calls, "judge", turn))
