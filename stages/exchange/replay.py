"""Replay: check an artefact from end to end, and write the study that runs it again.

The study has the exported cells under their own names, with recorded adapters in place of models
and with the parameters of the run. An artefact comes from strangers: names, numbers and sections
are taken from it, classes and keys never.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from stages.models import recorded
from stages.models.artefact import lookup
from stages.models.artefact.layout import EDITS, SAMPLES, TABLES, Provenance
from stages.models.artefact.reading import Artefact, Row
from stages.records.base import Status
from stages.records.errors import UserError
from stages.workflow import params as parameters
from stages.workflow import sections

_WRITTEN = "Written by `python -m stages.exchange replay`"
_SECTIONS = ("chain", "generation", "judge", "score", "limits")
_AXES = {
    "targets": ("target", "stages.models.chat.bench_target.BenchTarget"),
    "extractors": ("extractor", "stages.models.chat.bench_extractor.BenchExtractor"),
    "editors": ("editor", "stages.models.editor.bench.BenchEditor"),
    "judges": ("judge", "stages.models.chat.bench_judge.BenchJudge"),
}


def check(folder: Path) -> Artefact:
    """Read everything in an artefact once, every picture included, one at a time.

    Raises
    ------
    UserError
        At the first thing that is wrong: names the file and the row.
    """
    artefact = Artefact(folder)
    counts = {f"{table.name}/{split}" for table in TABLES for split in table.splits}
    if set(artefact.provenance.rows) != counts:
        raise UserError(
            str(folder / "provenance.json"), "counts other tables than there are", "Export again."
        )
    samples = {}
    for row in artefact.read(SAMPLES):
        sample = row.record
        samples[sample.id] = sample
        picture = artefact.picture(row, "picture", sample.image)
        if picture.pixels.shape[:2] != (sample.height, sample.width):
            raise UserError(str(row.place), "the picture has another size", "Export again.")
        _check_digest(row, "pixels", picture.pixels)
    for row in artefact.read(EDITS):
        _check_edit(artefact, row)
    for table in TABLES:
        for row in artefact.rows(table):
            id = getattr(row.record, "sample_id", None)
            if id is not None and id not in samples:
                raise UserError(str(row.place), f"there is no sample {id[:60]!r}", "Export again.")
            _check_cell(artefact.provenance, row)
            shown = row.record.source if table is EDITS else getattr(row.record, "image", None)
            if shown is not None:
                lookup.pixels_of(artefact, row, shown)
    for judge in artefact.provenance.names("judge"):
        for row, _, images in lookup.cases(artefact, judge):
            for image in images:
                lookup.pixels_of(artefact, row, image)
    return artefact


def _check_edit(artefact: Artefact, row: Row) -> None:
    attempt = row.record
    if (attempt.status is Status.OK) != (row.split == "accepted"):
        raise UserError(str(row.place), f"is {attempt.status} in {row.split}", "Export again.")
    everything = row.split == "accepted" or artefact.provenance.pictures == "all"
    measured = attempt.measurement
    if row.split == "accepted" and not (attempt.edited and attempt.mask and measured):
        raise UserError(str(row.place), "is accepted without all pictures", "Export again.")
    for column, sha in (
        ("edited_picture", attempt.edited if everything else None),
        ("mask_picture", attempt.mask),
        ("change_picture", measured.delta if measured and everything else None),
    ):
        if sha is not None:
            shown = artefact.picture(row, column, sha)
            if column == "edited_picture":
                _check_digest(row, "edited_pixels", shown.pixels)


def _check_digest(row: Row, column: str, pixels: Any) -> None:
    if row.extra[column] != recorded.pixel_digest(pixels):
        raise UserError(str(row.place), f"{column} is not that of the picture", "Export again.")


def _check_cell(made: Provenance, row: Row) -> None:
    for axis, name in row.axes.items():
        if name is not None and str(name) not in made.names(axis):
            raise UserError(
                str(row.place), f"the {axis} {str(name)[:60]!r} is in no cell", "Export again."
            )


def write_study(root: Path, folder: Path, name: str) -> Path:
    """Write `conf/study/<name>.yaml`: the exported run, answered by what was recorded.

    Raises
    ------
    UserError
        If the artefact is damaged, was made with other prompts than this workspace has, or the
        name is taken or none.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,60}", name):
        raise UserError("name", f"{name!r} can't name a study", "Use a-z, 0-9 and _.")
    path = root / "conf" / "study" / f"{name}.yaml"
    head = f"# @package _global_\n# {_WRITTEN}: the run of {folder}."
    if path.exists() and _WRITTEN not in path.read_text(encoding="utf-8"):
        raise UserError(str(path), "is there already", "Give another name: `--name`.")
    if not str(folder).isprintable() or "${" in str(folder):
        raise UserError(str(folder), "can't stand in a YAML file", "Rename the folder.")
    artefact = check(root / folder)
    prompts = prompt_set(root, artefact)
    study = {
        "defaults": [
            {"override /benchmark": ["edct_bench"]},
            *({f"override /{axis}": []} for axis, _ in _AXES.values()),
            {"override /detector": "edct_bench"},
            {"override /segmenter": "edct_bench"},
            {"override /verifier": "edct_bench" if _is_verified(artefact.provenance) else "none"},
            {"override /pairs": []},
        ],
        "study": name,
        "prompts": prompts,
        **_models(artefact.provenance, str(folder)),
        **_sections(artefact),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(study, sort_keys=False, allow_unicode=True, width=1000)
    path.write_text(f"{head}\n{text}", encoding="utf-8")
    return path


def _models(made: Provenance, folder: str) -> dict[str, Any]:
    return {
        "benchmarks": {"edct_bench": {"folder": folder, "accepted_only": False}},
        **{
            group: {
                name: {"_target_": target, "folder": folder, axis: name}
                for name in made.names(axis)
            }
            for group, (axis, target) in _AXES.items()
        },
        "seeds": [int(seed) for seed in made.names("seed")],
    }


def _is_verified(made: Provenance) -> bool:
    """Whether a verifier took part; runs before there were any don't say so."""
    return made.params.get("verifier") is not None


def _sections(artefact: Artefact) -> dict[str, Any]:
    given = artefact.provenance.params
    try:
        checked: dict[str, Any] = {
            name: parameters.section(given, name, sections.SECTIONS[name]).model_dump()
            for name in _SECTIONS
        }
        parameters.verification(given)
    except UserError as error:
        raise UserError(
            str(artefact.folder / "provenance.json"),
            f"params: {error.where.removeprefix('params.yaml: ')} {error.what}",
            "Use the version of the pipeline that made it.",
        ) from None
    verify = given["verify"]
    assert isinstance(verify, Mapping)
    return {**checked, "verify": dict(verify)}


def prompt_set(root: Path, artefact: Artefact) -> str:
    """The workspace's prompt set that is the artefact's, file by file.

    Recorded replies are found by what was asked, so other prompts would ask something else.
    """
    for folder in sorted((root / "prompts").iterdir()):
        found = {
            file.name: hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(folder.glob("*.txt"))
        }
        if artefact.provenance.prompts.items() <= found.items():
            return folder.name
    raise UserError(
        str(artefact.folder),
        "was made with prompts that this workspace does not have",
        f"Read {artefact.folder / 'prompts'}, and copy it to a folder of prompts/.",
    )
