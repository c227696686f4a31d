"""People's judgements: do they agree with one another, with the judge and with the gate, and what
do they make of a judge's mean?

A human CCS exists only where the annotator marked the edit valid and gave both AC and EF; anything
else is missing. Annotators are numbered in the order of their names: ``human_1``, ``human_2``, …
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from stages.analysis.agreement import Ratings, agree
from stages.analysis.estimates import by_cell
from stages.analysis.fates import Trail
from stages.analysis.measures import Resampling, measured, rounded
from stages.analysis.verification import says
from stages.records.annotation import Annotation, Key
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.records.finding import AgreementRow, CorrectedRow, Part
from stages.records.score import Cell, Intervention
from stages.stats.correction import corrected_mean, labelled_at_random
from stages.stats.interval import FloatArray
from stages.stats.judges import majority, mean_score
from stages.stats.resampling import stream

IMBALANCE, LEVEL = 0.25, 0.05
"""Standardised difference and p beyond which labels do not look random (Austin 2009)."""


class Label(NamedTuple):
    """An annotation, and the attempt that it is about."""

    annotation: Annotation
    attempt: Attempt


class Labels(NamedTuple):
    """Annotations that fit the study, and how many do not."""

    rows: Sequence[Label]
    n_elsewhere: int
    """About cells, samples or steps that the study does not have."""
    n_stale: int
    """About an image that the study no longer has."""

    @property
    def annotators(self) -> list[str]:
        """Names in order."""
        return sorted({label.annotation.annotator for label in self.rows})


def match(annotations: Sequence[Annotation], trails: Mapping[Cell, Trail]) -> Labels:
    """Find the attempt that each annotation is about."""
    wanted = {annotation.key for annotation in annotations}
    tried: dict[Key, dict[int, Attempt]] = {}
    for cell, trail in trails.items() if wanted else ():
        for attempt in trail.attempts:
            key = _edit_key(cell, attempt.sample_id, attempt.position)
            if key in wanted and attempt.attempt > 0:
                tried.setdefault(key, {})[attempt.attempt] = attempt
    rows: list[Label] = []
    elsewhere = stale = 0
    for annotation in annotations:
        made = tried.get(annotation.key, {})
        found = made.get(annotation.attempt or max(made, default=0))
        if found is None:
            elsewhere += 1
        elif annotation.edited not in (None, found.edited):
            stale += 1
        else:
            rows.append(Label(annotation, found))
    return Labels(rows, elsewhere, stale)


def used(labels: Labels) -> Iterator[Annotation]:
    """The annotations that count, with the attempt and the image that each is about."""
    for note, attempt in labels.rows:
        yield note.model_copy(update={"attempt": attempt.attempt, "edited": attempt.edited})


def _edit_key(cell: Cell, sample_id: str, position: int) -> Key:
    return cell.target, cell.extractor, cell.editor, cell.seed, sample_id, position


def agreement_with_people(
    labels: Labels, rows: Sequence[Intervention], resampling: Resampling
) -> Iterator[AgreementRow]:
    """On AC, EF and binary CCS: annotators with one another and with each judge."""
    people = labels.annotators
    if not people:
        return
    accepted = [label for label in labels.rows if label.attempt.status is Status.OK]
    said = {(label.annotation.annotator, label.annotation.key): label for label in accepted}
    units = list(dict.fromkeys(label.annotation.key for label in accepted))
    samples = [key[4] for key in units]
    strict = [
        all((p, u) in said and said[p, u].annotation.ccs is not None for p in people) for u in units
    ]
    judges = list(dict.fromkeys(row.cell.judge for row in rows))
    for what in ("ccs_binary", "ac", "ef"):
        human = np.array(
            [[_said(said.get((person, unit)), what) for person in people] for unit in units]
        ).reshape(len(units), len(people))
        for subset, kept in (
            ("all", np.ones(len(units), dtype=bool)),
            ("strict", np.array(strict, dtype=bool)),
        ):
            chosen = [sample for sample, keep in zip(samples, kept, strict=True) if keep]
            for raters, name, columns in _among(people):
                ratings = Ratings(what, Part(), raters, human[kept][:, columns], chosen)
                yield agree(ratings, name, resampling, subset=subset)
            for judge in judges:
                verdict = _verdicts(rows, judge, units, what)
                for raters, name, table in _against(people, judge, human, verdict):
                    ratings = Ratings(what, Part(judge=judge), raters, table[kept], chosen)
                    yield agree(ratings, name, resampling, subset=subset)


def _among(people: list[str]) -> Iterator[tuple[tuple[str, ...], str, list[int]]]:
    for i, j in combinations(range(len(people)), 2):
        yield (people[i], people[j]), f"human_{i + 1}_vs_human_{j + 1}", [i, j]
    if len(people) > 2:
        yield tuple(people), "all_humans_identical", list(range(len(people)))


def _against(
    people: list[str], judge: str, human: FloatArray, verdict: FloatArray
) -> Iterator[tuple[tuple[str, ...], str, FloatArray]]:
    """Each annotator, their consensus, and all of them with the automatic score."""
    for i, person in enumerate(people):
        yield (person, judge), f"human_{i + 1}_vs_edct", np.column_stack([human[:, i], verdict])
    if len(people) > 1:
        complete = ~np.isnan(human).any(axis=1)
        unanimous = complete & (human == human[:, :1]).all(axis=1)
        consensus = np.where(unanimous, human[:, 0], np.nan)
        yield ("consensus", judge), "human_consensus_vs_edct", np.column_stack([consensus, verdict])
        names = {2: "all_three_identical"}
        everybody = np.column_stack([human, verdict])
        yield (*people, judge), names.get(len(people), "all_identical"), everybody


def _verdicts(
    rows: Sequence[Intervention], judge: str, units: Sequence[Key], what: str
) -> FloatArray:
    """The automatic score of each unit: what most replies say; NaN for a tie or none."""
    found = {
        _edit_key(row.cell, row.sample_id, row.position): getattr(row, what)
        for row in rows
        if row.cell.judge == judge
    }
    values = np.array([found.get(unit) for unit in units], dtype=np.float64)
    return np.where(values == 0.5, np.nan, np.round(values))


def _said(label: Label | None, what: str) -> float:
    """What an annotator said of an intervention; NaN unless the edit was marked valid."""
    if label is None or label.annotation.valid != "yes":
        return np.nan
    value = label.annotation.ccs if what == "ccs_binary" else getattr(label.annotation, what)
    return np.nan if value is None else float(value)


def gate_validity(labels: Labels, resampling: Resampling) -> Iterator[AgreementRow]:
    """On whether an edit is valid: gate and verifier with each annotator; annotators together.

    Rejected attempts count as accepted ones do. ``cant_tell`` is missing.
    """
    people = labels.annotators
    said: dict[tuple[Key, int], dict[str, float]] = {_shown(label): {} for label in labels.rows}
    gate = {_shown(label): float(label.attempt.gate is Status.OK) for label in labels.rows}
    verified = {_shown(label): says("verifier", label.attempt) for label in labels.rows}
    for label in labels.rows:
        if label.annotation.valid in ("yes", "no"):
            said[_shown(label)][label.annotation.annotator] = float(label.annotation.valid == "yes")
    units = list(said)
    samples = [key[4] for key, _ in units]
    human = np.array([[said[u].get(p, np.nan) for p in people] for u in units])
    human = human.reshape(len(units), len(people))
    verdict = np.array([gate[unit] for unit in units])
    looked = np.array([verified[unit] for unit in units], dtype=np.float64)
    for i, person in enumerate(people):
        table = np.column_stack([verdict, human[:, i]])
        ratings = Ratings("edit_validity", Part(), ("gate", person), table, samples)
        yield agree(ratings, f"gate_vs_human_{i + 1}", resampling)
        if not np.isnan(looked).all():
            table = np.column_stack([looked, human[:, i]])
            ratings = Ratings("edit_validity", Part(), ("verifier", person), table, samples)
            yield agree(ratings, f"verifier_vs_human_{i + 1}", resampling)
    for raters, name, columns in _among(people):
        ratings = Ratings("edit_validity", Part(), raters, human[:, columns], samples)
        yield agree(ratings, name, resampling)


def _shown(label: Label) -> tuple[Key, int]:
    return label.annotation.key, label.attempt.attempt


def validity(labels: Labels, cell: Cell) -> dict[tuple[str, int, int], float]:
    """Whether most annotators call an attempt valid, by sample, position and attempt; ties and
    ``cant_tell`` are left out."""
    votes: dict[tuple[str, int, int], list[float]] = {}
    for label in labels.rows:
        note = label.annotation
        if note.key == _edit_key(cell, note.sample_id, note.position) and note.valid in (
            "yes",
            "no",
        ):
            key = note.sample_id, note.position, label.attempt.attempt
            votes.setdefault(key, []).append(float(note.valid == "yes"))
    width = max(map(len, votes.values()), default=0)
    table = np.array([said + [np.nan] * (width - len(said)) for said in votes.values()])
    if not votes:
        return {}
    values, exists = majority(table)
    return {
        key: float(value)
        for key, value, decided in zip(votes, values, exists, strict=True)
        if decided
    }


def correct(
    labels: Labels, rows: Sequence[Intervention], resampling: Resampling
) -> Iterator[CorrectedRow]:
    """Each cell's mean, corrected by the labels that it has; annotators are averaged."""
    accepted = [label for label in labels.rows if label.attempt.status is Status.OK]
    for cell, of_cell in by_cell(rows).items():
        for metric in ("ccs_binary", "ac", "ef"):
            said: dict[tuple[str, int], list[float]] = {}
            for label in accepted:
                note = label.annotation
                if note.key == _edit_key(cell, note.sample_id, note.position):
                    said.setdefault((note.sample_id, note.position), []).append(
                        _said(label, metric)
                    )
            scored = [row for row in of_cell if getattr(row, metric) is not None]
            human = [_mean(said.get((row.sample_id, row.position), [])) for row in scored]
            if not np.isnan(human).all():
                yield _corrected(cell, metric, scored, np.array(human), resampling)


