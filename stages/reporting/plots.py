"""Numbers for DVC's own views: metrics (one small nested file) and the data of its plots."""

from collections.abc import Mapping
from typing import Any

from stages.records.score import Estimate
from stages.reporting import tuning_tables
from stages.reporting.funnel import gate
from stages.reporting.pair_tables import blind
from stages.reporting.protocol_tables import funnels
from stages.reporting.study import Study
from stages.reporting.tables import Column, Table
from stages.reporting.words import METRICS, cell_key, cell_label, varying_axes

DECIMALS = 4


def metrics(study: Study) -> Mapping[str, Any]:
    """Headline numbers by cell, rounded; a number that does not exist has no key."""
    axes = varying_axes(study.scored)
    out: dict[str, Any] = {}
    for cell in study.scored:
        rows = [row for row in (*study.interventions, *study.panel) if row.cell == cell]
        overall = {m: study.estimate(cell, m) for m in METRICS}
        binary, graded = overall["ccs_binary"], overall["ccs_graded"]
        verified = gate(rows)
        values = {
            "ccs_binary": _mean(binary),
            "ccs_graded": _mean(graded),
            "ac": _mean(overall["ac"]),
            "ef": _mean(overall["ef"]),
            "n_samples": binary.n_samples if binary else 0,
            "n_scored": binary.n_interventions if binary else 0,
            "n_graded": graded.n_interventions if graded else 0,
            "n_planned": binary.n_planned if binary else None,
            "acceptance": _share(verified.accepted, verified.tried),
        }
        out[cell_key(cell, axes)] = _known(values)
    for pairs in study.pairs:
        do, n_blind = blind(pairs)
        values = {
            "agreement": _share(pairs.agree, pairs.n),
            "low": _rounded(pairs.low),
            "high": _rounded(pairs.high),
            f"{do}_all": _share(n_blind, pairs.n),
            "n": pairs.n,
        }
        out.setdefault("pairs", {})[pairs.name] = _known(values)
    return out


def plot_tables(study: Study) -> tuple[Table, ...]:
    """Estimates with intervals, the funnel, and AC and EF by position, one row a mark."""
    axes = varying_axes(study.scored)

    def mark(label: str, estimate: Estimate | None, *more: str | int) -> tuple[Any, ...]:
        if estimate is None:
            return (label, *more, None, None, None, 0)
        e = estimate
        return (label, *more, e.mean, e.low, e.high, e.n_interventions)

    labelled = [(cell_label(cell, axes), cell) for cell in study.scored]
    bounds = (
        Column("mean", "mean"),
        Column("low", "low"),
        Column("high", "high"),
        Column("n", "n"),
    )
    return (
        tuning_tables.plot_table(study.findings.tuning, study.tuning_curves),
        Table(
            "estimates",
            "",
            (Column("cell", "cell"), Column("metric", "metric"), *bounds),
            tuple(
                mark(label, study.estimate(cell, metric), METRICS[metric])
                for label, cell in labelled
                for metric in ("ccs_binary", "ccs_graded")
                if study.estimate(cell, metric)
            ),
        ),
        Table(
            "positions",
            "",
            (
                Column("cell", "cell"),
                Column("metric", "metric"),
                Column("position", "position"),
                Column("step", "step"),
                *bounds,
            ),
            tuple(
                mark(
                    label,
                    study.estimate(cell, metric, position=k),
                    METRICS[metric],
                    k,
                    f"{label}, k = {k}",
                )
                for label, cell in labelled
                for metric in ("ac", "ef")
                for k in study.positions
                if study.estimate(cell, metric, position=k)
            ),
        ),
        Table(
            "funnel",
            "",
            (Column("step", "step"), Column("cell", "cell"), Column("n", "n")),
            tuple(
                (f"{i} {step.name}", label, step.kept)
                for label, steps in funnels(study).items()
                if label != "all" or len(study.cells) < 2
                for i, step in enumerate(steps, 1)
            ),
        ),
    )


def _mean(estimate: Estimate | None) -> float | None:
    return _rounded(estimate.mean) if estimate else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DECIMALS)


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, DECIMALS) if whole else None


def _known(values: Mapping[str, float | int | None]) -> dict[str, float | int]:
    return {key: value for key, value in values.items() if value is not None}
