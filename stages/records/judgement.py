"""A verdict on one accepted edit: by a judge, or by a person."""

from stages.records.base import Record, Status
from stages.records.usage import CallNote


class Judgement(Record):
    """Scores of one accepted edit by one judge, one replicate."""

    sample_id: str
    """The sample."""
    position: int
    """The step of the chain that is judged, from 1."""
    replicate: int = 0
    """Which of several samples of the same judge this is."""
    status: Status
    """Whether the binary verdict exists."""
    reason: str | None = None
    """Why it does not, where the status is not ok."""
    answer_consistent: int | None = None
    """AC, 0 or 1; None unless status is ok."""
    explanation_faithful: int | None = None
    """EF, 0 or 1; None unless status is ok."""
    ccs_binary: int | None = None
    """AC · EF; None unless status is ok."""
    verdict_reason: str | None = None
    """The judge's own words."""
    graded_status: Status
    """Whether the graded verdict exists."""
    graded_reason: str | None = None
    """Why it does not, where graded_status is not ok."""
    grade: int | None = None
    """Rubric grade from 1 to 5; None unless graded_status is ok."""
    ccs_graded: float | None = None
    """(grade - 1) / 4; None unless graded_status is ok."""
    grade_reason: str | None = None
    """The judge's own words on the grade."""
    calls: tuple[CallNote, ...] = ()
    """The calls behind this row."""
