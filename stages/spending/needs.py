"""How many calls a study needs: counted where requests can be built, else the most there can be.

The questions of the baseline are known once the samples are; all that follows depends on replies.
For it the calls a sample that were made before count, in whatever cell of the study; where none
were, the parameters' upper bound: every concept, every attempt, every edit accepted.
"""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from stages.benchmarks.pairs import PairFolder
from stages.benchmarks.protocol import Benchmark
from stages.models.calls import Calls
from stages.models.dialogue import Interviewer
from stages.models.picture import Picture
from stages.models.protocol import Chat
from stages.models.store import Store
from stages.records import jsonl
from stages.records.errors import UserError
from stages.records.sample import Sample
from stages.records.score import Cell
from stages.spending.made import Made, Post
from stages.workflow import adapters, cells, prompts, sections
from stages.workflow import params as parameters
from stages.workflow.folders import Folders

AXES = {
    "baseline": ("target",),
    "concepts": ("target", "extractor"),
    "instructions": ("target", "extractor"),
    "edit": ("target", "extractor", "editor"),
    "requery": ("target", "extractor", "editor"),
    "judge": ("target", "extractor", "editor", "judge"),
}
"""The axes of the matrix that a stage runs over, the seed apart."""


class Need(NamedTuple):
    """Calls that one model needs in one stage."""

    post: Post
    calls: int
    basis: str
    """``counted``, ``as before`` (calls a sample of records there are) or ``at most``."""


def samples_of(root: Path, params: Mapping[str, Any]) -> list[Sample] | int:
    """The study's samples where they are prepared, else how many its benchmarks are to give."""
    path = Folders(root).prepare / "samples.jsonl"
    if path.exists() and _prepared_for(root, params):
        return jsonl.read(path, Sample)
    total = 0
    for name, config in (params.get("benchmarks") or {}).items():
        count = config.get("count", config.get("samples"))
        if not isinstance(count, int):  # what its files give
            count = len(adapters.build(params, f"benchmarks.{name}", Benchmark).select().items)
        total += count
    return total


def needs(
    root: Path, params: Mapping[str, Any], made: Mapping[Post, Made], n_samples: int
) -> Iterator[Need]:
    """The calls of every stage, role and model of a study, replies that are stored included."""
    study = cells.study_cells(params)
    for stage in AXES if study else ():
        for role, most in _most(stage, params).items():
            for name, n_cells in _cells_of(stage, role, study).items():
                post = Post(stage, role, name)
                before = _a_sample(made, post)
                each, basis = (most, "at most") if before is None else (before, "as before")
                if stage in ("baseline", "concepts"):
                    each, basis = most, "counted"
                yield Need(post, round(each * n_samples * n_cells), basis)
    for pair in params["pair_names"]:
        n = len(adapters.build(params, f"pairs.{pair}", PairFolder).load())
        for role, name in (("detector", ""), ("segmenter", ""), ("verifier", "")):
            if params.get(role) is not None:
                yield Need(Post("pairs", role, name), n, "at most")
        yield Need(Post("pairs", "extractor", params["extractor_names"][0]), n, "at most")


def missing_questions(root: Path, params: Mapping[str, Any], name: str, target: Chat) -> int:
    """Calls of the baseline that the store does not answer, counted request by request."""
    folders = Folders(root)
    samples = jsonl.read(folders.prepare / "samples.jsonl", Sample)
    max_tokens = parameters.section(params, "generation", sections.Generation).max_tokens
    question = prompts.load(root, params, "target_question")
    why = prompts.load(root, params, "target_why")
    missing = 0

    async def count(seed: int) -> int:
        calls = Calls(Store(Store.open(root).root, replay=True))
        interviewer = Interviewer(calls, target, question, why, max_tokens, seed)
        for sample in samples:
            picture = Picture.load(folders.prepare / "images", sample.image)
            try:
                await interviewer.ask(sample, picture, position=0)
            except UserError:  # the first of its two turns that is not stored
                continue
        return 2 * len(samples) - calls.answered["target"]

    for seed in params["seeds"]:
        missing += asyncio.run(count(seed))
    return missing


def _most(stage: str, params: Mapping[str, Any]) -> dict[str, float]:
    """The most calls a sample that a stage can make, by role."""
    chain = parameters.section(params, "chain", sections.Chain)
    replicates = parameters.section(params, "judge", sections.JudgeSettings).replicates
    attempts = chain.k * chain.max_attempts
    looks = ["editor", "detector", "segmenter"]
    looks += ["verifier"] if params.get("verifier") is not None else []
    most: Mapping[str, dict[str, float]] = {
        "baseline": {"target": 2},
        "concepts": {"extractor": 1},
        "instructions": {"extractor": 1 + chain.k},
        "edit": dict.fromkeys(looks, attempts),
        "requery": {"target": 2 * chain.k},
        "judge": {"judge": 2 * chain.k * replicates},
    }
    return most[stage]


def _cells_of(stage: str, role: str, study: list[Cell]) -> dict[str, int]:
    """How many cells of a stage each model of a role has part in."""
    names: dict[str, set[tuple[Any, ...]]] = {}
    for cell in study:
        axes = tuple(getattr(cell, axis) for axis in (*AXES[stage], "seed"))
        name = str(getattr(cell, role)) if role in AXES["judge"] else ""
        names.setdefault(name, set()).add(axes)
    return {name: len(axes) for name, axes in names.items()}


def _a_sample(made: Mapping[Post, Made], post: Post) -> float | None:
    """Calls a sample as made before by this model, else by any in its place."""
    alike = [
        entry
        for other, entry in made.items()
        if (other.stage, other.role) == (post.stage, post.role) and entry.samples
    ]
    mine = made.get(post)
    chosen = [mine] if mine is not None and mine.samples else alike
    calls, samples = sum(len(e.usage) for e in chosen), sum(e.samples for e in chosen)
    return calls / samples if samples else None


def _prepared_for(root: Path, params: Mapping[str, Any]) -> bool:
    """Whether the prepared samples are those of these benchmarks, as far as dvc.lock knows."""
    try:
        lock = yaml.safe_load((root / "dvc.lock").read_text(encoding="utf-8"))
        ran = lock["stages"]["prepare"]["params"]["params.yaml"]["benchmarks"]
    except (OSError, yaml.YAMLError, ValueError, RecursionError, KeyError, TypeError):
        return True
    return bool(ran == params.get("benchmarks"))
