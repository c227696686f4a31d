"""What other thresholds of the gate would have done, from the measurements that exist."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from stages.analysis.estimates import by_cell
from stages.analysis.fates import Trail
from stages.analysis.measures import measured, rounded
from stages.records.attempt import Attempt, Mode
from stages.records.base import Status
from stages.records.finding import SensitivityRow
from stages.records.score import Cell, Intervention
from stages.stats.sensitivity import attempts, grid

Labels = Mapping[tuple[str, int, int], float]
"""Sample, position and attempt → whether people call the edit valid, 1 or 0."""


class Gate(NamedTuple):
    """The grid, and the run's own gate."""

    tau_in: Sequence[float]
    tau_out: Sequence[float]
    used: tuple[float, float]
    """The thresholds of the run; they are on the grid whether or not it names them."""
    max_attempts: int
    on_rejection: Literal["stop", "skip"]
    with_verifier: Mode = "report_only"
    """What a verifier's word does; it stands, whatever the thresholds."""


def sweep(
    rows: Sequence[Intervention],
    trails: Mapping[Cell, Trail],
    gate: Gate,
    labels: Mapping[Cell, Labels],
    confidence: float,
) -> Iterator[SensitivityRow]:
    """Every cell at every pair of thresholds, for Δ with and without the flow's warp."""
    tau_in = sorted({*gate.tau_in, gate.used[0]})
    tau_out = sorted({*gate.tau_out, gate.used[1]})
    for cell, of_cell in by_cell(rows).items():
        made = trails[cell].attempts
        score = {(row.sample_id, row.position): row.ccs_binary for row in of_cell}
        known = labels.get(cell, {})
        truth = [known.get((a.sample_id, a.position, a.attempt), np.nan) for a in made]
        for warped in (True, False):
            points = grid(
                attempts(
                    [a.sample_id for a in made],
                    [a.position for a in made],
                    [a.attempt for a in made],
                    [_share(a, "r_in", warped, gate.with_verifier) for a in made],
                    [_share(a, "r_out", warped, gate.with_verifier) for a in made],
                    [a.status is Status.OK for a in made],
                    [_score(a, score) for a in made],
                ),
                tau_in,
                tau_out,
                labels=truth if known else None,
                max_attempts=gate.max_attempts,
                on_rejection=gate.on_rejection,
                confidence=confidence,
            )
            for point in points:
                agreed = point.label_agreement
                yield SensitivityRow(
                    cell=cell,
                    warped=warped,
                    tau_in=point.tau_in,
                    tau_out=point.tau_out,
                    used=(point.tau_in, point.tau_out) == gate.used,
                    acceptance=measured(point.acceptance),
                    agreement=None if agreed is None else measured(agreed),
                    ccs_binary=rounded(point.score),
                    n_scored=point.n_scored,
                    n_samples=point.n_samples,
                    n_to_requery=point.n_to_requery,
                    n_to_edit=point.n_to_edit,
                    n_planned=len({(a.sample_id, a.position) for a in made}),
                )


def _share(attempt: Attempt, name: str, warped: bool, mode: Mode) -> float:
    """A measured share; where the verifier's word decides, one that no threshold overrules."""
    if attempt.measurement is None:
        return np.nan
    if attempt.inspection is not None:
        accepted = bool(attempt.inspection.accepted)
        if (mode, accepted) in (("and", False), ("or", True)):
            return 2.0 if accepted == (name == "r_in") else -1.0
    value = getattr(attempt.measurement, name if warped else f"{name}_unwarped")
    return np.nan if value is None else float(value)


def _score(attempt: Attempt, scores: Mapping[tuple[str, int], float | None]) -> float:
    value = scores.get((attempt.sample_id, attempt.position))
    return np.nan if attempt.status is not Status.OK or value is None else value
