"""Reading a study: every record that a report shows, checked as it comes in.

A file that is missing or broken is an error that names it. Folders are taken from the study's own
list of cells, never from what happens to lie on the disk.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from stages.models.picture import Picture
from stages.models.prices import Prices
from stages.models.protocol import Chat
from stages.records import jsonl
from stages.records.annotation import Annotation
from stages.records.answer import Answer
from stages.records.attempt import Attempt
from stages.records.base import Record
from stages.records.concept import ConceptList
from stages.records.errors import UserError
from stages.records.finding import (
    AgreementRow,
    BoundsRow,
    Comparison,
    CorrectedRow,
    CoverageRow,
    JudgeScore,
    PowerRow,
    RankRow,
    RateRow,
    RunSpread,
    SensitivityRow,
)
from stages.records.instruction import InstructionChain
from stages.records.judgement import Judgement
from stages.records.sample import Sample
from stages.records.score import Cell, Estimate, Intervention
from stages.records.tuning import AttentionRow, Curve, TuningRow
from stages.reporting.provenance import git_tree
from stages.reporting.published import read_published, read_reference
from stages.reporting.study import (
    CellRecords,
    Findings,
    LabelAgreement,
    PairStudy,
    Pixels,
    Study,
    simulated,
)
from stages.workflow import adapters
from stages.workflow import params as parameters
from stages.workflow.folders import Folders

R = TypeVar("R", bound=Record)


def read_study(root: Path, params: Mapping[str, Any]) -> Study:
    """Read every record of the study; a file that is missing or broken is an error."""
    folders = Folders(root)
    cells = tuple(Cell.model_validate(row) for row in _json(folders.plan / "cells.json"))
    pairs = tuple(
        read_pairs(name, folders.pairs(name))
        for name in parameters.value(params, "pair_names", list)
    )
    name = parameters.value(params, "study", str)
    prompts = read_prompts(root / "prompts" / parameters.value(params, "prompts", str))
    coverage = tuple(jsonl.read(folders.calibration / "coverage.jsonl", CoverageRow))
    code = git_tree(root / "stages")
    prices = Prices.load(root / "conf" / "prices.yaml")
    if not cells:
        return Study(
            name=name,
            params=params,
            cells=(),
            pairs=pairs,
            prompts=prompts,
            coverage=coverage,
            code=code,
            prices=prices,
        )
    return Study(
        name=name,
        params=params,
        cells=cells,
        samples={s.id: s for s in jsonl.read(folders.prepare / "samples.jsonl", Sample)},
        left_out=dict(_counts(_json(folders.prepare / "left_out.json"))),
        interventions=tuple(jsonl.read(folders.score / "interventions.jsonl", Intervention)),
        panel=tuple(jsonl.read(folders.score / "panel.jsonl", Intervention)),
        estimates=tuple(jsonl.read(folders.score / "estimates.jsonl", Estimate)),
        records=tuple(read_cell(folders, cell) for cell in cells),
        pairs=pairs,
        published=read_published(folders.reference),
        reference=read_reference(folders.reference),
        findings=read_findings(folders.score),
        coverage=coverage,
        planted=read_planted(params, {cell.target for cell in cells}),
        prompts=prompts,
        code=code,
        prices=prices,
        tuning=read_attention(folders, params),
        tuning_curves=tuple(
            row
            for name in params.get("finetune_names") or []
            for row in jsonl.read(folders.finetune(name) / "curve.jsonl", Curve)
        ),
        tuning_pixels=pixels_from(
            folders.prepare / "images",
            folders.edit_of((params.get("tuning") or {}).get("cell", "")) / "images",
        ),
    )


def read_attention(folders: Folders, params: Mapping[str, Any]) -> tuple[AttentionRow, ...]:
    """Read the attention maps of the first adapter; empty where the study has none."""
    names = list(params.get("finetune_names") or [])[:1]
    return tuple(
        row
        for name in names
        for row in jsonl.read(folders.finetune(name) / "attention.jsonl", AttentionRow)
    )


def read_cell(folders: Folders, cell: Cell) -> CellRecords:
    """Read the records of one cell."""
    edit = folders.edit(cell)
    attempts = jsonl.read(edit / "attempts.jsonl", Attempt)
    attempts.sort(key=lambda row: (row.sample_id, row.position, row.attempt))
    judgements = jsonl.read(folders.judge(cell) / "judgements.jsonl", Judgement)
    judgements.sort(key=lambda row: (row.sample_id, row.position, row.replicate))
    answers = jsonl.read(folders.requery(cell) / "answers.jsonl", Answer)
    baseline = jsonl.read(folders.baseline(cell) / "answers.jsonl", Answer)
    concepts = jsonl.read(folders.concepts(cell) / "concepts.jsonl", ConceptList)
    chains = jsonl.read(folders.instructions(cell) / "instructions.jsonl", InstructionChain)
    return CellRecords(
        cell=cell,
        pixels=pixels_from(folders.prepare / "images", edit / "images"),
        baseline={row.sample_id: row for row in baseline},
        concepts={row.sample_id: row for row in concepts},
        chains={row.sample_id: row for row in chains},
        attempts={
            key: tuple(rows) for key, rows in groupby(attempts, key=lambda row: row.sample_id)
        },
        answers={(row.sample_id, row.position): row for row in answers},
        judgements={
            key: tuple(rows)
            for key, rows in groupby(judgements, key=lambda row: (row.sample_id, row.position))
        },
    )


def read_pairs(name: str, folder: Path) -> PairStudy:
    """Read a study of pairs and its agreement with the labels."""
    agreement = _json(folder / "agreement.json")
    return PairStudy(
        name=name,
        pixels=pixels_from(folder / "images"),
        attempts=tuple(jsonl.read(folder / "attempts.jsonl", Attempt)),
        agree=agreement["agree"],
        n=agreement["n"],
        low=agreement["low"],
        high=agreement["high"],
        labels={row["id"]: row["valid"] for row in agreement["rows"] if row["valid"] is not None},
        raters={rater: LabelAgreement(**said) for rater, said in agreement["raters"].items()},
    )


def read_findings(folder: Path) -> Findings:
    """Read every file of findings; its name is the field's."""

    def rows(name: str, model: type[R]) -> tuple[R, ...]:
        return tuple(jsonl.read(folder / f"{name}.jsonl", model))

    return Findings(
        runs=rows("runs", RunSpread),
        comparisons=rows("comparisons", Comparison),
        ranks=rows("ranks", RankRow),
        power=rows("power", PowerRow),
        rates=rows("rates", RateRow),
        bounds=rows("bounds", BoundsRow),
        sensitivity=rows("sensitivity", SensitivityRow),
        judges=rows("judges", AgreementRow),
        judge_scores=rows("judge_scores", JudgeScore),
        verifier=rows("verifier", AgreementRow),
        people=rows("people", AgreementRow),
        gate=rows("gate", AgreementRow),
        corrected=rows("corrected", CorrectedRow),
        tuning=rows("tuning", TuningRow),
        labels=rows("labels", Annotation),
    )


