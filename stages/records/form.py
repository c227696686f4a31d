"""The key of an annotation form: which edit each opaque name of the form stands for."""

from typing import Annotated, Literal

from pydantic import Field

from stages.records.base import Record

FORMAT: Literal["edct-annotation/1"] = "edct-annotation/1"
"""What forms, their exports and their keys say that they are."""


class FormItem(Record):
    """One edit of a form."""

    id: str
    """Its name in the form; says nothing."""
    sample_id: str
    """The sample."""
    target: str
    """Name of the target whose explanation was tested."""
    extractor: str
    """Name of the extractor."""
    editor: str
    """Name of the editor."""
    seed: int
    """Seed of the run."""
    position: int
    """Step of the chain, from 1."""
    attempt: int
    """The attempt that is shown."""
    edited: str
    """SHA-256 of the PNG that is shown."""


class Stratum(Record):
    """How many edits of one kind there were, and how many of them were drawn."""

    name: tuple[str, ...]
    """Values of the axes in the order of `FormKey.axes`."""
    accepted: bool
    """Whether verification accepted these edits."""
    n: int
    """Edits in the study."""
    drawn: int
    """Edits in the form."""


class FormKey(Record):
    """What a form's opaque names stand for. Not for annotators."""

    format: Literal["edct-annotation/1"] = FORMAT
    """The format."""
    form: str
    """Name of the form: the study and a digest of all that is shown."""
    seed: Annotated[int, Field(ge=0)]
    """Seed of the draw."""
    axes: tuple[str, ...]
    """What the draw was stratified by, the verdict of verification aside."""
    strata: tuple[Stratum, ...]
    """The draw."""
    annotators: tuple[str, ...]
    """Whom a form was written for."""
    items: tuple[FormItem, ...]
    """The edits."""
