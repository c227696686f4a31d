"""The gallery's data: every intervention with all that belongs to it, as plain values for JSON.

One case is one row of ``interventions.jsonl``, so that a count in the gallery is a count of a
table. What several cases share (a sample, a first answer, an edit under several judges) is held
once and named by its place in a list. A key that has nothing to say is left out.
"""

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from stages.records.annotation import Annotation, Key
from stages.records.answer import Answer
from stages.records.attempt import Attempt, Inspection
from stages.records.base import Status
from stages.records.instruction import Instruction
from stages.records.judgement import Judgement
from stages.records.score import Cell, Intervention
from stages.reporting import links, words
from stages.reporting.gallery import Case, Step, all_cases
from stages.reporting.prints import ImageRef, Photo, Prints, Views
from stages.reporting.study import Study

Json = dict[str, Any]
_SHOWN_OF_ATTEMPTS = frozenset(
    {
        "sample_id", "position", "attempt", "status", "reason", "instruction", "edit_type",
        "target_object", "source", "edited", "returned_width", "returned_height", "boxes", "mask",
        "measurement", "inspection", "calls",
    }
)  # fmt: skip
"""Fields of an attempt that the gallery has a place for; any other is listed as it is."""


def name_of(cell: Cell, sample_id: str, position: int) -> str:
    """Name of a case in addresses: stays the same from run to run."""
    parts = (cell.target, cell.extractor, cell.editor, cell.judge, cell.seed, sample_id, position)
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:12]


class _Shelf:
    """Values that are held once, by what they are about."""

    def __init__(self) -> None:
        self.rows: list[Json] = []
        self._at: dict[Hashable, int] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._at

    def put(self, key: Hashable, row: Json) -> int:
        """Keep a row under a key; returns its place."""
        self._at[key] = len(self.rows)
        self.rows.append(row)
        return self._at[key]

    def at(self, key: Hashable) -> int:
        """Place of a row."""
        return self._at[key]


def gallery_data(study: Study, prints: Prints) -> Json:
    """All that the gallery shows.

    Returns
    -------
    dict
        ``cells``, ``samples``, ``starts`` (first answers), ``edits`` and ``cases``, where a case
        names the others by their places; and ``words`` for statuses and steps.
    """
    build = _Builder(study, prints)
    for case in all_cases(study):
        build.case(case)
    build.pairs()
    build.mark_disagreeing_judges()
    statuses = {str(status): reason for status, reason in words.REASONS.items()}
    return {
        "study": study.name,
        "tau": [study.tau_in, study.tau_out],
        "cells": [cell.model_dump() for cell in study.cells],
        "samples": build.samples.rows,
        "starts": build.starts.rows,
        "edits": build.edits.rows,
        "cases": build.cases,
        "words": {"status": {**statuses, "ok": "kept"}, "through": links.THROUGH},
    }


