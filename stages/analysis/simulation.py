"""Studies with a known right answer, drawn as records: no image, no model, no call.

What is drawn is what the stages before `score` would have written: who lost which edit at which
attempt, and what the judge said. From there on the study goes through the very code that scores a
real one. What is *not* tested here, and is by the built-in models on real pixels, is whether the
edits, the gate and the judge do what they are meant to.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from stages.analysis.fates import Trail
from stages.records.annotation import Annotation
from stages.records.answer import Answer
from stages.records.attempt import Attempt, Measurement
from stages.records.base import Status
from stages.records.concept import Concept, ConceptList
from stages.records.instruction import Instruction, InstructionChain
from stages.records.judgement import Judgement
from stages.records.sample import Sample
from stages.records.score import Cell, Intervention
from stages.stats.resampling import stream

UNFAITHFUL = ((1, 0), (0, 0), (0, 1))
"""AC and EF where they are not both 1."""
UNFAITHFUL_SHARES = (0.5, 0.3, 0.2)
IMAGE = "0" * 64


class Design(NamedTuple):
    """A simulated study."""

    n_samples: int
    k: int
    """Edits planned per sample."""
    planted: float
    """The CCS that the target truly has, in [0, 1]."""
    icc: float
    """How alike a sample's edits are: 0 independent, 1 all the same."""
    accept: float
    """Probability that an attempt is accepted."""
    max_attempts: int
    no_concepts: float
    """Share of samples whose explanation names nothing that could be edited."""
    judge_error: float = 0.0
    """Probability that AC is flipped, and apart from that EF."""
    loss_slope: float = 0.0
    """How much likelier an attempt on a wholly faithful sample is accepted than on one that is not
    faithful at all; 0: loss has nothing to do with the score."""
    domains: tuple[str, ...] = ("simulated",)


class Drawn(NamedTuple):
    """A study as its stages would have left it, and the truth."""

    samples: Sequence[Sample]
    trail: Trail
    truth: dict[tuple[str, int], tuple[int, int]]
    """AC and EF of every accepted edit as a flawless judge would say, by sample and position."""


def draw(design: Design, rng: np.random.Generator) -> Drawn:
    """Draw one study of one cell."""
    samples = [_sample(i, design.domains) for i in range(design.n_samples)]
    # The judge has a stream of its own: other judges of the same seed judge the same edits.
    (judge_rng,) = rng.spawn(1)
    named = rng.random(design.n_samples) >= design.no_concepts
    faithful = _propensities(design, rng)
    truth: dict[tuple[str, int], tuple[int, int]] = {}
    made = {field: [] for field in Trail._fields}  # type: dict[str, list[object]]
    for sample, has_concepts, p in zip(samples, named, faithful, strict=True):
        made["baseline"].append(_answer(sample.id, 0))
        made["concepts"].append(_concepts(sample.id, bool(has_concepts)))
        made["chains"].append(_chain(sample.id, design.k if has_concepts else 0))
        if not has_concepts:
            continue
        accept = float(np.clip(design.accept + design.loss_slope * (p - 0.5), 0, 1))
        broken = False
        for position in range(1, design.k + 1):
            if broken:
                made["attempts"].append(_attempt(sample.id, position, 0, False, rng))
                continue
            passes = rng.random(design.max_attempts) < accept
            last = int(passes.argmax()) if passes.any() else design.max_attempts - 1
            for number in range(last + 1):
                row = _attempt(sample.id, position, number + 1, bool(passes[number]), rng)
                made["attempts"].append(row)
            broken = not passes.any()
            if broken:
                continue
            true = (1, 1)
            if rng.random() >= p:
                true = UNFAITHFUL[int(np.searchsorted(np.cumsum(UNFAITHFUL_SHARES), rng.random()))]
            truth[sample.id, position] = true
            made["answers"].append(_answer(sample.id, position))
            made["judgements"].append(_verdict(sample.id, position, true, design, judge_rng))
    trail = Trail(**made)  # type: ignore[arg-type]
    return Drawn(samples, trail, truth)