def read_planted(params: Mapping[str, Any], targets: Iterable[str]) -> dict[str, float]:
    """Ask each simulated target for the CCS that is built into it; no real one is made."""
    out = {}
    for name in sorted(targets):
        if simulated({"": adapters.lookup(params, f"targets.{name}")}):
            model = adapters.build(params, f"targets.{name}", Chat)
            planted = getattr(model, "planted_ccs", None)
            if planted is not None:
                out[name] = float(planted)
    return out


def read_prompts(folder: Path) -> dict[str, str]:
    """SHA-256 of each prompt of the study's set."""
    return {
        f"{folder.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.glob("*.txt"))
    }


def pixels_from(*folders: Path) -> Pixels:
    """Find images in the first of the folders that holds them."""

    @lru_cache(maxsize=32)
    def pixels(sha256: str) -> Any:
        for folder in folders[:-1]:
            if (folder / f"{sha256}.png").exists():
                return Picture.load(folder, sha256).pixels
        return Picture.load(folders[-1], sha256).pixels

    return pixels


def _counts(left_out: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for benchmark, reasons in left_out.items():
        for reason, n in reasons.items():
            yield f"{benchmark}: {reason}", n


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(str(path), "the file is missing", "Run `dvc repro` first.") from None
    except (ValueError, RecursionError) as error:
        raise UserError(str(path), f"no JSON ({error})", "Remove it; `dvc repro`.") from None
