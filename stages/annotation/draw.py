"""Which edits are judged: a random sample, stratified, of what verification accepted and rejected.

Rejected edits are drawn too (`annotation.rejected` of the sample): without them
agreement with the gate would be about its acceptances alone. Within either part every stratum gets
its proportional share: the whole part of it, and what is left over goes to the largest remainders,
ties by lot. So each edit of a part has the same chance to within one edit of a stratum.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.records.form import Stratum
from stages.records.instruction import Instruction, InstructionChain
from stages.records.sample import Sample
from stages.records.score import Cell
from stages.stats.resampling import stream
from stages.workflow.folders import Folders
from stages.workflow.sections import AnnotationSettings

REJECTIONS = frozenset(
    {
        Status.TARGET_NOT_FOUND,
        Status.INSIDE_UNCHANGED,
        Status.OUTSIDE_CHANGED,
        Status.SIZE_MISMATCH,
        Status.MASK_TOO_LARGE,
        Status.CHANGE_ABSENT,
        Status.REST_CHANGED,
    }
)
"""What verification says of an edit that it does not accept; a failed call is no verdict."""


class Candidate(NamedTuple):
    """An edit that could be judged, with what was said before and after it."""

    cell: Cell
    """Its models; the judge's name is empty."""
    sample: Sample
    attempt: Attempt
    """The attempt that decided the step: accepted, or the last one."""
    steps: tuple[Instruction, ...]
    """The instructions of the edits that the image went through, this one last."""
    before: Answer
    """To the original image."""
    after: Answer | None
    """To the edited image; None where the target was not asked or gave no answer."""

    @property
    def accepted(self) -> bool:
        """Whether verification accepted it."""
        return self.attempt.status is Status.OK


AXES: Mapping[str, Callable[[Candidate], str]] = {
    "target": lambda one: one.cell.target,
    "extractor": lambda one: one.cell.extractor,
    "editor": lambda one: one.cell.editor,
    "seed": lambda one: str(one.cell.seed),
    "domain": lambda one: one.sample.domain,
    "position": lambda one: str(one.attempt.position),
}
"""What a draw can be stratified by."""


class Draw(NamedTuple):
    """The edits that were drawn, in random order, and from how many."""

    candidates: list[Candidate]
    strata: list[Stratum]


def candidates(folders: Folders, cells: Sequence[Cell]) -> Iterator[Candidate]:
    """Every edit of a study that verification passed a verdict on, whoever judged it afterwards."""
    samples = {s.id: s for s in jsonl.read(folders.prepare / "samples.jsonl", Sample)}
    for cell in dict.fromkeys(cell.model_copy(update={"judge": ""}) for cell in cells):
        first = jsonl.read(folders.baseline(cell) / "answers.jsonl", Answer)
        before = {answer.sample_id: answer for answer in first}
        again = jsonl.read(folders.requery(cell) / "answers.jsonl", Answer)
        after = {(a.sample_id, a.position): a for a in again if a.status is Status.OK}
        rows = jsonl.read(folders.instructions(cell) / "instructions.jsonl", InstructionChain)
        chains = {chain.sample_id: chain.steps for chain in rows}
        attempts = jsonl.read(folders.edit(cell) / "attempts.jsonl", Attempt)
        attempts.sort(key=lambda row: (row.sample_id, row.position, row.attempt))
        for sample_id, of_sample in groupby(attempts, key=lambda row: row.sample_id):
            made: list[Instruction] = []
            steps = {step.position: step for step in chains[sample_id]}
            for position, of_step in groupby(of_sample, key=lambda row: row.position):
                *_, last = of_step
                accepted = last.status is Status.OK
                if last.edited is not None and (accepted or last.status in REJECTIONS):
                    yield Candidate(
                        cell,
                        samples[sample_id],
                        last,
                        (*made, steps[position]),
                        before[sample_id],
                        after.get((sample_id, position)) if accepted else None,
                    )
                if accepted:
                    made.append(steps[position])


def draw(pool: Sequence[Candidate], settings: AnnotationSettings) -> Draw:
    """Draw the edits of a form; all there are where there are fewer than asked for."""
    parts = {accepted: [c for c in pool if c.accepted == accepted] for accepted in (True, False)}
    n_rejected = min(round(settings.size * settings.rejected), len(parts[False]))
    n_accepted = min(settings.size - n_rejected, len(parts[True]))
    rng = stream(settings.seed, "annotation")
    chosen: list[Candidate] = []
    strata: list[Stratum] = []
    for accepted, n in ((True, n_accepted), (False, n_rejected)):
        groups: dict[tuple[str, ...], list[Candidate]] = {}
        for one in parts[accepted]:
            groups.setdefault(tuple(AXES[axis](one) for axis in settings.strata), []).append(one)
        names = sorted(groups)
        counts = apportion([len(groups[name]) for name in names], n, rng)
        for name, count in zip(names, counts, strict=True):
            group = groups[name]
            chosen += [group[i] for i in rng.choice(len(group), count, replace=False)]
            strata.append(Stratum(name=name, accepted=accepted, n=len(group), drawn=count))
    return Draw([chosen[i] for i in rng.permutation(len(chosen))], strata)


def apportion(sizes: Sequence[int], n: int, rng: np.random.Generator) -> list[int]:
    """Split n over groups in proportion to their sizes, by largest remainders, ties by lot.

    Every share is the exact one rounded down or up, and none is larger than its group as long as n
    is not larger than all of them together.
    """
    total = sum(sizes)
    if total == 0:
        return [0] * len(sizes)
    # In whole numbers: remainders of equal fractions would differ in the last bits of a float.
    counts = [n * size // total for size in sizes]
    rest = [n * size % total for size in sizes]
    lot = rng.permutation(len(sizes))
    for i in sorted(range(len(sizes)), key=lambda i: (-rest[i], lot[i]))[: n - sum(counts)]:
        counts[i] += 1
    return counts
