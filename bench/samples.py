"""Memory in the number of samples: the stages of a study of 300, 3,000 and 30,000 of them.

Models are stand-ins in the process and images are small, so that what grows is the harness's own.
Each stage runs in a process of its own, as DVC starts it. Editing is measured up to 3,000 samples,
since its measurements would take minutes; what it leaves is written for the stages that read it.
"""

import tempfile
from collections.abc import Callable, Iterator
from math import log
from pathlib import Path

from bench import apart, study
from bench.figure import Figure, Series
from bench.study import CELL, TO_EDIT, TO_JUDGE, TO_TARGET
from stages import baseline, edit, judge, prepare, requery
from stages.records import jsonl
from stages.records.attempt import Attempt, Box, Measurement
from stages.records.base import Status
from stages.records.sample import Sample
from stages.records.usage import CallNote, Usage
from stages.workflow.folders import Folders

TOPIC = "samples"
BOUND_MIB = 500.0
SIZES = (300, 3_000, 30_000)
QUICK = (20, 60)
EDITED = 3_000
"""Most samples that are really edited."""
MEMORY = Path("/dev/shm")
"""A file system in memory: tens of thousands of small files are not what is measured."""

STAGES: dict[str, Callable[..., None]] = {
    "prepare": prepare.run,
    "baseline": baseline.run,
    "edit": edit.run,
    "requery": requery.run,
    "judge": judge.run,
}
AXES: dict[str, dict[str, str]] = {
    "prepare": {},
    "baseline": TO_TARGET,
    "edit": TO_EDIT,
    "requery": TO_EDIT,
    "judge": TO_JUDGE,
}


def measure(*, quick: bool) -> Iterator[Figure]:
    """The peak of every stage, and how it grows."""
    sizes = QUICK if quick else SIZES
    peaks: dict[str, list[float]] = {stage: [] for stage in STAGES}
    for samples in sizes:
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            root = Path(folder)
            study.furnish(root)
            for stage, found in peaks.items():
                leave_for(root, stage)
                if stage != "edit" or samples <= EDITED:
                    env = {"EDCT_STORE": str(root / "store" / stage)}
                    values = {"root": folder, "stage": stage, "samples": samples}
                    found.append(apart.run("bench.samples:run", env=env, **values).peak_mib)
    for stage, found in peaks.items():
        yield figure(stage, sizes, found)


def figure(stage: str, sizes: tuple[int, ...], found: list[float]) -> Figure:
    """The peak at the largest size; kB a sample between the smallest and that."""
    sizes = sizes[: len(found)]
    each = (found[-1] - found[0]) / (sizes[-1] - sizes[0]) * 1024
    slope = log(found[-1] / found[-2]) / log(sizes[-1] / sizes[-2])
    return Figure(
        topic=TOPIC,
        name=f"memory of {stage}, {sizes[-1]:,} samples",
        value=found[-1],
        unit="MiB",
        bound=BOUND_MIB,
        series=Series(sizes=sizes, values=tuple(found), slope=round(slope, 3)),
        note=f"{found[0]:.0f} MiB at {sizes[0]}; {each:.1f} kB a sample",
    )


def run(root: str, stage: str, samples: int) -> None:
    """Run one stage in this process."""
    params = study.of_stand_ins("bench.stand_ins.Talker", samples)
    STAGES[stage](Path(root), params, **AXES[stage])


def leave_for(root: Path, stage: str) -> None:
    """Write what the stages before would have left and no bench has made."""
    folders = Folders(root)
    samples = folders.prepare / "samples.jsonl"
    if stage == "edit":
        chains = (study.chain(sample.id) for sample in jsonl.each(samples, Sample))
        jsonl.write(folders.instructions(CELL) / "instructions.jsonl", chains)
    elif stage == "requery":  # each original stands for the edit of another
        images = folders.edit(CELL) / "images"
        if not images.exists():
            images.parent.mkdir(parents=True, exist_ok=True)
            images.symlink_to(folders.prepare / "images")
            attempts = map(attempt, jsonl.each(samples, Sample))
            jsonl.write(folders.edit(CELL) / "attempts.jsonl", attempts)


def attempt(sample: Sample) -> Attempt:
    """An accepted edit with all that a real one has."""
    key = sample.image
    used = Usage(served_model="bench", provider="bench", input_tokens=900, output_tokens=60)
    roles = ("detector", "segmenter", "editor", "measurement", "verifier")
    return Attempt(
        sample_id=sample.id,
        position=1,
        attempt=1,
        status=Status.OK,
        instruction=study.chain(sample.id).steps[0].change,
        edit_type="modify",
        target_object="disc",
        source=key,
        edited=key,
        returned_width=sample.width,
        returned_height=sample.height,
        boxes=(Box(x0=36, y0=27, x1=60, y1=45, score=0.9),),
        mask=key,
        measurement=Measurement(
            r_in=0.8,
            r_out=0.1,
            r_in_unwarped=0.8,
            r_out_unwarped=0.1,
            mask_share=0.06,
            registration="identity",
            shift_px=0.0,
            residual=0.01,
            delta=key,
        ),
        calls=tuple(CallNote(role=role, key=key, usage=used, model="bench") for role in roles),
    )
