"""Sentences under the tables: how the intervals were made, and what may not stand beside them."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

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
_UNDEFINED = re.compile(r"(.*), (\d+) of (\d+) resamples undefined")


def how_made(shown: Iterable[Estimate | Measured | None]) -> str:
    """How the intervals of a table were made, and why numbers have none; empty where it has none.

    Counts each method, the most frequent first: ``Intervals here: 14 by percentile bootstrap over
    samples; 10 by Wilson interval over samples (all alike). Numbers without interval: 2, a single
    sample.``
    """
    known = [m for m in shown if m is not None and m.mean is not None]
    made = _grouped(m.method for m in known if m.low is not None and m.high is not None)
    told = "; ".join(f"{n} by {method}" for method, n in made)
    if len(made) == 1:
        sentence = f"Every interval here: {made[0][0]}."
    else:
        sentence = f"Intervals here: {told}." if told else ""
    bare = _grouped(m.method for m in known if m.low is None or m.high is None)
    why = "; ".join(f"{n}, {reason.removeprefix('not estimable: ')}" for reason, n in bare)
    return joined(sentence, f"Numbers without interval: {why}." if why else "")


def _grouped(methods: Iterable[str]) -> list[tuple[str, int]]:
    """Methods in words with their counts, the most frequent first.

    Those that differ only in how many resamples were undefined are one, with the range.
    """
    counts: Counter[str] = Counter()
    undefined: dict[str, list[int]] = defaultdict(list)
    for method in methods:
        found = _UNDEFINED.fullmatch(method)
        name = METHODS.get(method, method)
        if found:
            made, n, of = found.groups()
            name = f"{METHODS.get(made, made)}, {{}} of {of} resamples undefined"
            undefined[name].append(int(n))
        counts[name] += 1

    def said() -> Iterator[tuple[str, int]]:
        for name, count in counts.items():
            few, many = min(undefined[name], default=0), max(undefined[name], default=0)
            yield name.format(few if few == many else f"{few} to {many}"), count

    return sorted(said(), key=lambda item: (-item[1], item[0]))


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
