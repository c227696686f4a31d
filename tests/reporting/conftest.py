"""A small finished study on disk, as the stages before the report would leave it."""

import json
import shutil
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stages.models.picture import Picture
from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.attempt import Attempt, Box, Measurement
from stages.records.base import Status
from stages.records.concept import Concept, ConceptList
from stages.records.instruction import Instruction, InstructionChain
from stages.records.judgement import Judgement
from stages.records.sample import Sample
from stages.records.score import Cell, Estimate, Intervention
from stages.records.usage import CallNote, Usage
from stages.reporting.study import Findings

REFERENCE = """target,metric,k,mean,ci_low,ci_high
demo_looks,ccs_binary,,0.47,0.41,0.53
demo_looks,ccs_graded,,0.52,0.47,0.57
"""
PUBLISHED = Path(__file__).parents[2] / "data" / "reference"
FINDINGS = tuple(field.name for field in fields(Findings))
HOSTILE = (
    '<script>alert("x")</script> </dd><img src=x onerror=alert(1)> [a](javascript:alert(1)) '
    "$\\frac{1}{0}$ \\input{/etc/passwd} 100% & a_b {{ 7*7 }} \x07\x1b[31m \u202eevil\u202c 红宝石"
)
REPORT = {
    "title": "Does the explanation name the evidence?",
    "gallery": 6,
    "panels": 4,
    "examples": 1,
    "image_px": 200,
    "thumbnail_px": 60,
    "dpi": 80,
    "settings": ["study", "targets", "chain", "verify"],
}


def scene(size: tuple[int, int], colour: tuple[int, int, int], seed: int) -> np.ndarray:
    """A shaded ground with grain and a disc in the given colour; ``(H, W, 3)`` RGB."""
    width, height = size
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width] / np.array([height, width])[:, None, None]
    base = np.stack([150 + 60 * y, 150 + 40 * x, 190 - 80 * y], axis=-1)
    disc = (x - 0.45) ** 2 + ((y - 0.55) * height / width) ** 2 < 0.13**2
    base[disc] = colour
    return np.clip(base + rng.normal(0, 6, base.shape), 0, 255).astype(np.uint8)


