"""Re-query: ask again about every accepted counterfactual (PROTOCOL section 4, step 5).

Reads the attempts. Writes `answers.jsonl`: a row is the target's answer and explanation to the
image after one accepted edit, in a new conversation that knows nothing of the edit.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stages.models.picture import Picture
from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.records.held import Held
from stages.records.sample import Sample
from stages.workflow import cast, cells, executor, sections, tally
from stages.workflow import params as parameters
from stages.workflow.executor import Crew
from stages.workflow.folders import Folders
from stages.workflow.runner import main


def asking(
    root: Path, params: Mapping[str, Any], *, target: str, extractor: str, editor: str, seed: str
) -> Crew[Attempt, Answer]:
    """Who asks about one accepted edit."""
    folders = Folders(root)
    cell = cells.cell(target=target, extractor=extractor, editor=editor, seed=seed)
    samples = {s.id: s for s in jsonl.read(folders.prepare / "samples.jsonl", Sample)}
    interviewer = cast.interviewer(root, params, target, cell.seed)

    async def ask(accepted: Attempt) -> Answer:
        picture = Picture.load(folders.edit(cell) / "images", str(accepted.edited))
        return await interviewer.ask(
            samples[accepted.sample_id], picture, position=accepted.position
        )

    return Crew(ask, 2 * interviewer.target.concurrency, interviewer.calls)


def run(
    root: Path, params: Mapping[str, Any], *, target: str, extractor: str, editor: str, seed: str
) -> None:
    """Ask one target about every counterfactual made for it."""
    folders = Folders(root)
    cell = cells.cell(target=target, extractor=extractor, editor=editor, seed=seed)
    attempts = jsonl.each(folders.edit(cell) / "attempts.jsonl", Attempt)
    accepted = Held.of(attempt for attempt in attempts if attempt.status is Status.OK)
    limits = parameters.section(params, "limits", sections.Limits)
    axes = {"target": target, "extractor": extractor, "editor": editor, "seed": seed}
    where = f"requery {target}-{extractor}-{editor}-{seed}"
    done = executor.over(accepted, asking, root, params, label=where, **axes)
    outcome = tally.check(where, (a.status for a in done.rows), limits.max_failed_share)
    jsonl.write(folders.requery(cell) / "answers.jsonl", done.rows)
    print(f"{where}: {outcome}; {done.summary}")


if __name__ == "__main__":
    main("requery", run, axes=("target", "extractor", "editor", "seed"))
