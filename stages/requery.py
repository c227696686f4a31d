"""Re-query: ask again about every accepted counterfactual (PROTOCOL section 4, step 5).

Reads the attempts. Writes `answers.jsonl`: a row is the target's answer and explanation to the
image after one accepted edit, in a new conversation that knows nothing of the edit.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stages.models.picture import Picture
from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.records.sample import Sample
from stages.workflow import cast, cells, sections, tally
from stages.workflow import params as parameters
from stages.workflow.folders import Folders
from stages.workflow.mapping import for_each
from stages.workflow.runner import main


def run(
    root: Path, params: Mapping[str, Any], *, target: str, extractor: str, editor: str, seed: str
) -> None:
    """Ask one target about every counterfactual made for it."""
    folders = Folders(root)
    cell = cells.cell(target=target, extractor=extractor, editor=editor, seed=seed)
    samples = {s.id: s for s in jsonl.read(folders.prepare / "samples.jsonl", Sample)}
    attempts = jsonl.read(folders.edit(cell) / "attempts.jsonl", Attempt)
    limits = parameters.section(params, "limits", sections.Limits)
    interviewer = cast.interviewer(root, params, target, cell.seed)

    async def ask(accepted: Attempt) -> Answer:
        picture = Picture.load(folders.edit(cell) / "images", str(accepted.edited))
        return await interviewer.ask(
            samples[accepted.sample_id], picture, position=accepted.position
        )

    where = f"requery {target}-{extractor}-{editor}-{seed}"
    accepted = [attempt for attempt in attempts if attempt.status is Status.OK]
    answers = asyncio.run(
        for_each(accepted, ask, at_once=2 * interviewer.target.concurrency, label=where)
    )
    outcome = tally.check(where, (a.status for a in answers), limits.max_failed_share)
    jsonl.write(folders.requery(cell) / "answers.jsonl", answers)
    print(f"{where}: {outcome}; {interviewer.calls.summary()}")


if __name__ == "__main__":
    main("requery", run, axes=("target", "extractor", "editor", "seed"))
