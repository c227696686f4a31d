"""How long does a report of a whole benchmark take, and how large does it get?

    python -m scripts.large_report FOLDER [--samples 300] [--targets 6] [--width 1024 --height 768]

Writes what the stages would leave of a study with invented answers of the usual length and invented
images, two edits a sample; scores it, makes its report in FOLDER/reports, and prints seconds and
bytes. 300 samples and six targets are 3,600 planned edits, as in Table 1.
"""

import argparse
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import yaml
from numpy.typing import NDArray

from stages import report, score
from stages.analysis.fates import Trail, follow
from stages.models.picture import Picture
from stages.records import jsonl
from stages.records.annotation import Annotation
from stages.records.answer import Answer
from stages.records.attempt import Attempt, Box, Measurement
from stages.records.base import Status
from stages.records.concept import Concept, ConceptList
from stages.records.instruction import Instruction, InstructionChain
from stages.records.judgement import Judgement
from stages.records.sample import Sample
from stages.records.score import Cell, Intervention
from stages.reporting.study import Findings
from stages.workflow.folders import Folders

REPOSITORY = Path(__file__).resolve().parents[1]
DOMAINS = ("okvqa", "drivelm", "3dsrbench")
VOCABULARY = (
    "the a of in on near behind left right red blue large small wooden metal striped bright dark "
    "wheel car lane sign person table window roof tree road shadow surface shape colour pattern "
    "suggests shows indicates stands appears because therefore visible clearly typical position"
)
TARGET = {"_target_": "stages.models.chat.Invented"}
"""What the parameters say of a target; nothing makes or calls it."""


class Size(NamedTuple):
    """How large a study is."""

    samples: int
    targets: int
    width: int
    height: int
    k: int = 2


