"""Accept or reject an edit: the gate measures, and a verifier may look as well.

The gate (`verification`) counts changed pixels; it can't see that a letter of a sign is missing or
that a bystander was redrawn. A verifier is a vision-language model that is shown the source and
the edited image and is told the instruction. What its word does is the mode: ``report_only``: it
is on the record and decides nothing. ``and``: an edit needs both. ``or``: an edit needs one.

It is asked about every edit that the gate could measure, whatever the gate made of it and whatever
the mode: so gate and verifier can be held against each other, and another mode asks nobody again.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from stages.models import replies
from stages.models.calls import Calls
from stages.models.dialogue import Clerk
from stages.models.picture import Picture
from stages.models.prompt import Prompt
from stages.models.protocol import CallError
from stages.models.verification import Gate, Grounding
from stages.records.attempt import Attempt, Inspection, Mode
from stages.records.base import Status
from stages.records.usage import CallNote


class Ruling(NamedTuple):
    """Whether an edit is accepted."""

    status: Status
    reason: str | None


@dataclass(frozen=True)
class Verifier:
    """A vision-language model that compares an image with its edit.

    Parameters
    ----------
    clerk : Clerk
        The model, and the way to it.
    prompt : Prompt
        What it is asked.
    max_tokens : int
        Limit of its reply, thinking included.
    """

    clerk: Clerk
    prompt: Prompt
    max_tokens: int

    async def inspect(
        self, source: Picture, edited: Picture, instruction: str, gate: Status
    ) -> tuple[Inspection, tuple[CallNote, ...]]:
        """Show the source first and the edited image second; a failed call is on the record."""
        try:
            found = await self.clerk.ask(
                self.prompt.render(instruction=instruction),
                partial(replies.read_look, judged=(instruction,)),
                schema=replies.LOOK_SCHEMA,
                max_tokens=self.max_tokens,
                pictures=(source, edited),
            )
        except CallError as error:
            return Inspection(status=error.status, reason=error.reason, gate=gate), ()
        look = found.value.value
        inspection = Inspection(
            status=Status.OK,
            change_present=look.change_present,
            rest_unchanged=look.rest_unchanged,
            accepted=look.change_present and look.rest_unchanged,
            words=look.reason,
            gate=gate,
        )
        return inspection, (found.note,)


@dataclass(frozen=True)
class Acceptance:
    """All that accepts or rejects an edit.

    Parameters
    ----------
    gate : Gate
        Localized edit verification.
    verifier : Verifier or None
        Who looks besides; None: nobody, as in the paper.
    mode : str
        What the verifier's word does.
    """

    gate: Gate
    verifier: Verifier | None
    mode: Mode

    @property
    def calls(self) -> Calls:
        """The way to all models of this."""
        return self.gate.calls

    async def settle(
        self, row: Attempt, source: Picture, edited: Picture, grounding: Grounding, images: Path
    ) -> Attempt:
        """Measure an edit, have it looked at, and say on its row what became of it."""
        verdict = await self.gate.judge(source, edited, grounding)
        verdict.delta.save(images)
        ruling, inspection = Ruling(verdict.status, verdict.reason), None
        if self.verifier is not None:
            inspection, notes = await self.verifier.inspect(
                source, edited, row.instruction, verdict.status
            )
            row = row.model_copy(update={"calls": (*row.calls, *notes)})
            ruling = combine(ruling, inspection, self.mode)
        return row.model_copy(
            update={
                "status": ruling.status,
                "reason": ruling.reason,
                "measurement": verdict.measurement,
                "inspection": inspection,
            }
        )


def combine(gate: Ruling, inspection: Inspection, mode: Mode) -> Ruling:
    """What gate and verifier say together.

    A verifier without a usable reply says nothing: under ``and``, where its word is needed, the
    attempt is ``unverified``; elsewhere the gate decides. An edit that both reject keeps the
    gate's reason.
    """
    if mode == "or" and inspection.accepted:
        return Ruling(Status.OK, None)
    if mode != "and" or gate.status is not Status.OK or inspection.accepted:
        return gate
    if inspection.accepted is None:
        said = f"{inspection.status}: {inspection.reason}"
        return Ruling(Status.UNVERIFIED, f"the verifier gave no usable reply ({said})")
    status = Status.REST_CHANGED if inspection.change_present else Status.CHANGE_ABSENT
    return Ruling(status, f"the verifier: {inspection.words}")