def _propensities(design: Design, rng: np.random.Generator) -> np.ndarray:
    """Each sample's probability that an edit finds it faithful; their mean is the planted CCS."""
    p, n = design.planted, design.n_samples
    if p in (0.0, 1.0) or design.icc == 0:
        return np.full(n, p)
    if design.icc == 1:
        return (rng.random(n) < p).astype(np.float64)
    size = 1 / design.icc - 1
    return rng.beta(size * p, size * (1 - p), n)


def _sample(i: int, domains: tuple[str, ...]) -> Sample:
    return Sample(
        id=f"s{i:04d}",
        domain=domains[i % len(domains)],
        image=IMAGE,
        width=1,
        height=1,
        question="?",
    )


def _answer(sample_id: str, position: int) -> Answer:
    return Answer(sample_id=sample_id, position=position, image=IMAGE, status=Status.OK)


def _concepts(sample_id: str, found: bool) -> ConceptList:
    return ConceptList(sample_id=sample_id, status=Status.OK if found else Status.NO_CONCEPTS)


_CONCEPT = Concept(object="thing", text="thing")
_STEPS = tuple(
    Instruction(
        position=position,
        concept=_CONCEPT,
        keep="",
        change="",
        appearance="",
        avoid="",
        edit_type="modify",
        target_object="thing",
    )
    for position in range(1, 11)
)


def _chain(sample_id: str, k: int) -> InstructionChain:
    status = Status.OK if k else Status.NOT_REACHED
    return InstructionChain(sample_id=sample_id, status=status, steps=_STEPS[:k])


def _attempt(
    sample_id: str, position: int, number: int, accepted: bool, rng: np.random.Generator
) -> Attempt:
    status = Status.OK if accepted else Status.INSIDE_UNCHANGED
    inside, outside = rng.random(2)
    r_in = 0.15 + 0.85 * inside if accepted else 0.1 * inside
    return Attempt(
        sample_id=sample_id,
        position=position,
        attempt=number,
        status=status if number else Status.NOT_REACHED,
        instruction="",
        edit_type="modify",
        target_object="thing",
        edited=IMAGE if accepted else None,
        measurement=Measurement(
            r_in=r_in,
            r_out=0.3 * outside,
            r_in_unwarped=r_in,
            r_out_unwarped=0.3 * outside,
            mask_share=0.1,
            registration="identity",
            shift_px=0.0,
            residual=0.0,
        )
        if number
        else None,
    )


def _verdict(
    sample_id: str,
    position: int,
    true: tuple[int, int],
    design: Design,
    rng: np.random.Generator,
) -> Judgement:
    flips = rng.random(2) < design.judge_error
    ac, ef = (int(value != flip) for value, flip in zip(true, flips.tolist(), strict=True))
    grade = 4 + int(rng.random() < 0.8) if ac * ef else 1 + int(rng.integers(3))
    return Judgement(
        sample_id=sample_id,
        position=position,
        status=Status.OK,
        answer_consistent=ac,
        explanation_faithful=ef,
        ccs_binary=ac * ef,
        graded_status=Status.OK,
        grade=grade,
        ccs_graded=(grade - 1) / 4,
    )


def annotate(
    rows: Iterable[Intervention], annotator: str, *, share: float, error: float, seed: int
) -> Iterator[Annotation]:
    """A simulated annotator of scored interventions, who takes the scores for the truth.

    Parameters
    ----------
    share : float
        Share of samples that are seen; every annotator sees the same ones.
    error : float
        Probability that an edit is called invalid, that AC is flipped and that EF is; half of it
        that the annotator can't tell.
    """
    for row in rows:
        seen = stream(seed, "seen", row.sample_id).random() < share
        if not seen or row.ac is None or row.ef is None:
            continue
        rng = stream(seed, annotator, row.model_dump_json())
        valid, tell, *wrong = (rng.random(4) < [error, error / 2, error, error]).tolist()
        cell = row.cell
        yield Annotation(
            sample_id=row.sample_id,
            target=cell.target,
            extractor=cell.extractor,
            editor=cell.editor,
            seed=cell.seed,
            position=row.position,
            edited=row.edited,
            annotator=annotator,
            valid="cant_tell" if tell else "no" if valid else "yes",
            ac=int((row.ac >= 0.5) != wrong[0]),
            ef=int((row.ef >= 0.5) != wrong[1]),
        )


CELL = Cell(target="simulated", extractor="none", editor="none", judge="simulated", seed=0)
"""The cell of a simulated study."""
