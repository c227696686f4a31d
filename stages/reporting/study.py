"""What a report is made of: the records of one study, read and held together.

Nothing here opens a file; the report stage reads, and hands over records and a way to get at
pixels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.models.prices import Prices
from stages.records.annotation import Annotation
from stages.records.answer import Answer
from stages.records.attempt import Attempt
from stages.records.concept import ConceptList
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
from stages.records.usage import CallNote

Pixels = Callable[[str], NDArray[np.uint8]]
"""SHA-256 of a PNG → ``(H, W, 3)`` RGB."""


@dataclass(frozen=True)
class CellRecords:
    """All rows of one cell, by sample."""

    cell: Cell
    pixels: Pixels
    """Finds originals, edited images, masks and change maps alike."""
    baseline: Mapping[str, Answer]
    concepts: Mapping[str, ConceptList]
    chains: Mapping[str, InstructionChain]
    attempts: Mapping[str, tuple[Attempt, ...]]
    """In order of position and attempt."""
    answers: Mapping[tuple[str, int], Answer]
    """Answers to edited images, by sample and position."""
    judgements: Mapping[tuple[str, int], tuple[Judgement, ...]]
    """Verdicts by sample and position, one a replicate."""


@dataclass(frozen=True)
class LabelAgreement:
    """How often a rater of edits says what their labels say."""

    agree: int
    n: int
    """Labelled pairs that count."""
    missing: int
    """Labelled pairs on which the rater says nothing."""
    low: float | None
    """Lower end of the 95 % Wilson interval of the agreement; None without n."""
    high: float | None
    """Upper end."""


@dataclass(frozen=True)
class PairStudy:
    """A study of pairs made elsewhere: verification alone, laid beside labels."""

    name: str
    pixels: Pixels
    attempts: tuple[Attempt, ...]
    agree: int
    """Labelled pairs on which gate and label agree."""
    n: int
    """Labelled pairs that count."""
    low: float | None
    """Lower end of the 95 % Wilson interval of the agreement."""
    high: float | None
    """Upper end."""
    labels: Mapping[str, str]
    """Whether the edit is valid, by pair, as the label says (yes, no, …)."""
    raters: Mapping[str, LabelAgreement] = field(default_factory=dict)
    """The same of the verifier, and of gate and verifier together; empty without a verifier."""


@dataclass(frozen=True)
class Published:
    """A published number."""

    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class PublishedAgreement:
    """A row of Table 4 as published; shares in [0, 1]."""

    comparison: str
    what: str
    agree: int
    n: int
    low: float | None
    high: float | None


@dataclass(frozen=True)
class PublishedRuns:
    """A row of Table 5 as published."""

    runs: int
    mean: float
    sd: float


@dataclass(frozen=True)
class Reference:
    """Tables 2, 4 and 5 as published; Tables 1 and 3 are in `Study.published`."""

    pipelines: Mapping[tuple[str, str, str, str], Published] = field(default_factory=dict)
    """By target, LLM that is extractor and judge, editor and metric."""
    agreement: tuple[PublishedAgreement, ...] = ()
    runs: Mapping[str, PublishedRuns] = field(default_factory=dict)
    """By metric, of the one target that was run several times."""
    tuning: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Of the fine-tuning study: quantity → on originals, on counterfactuals."""