class _Builder:
    def __init__(self, study: Study, prints: Prints) -> None:
        self.study, self.prints = study, prints
        self.samples, self.starts, self.edits = _Shelf(), _Shelf(), _Shelf()
        self.cases: list[Json] = []
        self.cells = {cell: place for place, cell in enumerate(study.cells)}
        self.said: dict[Key, list[Annotation]] = {}
        for annotation in study.findings.labels:
            self.said.setdefault(annotation.key, []).append(annotation)

    def case(self, case: Case) -> None:
        """Take in one sample of one cell: a case for each of its interventions."""
        sample, cell = case.sample, case.cell
        if sample.id not in self.samples:
            self.samples.put(
                sample.id,
                _lean(
                    id=sample.id,
                    domain=sample.domain,
                    question=words.shown(sample.question),
                    told=_text(sample.system_prompt),
                    reference=_text(sample.reference),
                    photo=_photo(self.prints.photo(sample.image)),
                ),
            )
        chain = cell.target, cell.extractor, cell.seed, sample.id
        if chain not in self.starts:
            concepts = [words.shown(concept.text) for concept in case.concepts]
            self.starts.put(chain, _lean(**_answer(case.baseline), concepts=concepts))
        shared = {"cell": self.cells[cell], "sample": self.samples.at(sample.id)}
        shared["start"] = self.starts.at(chain)
        if case.fate is not None:
            self.cases.append({**shared, **_fate(case.fate)})
        for step in case.steps:
            if step.intervention is not None:
                row = {**shared, **_fate(step.intervention), **self._verdicts(step)}
                self.cases.append({**row, **self._edit(case, step, row)})

    def _edit(self, case: Case, step: Step, row: Json) -> Json:
        cell = case.cell
        key = cell.target, cell.extractor, cell.editor, cell.seed, case.sample.id, step.position
        people = self._people(key, step.attempts)
        if key not in self.edits:
            self.edits.put(
                key,
                _lean(
                    **_instruction(step.instruction),
                    attempts=[_attempt(a, self.prints) for a in step.attempts],
                    answer=_answer(step.answer) if step.answer else None,
                    people=people,
                ),
            )
        differ = [*row.get("differ", ()), *_disagreements(people, step, row)]
        out: Json = {"edit": self.edits.at(key)}
        if people:
            out["labelled"] = True
        return out | ({"differ": differ} if differ else {})

    def _verdicts(self, step: Step) -> Json:
        verdicts = [_judgement(verdict) for verdict in step.judgements]
        said = {(v["ac"], v["ef"]) for v in verdicts if "ac" in v}
        return _lean(verdicts=verdicts, differ=["replicates"] if len(said) > 1 else [])

    def _people(self, key: Key, attempts: Sequence[Attempt]) -> list[Json]:
        """What people said of an edit, with the attempt that they saw."""
        return [
            _lean(
                who=words.shown(a.annotator),
                attempt=a.attempt,
                valid=a.valid,
                ac=a.ac,
                ef=a.ef,
                ccs=a.ccs,
                note=_text(a.note),
            )
            for a in self.said.get(key, ())
            if a.attempt in {attempt.attempt for attempt in attempts}
        ]

    def pairs(self) -> None:
        """Take in the pairs that were made elsewhere: an edit each, and its label."""
        for pairs in self.study.pairs:
            for attempt in pairs.attempts:
                label = pairs.labels.get(attempt.sample_id)
                people = [{"who": "label", "attempt": attempt.attempt, "valid": label}]
                key = pairs.name, attempt.sample_id
                photo = _photo(self.prints.photo(attempt.source))
                question = words.shown(attempt.instruction)
                sample = _lean(
                    id=attempt.sample_id, domain=pairs.name, question=question, photo=photo
                )
                edit = _lean(
                    attempts=[_attempt(attempt, self.prints)], people=people if label else []
                )
                wrong = label in ("yes", "no") and (label == "yes") != (attempt.status == "ok")
                self.cases.append(
                    _lean(
                        id=hashlib.sha256("\n".join(key).encode()).hexdigest()[:12],
                        pairs=pairs.name,
                        sample=self.samples.put(key, sample),
                        edit=self.edits.put(key, edit),
                        position=1,
                        stage="pairs",
                        status=str(attempt.status),
                        reason=_text(attempt.reason),
                        attempts=1,
                        labelled=bool(label) or None,
                        differ=["gate_people"] if wrong else [],
                    )
                )

    def mark_disagreeing_judges(self) -> None:
        """Mark the cases of one edit on which judges differ."""
        by_edit: dict[int, list[Json]] = {}
        for row in self.cases:
            if "edit" in row:
                by_edit.setdefault(row["edit"], []).append(row)
        for rows in by_edit.values():
            if len({(row["ac"], row["ef"]) for row in rows if "ac" in row}) > 1:
                for row in rows:
                    row["differ"] = [*row.get("differ", ()), "judges"]


def _fate(row: Intervention) -> Json:
    ungraded = row.stage == "judge" and row.graded_status is not Status.OK
    return _lean(
        id=name_of(row.cell, row.sample_id, row.position),
        position=row.position,
        stage=row.stage,
        status=str(row.status),
        reason=_text(row.reason),
        attempts=row.attempts or None,
        ac=row.ac,
        ef=row.ef,
        ccs=row.ccs_binary,
        graded=row.ccs_graded,
        no_grade=str(row.graded_status or Status.NOT_REACHED) if ungraded else None,
        through=links.came_through(row),
    )


def _disagreements(people: Sequence[Mapping[str, Any]], step: Step, row: Json) -> list[str]:
    """Who differs over an edit: people with one another, with judge and gate; gate and verifier."""
    out = []
    about = {attempt.attempt: attempt.gate for attempt in step.attempts}
    inspected = [(a.gate, a.inspection.accepted) for a in step.attempts if a.inspection]
    if any(said is not None and said != (gate is Status.OK) for gate, said in inspected):
        out.append("gate_verifier")
    clear = [p for p in people if p.get("valid") in ("yes", "no")]
    if any((p["valid"] == "yes") != (about[p["attempt"]] is Status.OK) for p in clear):
        out.append("gate_people")
    whole = [p for p in people if "ccs" in p]
    said = {(p["ac"], p["ef"]) for p in whole}
    marked = {
        p["attempt"]: {q["valid"] for q in clear if q["attempt"] == p["attempt"]} for p in clear
    }
    if len(said) > 1 or any(len(valid) > 1 for valid in marked.values()):
        out.append("people")
    if "ac" in row and any((p["ac"], p["ef"]) != (row["ac"], row["ef"]) for p in whole):
        out.append("judge_people")
    return out


