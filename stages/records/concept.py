"""The visual concepts that an explanation cites."""

from stages.records.base import Record, Status
from stages.records.usage import CallNote


class Concept(Record):
    """One visual concept: an attribute of an object, or the object itself."""

    object: str
    """The object, e.g. ``car``."""
    attribute: str | None = None
    """What the explanation says of the object, e.g. ``red colour``; None: the object itself."""
    text: str
    """The concept in words, e.g. ``red colour of the car``."""


class ConceptList(Record):
    """The concepts of one explanation, most important first."""

    sample_id: str
    """The sample whose explanation was read."""
    status: Status
    """Ok where at least one concept was found."""
    reason: str | None = None
    """Why there is none, where the status is not ok."""
    concepts: tuple[Concept, ...] = ()
    """At most k concepts, ranked by their weight in the explanation."""
    calls: tuple[CallNote, ...] = ()
    """The calls behind this row."""
