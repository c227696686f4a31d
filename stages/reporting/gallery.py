"""Cases to look at: which chains are shown, and everything that belongs to each of them."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stages.records.answer import Answer
from stages.records.attempt import Attempt
from stages.records.concept import Concept
from stages.records.instruction import Instruction
from stages.records.judgement import Judgement
from stages.records.sample import Sample
from stages.records.score import Cell, Intervention
from stages.reporting.study import CellRecords, Pixels, Study
from stages.reporting.words import cell_label, varying_axes


@dataclass(frozen=True)
class Step:
    """One step of a chain with all that was tried and what came of it."""

    position: int
    instruction: Instruction | None
    attempts: tuple[Attempt, ...]
    answer: Answer | None
    judgements: tuple[Judgement, ...]
    intervention: Intervention | None

    @property
    def accepted(self) -> Attempt | None:
        """The attempt that the chain went on from; None where all were rejected."""
        return next((a for a in self.attempts if a.status == "ok"), None)


@dataclass(frozen=True)
class Case:
    """One sample in one cell: question, baseline, concepts and the chain."""

    label: str
    cell: Cell
    sample: Sample
    pixels: Pixels
    baseline: Answer | None
    concepts: tuple[Concept, ...]
    steps: tuple[Step, ...]
    fate: Intervention | None
    """Why there is no chain, where there is none."""

    @property
    def anchor(self) -> str:
        """Name of the case within a page; holds no character of the sample's id."""
        name = hashlib.sha256(f"{self.label}\n{self.sample.id}".encode()).hexdigest()
        return f"case-{name[:12]}"

    @property
    def outcomes(self) -> frozenset[str]:
        """Kinds of outcome that the chain shows, e.g. ``ac1-ef0``, ``retry``, a status."""
        kinds = set()
        rows = [step.intervention for step in self.steps] if self.steps else [self.fate]
        for row in rows:
            if row is None or row.status == "not_reached":
                continue
            if row.status != "ok":
                kinds.add(str(row.status))
            elif row.ac is not None and row.ef is not None:
                kinds.add(f"ac{row.ac:.0f}-ef{row.ef:.0f}")
        for step in self.steps:
            kinds |= {str(a.status) for a in step.attempts if a.status not in ("ok", "not_reached")}
            if step.accepted is not None and step.accepted.attempt > 1:
                kinds.add("recovered")
        return frozenset(kinds)


def all_cases(study: Study) -> list[Case]:
    """Every sample in every cell, in the order of cells and samples."""
    axes = varying_axes(study.cells)
    rows: dict[tuple[object, str], dict[int, Intervention]] = {}
    for row in study.interventions:
        rows.setdefault((row.cell, row.sample_id), {})[row.position] = row
    return [
        _case(sample, records, cell_label(records.cell, axes), rows.get((records.cell, id_), {}))
        for records in study.records
        for id_, sample in study.samples.items()
    ]


def _case(sample: Sample, records: CellRecords, label: str, rows: dict[int, Intervention]) -> Case:
    chain = records.chains.get(sample.id)
    concepts = records.concepts.get(sample.id)
    attempts = records.attempts.get(sample.id, ())
    instructions = {step.position: step for step in chain.steps} if chain else {}
    positions = sorted(
        {*instructions, *(a.position for a in attempts), *(k for k in rows if k > 0)}
    )
    steps = tuple(
        Step(
            k,
            instructions.get(k),
            tuple(a for a in attempts if a.position == k and a.attempt > 0),
            records.answers.get((sample.id, k)),
            records.judgements.get((sample.id, k), ()),
            rows.get(k),
        )
        for k in positions
    )
    return Case(
        label,
        records.cell,
        sample,
        records.pixels,
        records.baseline.get(sample.id),
        concepts.concepts if concepts else (),
        steps,
        rows.get(0),
    )


def choose(cases: Sequence[Case], n: int) -> list[Case]:
    """Choose cases so that every kind of outcome of every cell is shown, rare ones included.

    Greedy: always the case whose rarest kind of outcome has been shown least so far. Ties go by
    a hash of the id, so that the choice neither follows the benchmark's order nor needs a seed.
    The result is for looking at; its proportions mean nothing.
    """
    waiting = sorted(cases, key=lambda case: case.anchor)
    kinds = {id(case): case.outcomes for case in waiting}
    shown: Counter[tuple[str, str]] = Counter()
    by_label: Counter[str] = Counter()
    chosen: list[Case] = []
    while waiting and len(chosen) < n:
        best = min(
            range(len(waiting)),
            key=lambda i: (
                min((shown[waiting[i].label, kind] for kind in kinds[id(waiting[i])]), default=n),
                by_label[waiting[i].label],
                i,
            ),
        )
        case = waiting.pop(best)
        shown.update((case.label, kind) for kind in kinds[id(case)])
        by_label[case.label] += 1
        chosen.append(case)
    order = {id(case): rank for rank, case in enumerate(cases)}
    return sorted(chosen, key=lambda case: order[id(case)])


def told_in_full(cases: Iterable[Case]) -> list[Case]:
    """The longest of those cases whose every step was scored: the ones to print as examples."""
    told = [
        case
        for case in cases
        if case.steps
        and case.baseline is not None
        and all(step.intervention and step.intervention.status == "ok" for step in case.steps)
    ]
    longest = max((len(case.steps) for case in told), default=0)
    return [case for case in told if len(case.steps) == longest]


@dataclass(frozen=True)
class Verified:
    """One attempt that verification measured, with the means to draw it."""

    title: str
    change: str
    """What was asked for: the changing part of the instruction where its parts are known."""
    attempt: Attempt
    pixels: Pixels


def verified(study: Study, n: int) -> list[Verified]:
    """Choose measured attempts, one of each status in turn, over all cells and pairs."""
    axes = varying_axes(study.cells)
    found = [
        Verified(cell_label(records.cell, axes), _change(records, a), a, records.pixels)
        for records in study.records
        for attempts in records.attempts.values()
        for a in attempts
        if a.edited
    ]
    found += [
        Verified(pairs.name, attempt.instruction, attempt, pairs.pixels)
        for pairs in study.pairs
        for attempt in pairs.attempts
        if attempt.edited
    ]
    queues: dict[str, list[Verified]] = {}
    seen = set()
    for item in sorted(found, key=_shuffled):
        pair = (item.attempt.source, item.attempt.edited)
        if pair not in seen:  # targets that cite the same concept share their edits
            queues.setdefault(str(item.attempt.status), []).append(item)
        seen.add(pair)
    order = ["ok", *sorted(set(queues) - {"ok"})]
    chosen: list[Verified] = []
    while len(chosen) < n and any(queues.values()):
        for status in order:
            if queues.get(status) and len(chosen) < n:
                chosen.append(queues[status].pop(0))
    return sorted(chosen, key=lambda item: order.index(str(item.attempt.status)))


def _change(records: CellRecords, attempt: Attempt) -> str:
    chain = records.chains.get(attempt.sample_id)
    steps = chain.steps if chain else ()
    return next((s.change for s in steps if s.position == attempt.position), attempt.instruction)


def _shuffled(item: Verified) -> tuple[str, str]:
    a = item.attempt
    name = f"{a.sample_id}\n{a.position}\n{a.attempt}"
    return hashlib.sha256(name.encode()).hexdigest(), item.title
