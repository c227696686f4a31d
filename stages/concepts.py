"""Concepts: which visual features does the explanation cite? (PROTOCOL section 4, step 2)

Reads the baseline's answers. Writes `concepts.jsonl`: a row holds at most k concepts of one
explanation, most important first, or the reason why there is none.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from stages.models import replies
from stages.models.protocol import CallError
from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.base import Status
from stages.records.concept import ConceptList
from stages.records.sample import Sample
from stages.workflow import cast, cells, executor, prompts, sections, tally
from stages.workflow import params as parameters
from stages.workflow.executor import Crew
from stages.workflow.folders import Folders
from stages.workflow.runner import main


def reading(
    root: Path, params: Mapping[str, Any], *, target: str, extractor: str, seed: str
) -> Crew[Answer, ConceptList]:
    """Who reads the concepts of one explanation."""
    folders = Folders(root)
    cell = cells.cell(target=target, extractor=extractor, seed=seed)
    k = parameters.section(params, "chain", sections.Chain).k
    max_tokens = parameters.section(params, "generation", sections.Generation).max_tokens
    samples = {s.id: s for s in jsonl.read(folders.prepare / "samples.jsonl", Sample)}
    prompt = prompts.load(root, params, "concepts")
    clerk = cast.clerk(root, params, "extractor", extractor, cell.seed)

    async def extract(answer: Answer) -> ConceptList:
        if answer.status is not Status.OK:
            return _none(answer, Status.NOT_REACHED, f"no baseline: {answer.status}")
        text = prompt.render(
            question=samples[answer.sample_id].question,
            answer=answer.answer or "",
            explanation=answer.explanation or "",
            k=k,
        )
        try:
            found = await clerk.ask(
                text,
                partial(replies.read_concepts, k=k),
                schema=replies.CONCEPTS_SCHEMA,
                max_tokens=max_tokens,
                sample=answer.sample_id,
            )
        except CallError as error:
            return _none(answer, error.status, error.reason)
        if not found.value.value:
            reason = "the explanation cites no visual feature"
            return _none(answer, Status.NO_CONCEPTS, reason)
        return ConceptList(
            sample_id=answer.sample_id,
            status=Status.OK,
            concepts=found.value.value,
            calls=(found.note,),
        )

    return Crew(extract, 2 * clerk.model.concurrency, clerk.calls)


def run(root: Path, params: Mapping[str, Any], *, target: str, extractor: str, seed: str) -> None:
    """Read the concepts of every explanation of one target."""
    folders = Folders(root)
    cell = cells.cell(target=target, extractor=extractor, seed=seed)
    limits = parameters.section(params, "limits", sections.Limits)
    answers = jsonl.held(folders.baseline(cell) / "answers.jsonl", Answer)
    axes = {"target": target, "extractor": extractor, "seed": seed}
    where = f"concepts {target}-{extractor}-{seed}"
    done = executor.over(answers, reading, root, params, label=where, **axes)
    outcome = tally.check(where, (row.status for row in done.rows), limits.max_failed_share)
    jsonl.write(folders.concepts(cell) / "concepts.jsonl", done.rows)
    print(f"{where}: {outcome}; {done.summary}")


def _none(answer: Answer, status: Status, reason: str) -> ConceptList:
    return ConceptList(sample_id=answer.sample_id, status=status, reason=reason)


if __name__ == "__main__":
    main("concepts", run, axes=("target", "extractor", "seed"))
