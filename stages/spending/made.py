"""What a study has called already, by stage, role and model: from its records and the ledger."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from stages.models.store import Store
from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.attempt import Attempt
from stages.records.charge import Charge
from stages.records.concept import ConceptList
from stages.records.errors import UserError
from stages.records.instruction import InstructionChain
from stages.records.judgement import Judgement
from stages.records.score import Cell
from stages.records.usage import CallNote, Usage
from stages.workflow.folders import Folders

Row = Answer | ConceptList | InstructionChain | Attempt | Judgement
FILES: Mapping[str, tuple[str, type[Any]]] = {
    "baseline": ("answers.jsonl", Answer),
    "concepts": ("concepts.jsonl", ConceptList),
    "instructions": ("instructions.jsonl", InstructionChain),
    "edit": ("attempts.jsonl", Attempt),
    "requery": ("answers.jsonl", Answer),
    "judge": ("judgements.jsonl", Judgement),
}
"""Stage → its file of records and what is in it."""
AXIS = ("target", "extractor", "editor", "judge")


class Post(NamedTuple):
    """A model in one role of one stage."""

    stage: str
    role: str
    name: str
    """Its name in the study; empty for the roles that have one model."""


@dataclass
class Made:
    """The calls of one post."""

    usage: dict[str, Usage] = field(default_factory=dict)
    """Usage by the key of the stored reply, which counts once."""
    rests: Counter[str] = field(default_factory=Counter)
    """How often records rest on each reply: what several targets ask alike is one call."""
    samples: int = 0
    """Samples, over all cells, whose records these calls were found in."""

    def mean(self, name: str) -> float | None:
        """The mean of a number over the calls that report it; None where none does."""
        known = [value for u in self.usage.values() if (value := getattr(u, name)) is not None]
        return sum(known) / len(known) if known else None


def from_records(root: Path, study: list[Cell]) -> dict[Post, Made]:
    """The calls behind the records of a study's cells, as far as these were made."""
    made: dict[Post, Made] = {}
    for stage in FILES:
        for folder, cell in _folders(root, stage, study).items():
            rows = _rows(folder, stage)
            samples = len({row.sample_id for row in rows})
            seen: set[Post] = set()
            for note in (note for row in rows for note in row.calls):
                post = Post(stage, note.role, _name(note, cell))
                entry = made.setdefault(post, Made())
                entry.usage[note.key] = note.usage
                entry.rests[note.key] += 1
                entry.samples += samples if post not in seen else 0
                seen.add(post)
    return made


def add_ledger(made: dict[Post, Made], charges: list[Charge], models: Mapping[Post, str]) -> None:
    """Add the calls of a run that has not come to its records, by the models of the study."""
    by_model: dict[tuple[str, str, str], list[Post]] = {}
    for post, model in models.items():
        by_model.setdefault((post.stage, post.role, model), []).append(post)
    for charge in charges:
        if charge.outcome != "ok":
            continue
        for post in by_model.get((charge.stage, charge.role, charge.model), [])[:1]:
            used = charge.usage[-1] if charge.usage else Usage()
            made.setdefault(post, Made()).usage.setdefault(charge.key, used)


def stored(store: Store, entry: Made, identity: Mapping[str, Any]) -> int:
    """How many of the calls the store still answers for a model of this identity."""
    held = (key for key in entry.usage if store.model_of(key) == identity)
    return sum(max(1, entry.rests[key]) for key in held)


def _folders(root: Path, stage: str, study: list[Cell]) -> dict[Path, Cell]:
    folders = Folders(root)
    return {getattr(folders, stage)(cell): cell for cell in reversed(study)}


def _rows(folder: Path, stage: str) -> list[Row]:
    name, kind = FILES[stage]
    try:
        return list(jsonl.read(folder / name, kind))
    except UserError:  # not made yet, or by another version: nothing to learn from it
        return []


def _name(note: CallNote, cell: Cell) -> str:
    return str(getattr(cell, note.role)) if note.role in AXIS else ""


def ledger_totals(charges: list[Charge]) -> Iterator[tuple[tuple[str, str, str], list[Charge]]]:
    """Charges by stage, role and model, in order."""
    groups: dict[tuple[str, str, str], list[Charge]] = {}
    for charge in charges:
        groups.setdefault((charge.stage, charge.role, charge.model), []).append(charge)
    yield from sorted(groups.items())
