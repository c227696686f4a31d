"""Export: a finished run's records, and the pictures that they name, as an EDCT-Bench folder."""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import yaml

from stages.exchange import card
from stages.exchange.shards import Shards
from stages.models import recorded
from stages.models.artefact.layout import (
    ANSWERS,
    CONCEPTS,
    EDITS,
    FORMAT,
    INSTRUCTIONS,
    SAMPLES,
    TABLES,
    VERDICTS,
    ExportedCell,
    Provenance,
    Served,
    Table,
)
from stages.models.fingerprint import fingerprint
from stages.models.picture import Picture
from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.attempt import Attempt
from stages.records.base import Record, Status
from stages.records.concept import ConceptList
from stages.records.errors import UserError
from stages.records.instruction import InstructionChain
from stages.records.judgement import Judgement
from stages.records.sample import Sample
from stages.records.score import Cell
from stages.records.usage import CallNote
from stages.workflow import cells, prompts
from stages.workflow import params as parameters
from stages.workflow.folders import Folders

_ROLES = ("target", "extractor", "editor", "detector", "segmenter", "verifier", "judge")


@dataclass(frozen=True)
class Entry:
    """A row before it is written: its pictures are read when its turn has come."""

    split: str
    row: Mapping[str, Any]
    pictures: Mapping[str, tuple[Path, str] | None]
    """Column → folder and SHA-256 of the PNG file."""
    calls: tuple[CallNote, ...] = ()


