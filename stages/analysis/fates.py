"""Follow every sample of a cell to where each of its interventions was scored or lost."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from stages.records.answer import Answer
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.records.concept import ConceptList
from stages.records.instruction import InstructionChain
from stages.records.judgement import Judgement
from stages.records.sample import Sample
from stages.records.score import Cell, Intervention


class Trail(NamedTuple):
    """What every stage wrote about one cell."""

    baseline: Sequence[Answer]
    concepts: Sequence[ConceptList]
    chains: Sequence[InstructionChain]
    attempts: Sequence[Attempt]
    """The attempts of a step stand together, in order."""
    answers: Sequence[Answer]
    """To edited images."""
    judgements: Sequence[Judgement]


def follow(cell: Cell, samples: Sequence[Sample], trail: Trail) -> Iterator[Intervention]:
    """One row for each planned edit; one at position 0 for a sample that never had a chain."""
    before = {row.sample_id: row for row in trail.baseline}
    found = {row.sample_id: row for row in trail.concepts}
    chains = {row.sample_id: row for row in trail.chains}
    steps: Mapping[tuple[str, int], list[Attempt]] = {
        step: list(rows)
        for step, rows in groupby(trail.attempts, lambda row: (row.sample_id, row.position))
    }
    after = {(row.sample_id, row.position): row for row in trail.answers}
    verdicts: dict[tuple[str, int], list[Judgement]] = {}
    for verdict in trail.judgements:
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
            return _lost(blank, stage, row.status, row.reason)
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
    row = row.model_copy(update={"edited": last.edited})
    if after is None or after.status is not Status.OK:
        status, reason = (after.status, after.reason) if after else (Status.NOT_REACHED, None)
        return _lost(row, "requery", status, reason)
    binary = [verdict for verdict in verdicts if verdict.status is Status.OK]
    row = row.model_copy(
        update={
            "ac": _mean([verdict.answer_consistent for verdict in binary]),
            "ef": _mean([verdict.explanation_faithful for verdict in binary]),
            "ccs_binary": _mean([verdict.ccs_binary for verdict in binary]),
            "ccs_graded": _mean([verdict.ccs_graded for verdict in verdicts]),
            **_graded(verdicts),
            "replicates": len(verdicts),
            "verdicts_lost": len(verdicts) - len(binary),
        }
    )
    if not binary:
        first = verdicts[0] if verdicts else None
        status = first.status if first else Status.NOT_REACHED
        return _lost(row, "judge", status, first.reason if first else None)
    return row


def _graded(verdicts: Sequence[Judgement]) -> dict[str, object]:
    """Whether a grade exists: it is asked for apart, and may be lost or kept on its own."""
    if not verdicts:
        return {}
    kept = [verdict for verdict in verdicts if verdict.graded_status is Status.OK]
    said = (kept or verdicts)[0]
    return {
        "graded_status": said.graded_status,
        "graded_reason": said.graded_reason,
        "grades_lost": len(verdicts) - len(kept),
    }


def _lost(row: Intervention, stage: str, status: Status, reason: str | None) -> Intervention:
    return row.model_copy(update={"stage": stage, "status": status, "reason": reason})


def _mean(values: Sequence[float | None]) -> float | None:
    """Mean over the replicates that exist."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