def _mean(values: list[float]) -> float:
    mean, exists = mean_score([values]) if values else ([0.0], [False])
    return float(mean[0]) if exists[0] else np.nan


def _corrected(
    cell: Cell,
    metric: str,
    rows: Sequence[Intervention],
    human: FloatArray,
    resampling: Resampling,
) -> CorrectedRow:
    judge = np.array([getattr(row, metric) for row in rows], dtype=np.float64)
    samples = [row.sample_id for row in rows]
    name = (cell.model_dump_json(), metric)
    found = corrected_mean(
        judge,
        human,
        samples,
        rng=stream(resampling.seed, "correct", *name),
        confidence=resampling.confidence,
        n_resamples=resampling.n,
    )
    labelled = ~np.isnan(human)
    by_score, by_position = (
        labelled_at_random(
            values,
            labelled,
            samples,
            rng=stream(resampling.seed, "balance", kind, *name),
            n_resamples=resampling.n,
        )
        for kind, values in (("score", judge), ("position", [row.position for row in rows]))
    )
    return CorrectedRow(
        cell=cell,
        metric=metric,
        corrected=measured(found.corrected),
        labels_only=measured(found.labels_only),
        judge_only=measured(found.judge_only),
        tuning=round(found.tuning, 12),
        n_labelled=found.n_labelled,
        n_unlabelled=found.n_unlabelled,
        imbalance_score=rounded(by_score.standardised_difference),
        p_score=rounded(by_score.association.test.p),
        imbalance_position=rounded(by_position.standardised_difference),
        p_position=rounded(by_position.association.test.p),
        looks_random=_looks_random(
            [by_score.standardised_difference, by_position.standardised_difference],
            [by_score.association.test.p, by_position.association.test.p],
        ),
    )


def _looks_random(imbalances: list[float | None], ps: list[float | None]) -> bool | None:
    known = [value for value in imbalances if value is not None]
    tested = [p for p in ps if p is not None]
    if not known and not tested:
        return None
    return all(abs(v) <= IMBALANCE for v in known) and all(p >= LEVEL for p in tested)
