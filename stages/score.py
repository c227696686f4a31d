"""Score: every planned intervention with its fate, estimates with intervals, and what follows.

Reads what all stages wrote for the cells of this study, and no others, and people's judgements in
`data/annotations`. Writes a file of rows for each kind of finding: `interventions.jsonl` (a row is
one planned edit of one sample in one cell: scored, or lost at a stage for a reason),
`estimates.jsonl` (PROTOCOL section 6) and the rest of `findings` below. A sample is the unit of
resampling; its edits travel together. What was not scored is missing, never 0.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from stages.analysis import (
    agreement,
    attrition,
    comparisons,
    estimates,
    panel,
    people,
    thresholds,
    tuning,
    verification,
)
from stages.analysis.fates import Trail, follow
from stages.analysis.measures import Resampling
from stages.records import jsonl
from stages.records.annotation import read_annotations
from stages.records.answer import Answer
from stages.records.attempt import Attempt
from stages.records.base import Record, Status
from stages.records.concept import ConceptList
from stages.records.instruction import InstructionChain
from stages.records.judgement import Judgement
from stages.records.sample import Sample
from stages.records.score import Cell, Intervention
from stages.records.tuning import AttentionRow, Reading
from stages.workflow import params as parameters
from stages.workflow import sections
from stages.workflow.folders import Folders
from stages.workflow.runner import main

R = TypeVar("R", bound=Record)


def read_trails(folders: Folders, cells: Sequence[Cell]) -> dict[Cell, Trail]:
    """Read what every stage wrote about every cell; what cells share is read once."""

    @cache
    def rows(path: Path, model: type[R]) -> list[R]:
        return jsonl.read(path, model)

    return {
        cell: Trail(
            baseline=rows(folders.baseline(cell) / "answers.jsonl", Answer),
            concepts=rows(folders.concepts(cell) / "concepts.jsonl", ConceptList),
            chains=rows(folders.instructions(cell) / "instructions.jsonl", InstructionChain),
            attempts=rows(folders.edit(cell) / "attempts.jsonl", Attempt),
            answers=rows(folders.requery(cell) / "answers.jsonl", Answer),
            judgements=rows(folders.judge(cell) / "judgements.jsonl", Judgement),
        )
        for cell in cells
    }


def findings(
    rows: Sequence[Intervention],
    trails: Mapping[Cell, Trail],
    labels: people.Labels,
    n_samples: int,
    gate: thresholds.Gate,
    settings: sections.ScoreSettings,
    tuned: Sequence[tuning.Tuned],
    base: str,
) -> dict[str, Iterable[Record]]:
    """All that is concluded, by the name of its file."""
    resampling = Resampling(
        settings.resamples, settings.confidence, settings.seed, settings.interval
    )
    together = list(panel.together(rows, settings.panel))
    compared = list(comparisons.compare(rows, resampling))
    valid = {cell: people.validity(labels, cell) for cell in trails}
    return {
        "panel": together,
        "estimates": estimates.estimate_cells([*rows, *together], resampling),
        "runs": estimates.spread_over_runs([*rows, *together], resampling),
        "comparisons": compared,
        "ranks": comparisons.rank(rows, resampling),
        "power": comparisons.plan_power(compared, n_samples, settings.gaps, settings.power),
        "rates": attrition.rates(rows, trails, settings.confidence),
        "bounds": attrition.bound(rows, resampling),
        "sensitivity": thresholds.sweep(rows, trails, gate, valid, settings.confidence),
        "judges": agreement.between_judges(trails, resampling),
        "judge_scores": agreement.over_judges(rows, resampling),
        "verifier": verification.gate_and_verifier(trails, resampling),
        "people": people.agreement_with_people(labels, rows, resampling),
        "gate": people.gate_validity(labels, resampling),
        "corrected": people.correct(labels, rows, resampling),
        "labels": people.used(labels),
        "tuning": tuning.conclude(tuned, base, compared, resampling),
    }


def read_tuned(folders: Folders, params: Mapping[str, Any]) -> list[tuning.Tuned]:
    """Read what was recorded of every adapter of the study."""
    return [
        tuning.Tuned(
            name,
            jsonl.read(folders.finetune(name) / "readings.jsonl", Reading),
            jsonl.read(folders.finetune(name) / "attention.jsonl", AttentionRow),
        )
        for name in params["finetune_names"]
    ]


def run(root: Path, params: Mapping[str, Any]) -> None:
    """Score the study."""
    folders = Folders(root)
    settings = parameters.section(params, "score", sections.ScoreSettings)
    chain = parameters.section(params, "chain", sections.Chain)
    used, _ = parameters.verification(params)
    gate = thresholds.Gate(
        settings.grid_tau_in,
        settings.grid_tau_out,
        (used.tau_in, used.tau_out),
        chain.max_attempts,
        chain.on_rejection,
        used.with_verifier,
    )
    listing = json.loads((folders.plan / "cells.json").read_text(encoding="utf-8"))
    trails = read_trails(folders, [Cell.model_validate(row) for row in listing])
    samples = jsonl.read(folders.prepare / "samples.jsonl", Sample)
    rows = [row for cell, trail in trails.items() for row in follow(cell, samples, trail)]
    labels = people.match(read_annotations(folders.annotations), trails)
    jsonl.write(folders.score / "interventions.jsonl", rows)
    tuned, base = read_tuned(folders, params), params["tuning"]["base"]
    found = findings(rows, trails, labels, len(samples), gate, settings, tuned, base)
    for name, concluded in found.items():
        jsonl.write(folders.score / f"{name}.jsonl", concluded)
    scored = sum(row.status is Status.OK for row in rows)
    print(
        f"score: {scored} of {len(rows)} interventions scored in {len(listing)} cells; "
        f"{len(labels.rows)} human labels, {labels.n_elsewhere} about other studies, "
        f"{labels.n_stale} out of date"
    )


if __name__ == "__main__":
    main("score", run)