@dataclass(frozen=True)
class Findings:
    """What the score stage concluded beyond the estimates, by the name of its file."""

    runs: tuple[RunSpread, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    ranks: tuple[RankRow, ...] = ()
    power: tuple[PowerRow, ...] = ()
    rates: tuple[RateRow, ...] = ()
    bounds: tuple[BoundsRow, ...] = ()
    sensitivity: tuple[SensitivityRow, ...] = ()
    judges: tuple[AgreementRow, ...] = ()
    judge_scores: tuple[JudgeScore, ...] = ()
    verifier: tuple[AgreementRow, ...] = ()
    people: tuple[AgreementRow, ...] = ()
    gate: tuple[AgreementRow, ...] = ()
    corrected: tuple[CorrectedRow, ...] = ()
    tuning: tuple[TuningRow, ...] = ()
    labels: tuple[Annotation, ...] = ()
    """People's judgements of this study's edits; each names the attempt that was judged."""


@dataclass(frozen=True)
class Study:
    """All that the report shows."""

    name: str
    params: Mapping[str, Any]
    cells: tuple[Cell, ...]
    samples: Mapping[str, Sample] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Why candidates of the benchmark were not chosen: reason → how many."""
    interventions: tuple[Intervention, ...] = ()
    panel: tuple[Intervention, ...] = ()
    """What several judges say together, in cells of their own; empty where there is no panel."""
    estimates: tuple[Estimate, ...] = ()
    records: tuple[CellRecords, ...] = ()
    pairs: tuple[PairStudy, ...] = ()
    published: Mapping[tuple[str, str | None, str, int | None], Published] = field(
        default_factory=dict
    )
    """Published numbers by target, domain, metric and position (None: all); `published_beside` says
    which may stand beside a cell's own."""
    reference: Reference = field(default_factory=Reference)
    findings: Findings = field(default_factory=Findings)
    coverage: tuple[CoverageRow, ...] = ()
    """How well intervals held a planted CCS in simulated studies."""
    planted: Mapping[str, float] = field(default_factory=dict)
    """The CCS that was built into each simulated target."""
    prices: Prices = field(default_factory=Prices)
    """For the cost of calls whose provider named none."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each prompt file, by its path below the prompts folder."""
    code: str | None = None
    """Name of the folder ``stages`` as a tree of git; None where there is none."""
    tuning: tuple[AttentionRow, ...] = ()
    """Attention maps of the first adapter on held-out samples; empty without any."""
    tuning_curves: tuple[Curve, ...] = ()
    """Loss and exactness in training, epoch by epoch, of every adapter."""
    tuning_pixels: Pixels | None = None
    """Loads the images that these are over."""

    def pixels_of(self, image: str) -> NDArray[np.uint8] | None:
        """An image of the fine-tuning study; None where the study has none."""
        return self.tuning_pixels(image) if self.tuning_pixels else None

    @cached_property
    def scored(self) -> tuple[Cell, ...]:
        """The cells, and after the judges of the same edits their panel, if there is one."""
        panels = dict.fromkeys(row.cell for row in self.panel)
        models = list(dict.fromkeys((c.target, c.extractor, c.editor) for c in self.cells))
        return tuple(
            sorted(
                (*self.cells, *panels),
                key=lambda c: (models.index((c.target, c.extractor, c.editor)), c in panels),
            )
        )

    @property
    def fixed(self) -> frozenset[str]:
        """Extractors whose edits were made for another model's explanation (``fixed: true``)."""
        made = self.params.get("extractors")
        used = {cell.extractor for cell in self.cells}
        named = made.items() if isinstance(made, Mapping) else ()
        return frozenset(
            name
            for name, v in named
            if name in used and isinstance(v, Mapping) and v.get("fixed") is True
        )

    def published_beside(
        self, cell: Cell, metric: str, *, domain: str | None = None, position: int | None = None
    ) -> Published | None:
        """The published number that may stand beside a cell's: none on another model's edits."""
        if cell.extractor in self.fixed:
            return None
        return self.published.get((cell.target, domain, metric, position))

    @property
    def tau_in(self) -> float | None:
        """Threshold that r_in must exceed; None where the study verifies nothing."""
        return _number(self.params.get("verify"), "tau_in")

    @property
    def tau_out(self) -> float | None:
        """Threshold that r_out must stay below."""
        return _number(self.params.get("verify"), "tau_out")

    @property
    def verifier_mode(self) -> str | None:
        """What a verifier's word does, as in `verify.with_verifier`; None where none is asked."""
        if not self.params.get("verifier"):
            return None
        section = self.params.get("verify")
        mode = section.get("with_verifier") if isinstance(section, Mapping) else None
        return str(mode or "report_only")

    def estimate(
        self,
        cell: Cell,
        metric: str,
        *,
        domain: str | None = None,
        position: int | None = None,
        estimand: str = "sample_mean",
    ) -> Estimate | None:
        """The estimate of a metric in a cell; None where the score stage made none."""
        return self._index.get((cell, metric, domain, position, estimand))

    @cached_property
    def _index(self) -> dict[tuple[Cell, str, str | None, int | None, str], Estimate]:
        return {(e.cell, e.metric, e.domain, e.position, e.estimand): e for e in self.estimates}

    @property
    def positions(self) -> tuple[int, ...]:
        """Steps of the chain for which there are estimates."""
        return tuple(sorted({e.position for e in self.estimates if e.position is not None}))

    @property
    def domains(self) -> tuple[str, ...]:
        """Domains for which there are estimates, in the order of the samples."""
        known = {e.domain for e in self.estimates if e.domain is not None}
        ordered = [s.domain for s in self.samples.values() if s.domain in known]
        return tuple(dict.fromkeys([*ordered, *sorted(known)]))


def _number(section: object, key: str) -> float | None:
    value = section.get(key) if isinstance(section, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def simulated(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Where in the parameters a built-in, simulated part stands: dotted keys, in order.

    A part is simulated when its ``_target_`` names the demo.
    """

    def walk(value: object, path: tuple[str, ...]) -> list[str]:
        if isinstance(value, Mapping):
            here = [".".join(path)] if "demo" in str(value.get("_target_", "")) else []
            return here + [key for k, v in value.items() for key in walk(v, (*path, str(k)))]
        if isinstance(value, Sequence) and not isinstance(value, str):
            return [key for i, v in enumerate(value) for key in walk(v, (*path, str(i)))]
        return []

    return tuple(walk(params, ()))


def adapters_of(params: Mapping[str, Any], role: str) -> str:
    """The classes that play a role, for calls that name no served model; empty where none is known.

    For example ``DemoTarget (simulated)``.
    """
    group = params.get(f"{role}s", params.get(role))
    group = group if isinstance(group, Mapping) else {}
    parts = (
        [group] if "_target_" in group else [v for v in group.values() if isinstance(v, Mapping)]
    )
    names = [str(part["_target_"]).rpartition(".")[2] for part in parts if "_target_" in part]
    told = [
        f"{name} (simulated)" if simulated(part) else name
        for name, part in zip(names, (p for p in parts if "_target_" in p), strict=True)
    ]
    return ", ".join(dict.fromkeys(told))


@dataclass(frozen=True)
class RoleUse:
    """What the calls of one role used, as one model served them. None: it was never said."""

    role: str
    served: str | None
    provider: str | None
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    images: int | None


def use_by_role(study: Study) -> tuple[RoleUse, ...]:
    """Sum the calls that the records rest on, each stored reply once, by role and served model."""
    notes = {n.key: n for pairs in study.pairs for a in pairs.attempts for n in a.calls}
    for records in study.records:
        rows: list[Answer | ConceptList | InstructionChain | Attempt | Judgement] = [
            *records.baseline.values(),
            *records.concepts.values(),
            *records.chains.values(),
            *(attempt for attempts in records.attempts.values() for attempt in attempts),
            *records.answers.values(),
            *(verdict for verdicts in records.judgements.values() for verdict in verdicts),
        ]
        notes |= {note.key: note for row in rows for note in row.calls}
    roles = ("target", "extractor", "editor", "detector", "segmenter", "verifier", "judge")
    groups: dict[tuple[str, str | None, str | None], list[CallNote]] = {}
    for note in notes.values():
        if note.role not in roles:
            continue  # a measurement is stored like a call, and no model made it
        key = (note.role, note.usage.served_model, note.usage.provider)
        groups.setdefault(key, []).append(note)
    order = {role: rank for rank, role in enumerate(roles)}
    return tuple(
        RoleUse(
            role,
            served,
            provider,
            len(group),
            _total([note.usage.input_tokens for note in group]),
            _total([note.usage.output_tokens for note in group]),
            _total([note.usage.images for note in group]),
        )
        for (role, served, provider), group in sorted(
            groups.items(),
            key=lambda item: (order.get(item[0][0], 9), *(part or "" for part in item[0])),
        )
    )


def _total(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
