"""Score: every planned intervention with its fate, and estimates with intervals (section 6).

Reads what all stages wrote for the cells of this study, and no others. Writes
`interventions.jsonl` (a row is one planned edit of one sample in one cell: scored, or lost at a
stage for a reason) and `estimates.jsonl` (a row is a number that a table prints). A sample is the
unit of resampling; its edits travel together. What was not scored is missing, never 0.
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.records.concept import ConceptList
from stages.records.instruction import InstructionChain
from stages.records.judgement import Judgement
from stages.records.sample import Sample
from stages.records.score import Cell, Estimate, Intervention
from stages.stats.estimates import Estimand, estimate
from stages.workflow import params as parameters
from stages.workflow.folders import Folders
from stages.workflow.runner import main

METRICS = ("ac", "ef", "ccs_binary", "ccs_graded")
ESTIMANDS: tuple[Estimand, ...] = ("sample_mean", "intervention_mean")


def fates(folders: Folders, cell: Cell, samples: list[Sample]) -> Iterator[Intervention]:
    """Follow every sample of a cell to where each of its interventions was scored or lost."""
    before = {a.sample_id: a for a in jsonl.read(folders.baseline(cell) / "answers.jsonl", Answer)}
    found = {
        c.sample_id: c for c in jsonl.read(folders.concepts(cell) / "concepts.jsonl", ConceptList)
    }
    chains = {
        c.sample_id: c
        for c in jsonl.read(folders.instructions(cell) / "instructions.jsonl", InstructionChain)
    }
    attempts = jsonl.read(folders.edit(cell) / "attempts.jsonl", Attempt)
    steps = {
        step: list(rows) for step, rows in groupby(attempts, lambda a: (a.sample_id, a.position))
    }
    after = {
        (a.sample_id, a.position): a
        for a in jsonl.read(folders.requery(cell) / "answers.jsonl", Answer)
    }
    verdicts: dict[tuple[str, int], list[Judgement]] = {}
    for verdict in jsonl.read(folders.judge(cell) / "judgements.jsonl", Judgement):
        verdicts.setdefault((verdict.sample_id, verdict.position), []).append(verdict)

    for sample in samples:
        blank = Intervention(
            cell=cell,
            sample_id=sample.id,
            domain=sample.domain,
            position=0,
            stage="judge",
            status=Status.OK,
        )
        early = _lost_early(blank, before[sample.id], found[sample.id], chains[sample.id])
        if early is not None:
            yield early
            continue
        for step in chains[sample.id].steps:
            key = sample.id, step.position
            yield _fate(blank, steps[key], after.get(key), verdicts.get(key, []))


def _lost_early(
    blank: Intervention, before: Answer, found: ConceptList, chain: InstructionChain
) -> Intervention | None:
    for stage, row in (("baseline", before), ("concepts", found), ("instructions", chain)):
        if row.status is not Status.OK:
            return blank.model_copy(
                update={"stage": stage, "status": row.status, "reason": row.reason}
            )
    return None


def _fate(
    blank: Intervention, tried: list[Attempt], after: Answer | None, verdicts: list[Judgement]
) -> Intervention:
    last = tried[-1]
    row = blank.model_copy(
        update={"position": last.position, "attempts": sum(a.attempt > 0 for a in tried)}
    )
    if last.status is not Status.OK:
        return _lost(row, "edit", last.status, last.reason)
    if after is None or after.status is not Status.OK:
        status, reason = (after.status, after.reason) if after else (Status.NOT_REACHED, None)
        return _lost(row, "requery", status, reason)
    binary = [v for v in verdicts if v.status is Status.OK]
    graded = [v.ccs_graded for v in verdicts if v.ccs_graded is not None]
    scores = {
        "ac": _mean([v.answer_consistent for v in binary]),
        "ef": _mean([v.explanation_faithful for v in binary]),
        "ccs_binary": _mean([v.ccs_binary for v in binary]),
        "ccs_graded": _mean(graded),
    }
    row = row.model_copy(update=scores)
    if not binary:
        first = verdicts[0] if verdicts else None
        status = first.status if first else Status.NOT_REACHED
        return _lost(row, "judge", status, first.reason if first else None)
    return row


def _lost(row: Intervention, stage: str, status: Status, reason: str | None) -> Intervention:
    return row.model_copy(update={"stage": stage, "status": status, "reason": reason})


def _mean(values: list[Any]) -> float | None:
    return sum(values) / len(values) if values else None


def estimates(rows: list[Intervention], settings: parameters.ScoreSettings) -> Iterator[Estimate]:
    """Estimate every metric of every cell: over all, by position, by domain."""
    domains = sorted({row.domain for row in rows})
    positions = sorted({row.position for row in rows if row.position > 0})
    slices: list[tuple[str | None, int | None]] = [
        (None, None),
        *((None, position) for position in positions),
        *((domain, None) for domain in domains),
        *((domain, position) for domain in domains for position in positions),
    ]
    for cell in dict.fromkeys(row.cell for row in rows):
        of_cell = [row for row in rows if row.cell == cell]
        for domain, position in slices:
            kept = [
                row
                for row in of_cell
                if row.position > 0
                and (domain is None or row.domain == domain)
                and (position is None or row.position == position)
            ]
            for metric in METRICS:
                for estimand in ESTIMANDS:
                    yield _estimate(cell, metric, domain, position, estimand, kept, settings)


def _estimate(
    cell: Cell,
    metric: str,
    domain: str | None,
    position: int | None,
    estimand: Estimand,
    rows: list[Intervention],
    settings: parameters.ScoreSettings,
) -> Estimate:
    scored = [(row.sample_id, s) for row in rows if (s := getattr(row, metric)) is not None]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(id for id, _ in scored))}
    # Each estimate has its own stream, so that one more table changes no other number.
    name = json.dumps([cell.model_dump(), metric, domain, position, estimand])
    found = estimate(
        np.array([score for _, score in scored], dtype=float),
        np.array([numbers[id] for id, _ in scored], dtype=int),
        rng=np.random.default_rng([settings.seed, zlib.crc32(name.encode())]),
        estimand=estimand,
        confidence=settings.confidence,
        n_resamples=settings.resamples,
    )
    return Estimate(
        cell=cell,
        metric=metric,
        domain=domain,
        position=position,
        estimand=estimand,
        mean=_rounded(found.mean),
        low=_rounded(found.low),
        high=_rounded(found.high),
        confidence=settings.confidence,
        method=found.method,
        n_samples=len(numbers),
        n_interventions=len(scored),
        n_planned=len(rows),
    )


def _rounded(value: float | None) -> float | None:
    # The last bits of a sum depend on the processor; the twelfth digit of a share means nothing.
    return None if value is None else round(value, 12)


def run(root: Path, params: Mapping[str, Any]) -> None:
    """Score the study."""
    folders = Folders(root)
    settings = parameters.section(params, "score", parameters.ScoreSettings)
    listing = json.loads((folders.plan / "cells.json").read_text(encoding="utf-8"))
    samples = jsonl.read(folders.prepare / "samples.jsonl", Sample)
    rows = [
        row for cell in map(Cell.model_validate, listing) for row in fates(folders, cell, samples)
    ]
    jsonl.write(folders.score / "interventions.jsonl", rows)
    jsonl.write(folders.score / "estimates.jsonl", list(estimates(rows, settings)))
    scored = sum(row.status is Status.OK for row in rows)
    print(f"score: {scored} of {len(rows)} interventions scored in {len(listing)} cells")


if __name__ == "__main__":
    main("score", run)
