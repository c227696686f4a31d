"""Judge: do the new answer and explanation fit the edited image? (PROTOCOL section 6)

Reads what was asked, edited and answered. Writes `judgements.jsonl`: a row is one judge's verdict
on one accepted edit, one replicate: AC, EF and their product, and the grade of a separate judgement
on the rubric. The judge reads text alone, unless it is to see the original and the edited image as
well. A reply that can't be read scores nothing; the row says why.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from stages.models import replies
from stages.models.dialogue import Clerk
from stages.models.picture import Picture
from stages.models.prompt import Prompt
from stages.models.protocol import CallError
from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.records.held import Held
from stages.records.judgement import Judgement
from stages.records.sample import Sample
from stages.workflow import cast, cells, executor, prompts, sections, tally
from stages.workflow import params as parameters
from stages.workflow.executor import Crew
from stages.workflow.folders import Folders
from stages.workflow.runner import main


@dataclass(frozen=True)
class Case:
    """All that a judge is told of one intervention."""

    question: str
    before: Answer
    edits: tuple[str, ...]
    """The instructions of all accepted edits up to this one, in order."""
    after: Answer

    @property
    def said(self) -> tuple[str, ...]:
        """The target's own words."""
        both = (self.before, self.after)
        return tuple(text for row in both for text in (row.answer, row.explanation) if text)


@dataclass(frozen=True)
class Bench:
    """The judge and the two questions that it is asked."""

    clerk: Clerk
    binary: Prompt
    graded: Prompt
    generation: sections.Generation

    async def judge(
        self, case: Case, replicate: int, pictures: tuple[Picture, ...] = ()
    ) -> Judgement:
        """Ask for the binary verdict and, apart from it, for the grade.

        `pictures` are the original and the edited image, in this order, for a judge that sees them.
        """
        row = Judgement(
            sample_id=case.after.sample_id,
            position=case.after.position,
            replicate=replicate,
            status=Status.NOT_REACHED,
            graded_status=Status.NOT_REACHED,
        )
        if case.after.status is not Status.OK:
            reason = f"no answer to the edited image: {case.after.status}"
            return row.model_copy(update={"reason": reason, "graded_reason": reason})
        row = await self._binary(row, case, pictures)
        return await self._graded(row, case, pictures)

    async def _binary(self, row: Judgement, case: Case, pictures: tuple[Picture, ...]) -> Judgement:
        try:
            found = await self.clerk.ask(
                self._render(self.binary, case),
                partial(replies.read_verdict, judged=case.said),
                schema=replies.VERDICT_SCHEMA,
                max_tokens=self.generation.max_tokens,
                replicate=row.replicate,
                pictures=pictures,
            )
        except CallError as error:
            return row.model_copy(update={"status": error.status, "reason": error.reason})
        verdict = found.value.value
        return row.model_copy(
            update={
                "status": Status.OK,
                "answer_consistent": verdict.answer_consistent,
                "explanation_faithful": verdict.explanation_faithful,
                "ccs_binary": verdict.answer_consistent * verdict.explanation_faithful,
                "verdict_reason": verdict.reason,
                "calls": (*row.calls, found.note),
            }
        )

    async def _graded(self, row: Judgement, case: Case, pictures: tuple[Picture, ...]) -> Judgement:
        try:
            found = await self.clerk.ask(
                self._render(self.graded, case),
                partial(replies.read_grade, judged=case.said),
                schema=replies.GRADE_SCHEMA,
                max_tokens=self.generation.graded_max_tokens,
                replicate=row.replicate,
                pictures=pictures,
            )
        except CallError as error:
            return row.model_copy(
                update={"graded_status": error.status, "graded_reason": error.reason}
            )
        grade = found.value.value
        return row.model_copy(
            update={
                "graded_status": Status.OK,
                "grade": grade.grade,
                "ccs_graded": (grade.grade - 1) / 4,
                "grade_reason": grade.reason,
                "calls": (*row.calls, found.note),
            }
        )

    def _render(self, prompt: Prompt, case: Case) -> str:
        return prompt.render(
            question=case.question,
            original_answer=case.before.answer or "",
            original_explanation=case.before.explanation or "",
            edits="\n".join(f"{i}. {edit}" for i, edit in enumerate(case.edits, 1)),
            new_answer=case.after.answer or "",
            new_explanation=case.after.explanation or "",
        )


