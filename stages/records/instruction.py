"""The edit instructions of a sample: a chain in which each step starts from the last."""

from typing import Literal

from stages.records.base import Record, Status
from stages.records.concept import Concept
from stages.records.usage import CallNote

EditType = Literal["add", "remove", "replace", "modify"]


class Instruction(Record):
    """One step of the chain: the four parts, and how verification understands them."""

    position: int
    """1 for the first edit of the chain."""
    concept: Concept
    """The concept that this edit contradicts."""
    keep: str
    """What must stay as it is."""
    change: str
    """What is to be changed."""
    appearance: str
    """How the changed part is to look."""
    avoid: str
    """What must not happen."""
    edit_type: EditType
    """How verification reads the instruction; ``add`` is looked for in the edited image."""
    target_object: str
    """A short noun phrase for the detector."""


class InstructionChain(Record):
    """All instructions of one sample, made in one call so that later edits fit earlier ones."""

    sample_id: str
    """The sample whose image is to be edited."""
    status: Status
    """Ok where every concept got an instruction."""
    reason: str | None = None
    """Why not, where the status is not ok."""
    steps: tuple[Instruction, ...] = ()
    """The steps in chain order."""
    calls: tuple[CallNote, ...] = ()
    """The calls behind this row."""
