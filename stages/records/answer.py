"""A target's answer and explanation: to the original image, or to an edited one."""

from stages.records.base import Record, Status
from stages.records.usage import CallNote


class Answer(Record):
    """One conversation with the target: the answer, then why."""

    sample_id: str
    """The sample that was asked about."""
    position: int
    """0 for the original image; j for the image after edit j of the chain."""
    image: str
    """SHA-256 of the PNG that the target saw."""
    status: Status
    """Whether both turns were answered."""
    reason: str | None = None
    """Why not, where the status is not ok."""
    answer: str | None = None
    """The answer, without thinking text; None where none was given."""
    explanation: str | None = None
    """The explanation, without thinking text; None where none was given."""
    thinking: tuple[str, ...] = ()
    """Thinking text of the turns in order, kept apart; empty where the model showed none."""
    calls: tuple[CallNote, ...] = ()
    """The calls behind this row."""