def export(root: Path, folder: Path, *, accepted_only: bool = False) -> Provenance:
    """Write the finished run of a workspace into a new folder.

    Parameters
    ----------
    root : Path
        The workspace.
    folder : Path
        Where to; must not exist, or be empty. It appears when it is complete.
    accepted_only : bool
        Leave out the pictures of rejected edits. Their records stay: they are the attrition.

    Raises
    ------
    UserError
        If the run is not finished or the parameters have changed since, or the folder is in use.
    """
    params = parameters.load(root / "params.yaml")
    study = finished_cells(root, params)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(str(folder), "exists and is not empty", "Name a new folder.")
    unfinished = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        made = _write(root, unfinished, params, study, accepted_only)
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished.replace(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return made


def finished_cells(root: Path, params: Mapping[str, Any]) -> list[Cell]:
    """The cells of a run that is finished with exactly these parameters."""
    study = cells.study_cells(params)
    if not study:
        raise UserError("params.yaml: target_names", "is empty", "A study of pairs has no chains.")
    try:
        lock = yaml.safe_load((root / "dvc.lock").read_text(encoding="utf-8"))
        ran = lock["stages"]["report"]["params"]["params.yaml"]
    except (OSError, yaml.YAMLError, ValueError, RecursionError, KeyError, TypeError):
        raise UserError("dvc.lock", "knows of no finished run", "Run `dvc repro` first.") from None
    if ran != params:
        raise UserError("params.yaml", "has changed since the last run", "Run `dvc repro` first.")
    return study


def _write(
    root: Path, folder: Path, params: Mapping[str, Any], study: list[Cell], accepted_only: bool
) -> Provenance:
    entries = _entries(Folders(root), study, accepted_only)
    rows: dict[str, int] = {}
    sizes: dict[str, card.Size] = {}
    notes: dict[str, CallNote] = {}
    for table in TABLES:
        writers = {split: Shards(folder, table, split) for split in table.splits}
        for entry in entries[table.name]:
            notes |= {note.key: note for note in entry.calls}
            _add(writers[entry.split], entry)
        for split, writer in writers.items():
            file_bytes = writer.close()
            rows[f"{table.name}/{split}"] = writer.rows
            sizes[f"{table.name}/{split}"] = card.Size(writer.rows, writer.memory, file_bytes)
    chosen = parameters.value(params, "prompts", str)
    made = Provenance(
        format=FORMAT,
        study=parameters.value(params, "study", str),
        cells=tuple(ExportedCell.model_validate(cell.model_dump()) for cell in study),
        params=without_places(params),
        params_digest=params_digest(params),
        code=fingerprint("stages"),
        prompts={
            f"{name}.txt": prompts.load(root, params, name).sha256 for name in prompts.VARIABLES
        },
        served=tuple(_served(notes.values())),
        pictures="accepted" if accepted_only else "all",
        rows=rows,
    )
    (folder / "prompts").mkdir()
    for name in made.prompts:
        shutil.copyfile(root / "prompts" / chosen / name, folder / "prompts" / name)
    provenance = json.dumps(made.model_dump(mode="json"), indent=1, ensure_ascii=False)
    (folder / "provenance.json").write_text(provenance + "\n", encoding="utf-8")
    (folder / "README.md").write_text(card.render(made, sizes), encoding="utf-8")
    return made


def _add(writer: Shards, entry: Entry) -> None:
    row = dict(entry.row)
    pictures: dict[str, tuple[str, bytes] | None] = {}
    for column, named in entry.pictures.items():
        picture = None if named is None else Picture.load(*named)
        pictures[column] = None if picture is None else (picture.sha256, picture.png)
        pixels = {"picture": "pixels", "edited_picture": "edited_pixels"}.get(column)
        if pixels is not None:
            row[pixels] = None if picture is None else recorded.pixel_digest(picture.pixels)
    writer.add(row, pictures)


def _entries(
    folders: Folders, study: list[Cell], accepted_only: bool
) -> Mapping[str, Iterable[Entry]]:
    """The rows of each table, none of them read before it is asked for."""
    return {
        SAMPLES.name: _samples(folders),
        EDITS.name: _edits(folders, study, accepted_only),
        ANSWERS.name: _answers(folders, study),
        CONCEPTS.name: _plain(
            CONCEPTS, study, lambda cell: folders.concepts(cell) / "concepts.jsonl", ConceptList
        ),
        INSTRUCTIONS.name: _plain(
            INSTRUCTIONS,
            study,
            lambda cell: folders.instructions(cell) / "instructions.jsonl",
            InstructionChain,
        ),
        VERDICTS.name: _plain(
            VERDICTS, study, lambda cell: folders.judge(cell) / "judgements.jsonl", Judgement
        ),
    }


def _samples(folders: Folders) -> Iterator[Entry]:
    for sample in jsonl.read(folders.prepare / "samples.jsonl", Sample):
        picture = (folders.prepare / "images", sample.image)
        yield Entry("test", sample.model_dump(mode="json"), {"picture": picture})


def _edits(folders: Folders, study: list[Cell], accepted_only: bool) -> Iterator[Entry]:
    samples = {s.id: s for s in jsonl.read(folders.prepare / "samples.jsonl", Sample)}
    for cell in _distinct(study, EDITS.axes):
        chains = jsonl.read(folders.instructions(cell) / "instructions.jsonl", InstructionChain)
        concept = {(c.sample_id, s.position): s.concept.text for c in chains for s in c.steps}
        images = folders.edit(cell) / "images"
        for attempt in jsonl.read(folders.edit(cell) / "attempts.jsonl", Attempt):
            accepted = attempt.status is Status.OK
            shown = accepted or not accepted_only
            measured = attempt.measurement
            named = {
                "edited_picture": attempt.edited if shown else None,
                "mask_picture": attempt.mask,
                "change_picture": measured.delta if measured and shown else None,
            }
            yield Entry(
                "accepted" if accepted else "rejected",
                {
                    **_axes(cell, EDITS.axes),
                    **attempt.model_dump(mode="json"),
                    "question": samples[attempt.sample_id].question,
                    "concept": concept.get((attempt.sample_id, attempt.position)),
                },
                {column: (images, sha) if sha else None for column, sha in named.items()},
                attempt.calls,
            )


def _answers(folders: Folders, study: list[Cell]) -> Iterator[Entry]:
    yield from _plain(
        ANSWERS,
        _distinct(study, ("target", "seed")),
        lambda cell: folders.baseline(cell) / "answers.jsonl",
        Answer,
    )
    yield from _plain(ANSWERS, study, lambda cell: folders.requery(cell) / "answers.jsonl", Answer)


def _plain(table: Table, study: Iterable[Cell], path: Any, record: type[Record]) -> Iterator[Entry]:
    for cell in _distinct(study, table.axes):
        for row in jsonl.read(path(cell), record):
            calls = getattr(row, "calls", ())
            yield Entry(
                "test", {**_axes(cell, table.axes), **row.model_dump(mode="json")}, {}, calls
            )


def _distinct(study: Iterable[Cell], axes: tuple[str, ...]) -> list[Cell]:
    """The cells with only these axes, each once; the other names are empty."""
    empty = {"target": "", "extractor": "", "editor": "", "judge": ""}
    return list(
        dict.fromkeys(
            Cell(**{**empty, "seed": cell.seed, **{axis: getattr(cell, axis) for axis in axes}})
            for cell in study
        )
    )


def _axes(cell: Cell, axes: tuple[str, ...]) -> dict[str, Any]:
    return {axis: None if getattr(cell, axis) == "" else getattr(cell, axis) for axis in axes}


def _served(notes: Iterable[CallNote]) -> Iterator[Served]:
    counts = Counter(
        (note.role, note.usage.served_model, note.usage.provider)
        for note in notes
        if note.role in _ROLES
    )
    for role, model, provider in sorted(
        counts, key=lambda key: (_ROLES.index(key[0]), key[1] or "", key[2] or "")
    ):
        n = counts[role, model, provider]
        yield Served(role=role, model=model, provider=provider, calls=n)


def params_digest(params: Mapping[str, Any]) -> str:
    """SHA-256 of the sections that shape results, in canonical JSON: the digest of the report."""
    shown = params.get("report", {}).get("settings", [])
    kept = {key: params[key] for key in shown if key in params}
    canonical = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def without_places(value: Any) -> Any:
    """Parameters without the places of a machine: of an absolute path its last part."""
    if isinstance(value, Mapping):
        return {key: without_places(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_places(part) for part in value]
    if isinstance(value, str) and value.startswith(("/", "~")) and "\n" not in value:
        return PurePath(value).name
    return value
