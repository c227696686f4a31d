"""Baseline: ask the target about every original image (PROTOCOL section 4, step 1).

Reads the samples. Writes `answers.jsonl`: a row is one sample's answer and explanation, or the
reason why there is none. Nothing of extraction, editing or judging is known here, so that none of
these runs it again.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stages.models.picture import Picture
from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.sample import Sample
from stages.workflow import cast, cells, sections, tally
from stages.workflow import params as parameters
from stages.workflow.folders import Folders
from stages.workflow.mapping import for_each
from stages.workflow.runner import main


def run(root: Path, params: Mapping[str, Any], *, target: str, seed: str) -> None:
    """Ask one target, with one seed, about every original image."""
    folders = Folders(root)
    cell = cells.cell(target=target, seed=seed)
    samples = jsonl.read(folders.prepare / "samples.jsonl", Sample)
    limits = parameters.section(params, "limits", sections.Limits)
    interviewer = cast.interviewer(root, params, target, cell.seed)

    async def ask(sample: Sample) -> Answer:
        picture = Picture.load(folders.prepare / "images", sample.image)
        return await interviewer.ask(sample, picture, position=0)

    where = f"baseline {target}-{seed}"
    answers = asyncio.run(
        for_each(samples, ask, at_once=2 * interviewer.target.concurrency, label=where)
    )
    outcome = tally.check(where, (a.status for a in answers), limits.max_failed_share)
    jsonl.write(folders.baseline(cell) / "answers.jsonl", answers)
    print(f"{where}: {outcome}; {interviewer.calls.summary()}")


if __name__ == "__main__":
    main("baseline", run, axes=("target", "seed"))
