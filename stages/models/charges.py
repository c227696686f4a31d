"""What a call was charged although no usable reply came of it.

A truncated, refused or unreadable reply costs money, and so does a try after which the call was
made again. Whoever reads a body notes here what it says of usage; the call gathers the notes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from stages.records.usage import Usage

_NOTES: ContextVar[list[Usage] | None] = ContextVar("charges", default=None)


def note(usage: Usage) -> None:
    """Note what was used in vain; outside of a call, and where nothing was said, nothing."""
    notes = _NOTES.get()
    if notes is not None and usage != Usage():
        notes.append(usage)


@contextmanager
def in_vain_if_it_fails(usage: Usage) -> Iterator[None]:
    """Note the usage if what follows raises: the reply was paid for, and then was of no use."""
    try:
        yield
    except Exception:
        note(usage)
        raise


@contextmanager
def gathered() -> Iterator[list[Usage]]:
    """The notes of one call, as they come in."""
    notes: list[Usage] = []
    token = _NOTES.set(notes)
    try:
        yield notes
    finally:
        _NOTES.reset(token)
