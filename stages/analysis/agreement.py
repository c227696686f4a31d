"""Do raters say the same: judges with one another, and replies of one judge."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from stages.analysis.fates import Trail
from stages.analysis.measures import METRICS, Resampling, measured
from stages.analysis.panel import voices
from stages.records.finding import AgreementRow, JudgeScore, Measured, Part
from stages.records.judgement import Judgement
from stages.records.score import Cell, Intervention
from stages.stats.agreement import (
    agreement,
    agreement_clustered,
    alpha_interval,
    confusion,
    kappa_interval,
)
from stages.stats.estimates import estimate
from stages.stats.interval import BoolArray, FloatArray
from stages.stats.judges import majority, mean_score
from stages.stats.resampling import stream
from stages.stats.variance import judged

RATED = {
    "ac": "answer_consistent",
    "ef": "explanation_faithful",
    "ccs_binary": "ccs_binary",
    "grade": "grade",
}
Unit = tuple[int, str, int]
"""Seed, sample and position: one intervention of given models."""


class Ratings(NamedTuple):
    """What was rated, by whom, and who said what."""

    what: str
    part: Part
    raters: tuple[str, ...]
    table: FloatArray
    """``(n_units, n_raters)``, NaN where a rating is missing."""
    samples: Sequence[str]
    """The sample of each unit."""


def agree(
    ratings: Ratings, comparison: str, resampling: Resampling, *, subset: str = "all"
) -> AgreementRow:
    """Agreement of some raters, with every coefficient that exists for them."""
    what, part, raters, table, samples = ratings
    pair = len(raters) == 2
    name = (comparison, what, part.model_dump_json(), *raters, subset)
    options = {"confidence": resampling.confidence, "n_resamples": resampling.n}

    def rng(kind: str) -> np.random.Generator:
        return stream(resampling.seed, "agree", kind, *name)

    def kappa() -> Measured:
        weights = "quadratic" if what == "grade" else None
        a, b = table[:, 0], table[:, 1]
        return measured(
            kappa_interval(a, b, samples, rng=rng("kappa"), weights=weights, **options)  # type: ignore[arg-type]
        )

    level = "ordinal" if what == "grade" else "nominal"
    share = agreement(table, confidence=resampling.confidence)
    clustered = agreement_clustered(table, samples, rng=rng("share"), **options)  # type: ignore[arg-type]
    alpha = alpha_interval(table, samples, rng=rng("alpha"), level=level, **options)  # type: ignore[arg-type]
    counts = confusion(table[:, 0], table[:, 1]) if pair else np.zeros((0, 0), dtype=np.int64)
    complete = table[~np.isnan(table).any(axis=1)]
    return AgreementRow(
        comparison=comparison,
        what=what,
        part=part,
        raters=raters,
        subset=subset,
        agree=round((share.mean or 0.0) * share.n),
        n_missing=len(table) - share.n,
        share=measured(share),
        clustered=measured(clustered),
        kappa=kappa() if pair else None,
        alpha=measured(alpha),
        categories=tuple(np.unique(complete).tolist()) if pair else (),
        confusion=tuple(tuple(row) for row in counts.tolist()),
    )


def between_judges(trails: Mapping[Cell, Trail], resampling: Resampling) -> Iterator[AgreementRow]:
    """Agreement of all judges, of each pair where there are more than two, and of replicates."""
    for part, cells in _by_models(trails).items():
        verdicts = {
            (cell.judge, (cell.seed, verdict.sample_id, verdict.position), verdict.replicate): (
                verdict
            )
            for cell in cells
            for verdict in trails[cell].judgements
        }
        judges = tuple(dict.fromkeys(cell.judge for cell in cells))
        units = sorted({unit for _, unit, _ in verdicts})
        replicates = sorted({replicate for _, _, replicate in verdicts})
        for what in RATED:
            if len(replicates) > 1:
                for judge in judges:
                    table = _table(
                        [[(judge, u, r) for r in replicates] for u in units], verdicts, what
                    )
                    raters = tuple(f"{judge} #{replicate}" for replicate in replicates)
                    yield _agree(
                        what, part, raters, table, units, f"replies of {judge}", resampling
                    )
            if len(judges) < 2:
                continue
            voices = [
                _table([[(judge, u, r) for r in replicates] for u in units], verdicts, what)
                for judge in judges
            ]
            table = np.column_stack([_one_voice(voice) for voice in voices])
            yield _agree(what, part, judges, table, units, "judges", resampling)
            if len(judges) > 2:
                for a, b in combinations(range(len(judges)), 2):
                    pair = judges[a], judges[b]
                    yield _agree(what, part, pair, table[:, [a, b]], units, "judges", resampling)


def _agree(
    what: str,
    part: Part,
    raters: tuple[str, ...],
    table: FloatArray,
    units: Sequence[Unit],
    comparison: str,
    resampling: Resampling,
) -> AgreementRow:
    samples = [sample for _, sample, _ in units]
    return agree(Ratings(what, part, raters, table, samples), comparison, resampling)


def _by_models(trails: Mapping[Cell, Trail]) -> dict[Part, list[Cell]]:
    """Cells that differ in judge and seed alone."""
    parts: dict[Part, list[Cell]] = {}
    for cell in trails:
        part = Part(target=cell.target, extractor=cell.extractor, editor=cell.editor)
        parts.setdefault(part, []).append(cell)
    return parts


def _table(
    keys: list[list[tuple[str, Unit, int]]],
    verdicts: Mapping[tuple[str, Unit, int], Judgement],
    what: str,
) -> FloatArray:
    def rating(key: tuple[str, Unit, int]) -> float:
        value = getattr(verdicts[key], RATED[what]) if key in verdicts else None
        return np.nan if value is None else float(value)

    width = len(keys[0]) if keys else 1
    return np.array([[rating(key) for key in row] for row in keys]).reshape(-1, width)


def _one_voice(replies: FloatArray) -> FloatArray:
    """What most replies of one judge say; a tie is missing."""
    value, exists = majority(replies)
    return np.where(exists, value, np.nan)


def over_judges(rows: Sequence[Intervention], resampling: Resampling) -> Iterator[JudgeScore]:
    """Scores made of several judges: their mean, with an interval that holds their variance, and
    their vote. Nothing where there is one judge."""
    parts: dict[Part, dict[str, dict[Unit, Intervention]]] = {}
    for row in rows:
        if row.position > 0:
            cell = row.cell
            part = Part(target=cell.target, extractor=cell.extractor, editor=cell.editor)
            unit = cell.seed, row.sample_id, row.position
            parts.setdefault(part, {}).setdefault(cell.judge, {})[unit] = row
    for part, by_judge in parts.items():
        if len(by_judge) > 1:
            for metric in METRICS:
                yield _over_judges(part, metric, by_judge, resampling)


def _over_judges(
    part: Part,
    metric: str,
    by_judge: Mapping[str, Mapping[Unit, Intervention]],
    resampling: Resampling,
) -> JudgeScore:
    units = sorted({unit for rows in by_judge.values() for unit in rows})
    table = np.array(
        [[_score(rows.get(unit), metric) for rows in by_judge.values()] for unit in units]
    )
    samples = np.array([sample for _, sample, _ in units])
    options = {"confidence": resampling.confidence, "n_resamples": resampling.n}
    name = (part.model_dump_json(), metric)

    def over_samples(values: FloatArray, exists: BoolArray, kind: str) -> Measured:
        found = estimate(
            values[exists],
            samples[exists],
            rng=stream(resampling.seed, "judges", kind, *name),
            method=resampling.method,
            confidence=resampling.confidence,
            n_resamples=resampling.n,
        )
        return measured(found)

    voted, decided = majority(voices(table, metric))
    rated = ~np.isnan(table).all(axis=1)
    both = judged(table, samples, rng=stream(resampling.seed, "judges", "both", *name), **options)  # type: ignore[arg-type]
    return JudgeScore(
        part=part,
        metric=metric,
        judges=tuple(by_judge),
        mean=measured(both),
        mean_samples_only=over_samples(*mean_score(table), "mean"),
        vote=over_samples(voted, decided, "vote"),
        n_ties=int((rated & ~decided).sum()),
    )


def _score(row: Intervention | None, metric: str) -> float:
    value = None if row is None else getattr(row, metric)
    return np.nan if value is None else float(value)
