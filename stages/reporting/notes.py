"""Sentences under the tables: how the intervals were made, and what may not stand beside them."""

from collections import Counter
from collections.abc import Iterable, Mapping

from stages.records.finding import Measured
from stages.records.score import Estimate
from stages.reporting.study import Study

METHODS = {
    "expanded percentile bootstrap over samples": "percentile bootstrap over samples, at levels "
    "widened for their number",
    "wilson over samples (all alike)": "Wilson interval over samples (all alike)",
    "clustered wilson": "Wilson interval over samples (one outcome rare)",
    "clustered t": "Student's t over samples",
    "wilson": "Wilson interval",
}
"""Methods of the records in words; others read as they are written."""


def how_made(shown: Iterable[Estimate | Measured | None]) -> str:
    """How the intervals of a table were made, in one sentence; empty where it shows none.

    Counts each method, the most frequent first: ``Intervals: 14 by percentile bootstrap over
    samples; 10 by Wilson interval over samples (all alike).``
    """
    counts = Counter(
        METHODS.get(m.method, m.method)
        for m in shown
        if m is not None and m.low is not None and m.high is not None
    )
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if len(ranked) == 1:
        return f"Every interval here: {ranked[0][0]}."
    told = "; ".join(f"{n} by {method}" for method, n in ranked)
    return f"Intervals here: {told}." if told else ""


def fixed_edits(study: Study) -> str:
    """Why no published number stands beside some rows; empty where all may."""
    if not study.fixed:
        return ""
    return (
        f"The edits of {', '.join(sorted(study.fixed))} were made for another model's explanation: "
        "what is scored on them is not EDCT on the target's own, and no published value stands "
        "beside it."
    )


def judge_saw(study: Study) -> str:
    """Whether the judge saw the images, where that is not as published; else empty."""
    asked = study.params.get("judge")
    if not (isinstance(asked, Mapping) and asked.get("sees_images") is True):
        return ""
    return (
        "The judge was shown the original and the edited image; the published one reads text alone."
    )


def panel(study: Study) -> str:
    """What a row of several judges together is; empty where there is none."""
    said = {
        "panel_vote": "panel_vote is what most judges say of each score; where they are divided "
        "there is none.",
        "panel_mean": "panel_mean is the mean over the judges that gave a score.",
    }
    names = dict.fromkeys(row.cell.judge for row in study.panel)
    return " ".join(said[name] for name in names if name in said)


def joined(*sentences: str) -> str:
    """Those sentences that say something, as one note."""
    return " ".join(sentence for sentence in sentences if sentence)
