"""How one try fails, told apart by what the provider may have done."""

from enum import Enum


class Kind(Enum):
    """How a try failed."""

    UNREACHABLE = "no connection was made"
    BUSY = "too many calls: the provider did nothing and wants fewer"
    UNAVAILABLE = "the provider said that it could not begin"
    UNKNOWN = "the provider may have worked, and charged, without a reply"


class Fault(Exception):  # noqa: N818 - one try's, not the call's
    """One try failed, and another might not.

    Parameters
    ----------
    kind : Kind
        What the provider may have done.
    reason : str
        One sentence without secrets.
    wait : float or None
        Seconds after which the provider wants to be asked again.
    pauses : bool
        Whether it concerns all calls to this provider, so that they wait too.
    """

    def __init__(
        self, kind: Kind, reason: str, wait: float | None = None, pauses: bool = False
    ) -> None:
        self.kind, self.reason, self.wait, self.pauses = kind, reason, wait, pauses
        self.tries = 1
        super().__init__(reason)
