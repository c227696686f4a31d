"""Which level of an axis is better, on the samples that both have.

Scores of several seeds of the same models are taken together, so a column is a choice of target,
extractor, editor and judge. Targets are compared within each choice of the others. Extractors,
judges and editors are compared within a target, averaged over the other axes that vary.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations

import numpy as np

from stages.analysis.measures import Resampling, measured, rounded, scores
from stages.records.finding import Comparison, Part, PowerRow, RankRow
from stages.records.score import Intervention
from stages.stats.comparison import (
    SampleSize,
    by_sample,
    contrast,
    detectable_difference,
    holm,
    rank_probabilities,
    samples_needed,
)
from stages.stats.interval import FloatArray
from stages.stats.resampling import stream

AXES = ("target", "extractor", "editor", "judge")
METRICS = ("ccs_binary", "ccs_graded")
Column = tuple[str, str, str, str]


class Matrix:
    """Per-sample means of one metric: a column for each choice of models.

    Parameters
    ----------
    rows : sequence of Intervention
        All of the study; those without a score only say that a column exists.
    metric : str
    domain, position : optional
        Restrict to them.
    """

    def __init__(
        self,
        rows: Sequence[Intervention],
        metric: str,
        domain: str | None = None,
        position: int | None = None,
    ) -> None:
        self.metric, self.domain, self.position = metric, domain, position
        self.columns: list[Column] = list(dict.fromkeys(_column(row) for row in rows))
        self._rows = [
            row
            for row in rows
            if getattr(row, metric) is not None
            and domain in (None, row.domain)
            and position in (None, row.position)
        ]

    @cached_property
    def table(self) -> FloatArray:
        """Means ``(n_samples, n_columns)``, NaN where a column has no score for a sample."""
        place = {column: index for index, column in enumerate(self.columns)}
        found = scores(self._rows, self.metric)
        present = [place[_column(row)] for row in self._rows]
        table = by_sample(found.values, found.samples, present)
        full = np.full((len(table), len(self.columns)), np.nan)
        full[:, sorted(set(present))] = table
        return full

    def levels(self, axis: str) -> list[str]:
        """Names on an axis, in the order of the study."""
        return list(dict.fromkeys(column[AXES.index(axis)] for column in self.columns))

    def weights(self, axis: str, first: str, second: str, part: Part) -> list[float]:
        """First minus second level, averaged over the columns of the part."""
        held = {name: level for name, level in part.model_dump().items() if level is not None}
        at = AXES.index(axis)
        chosen = [all(c[AXES.index(n)] == level for n, level in held.items()) for c in self.columns]
        signs = [
            inside * ((column[at] == first) - (column[at] == second))
            for inside, column in zip(chosen, self.columns, strict=True)
        ]
        half = sum(sign > 0 for sign in signs)
        return [sign / max(1, half) for sign in signs]


def _column(row: Intervention) -> Column:
    return row.cell.target, row.cell.extractor, row.cell.editor, row.cell.judge


def _matrices(rows: Sequence[Intervention]) -> Iterator[Matrix]:
    domains = sorted({row.domain for row in rows})
    positions = sorted({row.position for row in rows if row.position > 0})
    yield from (Matrix(rows, metric) for metric in METRICS)
    if len(domains) > 1:
        yield from (Matrix(rows, "ccs_binary", domain=domain) for domain in domains)
    if len(positions) > 1:
        yield from (Matrix(rows, "ccs_binary", position=position) for position in positions)


def compare(rows: Sequence[Intervention], resampling: Resampling) -> Iterator[Comparison]:
    """Every pair of levels of every axis that varies: both scores over all, and the binary one by
    domain and by position."""
    for matrix in _matrices(rows):
        for axis in AXES:
            for part in _parts(matrix, axis):
                yield from _family(matrix, axis, part, resampling)
        yield from _interactions(matrix, resampling)


def _parts(matrix: Matrix, axis: str) -> list[Part]:
    """What is held while an axis varies: targets apart from all else, the others by target."""
    if axis != "target":
        return [Part(target=target) for target in matrix.levels("target")]
    held = dict.fromkeys(column[1:] for column in matrix.columns)
    return [Part(extractor=x, editor=e, judge=j) for x, e, j in held]


def _family(matrix: Matrix, axis: str, part: Part, resampling: Resampling) -> Iterator[Comparison]:
    """All pairs of one axis and part, corrected for their number."""
    made = [
        _contrast(matrix, axis, a, b, part, matrix.weights(axis, a, b, part), resampling)
        for a, b in combinations(matrix.levels(axis), 2)
    ]
    corrected = holm([row.p for row in made])
    for row, p in zip(made, corrected, strict=True):
        yield row.model_copy(update={"p_holm": rounded(p)})


def _interactions(matrix: Matrix, resampling: Resampling) -> Iterator[Comparison]:
    """Does a judge score the chains of its own kind of extractor differently?"""
    extractors, judges = matrix.levels("extractor"), matrix.levels("judge")
    for target in matrix.levels("target"):
        part = Part(target=target)
        for x in combinations(extractors, 2):
            for j in combinations(judges, 2):
                by_extractor = matrix.weights("extractor", *x, part)
                by_judge = [(c[3] == j[0]) - (c[3] == j[1]) for c in matrix.columns]
                cells = [a * b for a, b in zip(by_extractor, by_judge, strict=True)]
                scale = 2 / max(1e-9, sum(abs(w) for w in cells))
                yield _contrast(
                    matrix,
                    "extractor × judge",
                    f"{x[0]} by {j[0]}, {x[1]} by {j[1]}",
                    f"{x[0]} by {j[1]}, {x[1]} by {j[0]}",
                    part,
                    [scale * w for w in cells],
                    resampling,
                )


def _contrast(
    matrix: Matrix,
    axis: str,
    first: str,
    second: str,
    part: Part,
    weights: list[float],
    resampling: Resampling,
) -> Comparison:
    name = (axis, first, second, part.model_dump_json(), matrix.metric)
    found = contrast(
        matrix.table,
        weights,
        rng=stream(resampling.seed, "compare", *name, f"{matrix.domain}", f"{matrix.position}"),
        # A difference has no rarer outcome: what adapts near 0 and 1 has nothing to adapt to.
        method="expanded" if resampling.method == "adaptive" else resampling.method,
        confidence=resampling.confidence,
        n_resamples=resampling.n,
    )
    return Comparison(
        axis=axis,
        first=first,
        second=second,
        part=part,
        metric=matrix.metric,
        domain=matrix.domain,
        position=matrix.position,
        difference=measured(found.interval),
        p=rounded(found.test.p),
        p_holm=rounded(found.test.p),
        test=found.test.method,
        n_left_out=found.n_left_out,
        sd=rounded(found.sd),
    )


def rank(rows: Sequence[Intervention], resampling: Resampling) -> Iterator[RankRow]:
    """Probability of each rank of each target, within each choice of the other models."""
    for metric in METRICS:
        matrix = Matrix(rows, metric)
        if len(matrix.levels("target")) < 2:
            continue
        for part in _parts(matrix, "target"):
            held = part.extractor, part.editor, part.judge
            places = [i for i, column in enumerate(matrix.columns) if column[1:] == held]
            table = matrix.table[:, places]
            ranks = rank_probabilities(
                table,
                rng=stream(resampling.seed, "rank", part.model_dump_json(), metric),
                n_resamples=resampling.n,
            )
            for index, place in enumerate(places):
                yield RankRow(
                    part=part,
                    metric=metric,
                    target=matrix.columns[place][0],
                    expected=rounded(ranks.expected[index]),
                    probabilities=tuple(round(float(p), 12) for p in ranks.probability[index]),
                    n_samples=int((~np.isnan(table[:, index])).sum()),
                )


def plan_power(
    comparisons: Sequence[Comparison], n_samples: int, gaps: Sequence[float], power: float
) -> Iterator[PowerRow]:
    """Samples needed to tell two targets apart, at given differences and at the observed one.

    Parameters
    ----------
    n_samples : int
        Samples of the study, lost ones included.
    gaps : sequence of float
        True differences to be found.
    power : float
        Probability with which they are to be found.
    """
    for row in comparisons:
        if row.axis != "target" or row.domain is not None or row.position is not None:
            continue
        share = row.difference.n_samples / n_samples if n_samples else None
        observed = row.difference.mean
        for gap in (*gaps, None):
            wanted = observed if gap is None else gap
            needed = SampleSize(None, "nothing was scored", None)
            if wanted is not None:
                needed = samples_needed(row.sd, wanted, target_power=power)
            n, reason = needed.n, needed.reason
            yield PowerRow(
                part=row.part,
                first=row.first,
                second=row.second,
                metric=row.metric,
                gap=gap,
                power=power,
                sd=row.sd,
                common_share=rounded(share),
                n_common=n,
                n_planned=None if n is None or not share else int(np.ceil(n / share)),
                reason=reason,
                detectable=None
                if row.sd is None
                else rounded(
                    detectable_difference(row.sd, row.difference.n_samples, target_power=power)
                ),
            )