def make_workspace(
    root: Path,
    *,
    targets: tuple[str, ...] = ("demo_looks", "demo_prior"),
    n: int = 6,
    k: int = 2,
    size: tuple[int, int] = (160, 120),
    judges: tuple[str, ...] = ("demo",),
    pairs: tuple[str, ...] = (),
    text: str = "",
    scored: bool = True,
    report: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write every file that the report reads; returns the params.

    Sample i meets outcome i modulo 6: no baseline, no concept, a rejected first step, a retry that
    helped, a judge that could not be read, and otherwise a full score. `text` is added to
    everything that a model says.
    """
    cells = [
        Cell(target=t, extractor="demo", editor="demo", judge=j, seed=0)
        for t in targets
        for j in judges
    ]
    data = root / "data"
    samples = []
    for i in range(n if targets else 0):
        original = Picture.of(scene(size, (200, 40, 40), i))
        samples.append(
            Sample(
                id=f"s-{i:03d}",
                domain=("objects", "driving", "spatial")[i % 3],
                image=original.save(data / "prepare" / "images"),
                width=size[0],
                height=size[1],
                question=f"What is in picture {i}?{text}",
            )
        )
    jsonl.write(data / "prepare" / "samples.jsonl", samples)
    _json(data / "prepare" / "left_out.json", {"demo": {"not in the front camera": 3}})
    _json(data / "plan" / "cells.json", [cell.model_dump() for cell in cells])
    interventions: list[Intervention] = []
    for cell in cells:
        interventions += _cell(data, cell, samples, k, size, text, scored)
    jsonl.write(data / "score" / "interventions.jsonl", interventions)
    jsonl.write(data / "score" / "estimates.jsonl", _estimates(cells, interventions, k))
    for name in FINDINGS:
        jsonl.write(data / "score" / f"{name}.jsonl", [])
    jsonl.write(data / "score" / "panel.jsonl", [])
    jsonl.write(data / "calibration" / "coverage.jsonl", [])
    for name in pairs:
        _pairs(data / "pairs" / name, size, text)
    (data / "reference").mkdir(parents=True)
    for name in ("table2", "table4", "table5", "capability", "finetune"):
        shutil.copy(PUBLISHED / f"{name}.csv", data / "reference")
    (data / "reference" / "table1.csv").write_text(REFERENCE)
    (data / "reference" / "table3.csv").write_text(
        REFERENCE.replace("metric,k", "domain,metric")
        .replace("ccs_binary,", "objects,ccs_binary")
        .replace("ccs_graded,", "objects,ccs_graded")
    )
    (root / "prompts" / "default").mkdir(parents=True)
    (root / "prompts" / "default" / "judge.txt").write_text("Judge $answer.\n")
    return {
        "study": "demo",
        "prompts": "default",
        "pair_names": list(pairs),
        "targets": {
            t: {
                "_target_": "stages.models.chat.demo_target.DemoTarget",
                "behaviour": t.removeprefix("demo_"),
                **({"rate": 0.6} if t == "demo_mixture" else {}),
            }
            for t in targets
        },
        "chain": {"k": k},
        "verify": {"tau_in": 0.1, "tau_out": 0.3},
        "report": report or REPORT,
    }


def _cell(
    data: Path,
    cell: Cell,
    samples: list[Sample],
    k: int,
    size: tuple[int, int],
    text: str,
    scored: bool,
) -> list[Intervention]:
    edit = f"{cell.target}-{cell.extractor}-{cell.editor}-{cell.seed}"
    images = data / "edit" / edit / "images"
    rows: list[Intervention] = []
    baseline, concepts, chains, attempts, answers, judgements = [], [], [], [], [], []
    faithful = cell.target.endswith("looks")
    for i, sample in enumerate(samples):
        kind = i % 6 if scored else 2
        lost = {0: ("baseline", Status.REFUSED), 1: ("concepts", Status.NO_CONCEPTS)}.get(kind)
        baseline.append(_answer(sample, 0, sample.image, text, refused=kind == 0))
        concept = Concept(object="ball", attribute="red", text=f"red colour of the ball{text}")
        concepts.append(
            ConceptList(
                sample_id=sample.id,
                status=lost[1] if lost else Status.OK,
                reason="nothing to edit" if lost else None,
                concepts=() if lost else (concept,) * k,
            )
        )
        if lost:
            rows.append(_row(cell, sample, 0, lost[0], lost[1]))
            continue
        chains.append(
            InstructionChain(
                sample_id=sample.id,
                status=Status.OK,
                steps=tuple(
                    Instruction(
                        position=j,
                        concept=concept,
                        keep="Keep everything else as it is.",
                        change=f"Turn the red ball blue, step {j}.{text}",
                        appearance="A matt blue under the same light.",
                        avoid="Do not move it.",
                        edit_type="modify",
                        target_object=f"red ball{text}",
                    )
                    for j in range(1, k + 1)
                ),
            )
        )
        source = Picture.load(data / "prepare" / "images", sample.image)
        for j in range(1, k + 1):
            tries = {2: [Status.INSIDE_UNCHANGED, Status.OUTSIDE_CHANGED]}.get(kind, [Status.OK])
            tries = [Status.INSIDE_UNCHANGED, Status.OK] if kind == 3 and j == 1 else tries
            if kind == 2 and j > 1:
                rows.append(_row(cell, sample, j, "edit", Status.NOT_REACHED))
                continue
            for number, status in enumerate(tries, 1):
                attempt, edited = _attempt(sample, j, number, status, source, images, size, text)
                attempts.append(attempt)
            if tries[-1] is not Status.OK:
                rows.append(_row(cell, sample, j, "edit", tries[-1], attempts=len(tries)))
                continue
            source = edited
            answers.append(_answer(sample, j, edited.sha256, text))
            ok = not (kind == 4 and j == k)
            ac, ef = int(faithful or (i + j) % 2), int(faithful)
            judgements.append(
                Judgement(
                    sample_id=sample.id,
                    position=j,
                    status=Status.OK if ok else Status.UNPARSED,
                    reason=None if ok else "no verdict in the reply",
                    answer_consistent=ac if ok else None,
                    explanation_faithful=ef if ok else None,
                    ccs_binary=ac * ef if ok else None,
                    verdict_reason=f"The new answer follows the edit.{text}",
                    graded_status=Status.OK,
                    grade=5 if faithful else 2,
                    ccs_graded=1.0 if faithful else 0.25,
                )
            )
            rows.append(
                Intervention(
                    cell=cell, sample_id=sample.id, domain=sample.domain, position=j,
                    stage="judge", status=Status.OK if ok else Status.UNPARSED,
                    reason=None if ok else "no verdict", attempts=len(tries),
                    ac=ac if ok else None, ef=ef if ok else None,
                    ccs_binary=ac * ef if ok else None,
                    ccs_graded=1.0 if faithful else 0.25, graded_status=Status.OK,
                    replicates=1, verdicts_lost=0 if ok else 1,
                )
            )  # fmt: skip
    pair = f"{cell.target}-{cell.extractor}-{cell.seed}"
    judge = f"{cell.target}-{cell.extractor}-{cell.editor}-{cell.judge}-{cell.seed}"
    jsonl.write(data / "baseline" / f"{cell.target}-{cell.seed}" / "answers.jsonl", baseline)
    jsonl.write(data / "concepts" / pair / "concepts.jsonl", concepts)
    jsonl.write(data / "instructions" / pair / "instructions.jsonl", chains)
    jsonl.write(data / "edit" / edit / "attempts.jsonl", attempts)
    jsonl.write(data / "requery" / edit / "answers.jsonl", answers)
    jsonl.write(data / "judge" / judge / "judgements.jsonl", judgements)
    return rows


def _answer(sample: Sample, position: int, image: str, text: str, refused: bool = False) -> Answer:
    return Answer(
        sample_id=sample.id,
        position=position,
        image=image,
        status=Status.REFUSED if refused else Status.OK,
        reason="declined" if refused else None,
        answer=None if refused else f"A {'blue' if position else 'red'} ball.{text}",
        explanation=None if refused else f"The disc is round and casts a soft shade.{text}",
        calls=(
            CallNote(
                role="target",
                key=f"{sample.id}-{position}",
                usage=Usage(served_model="demo", input_tokens=100, output_tokens=20),
            ),
        ),
    )


def _row(
    cell: Cell, sample: Sample, position: int, stage: str, status: Status, attempts: int = 0
) -> Intervention:
    return Intervention(
        cell=cell,
        sample_id=sample.id,
        domain=sample.domain,
        position=position,
        stage=stage,
        status=status,
        reason="lost",
        attempts=attempts,
    )


def _attempt(
    sample: Sample,
    position: int,
    number: int,
    status: Status,
    source: Picture,
    images: Path,
    size: tuple[int, int],
    text: str,
) -> tuple[Attempt, Picture]:
    width, height = size
    before = source.pixels
    after = before.copy()
    inside = slice(int(0.4 * height), int(0.7 * height)), slice(int(0.3 * width), int(0.6 * width))
    if status is not Status.INSIDE_UNCHANGED:
        after[inside] = (40, 60, 80 + 60 * position)
    if status is Status.OUTSIDE_CHANGED:
        after[: height // 2] = 255 - after[: height // 2]
    delta = np.where((before != after).any(-1), 255, 0).astype(np.uint8)
    mask = np.zeros((height, width), np.uint8)
    mask[inside] = 255
    r_in = float((delta[mask > 0] > 0).mean())
    r_out = float((delta[mask == 0] > 0).mean())
    edited = Picture.of(after)
    edited.save(images)
    return Attempt(
        sample_id=sample.id,
        position=position,
        attempt=number,
        status=status,
        reason=None if status is Status.OK else "measured so",
        instruction=f"Keep all else. Turn the ball blue.{text}",
        edit_type="modify",
        target_object=f"red ball{text}",
        source=source.sha256,
        edited=edited.sha256,
        returned_width=width,
        returned_height=height,
        boxes=(Box(x0=0.3 * width, y0=0.4 * height, x1=0.6 * width, y1=0.7 * height, score=0.9),),
        mask=Picture.of(mask).save(images),
        measurement=Measurement(
            r_in=r_in,
            r_out=r_out,
            r_in_unwarped=r_in,
            r_out_unwarped=r_out,
            mask_share=float((mask > 0).mean()),
            registration="identity",
            shift_px=0.0,
            residual=0.01,
            delta=Picture.of(delta).save(images),
        ),
    ), edited


def _estimates(cells: list[Cell], rows: list[Intervention], k: int) -> list[Estimate]:
    domains = [None, *dict.fromkeys(row.domain for row in rows)]
    return [
        _estimate(cell, rows, metric, domain, position, estimand)
        for cell in cells
        for metric in ("ac", "ef", "ccs_binary", "ccs_graded")
        for domain in domains
        for position in (None, *range(1, k + 1))
        if domain is None or position is None
        for estimand in ("sample_mean", "intervention_mean")
    ]


def _estimate(
    cell: Cell,
    rows: list[Intervention],
    metric: str,
    domain: str | None,
    position: int | None,
    estimand: str,
) -> Estimate:
    planned = [
        row
        for row in rows
        if row.cell == cell
        and domain in (None, row.domain)
        and (position is None or row.position == position)
    ]
    values = [getattr(row, metric) for row in planned if getattr(row, metric) is not None]
    mean = float(np.mean(values)) if values else None
    return Estimate(
        cell=cell,
        metric=metric,
        domain=domain,
        position=position,
        estimand=estimand,
        mean=mean,
        low=None if mean is None else max(0.0, mean - 0.1),
        high=None if mean is None else min(1.0, mean + 0.08),
        confidence=0.95,
        method="bootstrap" if values else "nothing was scored",
        n_samples=len({row.sample_id for row in planned if row.ac is not None}),
        n_interventions=len(values),
        n_planned=len(planned),
    )


def _pairs(folder: Path, size: tuple[int, int], text: str) -> None:
    attempts = []
    for i, status in enumerate((Status.OK, Status.OUTSIDE_CHANGED, Status.OK)):
        source = Picture.of(scene(size, (200, 160, 40), 90 + i))
        source.save(folder / "images")
        sample = Sample(
            id=f"pair-{i}", domain="pairs", image=source.sha256, width=1, height=1, question="-"
        )
        attempts.append(_attempt(sample, 1, 1, status, source, folder / "images", size, text)[0])
    jsonl.write(folder / "attempts.jsonl", attempts)
    valid = ["yes", "yes", None]
    rows = [
        {
            "id": a.sample_id,
            "status": a.status,
            "valid": label,
            "r_in": a.measurement.r_in if a.measurement else None,
            "r_out": a.measurement.r_out if a.measurement else None,
            "reason": a.reason,
        }
        for a, label in zip(attempts, valid, strict=True)
    ]
    agreement = {"agree": 1, "n": 2, "low": 0.095, "high": 0.905, "raters": {}, "rows": rows}
    _json(folder / "agreement.json", agreement)


def _json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


@pytest.fixture(scope="session")
def hostile() -> str:
    """Text that must be shown as text wherever it turns up."""
    return HOSTILE


@pytest.fixture(scope="session")
def build_workspace() -> Callable[..., dict[str, Any]]:
    """Makes a finished study in a given folder; returns its params."""
    return make_workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Callable[..., tuple[Path, dict[str, Any]]]:
    """Makes a finished study below a temporary folder; returns its root and params."""

    def make(name: str = "workspace", **options: Any) -> tuple[Path, dict[str, Any]]:
        root = tmp_path / name
        return root, make_workspace(root, **options)

    return make
