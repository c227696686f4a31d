"""What an EDCT-Bench folder holds: its tables, its file names, and where it comes from.

    README.md                                     the data card
    provenance.json                               what made it (`Provenance`)
    prompts/*.txt                                 the prompts as they were
    data/<table>/<split>-00000-of-00001.parquet   rows, and pictures as Hugging Face ``Image``

A table's rows are the pipeline's own records, field by field, with the cell that they belong to
in front of them and pictures behind them. Nothing is said in two places: an original lies in
`samples` once, whatever the number of targets; an edited image lies with its attempt.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from stages.records.answer import Answer
from stages.records.attempt import Attempt
from stages.records.base import Record
from stages.records.concept import ConceptList
from stages.records.instruction import InstructionChain
from stages.records.judgement import Judgement
from stages.records.sample import Sample
from stages.records.score import Cell

FORMAT = 1
Name = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,100}$")]
"""A name that may become a folder or a key: nothing else gets out of an artefact into a path."""
FILE = re.compile(r"([a-z]+)-(\d{5})-of-(\d{5})\.parquet")


@dataclass(frozen=True, eq=False)
class Table:
    """One table: a configuration of the data set, in the words of Hugging Face."""

    name: str
    about: str
    record: type[Record]
    axes: tuple[str, ...]
    """Columns that name the cell; where a row depends on fewer models, the others are null."""
    key: tuple[str, ...]
    """Fields that, with the axes, no two rows share."""
    splits: tuple[str, ...] = ("test",)
    pictures: Mapping[str, str] = field(default_factory=dict)
    """Column of a picture → dotted field that holds the SHA-256 of its PNG."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Further columns of text → what they are."""


_CELL = ("target", "extractor", "editor", "seed")
SAMPLES = Table(
    "samples",
    "A row is an image-question pair: the original image, asked about by every target.",
    Sample,
    axes=(),
    key=("id",),
    pictures={"picture": "image"},
    extra={"pixels": "SHA-256 of the picture's shape and RGB pixels, whatever the file."},
)
EDITS = Table(
    "edits",
    "A row is an attempt at an edit: `accepted` by verification, or `rejected` (or never reached).",
    Attempt,
    axes=_CELL,
    key=("sample_id", "position", "attempt"),
    splits=("accepted", "rejected"),
    pictures={
        "edited_picture": "edited",
        "mask_picture": "mask",
        "change_picture": "measurement.delta",
    },
    extra={
        "edited_pixels": "SHA-256 of the edited picture's shape and RGB pixels.",
        "question": "The sample's question, for reading; `samples` is what counts.",
        "concept": "The concept that the edit contradicts, for reading; `instructions` counts.",
    },
)
ANSWERS = Table(
    "answers",
    "A row is a target's answer and explanation: to an original (position 0), or after edit j.",
    Answer,
    axes=_CELL,
    key=("sample_id", "position"),
)
CONCEPTS = Table(
    "concepts",
    "A row is what one explanation cites: visual concepts, most important first.",
    ConceptList,
    axes=("target", "extractor", "seed"),
    key=("sample_id",),
)
INSTRUCTIONS = Table(
    "instructions",
    "A row is a sample's chain of edit instructions.",
    InstructionChain,
    axes=("target", "extractor", "seed"),
    key=("sample_id",),
)
VERDICTS = Table(
    "verdicts",
    "A row is a judge's verdict on the answer after one accepted edit.",
    Judgement,
    axes=("target", "extractor", "editor", "judge", "seed"),
    key=("sample_id", "position", "replicate"),
)
TABLES = (EDITS, SAMPLES, ANSWERS, CONCEPTS, INSTRUCTIONS, VERDICTS)
"""In the order of the data card; the first is what a reader sees first."""


class Served(Record):
    """Who answered in a role."""

    role: str
    """target, extractor, editor, detector, segmenter, verifier or judge."""
    model: str | None = None
    """The model id that the provider said; None: it did not say."""
    provider: str | None = None
    """Who served the calls; None: nobody said."""
    calls: int
    """Replies that the records rest on, each counted once."""


class ExportedCell(Cell):
    """A cell whose names are safe to use as keys and folders."""

    target: Name
    extractor: Name
    editor: Name
    judge: Name
    seed: Annotated[int, Field(ge=0)]


class Provenance(Record):
    """What made an artefact."""

    format: Literal[1]
    """Version of the layout."""
    study: str
    """Name of the study."""
    cells: Annotated[tuple[ExportedCell, ...], Field(min_length=1)]
    """Its cells, in order."""
    params: dict[str, Any]
    """Its parameters; of absolute paths only the last part."""
    params_digest: str
    """SHA-256 of those sections that shape results, as the report prints it."""
    code: str
    """SHA-256 over the source of the pipeline."""
    prompts: dict[str, str]
    """File of the prompt set → SHA-256."""
    served: tuple[Served, ...]
    """Who answered."""
    pictures: Literal["all", "accepted"]
    """Whether rejected edits have their pictures."""
    rows: dict[str, Annotated[int, Field(ge=0)]]
    """``table/split`` → its rows."""

    def names(self, axis: str) -> tuple[str, ...]:
        """The names on an axis of the matrix, in order."""
        return tuple(dict.fromkeys(str(getattr(cell, axis)) for cell in self.cells))


def folder_of(root: Path, table: Table) -> Path:
    """The folder of a table's files."""
    return root / "data" / table.name
