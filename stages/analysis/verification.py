"""Gate and verifier: do they say the same of an edit, and what a label says?

Neither is the truth. A verifier that gave no usable reply says nothing; taken together with the
gate it is missing only where its word would have decided.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from stages.analysis.agreement import Ratings, agree
from stages.analysis.fates import Trail
from stages.analysis.measures import Resampling
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.records.finding import AgreementRow, Part
from stages.records.score import Cell
from stages.stats.agreement import wilson

RATERS = ("gate", "verifier", "gate_and_verifier", "gate_or_verifier")


def says(rater: str, attempt: Attempt) -> bool | None:
    """Whether one of `RATERS` accepts an attempt; None where nobody can say."""
    gate = attempt.gate is Status.OK
    looked = attempt.inspection.accepted if attempt.inspection else None
    if rater == "gate":
        return gate
    if rater == "verifier":
        return looked
    decided = rater == "gate_or_verifier"
    return decided if gate is decided else looked


def against_labels(
    attempts: Sequence[Attempt], valid: Sequence[str | None]
) -> dict[str, dict[str, float | int | None]]:
    """How often each rater says what the label says.

    Parameters
    ----------
    attempts : sequence of Attempt
        Verified pairs.
    valid : sequence of str or None
        Their labels; all but ``yes`` and ``no`` are left out.

    Returns
    -------
    dict
        By rater: ``agree`` of ``n``, the 95 % Wilson interval ``low`` to ``high`` (None without
        n), and ``missing``: clear labels on which the rater says nothing.
    """
    clear = [(a, v == "yes") for a, v in zip(attempts, valid, strict=True) if v in ("yes", "no")]
    found: dict[str, dict[str, float | int | None]] = {}
    for rater in RATERS if any(a.inspection for a in attempts) else RATERS[:1]:
        said = [(says(rater, attempt), label) for attempt, label in clear]
        known = [(word, label) for word, label in said if word is not None]
        agreed = sum(word == label for word, label in known)
        interval = wilson(agreed, len(known))
        found[rater] = {
            "agree": agreed,
            "n": len(known),
            "missing": len(said) - len(known),
            "low": None if interval.low is None else round(interval.low, 6),
            "high": None if interval.high is None else round(interval.high, 6),
        }
    return found


def gate_and_verifier(
    trails: Mapping[Cell, Trail], resampling: Resampling
) -> Iterator[AgreementRow]:
    """Agreement on the attempts that the verifier was asked about; nothing without a verifier."""
    parts: dict[Part, dict[int, Sequence[Attempt]]] = {}
    for cell, trail in trails.items():
        part = Part(target=cell.target, extractor=cell.extractor, editor=cell.editor)
        parts.setdefault(part, {})[cell.seed] = trail.attempts  # judges share their attempts
    for part, runs in parts.items():
        seen = [attempt for run in runs.values() for attempt in run if attempt.inspection]
        if seen:
            words = [[says(rater, attempt) for rater in RATERS[:2]] for attempt in seen]
            table = np.array(
                [[np.nan if word is None else float(word) for word in row] for row in words]
            )
            samples = [attempt.sample_id for attempt in seen]
            ratings = Ratings("edit_validity", part, RATERS[:2], table, samples)
            yield agree(ratings, "gate and verifier", resampling)
