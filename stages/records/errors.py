"""The error that a user can mend: one line that says where, what, and how to put it right."""

from reprlib import Repr

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60


def quoted(value: object) -> str:
    """A value of somebody's file in one short line of plain signs, for a message."""
    text = _SHORT.repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


class UserError(Exception):
    """Something in the user's files, parameters or environment is wrong.

    Parameters
    ----------
    where : str
        The file, row or key that is at fault, e.g. ``"params.yaml: verify.tau_in"``.
    what : str
        What is wrong with it, without a full stop.
    remedy : str
        What to do about it.
    """

    def __init__(self, where: str, what: str, remedy: str) -> None:
        self.where, self.what, self.remedy = where, what, remedy
        # One line, whatever the file held that is quoted.
        super().__init__(" ".join(f"{where}: {what}. {remedy}".splitlines()))
