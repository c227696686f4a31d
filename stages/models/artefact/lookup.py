"""What several adapters look up in an artefact: pictures by their pixels, cells by their names."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from stages.models.artefact.layout import ANSWERS, EDITS, INSTRUCTIONS, SAMPLES, VERDICTS
from stages.models.artefact.reading import Artefact, Row
from stages.models.protocol import CallError
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.usage import CallNote, Usage

Case = tuple[tuple[str, str], ...]
"""What a judge is told of one intervention: the blocks of its prompt, by name."""


def chosen(artefact: Artefact, axis: str, given: str | None) -> str:
    """The name on an axis that a YAML file chose; None means the only one.

    Raises
    ------
    UserError
        If it is unknown, or none was given where there are several; lists the known ones.
    """
    known = artefact.provenance.names(axis)
    if given is None and len(known) == 1:
        return known[0]
    if given not in known:
        what = f"holds no {axis} {given!r}" if given else f"holds several {axis}s"
        raise UserError(str(artefact.folder), what, f"Choose one of: {', '.join(known)}.")
    return given


def check_seed(artefact: Artefact, seed: int) -> None:
    """A seed of the study must be one of the artefact's: each seed is a run of its own."""
    known = artefact.provenance.names("seed")
    if str(seed) not in known:
        raise UserError(
            str(artefact.folder), f"holds no run with seed {seed}", f"It has: {', '.join(known)}."
        )


@lru_cache(maxsize=4)
def pixels(artefact: Artefact) -> Mapping[str, str]:
    """SHA-256 of a picture's file → SHA-256 of its pixels, for originals and edited images."""
    found = {row.record.image: row.extra["pixels"] for row in artefact.rows(SAMPLES)}
    found |= {row.record.edited: row.extra["edited_pixels"] for row in artefact.rows(EDITS)}
    return {sha: digest for sha, digest in found.items() if sha and digest}


def pixels_of(artefact: Artefact, row: Row, sha256: str) -> str:
    """The pixels of an image that a row names; an image that is nowhere is an error."""
    if (digest := pixels(artefact).get(sha256)) is None:
        raise UserError(
            str(row.place), f"names the image {sha256[:12]}…, which is not there", "Export again."
        )
    return digest


@lru_cache(maxsize=4)
def questions(artefact: Artefact) -> Mapping[str, str]:
    """Sample id → its question."""
    return {row.record.id: row.record.question for row in artefact.rows(SAMPLES)}


@lru_cache(maxsize=4)
def by_cell(artefact: Artefact, table: Any) -> Mapping[tuple[Any, ...], Row]:
    """Rows of answers, concepts or instructions by their axes, sample and position."""
    return {
        (
            *row.axes.values(),
            row.record.sample_id,
            *((row.record.position,) if table is ANSWERS else ()),
        ): row
        for row in artefact.rows(table)
    }


def original_answer(artefact: Artefact, target: str, seed: int, sample_id: str) -> Any:
    """A target's record of the original; None where there is none."""
    row = by_cell(artefact, ANSWERS).get((target, None, None, seed, sample_id, 0))
    return row.record if row else None


def chain(artefact: Artefact, row: Row) -> Any:
    """The instruction chain that belongs to a row of concepts; None where there is none."""
    found = by_cell(artefact, INSTRUCTIONS).get((*row.axes.values(), row.record.sample_id))
    return found.record if found else None


def cases(artefact: Artefact, judge: str) -> Iterable[tuple[Row, Case, tuple[str, str]]]:
    """A judge's verdicts, each with what the judge was told and the images that this is about.

    The images are the SHA-256 of the original and of the edited one's PNG.
    """
    told: dict[tuple[Any, ...], list[tuple[int, str]]] = {}
    for row in artefact.rows(EDITS):
        if row.record.status is Status.OK:
            key = (*row.axes.values(), row.record.sample_id)
            told.setdefault(key, []).append((row.record.position, row.record.instruction))
    answers = by_cell(artefact, ANSWERS)
    for row in artefact.rows(VERDICTS):
        if row.axes["judge"] != judge:
            continue
        cell = tuple(row.axes[axis] for axis in ANSWERS.axes)
        sample, position = row.record.sample_id, row.record.position
        before = original_answer(artefact, row.axes["target"], row.axes["seed"], sample)
        after = answers.get((*cell, sample, position))
        edits = [text for j, text in sorted(told.get((*cell, sample), [])) if j <= position]
        question = questions(artefact).get(sample)
        if before is None or after is None or question is None or not edits:
            raise UserError(str(row.place), "judges an edit that is not there", "Export again.")
        yield (
            row,
            case(
                {
                    "question": question,
                    "original_answer": before.answer or "",
                    "original_explanation": before.explanation or "",
                    "edits": "\n".join(f"{i}. {edit}" for i, edit in enumerate(edits, 1)),
                    "new_answer": after.record.answer or "",
                    "new_explanation": after.record.explanation or "",
                }
            ),
            (before.image, after.record.image),
        )


def case(blocks: Mapping[str, str]) -> Case:
    """The blocks of a judge's prompt as a key."""
    return tuple(sorted(blocks.items()))


def usage(notes: Iterable[CallNote], role: str, turn: int = 0) -> Usage:
    """Who answered. What it cost is left out: nobody pays it again."""
    notes = [note for note in notes if note.role == role]
    if not notes:
        return Usage()
    used = notes[min(turn, len(notes) - 1)].usage
    return Usage(served_model=used.served_model, provider=used.provider)


def failure(status: Status, reason: str | None) -> CallError:
    """What became of a call when it was made, to be told again."""
    return CallError(status, reason or "no reason was recorded")