def main() -> int:
    """Write, score and report; print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="a new folder")
    for name, value in (("samples", 300), ("targets", 6), ("width", 1024), ("height", 768)):
        parser.add_argument(f"--{name}", type=int, default=value)
    chosen = parser.parse_args()
    size = Size(chosen.samples, chosen.targets, chosen.width, chosen.height)
    params = write_study(chosen.folder, size)
    for stage in (score, report):
        began = time.perf_counter()
        stage.run(chosen.folder, params)
        print(f"{stage.__name__}: {time.perf_counter() - began:.1f} s")
    for path in sorted((chosen.folder / "reports").iterdir()):
        files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
        mib = sum(file.stat().st_size for file in files) / 2**20
        print(f"reports/{path.name}: {mib:.1f} MiB in {len(files)} files")
    return 0


def write_study(root: Path, size: Size) -> dict[str, Any]:
    """Write what every stage before `score` would leave; returns the parameters.

    Also writes ``interventions.jsonl`` and empty findings, so that a report can be made without
    estimates.
    """
    folders = Folders(root)
    rng = np.random.default_rng(0)
    names = [f"target_{i + 1}" for i in range(size.targets)]
    cells = [Cell(target=t, extractor="llm", editor="editor", judge="llm", seed=0) for t in names]
    folders.plan.mkdir(parents=True)
    (folders.plan / "cells.json").write_text(json.dumps([cell.model_dump() for cell in cells]))
    samples = list(_samples(folders, size, rng))
    jsonl.write(folders.prepare / "samples.jsonl", samples)
    (folders.prepare / "left_out.json").write_text("{}")
    rows: list[Intervention] = []
    for cell in cells:
        trail = _trail(folders, cell, samples, size, rng)
        _write(folders, cell, trail)
        rows += follow(cell, samples, trail)
    jsonl.write(folders.score / "interventions.jsonl", rows)
    for name in ("estimates", "panel", *(field.name for field in fields(Findings))):
        jsonl.write(folders.score / f"{name}.jsonl", [])
    jsonl.write(folders.score / "labels.jsonl", _labels(rows))
    jsonl.write(folders.calibration / "coverage.jsonl", [])
    shutil.copytree(REPOSITORY / "data" / "reference", folders.reference)
    shutil.copytree(REPOSITORY / "prompts" / "default", root / "prompts" / "default")
    params: dict[str, Any] = yaml.safe_load((REPOSITORY / "params.yaml").read_text())
    return {**params, "study": "large", "targets": dict.fromkeys(names, TARGET), "pair_names": []}


def _say(rng: np.random.Generator, n: int) -> str:
    text = " ".join(rng.choice(VOCABULARY.split(), n))
    return f"{text[0].upper()}{text[1:]}."


def _scene(rng: np.random.Generator, size: Size) -> NDArray[np.uint8]:
    """Coloured blobs with grain: compresses about as a photograph does; ``(H, W, 3)`` RGB."""
    small = rng.integers(20, 235, (9, 12, 3)).astype(np.float32)
    base = cv2.resize(small, (size.width, size.height), interpolation=cv2.INTER_CUBIC)
    grain = rng.normal(0, 7, (size.height // 2, size.width // 2, 1)).astype(np.float32)
    base += cv2.resize(grain, (size.width, size.height))[..., None]
    return np.asarray(np.clip(base, 0, 255), dtype=np.uint8)


def _samples(folders: Folders, size: Size, rng: np.random.Generator) -> Iterator[Sample]:
    for i in range(size.samples):
        domain = DOMAINS[i % len(DOMAINS)]
        yield Sample(
            id=f"{domain}-{i:04d}",
            domain=domain,
            image=Picture.of(_scene(rng, size)).save(folders.prepare / "images"),
            width=size.width,
            height=size.height,
            question=_say(rng, 14).replace(".", "?"),
        )


def _trail(
    folders: Folders, cell: Cell, samples: list[Sample], size: Size, rng: np.random.Generator
) -> Trail:
    trail = Trail([], [], [], [], [], [])
    images = folders.edit(cell) / "images"
    for sample in samples:
        _follow_sample(trail, sample, folders.prepare / "images", images, size, rng)
    return trail


def _follow_sample(
    trail: Trail,
    sample: Sample,
    originals: Path,
    images: Path,
    size: Size,
    rng: np.random.Generator,
) -> None:
    """One sample's way: one in 25 has no concept, one in ten attempts fails, one verdict in 50."""
    known: Any = trail  # its fields are read as sequences elsewhere; here they are lists
    ok = {"sample_id": sample.id, "status": Status.OK}
    known.baseline.append(_answer(sample.id, 0, sample.image, rng))
    if rng.random() < 0.04:
        lost = {"sample_id": sample.id, "status": Status.NO_CONCEPTS, "reason": "nothing visible"}
        known.concepts.append(ConceptList(**lost))
        known.chains.append(InstructionChain(**{**lost, "status": Status.NOT_REACHED}))
        return
    concepts = [Concept(object="car", text=_say(rng, 5)) for _ in range(size.k)]
    known.concepts.append(ConceptList(**ok, concepts=tuple(concepts)))
    steps = tuple(_instruction(j, concept, rng) for j, concept in enumerate(concepts, 1))
    known.chains.append(InstructionChain(**ok, steps=steps))
    source = Picture.load(originals, sample.image)
    alive = True
    for step in steps:
        common = {
            "sample_id": sample.id,
            "position": step.position,
            "instruction": _say(rng, 40),
            "edit_type": step.edit_type,
            "target_object": step.target_object,
        }
        if not alive:
            unreached = {"attempt": 0, "status": Status.NOT_REACHED, "reason": "the chain ended"}
            known.attempts.append(Attempt(**common, **unreached))
            continue
        for number in (1, 2):
            status = Status.OK if rng.random() > 0.1 else Status.OUTSIDE_CHANGED
            attempt, edited = _attempt(common, number, status, source, images, rng)
            known.attempts.append(attempt)
            if status is Status.OK:
                break
        alive = status is Status.OK
        if alive:
            source = edited
            known.answers.append(_answer(sample.id, step.position, edited.sha256, rng))
            known.judgements.append(_judgement(sample.id, step.position, rng))


def _answer(sample_id: str, position: int, image: str, rng: np.random.Generator) -> Answer:
    return Answer(
        sample_id=sample_id,
        position=position,
        image=image,
        status=Status.OK,
        answer=_say(rng, 10),
        explanation="\n".join(f"- {_say(rng, 22)}" for _ in range(4)),
    )


