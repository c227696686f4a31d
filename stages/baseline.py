"""Baseline: ask the target about every original image (PROTOCOL section 4, step 1).

Reads the samples. Writes `answers.jsonl`: a row is one sample's answer and explanation, or the
reason why there is none. Nothing of extraction, editing or judging is known here, so that none of
these runs it again.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stages.models.picture import Picture
from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.sample import Sample
from stages.workflow import cast, cells, executor, sections, tally
from stages.workflow import params as parameters
from stages.workflow.executor import Crew
from stages.workflow.folders import Folders
from stages.workflow.runner import main


def asking(
    root: Path, params: Mapping[str, Any], *, target: str, seed: str
) -> Crew[Sample, Answer]:
    """Who asks about one sample."""
    folders = Folders(root)
    cell = cells.cell(target=target, seed=seed)
    interviewer = cast.interviewer(root, params, target, cell.seed)

    async def ask(sample: Sample) -> Answer:
        picture = Picture.load(folders.prepare / "images", sample.image)
        return await interviewer.ask(sample, picture, position=0)

    return Crew(ask, 2 * interviewer.target.concurrency, interviewer.calls)


def run(root: Path, params: Mapping[str, Any], *, target: str, seed: str) -> None:
    """Ask one target, with one seed, about every original image."""
    folders = Folders(root)
    cell = cells.cell(target=target, seed=seed)
    samples = jsonl.read(folders.prepare / "samples.jsonl", Sample)
    limits = parameters.section(params, "limits", sections.Limits)
    where = f"baseline {target}-{seed}"
    done = executor.over(samples, asking, root, params, label=where, target=target, seed=seed)
    outcome = tally.check(where, (a.status for a in done.rows), limits.max_failed_share)
    jsonl.write(folders.baseline(cell) / "answers.jsonl", done.rows)
    print(f"{where}: {outcome}; {done.summary}")


if __name__ == "__main__":
    main("baseline", run, axes=("target", "seed"))
