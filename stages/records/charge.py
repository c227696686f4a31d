"""A line of the ledger: one call that may have been charged, as it began and as it ended."""

from typing import Literal

from pydantic import Field

from stages.records.base import Record
from stages.records.usage import Usage

Told = Literal["reported", "estimated", "free", "unknown"]


class Charge(Record):
    """One call that left the process. It is written when it begins and again when it ends."""

    id: str
    """Joins the two lines of a call."""
    at: str
    """When the line was written, UTC."""
    study: str
    """The study that the call belongs to; its budget counts it."""
    stage: str
    """The stage that made it; empty where none did."""
    role: str
    """The role that was called."""
    model: str
    """The model id that was asked for."""
    key: str
    """Key of the request in the response store."""
    max_tokens: int | None = None
    """The most tokens that its reply may have; None where it is none of tokens."""
    outcome: str
    """``begun``; then ``ok``, the status of a failed call, or ``stopped`` where the run ended."""
    expected_usd: float | None = Field(default=None, ge=0)
    """What was put aside for it; None where nothing was known."""
    resumes: bool = False
    """Whether it asks for a task that an earlier call has submitted: what that one cost is then
    counted here, and no longer there."""
    usage: tuple[Usage, ...] = ()
    """What was reported: of the reply, and of each try in vain."""
    cost_usd: float | None = Field(default=None, ge=0)
    """Its cost in US dollars as far as it is known; None where nothing is."""
    told: Told = "unknown"
    """Reported by the provider; estimated from the price table, in part or whole; free: a server
    without a key that reported none; or unknown, in part or whole."""

    @property
    def held_usd(self) -> float:
        """What stays put aside after its end: it may have been charged, and nobody told."""
        if self.told != "unknown":
            return 0.0
        return max(0.0, (self.expected_usd or 0.0) - (self.cost_usd or 0.0))