def _instruction(position: int, concept: Concept, rng: np.random.Generator) -> Instruction:
    return Instruction(
        position=position,
        concept=concept,
        keep=_say(rng, 14),
        change=_say(rng, 14),
        appearance=_say(rng, 14),
        avoid=_say(rng, 12),
        edit_type=("modify", "remove", "replace", "add")[int(rng.integers(4))],
        target_object="car",
    )


def _attempt(
    common: dict[str, Any],
    number: int,
    status: Status,
    source: Picture,
    images: Path,
    rng: np.random.Generator,
) -> tuple[Attempt, Picture]:
    before = source.pixels
    height, width = before.shape[:2]
    centre = int(rng.integers(width // 4, 3 * width // 4)), height // 2
    axes = width // 9, height // 8
    mask = np.zeros((height, width), np.uint8)
    cv2.ellipse(mask, centre, axes, 0, 0, 360, 255, -1)
    after = before.copy()
    cv2.ellipse(after, centre, axes, 0, 0, 360, [int(v) for v in rng.integers(0, 255, 3)], -1)
    delta = np.where((after != before).any(-1), 255, 0).astype(np.uint8)
    edited = Picture.of(after)
    edited.save(images)
    x, y = centre
    return Attempt(
        **common,
        attempt=number,
        status=status,
        reason=None if status is Status.OK else "r_out is not below tau_out",
        source=source.sha256,
        edited=edited.sha256,
        returned_width=width,
        returned_height=height,
        boxes=(Box(x0=x - axes[0], y0=y - axes[1], x1=x + axes[0], y1=y + axes[1]),),
        mask=Picture.of(mask).save(images),
        measurement=Measurement(
            r_in=round(float(rng.uniform(0.3, 1)), 4),
            r_out=round(float(rng.uniform(0, 0.25 if status is Status.OK else 0.6)), 4),
            r_in_unwarped=0.5,
            r_out_unwarped=0.1,
            mask_share=0.05,
            registration="identity",
            shift_px=0.0,
            residual=0.01,
            delta=Picture.of(delta).save(images),
        ),
    ), edited


def _judgement(sample_id: str, position: int, rng: np.random.Generator) -> Judgement:
    grade = int(rng.integers(1, 6))
    graded = {"grade": grade, "ccs_graded": (grade - 1) / 4, "grade_reason": _say(rng, 35)}
    known = {"sample_id": sample_id, "position": position, "graded_status": Status.OK, **graded}
    if rng.random() < 0.02:
        return Judgement(**known, status=Status.UNPARSED, reason="no verdict in the reply")
    ac, ef = int(rng.random() < 0.7), int(rng.random() < 0.6)
    verdict = {"answer_consistent": ac, "explanation_faithful": ef, "ccs_binary": ac * ef}
    return Judgement(**known, **verdict, status=Status.OK, verdict_reason=_say(rng, 35))


def _labels(rows: list[Intervention]) -> Iterator[Annotation]:
    """Every seventh scored edit, by one annotator who differs from the judge on some."""
    scored = [row for row in rows if row.status is Status.OK]
    for i, row in enumerate(scored[::7]):
        yield Annotation(
            **row.cell.model_dump(exclude={"judge"}),
            sample_id=row.sample_id,
            position=row.position,
            attempt=row.attempts,
            edited=row.edited,
            annotator="annotator 1",
            valid="yes",
            ac=int(row.ac or 0) ^ (i % 5 == 0),
            ef=int(row.ef or 0),
        )


def _write(folders: Folders, cell: Cell, trail: Trail) -> None:
    jsonl.write(folders.baseline(cell) / "answers.jsonl", trail.baseline)
    jsonl.write(folders.concepts(cell) / "concepts.jsonl", trail.concepts)
    jsonl.write(folders.instructions(cell) / "instructions.jsonl", trail.chains)
    jsonl.write(folders.edit(cell) / "attempts.jsonl", trail.attempts)
    jsonl.write(folders.requery(cell) / "answers.jsonl", trail.answers)
    jsonl.write(folders.judge(cell) / "judgements.jsonl", trail.judgements)


if __name__ == "__main__":
    raise SystemExit(main())