def cases(
    samples: Iterable[Sample],
    before: Iterable[Answer],
    attempts: Iterable[Attempt],
    after: Iterable[Answer],
) -> Iterator[Case]:
    """Join what belongs to each answer about an edited image."""
    questions = {sample.id: sample.question for sample in samples}
    originals = {answer.sample_id: answer for answer in before}
    edits = {(a.sample_id, a.position): a.instruction for a in attempts if a.status is Status.OK}
    for answer in after:
        yield Case(
            questions[answer.sample_id],
            originals[answer.sample_id],
            tuple(
                edits[answer.sample_id, position]
                for position in range(1, answer.position + 1)
                if (answer.sample_id, position) in edits
            ),
            answer,
        )


def heard(path: Path) -> Iterator[Answer]:
    """Answers as a judge reads them: without the notes of their calls, which are most of them."""
    for answer in jsonl.each(path, Answer):
        yield answer.model_copy(update={"calls": ()})


def judging(
    root: Path,
    params: Mapping[str, Any],
    *,
    target: str,
    extractor: str,
    editor: str,
    judge: str,
    seed: str,
) -> Crew[tuple[Case, int], Judgement]:
    """Who judges one case, in one replicate."""
    folders = Folders(root)
    cell = cells.cell(target=target, extractor=extractor, editor=editor, judge=judge, seed=seed)
    seeing = parameters.section(params, "judge", sections.JudgeSettings).sees_images
    clerk = cast.clerk(root, params, "judge", judge, cell.seed)
    bench = Bench(
        clerk,
        prompts.load(root, params, "judge_binary_images" if seeing else "judge_binary"),
        prompts.load(root, params, "judge_graded_images" if seeing else "judge_graded"),
        parameters.section(params, "generation", sections.Generation),
    )

    def pictures(case: Case) -> tuple[Picture, ...]:
        before = Picture.load(folders.prepare / "images", case.before.image)
        return before, Picture.load(folders.edit(cell) / "images", case.after.image)

    async def rule(entry: tuple[Case, int]) -> Judgement:
        case, replicate = entry
        return await bench.judge(case, replicate, pictures(case) if seeing else ())

    return Crew(rule, 2 * clerk.model.concurrency, clerk.calls)


def run(
    root: Path,
    params: Mapping[str, Any],
    *,
    target: str,
    extractor: str,
    editor: str,
    judge: str,
    seed: str,
) -> None:
    """Judge every answer of one target to an edited image."""
    folders = Folders(root)
    axes = {"target": target, "extractor": extractor, "editor": editor, "judge": judge}
    cell = cells.cell(**axes, seed=seed)
    limits = parameters.section(params, "limits", sections.Limits)
    settings = parameters.section(params, "judge", sections.JudgeSettings)
    docket = Held.of(
        (case, replicate)
        for case in cases(
            jsonl.each(folders.prepare / "samples.jsonl", Sample),
            heard(folders.baseline(cell) / "answers.jsonl"),
            jsonl.each(folders.edit(cell) / "attempts.jsonl", Attempt),
            heard(folders.requery(cell) / "answers.jsonl"),
        )
        for replicate in range(settings.replicates)
    )
    where = f"judge {target}-{extractor}-{editor}-{judge}-{seed}"
    done = executor.over(docket, judging, root, params, label=where, **axes, seed=seed)
    outcome = tally.check(where, (row.status for row in done.rows), limits.max_failed_share)
    graded = tally.check(
        f"{where} (graded)", (row.graded_status for row in done.rows), limits.max_failed_share
    )
    jsonl.write(folders.judge(cell) / "judgements.jsonl", done.rows)
    print(f"{where}: {outcome}; graded {graded}; {done.summary}")


if __name__ == "__main__":
    main("judge", run, axes=("target", "extractor", "editor", "judge", "seed"))
