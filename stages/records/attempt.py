"""One attempt at an edit, accepted or not, with all that verification measured."""

from typing import Literal

from stages.records.base import Record, Status
from stages.records.instruction import EditType
from stages.records.usage import CallNote

Mode = Literal["report_only", "and", "or"]
"""What a verifier's word does: nothing; an edit needs it besides the gate's; or it is enough."""


class Box(Record):
    """A detector's box in pixels of the image that was searched: XYXY, right and bottom open."""

    x0: float
    """Left edge."""
    y0: float
    """Top edge."""
    x1: float
    """Right edge."""
    y1: float
    """Bottom edge."""
    score: float | None = None
    """Confidence in [0, 1]; None where the detector gives none."""


class Measurement(Record):
    """What Algorithm 1 measured on one pair. All shares are over pixels and lie in [0, 1]."""

    r_in: float | None
    """Share of changed pixels inside the dilated mask; None where the mask is empty."""
    r_out: float | None
    """Share of changed pixels outside it; None where there is no outside to speak of."""
    r_in_unwarped: float | None
    """r_in without the optical-flow warp, only the global transform."""
    r_out_unwarped: float | None
    """r_out without the optical-flow warp, only the global transform."""
    mask_share: float
    """Share of the image inside the dilated mask."""
    registration: str
    """How the edited image was aligned: ``identity``, ``similarity`` or ``failed``."""
    shift_px: float
    """Mean displacement of the image corners by the global transform, in pixels."""
    residual: float
    """Mean absolute difference outside the mask after alignment, in [0, 1]."""
    delta: str | None = None
    """SHA-256 of the PNG of the change map (255 where changed); None where none was kept."""


class Inspection(Record):
    """What the verifier, shown an image and its edit, said of one attempt."""

    status: Status
    """Ok: it gave a usable reply. Otherwise why there is none."""
    reason: str | None = None
    """Why not, where the status is not ok."""
    change_present: bool | None = None
    """Whether it sees the change that was asked for; None unless status is ok."""
    rest_unchanged: bool | None = None
    """Whether it sees that nothing else of note changed; None unless status is ok."""
    accepted: bool | None = None
    """Both of them; None unless status is ok."""
    words: str | None = None
    """The verifier's own words."""
    gate: Status
    """What the gate alone made of the attempt: ok, or why it rejected it."""


class Attempt(Record):
    """One attempt at one step of a chain."""

    sample_id: str
    """The sample whose image is edited (in a pairs study: the pair's id)."""
    position: int
    """Step of the chain, from 1."""
    attempt: int
    """1 for the first attempt; 0 where the step was never reached."""
    status: Status
    """Ok: the edit was accepted. Otherwise why it was not."""
    reason: str | None = None
    """One sentence, where the status is not ok."""
    instruction: str
    """The instruction as the editor read it."""
    edit_type: EditType
    """How verification read the instruction."""
    target_object: str
    """What the detector was asked for."""
    source: str | None = None
    """SHA-256 of the PNG that was edited; None where the step was never reached."""
    edited: str | None = None
    """SHA-256 of the PNG of the edited image in the source's size; None where there is none."""
    returned_width: int | None = None
    """Width of what the editor returned, before resampling."""
    returned_height: int | None = None
    """Height of what the editor returned, before resampling."""
    boxes: tuple[Box, ...] = ()
    """The detector's boxes."""
    mask: str | None = None
    """SHA-256 of the PNG of the dilated mask (255 inside); None where there is none."""
    measurement: Measurement | None = None
    """What was measured; None where it did not come to that."""
    inspection: Inspection | None = None
    """What the verifier said; None where there is none, or where nothing could be measured."""
    calls: tuple[CallNote, ...] = ()
    """The calls behind this row; a verifier's is the one with that role."""

    @property
    def gate(self) -> Status:
        """What the gate alone made of the attempt, whatever a verifier said."""
        return self.inspection.gate if self.inspection else self.status
