"""Edit: make each counterfactual, and verify it, step by step (PROTOCOL sections 4 and 5).

Reads the samples and their instruction chains. Writes `attempts.jsonl` and `images/`: a row is one
attempt at one step, the rejected ones too, with what was measured; edited images, masks and change
maps are PNG files named by their SHA-256. Generation and verification are one stage because a
verdict decides what the next edit starts from: propose, ground, measure, accept or try once more.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stages.models.acceptance import Acceptance
from stages.models.picture import Picture
from stages.models.places import MEASUREMENTS
from stages.models.prompt import Prompt
from stages.models.protocol import CallError, Editor
from stages.models.verification import Grounding
from stages.records import jsonl
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.records.instruction import Instruction, InstructionChain
from stages.records.sample import Sample
from stages.workflow import adapters, cast, cells, executor, prompts, sections, tally
from stages.workflow import params as parameters
from stages.workflow.executor import Crew
from stages.workflow.folders import Folders
from stages.workflow.runner import main


@dataclass(frozen=True)
class Studio:
    """What makes and checks edits: the editor, who accepts, and the rules of the chain."""

    editor: Editor
    acceptance: Acceptance
    prompt: Prompt
    chain: sections.Chain
    seed: int
    images: Path
    """Folder that all pictures are saved to."""

    async def run_chain(self, chain: InstructionChain, original: Picture) -> list[Attempt]:
        """Take one sample's steps in order, each from the last accepted image."""
        rows: list[Attempt] = []
        current, broken = original, False
        for step in chain.steps:
            blank = self._blank(chain.sample_id, step)
            if broken:
                rows.append(blank)
                continue
            accepted: Picture | None = None
            for number in range(1, self.chain.max_attempts + 1):
                row, edited = await self.attempt(blank, step, current, number)
                rows.append(row)
                if row.status is Status.OK:
                    accepted = edited
                if row.status is Status.OK or (row.edited is None and _is_final(row.status)):
                    break
            current = accepted or current
            broken = accepted is None and self.chain.on_rejection == "stop"
        return rows

    async def attempt(
        self, blank: Attempt, step: Instruction, source: Picture, number: int
    ) -> tuple[Attempt, Picture | None]:
        """Make one edit and verify it; what went wrong is on the row."""
        row = blank.model_copy(update={"attempt": number, "source": source.sha256})
        calls, gate = self.acceptance.calls, self.acceptance.gate
        try:
            # Where the object is to be seen before the edit, an object that can't be found
            # spares the price of the edit.
            grounding = None
            if step.edit_type != "add":
                grounding = await gate.ground(source, step.target_object)
                row = self._grounded(row, grounding)
            returned = await calls.edit(
                self.editor, source, row.instruction, seed=self.seed, attempt=number
            )
            width, height = returned.value.size
            row = row.model_copy(
                update={
                    "returned_width": width,
                    "returned_height": height,
                    "calls": (*row.calls, returned.note),
                }
            )
            edited = await asyncio.to_thread(gate.fit, returned.value, source)
            if edited is None:
                reason = f"{width}×{height} has another aspect ratio than the source"
                return _ended(row, Status.SIZE_MISMATCH, reason), None
            row = row.model_copy(update={"edited": edited.save(self.images)})
            if grounding is None:
                grounding = await gate.ground(edited, step.target_object)
                row = self._grounded(row, grounding)
            row = await self.acceptance.settle(row, source, edited, grounding, self.images)
        except CallError as error:
            row = row.model_copy(update={"calls": (*row.calls, *error.notes)})
            return _ended(row, error.status, error.reason), None
        return row, edited

    def _grounded(self, row: Attempt, grounding: Grounding) -> Attempt:
        return row.model_copy(
            update={
                "boxes": grounding.boxes,
                "mask": grounding.mask.save(self.images),
                "calls": (*row.calls, *grounding.calls),
            }
        )

    def _blank(self, sample_id: str, step: Instruction) -> Attempt:
        return Attempt(
            sample_id=sample_id,
            position=step.position,
            attempt=0,
            status=Status.NOT_REACHED,
            reason="an earlier step of the chain failed",
            instruction=self.prompt.render(
                keep=step.keep, change=step.change, appearance=step.appearance, avoid=step.avoid
            ),
            edit_type=step.edit_type,
            target_object=step.target_object,
        )


def _ended(row: Attempt, status: Status, reason: str | None) -> Attempt:
    return row.model_copy(update={"status": status, "reason": reason})


def _is_final(status: Status) -> bool:
    """Whether another attempt would ask the same of the same picture."""
    return status is Status.TARGET_NOT_FOUND


def editing(
    root: Path, params: Mapping[str, Any], *, target: str, extractor: str, editor: str, seed: str
) -> Crew[InstructionChain, list[Attempt]]:
    """Who makes and verifies the counterfactuals of one sample."""
    folders = Folders(root)
    cell = cells.cell(target=target, extractor=extractor, editor=editor, seed=seed)
    samples = {s.id: s for s in jsonl.read(folders.prepare / "samples.jsonl", Sample)}
    acceptance = cast.acceptance(root, params, cell.seed)
    studio = Studio(
        adapters.build(params, f"editors.{editor}", Editor),
        acceptance,
        prompts.load(root, params, "edit"),
        parameters.section(params, "chain", sections.Chain),
        cell.seed,
        folders.edit(cell) / "images",
    )
    studio.images.mkdir(parents=True, exist_ok=True)

    async def make(chain: InstructionChain) -> list[Attempt]:
        image = samples[chain.sample_id].image
        return await studio.run_chain(chain, Picture.load(folders.prepare / "images", image))

    # While some are edited, others wait to be, and as many are measured as there are cores.
    return Crew(make, 2 * studio.editor.concurrency + MEASUREMENTS, acceptance.calls)


def run(
    root: Path, params: Mapping[str, Any], *, target: str, extractor: str, editor: str, seed: str
) -> None:
    """Make and verify every counterfactual of one target."""
    folders = Folders(root)
    cell = cells.cell(target=target, extractor=extractor, editor=editor, seed=seed)
    limits = parameters.section(params, "limits", sections.Limits)
    chains = jsonl.held(folders.instructions(cell) / "instructions.jsonl", InstructionChain)
    axes = {"target": target, "extractor": extractor, "editor": editor, "seed": seed}
    where = f"edit {target}-{extractor}-{editor}-{seed}"
    done = executor.over(chains, editing, root, params, label=where, **axes)

    def attempts() -> Iterator[Attempt]:
        return (row for rows in done.rows for row in rows)

    outcome = tally.check(where, (row.status for row in attempts()), limits.max_failed_share)
    looks = [row.inspection.status for row in attempts() if row.inspection]
    looked = tally.check(f"{where} (verifier)", looks, limits.max_failed_share)
    jsonl.write(folders.edit(cell) / "attempts.jsonl", attempts())
    outcome += f"; verifier {looked}" if looks else ""
    print(f"{where}: {outcome}; {done.summary}")


if __name__ == "__main__":
    main("edit", run, axes=("target", "extractor", "editor", "seed"))