def _instruction(step: Instruction | None) -> Json:
    if step is None:
        return {}
    return {
        "concept": words.shown(step.concept.text),
        "type": step.edit_type,
        "change": words.shown(step.change),
        "appearance": words.shown(step.appearance),
        "keep": words.shown(step.keep),
        "avoid": words.shown(step.avoid),
    }


def _attempt(attempt: Attempt, prints: Prints) -> Json:
    m = attempt.measurement
    views = prints.views(attempt)
    return _lean(
        n=attempt.attempt,
        status=str(attempt.status),
        reason=_text(attempt.reason),
        type=attempt.edit_type,
        object=words.shown(attempt.target_object),
        asked=words.shown(attempt.instruction),
        r_in=m.r_in if m else None,
        r_out=m.r_out if m else None,
        aligned=m.registration if m else None,
        shift=m.shift_px if m else None,
        mask_share=m.mask_share if m else None,
        **_views(views),
        boxes=[[box.x0, box.y0, box.x1, box.y1] for box in attempt.boxes],
        verifier=_inspection(attempt.inspection),
        more=_more(attempt),
    )


def _inspection(found: Inspection | None) -> Json | None:
    """What a verifier, shown both images, said."""
    if found is None:
        return None
    return _lean(
        silent=None if found.status is Status.OK else str(found.status),
        reason=_text(found.reason),
        present=found.change_present,
        rest=found.rest_unchanged,
        words=_text(found.words),
        gate=str(found.gate),
    )


def _more(attempt: Attempt) -> list[list[str]]:
    """Fields of an attempt that the page has no place for: dotted name and value."""
    out: list[list[str]] = []

    def walk(value: object, path: str) -> None:
        if isinstance(value, Mapping):
            for key, inner in value.items():
                if key not in ("calls", "key", "usage"):
                    walk(inner, f"{path}.{key}" if path else str(key))
        elif isinstance(value, list | tuple):
            for place, inner in enumerate(value, 1):
                walk(inner, f"{path}.{place}")
        elif value is not None:
            out.append([path, words.shown(str(value))])

    walk(attempt.model_dump(mode="json", exclude=set(_SHOWN_OF_ATTEMPTS)), "")
    return out


def _views(views: Views) -> Json:
    return {
        "before": _photo(views.before),
        "after": _photo(views.after),
        "heat": _file(views.heat),
        "mask": _file(views.mask),
        "over": _over(views),
    }


def _judgement(verdict: Judgement) -> Json:
    return _lean(
        status=None if verdict.status is Status.OK else str(verdict.status),
        reason=_text(verdict.reason),
        ac=verdict.answer_consistent,
        ef=verdict.explanation_faithful,
        why=_text(verdict.verdict_reason),
        grade=verdict.grade,
        no_grade=None if verdict.graded_status is Status.OK else str(verdict.graded_status),
        grade_reason=_text(verdict.graded_reason),
        grade_why=_text(verdict.grade_reason),
    )


def _answer(answer: Answer | None) -> Json:
    if answer is None:
        return {}
    return _lean(
        answer=_text(answer.answer),
        explanation=_text(answer.explanation),
        silent=None if answer.status is Status.OK else str(answer.status),
    )


def _photo(photo: Photo | None) -> list[str | int] | None:
    """View and thumbnail with their sizes, and the size that the image has in pixels."""
    if photo is None:
        return None
    v, t = photo.view, photo.thumbnail
    return [
        _name(v), v.width, v.height, _name(t), t.width, t.height, photo.width, photo.height
    ]  # fmt: skip


def _file(image: ImageRef | None) -> str | None:
    return _name(image) if image else None


def _name(image: ImageRef) -> str:
    return image.src.rpartition("/")[2]


def _text(text: str | None) -> str | None:
    return words.shown(text) if text else None


def _lean(**values: Any) -> Json:
    """Without what says nothing; 0 says something."""
    return {k: v for k, v in values.items() if v is not None and v != [] and v != {}}


def _over(views: Views) -> str | None:
    """Which image was searched: before or after the edit; None where nothing was found."""
    if views.searched is None:
        return None
    return "after" if views.searched is views.after else "before"
