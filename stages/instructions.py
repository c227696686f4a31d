"""Instructions: how is each concept to be contradicted in the image? (PROTOCOL section 4, step 3)

Reads the concepts. Writes `instructions.jsonl`: a row is one sample's chain of edit instructions,
all made in one call, each also read back as verification will understand it (edit type and target
object, section 5, step 1).
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
from stages.records.instruction import Instruction, InstructionChain
from stages.records.sample import Sample
from stages.records.usage import CallNote
from stages.workflow import cast, cells, executor, prompts, sections, tally
from stages.workflow import params as parameters
from stages.workflow.executor import Crew
from stages.workflow.folders import Folders
from stages.workflow.runner import main


def writing(
    root: Path, params: Mapping[str, Any], *, target: str, extractor: str, seed: str
) -> Crew[ConceptList, InstructionChain]:
    """Who writes the edit instructions for one sample."""
    folders = Folders(root)
    cell = cells.cell(target=target, extractor=extractor, seed=seed)
    max_tokens = parameters.section(params, "generation", sections.Generation).max_tokens
    samples = {s.id: s for s in jsonl.read(folders.prepare / "samples.jsonl", Sample)}
    answers = jsonl.held(folders.baseline(cell) / "answers.jsonl", Answer)
    answered = {answer.sample_id: row for row, answer in enumerate(answers)}
    ask_all, parse, edit = (
        prompts.load(root, params, name) for name in ("instructions", "parse_edit", "edit")
    )
    clerk = cast.clerk(root, params, "extractor", extractor, cell.seed)

    async def instruct(found: ConceptList) -> InstructionChain:
        if found.status is not Status.OK:
            return _none(found, Status.NOT_REACHED, f"no concepts: {found.status}")
        answer, n = answers[answered[found.sample_id]], len(found.concepts)
        numbered = "\n".join(f"{i}. {c.text}" for i, c in enumerate(found.concepts, 1))
        text = ask_all.render(
            question=samples[found.sample_id].question,
            answer=answer.answer or "",
            explanation=answer.explanation or "",
            concepts=numbered,
            n=n,
        )
        notes: list[CallNote] = []
        try:
            written = await clerk.ask(
                text,
                partial(replies.read_instructions, n=n),
                schema=replies.INSTRUCTIONS_SCHEMA,
                max_tokens=max_tokens,
                sample=found.sample_id,
            )
            notes.append(written.note)
            read = []
            for parts in written.value.value:
                reading = await clerk.ask(
                    parse.render(instruction=edit.render(**parts._asdict())),
                    replies.read_edit,
                    schema=replies.EDIT_SCHEMA,
                    max_tokens=max_tokens,
                    sample=found.sample_id,
                )
                notes.append(reading.note)
                read.append(reading)
        except CallError as error:
            return _none(found, error.status, error.reason, tuple(notes))
        steps = tuple(
            Instruction(
                position=position,
                concept=concept,
                **parts._asdict(),
                edit_type=reading.value.value.edit_type,
                target_object=reading.value.value.target_object,
            )
            for position, (concept, parts, reading) in enumerate(
                zip(found.concepts, written.value.value, read, strict=True), 1
            )
        )
        return InstructionChain(
            sample_id=found.sample_id, status=Status.OK, steps=steps, calls=tuple(notes)
        )

    return Crew(instruct, 2 * clerk.model.concurrency, clerk.calls)


def run(root: Path, params: Mapping[str, Any], *, target: str, extractor: str, seed: str) -> None:
    """Write the edit instructions for every sample of one target."""
    folders = Folders(root)
    cell = cells.cell(target=target, extractor=extractor, seed=seed)
    limits = parameters.section(params, "limits", sections.Limits)
    lists = jsonl.held(folders.concepts(cell) / "concepts.jsonl", ConceptList)
    axes = {"target": target, "extractor": extractor, "seed": seed}
    where = f"instructions {target}-{extractor}-{seed}"
    done = executor.over(lists, writing, root, params, label=where, **axes)
    outcome = tally.check(where, (chain.status for chain in done.rows), limits.max_failed_share)
    jsonl.write(folders.instructions(cell) / "instructions.jsonl", done.rows)
    print(f"{where}: {outcome}; {done.summary}")


def _none(
    found: ConceptList, status: Status, reason: str, calls: tuple[CallNote, ...] = ()
) -> InstructionChain:
    return InstructionChain(sample_id=found.sample_id, status=status, reason=reason, calls=calls)


if __name__ == "__main__":
    main("instructions", run, axes=("target", "extractor", "seed"))
