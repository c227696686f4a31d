"""Several judges as one: a row for each edit that says what they say together.

``vote``: what most judges say of each score, apart from the others; a judge that was asked several
times has one voice, what most of its replies say. A tie is no verdict: the score is missing, for
that reason. ``mean``: the mean over the judges that gave a score, so that two that disagree make
0.5. A verdict that a judge did not give is missing and never 0.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from stages.analysis.measures import METRICS
from stages.records.base import Status
from stages.records.score import PANELS, Cell, Intervention
from stages.stats.interval import FloatArray
from stages.stats.judges import majority, mean_score

How = Literal["none", "vote", "mean"]


def together(rows: Sequence[Intervention], how: How) -> Iterator[Intervention]:
    """What the judges of the same edits say together; nothing where there is one voice to hear."""
    if how == "none":
        return
    panels: dict[Cell, dict[str, dict[tuple[str, int], Intervention]]] = {}
    for row in rows:
        cell = row.cell.model_copy(update={"judge": PANELS[how]})
        of_judge = panels.setdefault(cell, {}).setdefault(row.cell.judge, {})
        of_judge[row.sample_id, row.position] = row
    for cell, by_judge in panels.items():
        asked_again = any(r.replicates > 1 for found in by_judge.values() for r in found.values())
        if len(by_judge) < 2 and not (how == "vote" and asked_again):
            continue
        for unit in dict.fromkeys(unit for found in by_judge.values() for unit in found):
            said = [found[unit] for found in by_judge.values() if unit in found]
            yield _one(said, how).model_copy(update={"cell": cell})


def voices(table: FloatArray, metric: str) -> FloatArray:
    """One voice a judge, from the means over its replies; NaN where these are halved.

    A grade has no such majority in its mean: it stands as it is.
    """
    if metric == "ccs_graded":
        return table
    return np.where(table == 0.5, np.nan, np.round(table))


def _one(said: Sequence[Intervention], how: How) -> Intervention:
    judged = [row for row in said if row.stage == "judge"]
    if not judged:  # lost before anybody judged it
        return said[0]
    scores = {metric: _score(judged, metric, how) for metric in METRICS}
    update: dict[str, Any] = {
        **scores,
        "replicates": sum(row.replicates for row in judged),
        "verdicts_lost": sum(row.verdicts_lost for row in judged),
        "grades_lost": sum(row.grades_lost for row in judged),
        "status": Status.OK,
        "reason": None,
        "graded_status": Status.OK,
        "graded_reason": None,
    }
    if scores["ccs_binary"] is None:
        update["status"], update["reason"] = _why(judged, "ccs_binary", "status", "reason")
    if scores["ccs_graded"] is None:
        update["graded_status"], update["graded_reason"] = _why(
            judged, "ccs_graded", "graded_status", "graded_reason"
        )
    return judged[0].model_copy(update=update)


def _score(judged: Sequence[Intervention], metric: str, how: How) -> float | None:
    table = np.array([[getattr(row, metric) for row in judged]], dtype=np.float64)
    value, exists = majority(voices(table, metric)) if how == "vote" else mean_score(table)
    return float(value[0]) if exists[0] else None


def _why(
    judged: Sequence[Intervention], metric: str, status: str, reason: str
) -> tuple[Status | None, str | None]:
    """Why there is no score together: a tie, or what became of the first judge's."""
    known = [getattr(row, metric) for row in judged if getattr(row, metric) is not None]
    if known:
        return Status.TIED, f"the judges are divided: {', '.join(f'{v:g}' for v in known)}"
    return getattr(judged[0], status), getattr(judged[0], reason)
