"""Growth: what each step costs with 10, 100, 1,000 and 10,000 samples.

Models are stand-ins in this process and images are small, so that it is the harness that is
measured: CPU seconds of a stage, without the start of its process. What DVC does with a folder of
so many images is seconds by the wall, beyond what it takes for one image.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from bench import apart, growth_plot, study
from bench.figure import Figure, Series
from bench.samples import MEMORY, attempt
from bench.stand_ins import Talker
from bench.study import CELL, TO_EDIT, TO_JUDGE, TO_TARGET
from stages import baseline, concepts, edit, instructions, judge, prepare, report, requery, score
from stages.imaging import localization
from stages.imaging.settings import Settings
from stages.models.picture import Picture
from stages.models.protocol import Completion, Conversation
from stages.records import jsonl
from stages.records.sample import Sample
from stages.records.usage import Usage
from stages.workflow import params as parameters
from stages.workflow.folders import Folders

TOPIC = "growth"
SIZES = (10, 100, 1_000, 10_000)
QUICK = (10, 30, 60)
EDITED = 1_000
"""Most samples that are really edited: each takes its measurement. Above, what editing would have
left is written for the stages that read it."""
BOUND = 1.15
"""Slope up to which a cost counts as linear: caches of the machine fill as a study grows."""
IMAGE_BYTES = 2_000
DVC = ("commit", "status", "checkout")
NOISE = 0.05
"""Seconds below which a difference of two commands says nothing."""

STAGES: dict[str, tuple[Callable[..., None], dict[str, str]]] = {
    "prepare": (prepare.run, {}),
    "baseline": (baseline.run, TO_TARGET),
    "concepts": (concepts.run, {**TO_TARGET, "extractor": "bench"}),
    "instructions": (instructions.run, {**TO_TARGET, "extractor": "bench"}),
    "edit": (edit.run, TO_EDIT),
    "requery": (requery.run, TO_EDIT),
    "judge": (judge.run, TO_JUDGE),
    "score": (score.run, {}),
    "report": (report.run, {}),
}


class Echo(Talker):
    """Says something else in every conversation, so that no two requests are alike."""

    async def complete(self, conversation: Conversation) -> Completion:
        """What the schema asks for, with a mark of what was asked."""
        asked = repr([(t.text, [p.sha256 for p in t.pictures]) for t in conversation.turns])
        mark = hashlib.sha256(asked.encode()).hexdigest()[:12]
        used = Usage(served_model="talker", input_tokens=900, output_tokens=60, cost_usd=0.001)
        if conversation.reply_schema is None:
            return Completion(f"- The disc is red, as {mark} is.", usage=used)
        said = {
            "concepts": [{"text": f"the red of {mark}", "object": "disc", "attribute": "colour"}],
            "instructions": [
                {"keep": "all else", "change": f"{mark} to blue", "appearance": "-", "avoid": "-"}
            ],
            "edit_type": "modify",
            "target_object": "disc",
            "answer_consistent": 1,
            "explanation_faithful": int(mark[0] < "8"),
            "grade": 1 + int(mark, 16) % 5,
        }
        wanted = conversation.reply_schema["properties"]
        reply = {name: said.get(name, f"for {mark}") for name in wanted}
        return Completion(json.dumps(reply), usage=used)


def measure(*, quick: bool) -> Iterator[Figure]:
    """Yield a figure a cost; the plot is drawn from all of them."""
    sizes = QUICK if quick else SIZES
    found = [*_stages(sizes), _pairs(sizes[:-1]), *_dvc(sizes[1:])]
    yield from found
    if not quick:
        growth_plot.draw(found, apart.ROOT / "docs" / "images")


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Exponent of growth over the upper decade."""
    return round(log(values[-1] / values[-2]) / log(sizes[-1] / sizes[-2]), 3)


def _figure(name: str, sizes: Sequence[int], values: Sequence[float], **more: Any) -> Figure:
    sizes = sizes[: len(values)]
    grown = slope(sizes, values)
    return Figure(
        topic=TOPIC,
        name=f"growth of {name}, {sizes[-2]:,} to {sizes[-1]:,}: exponent",
        value=grown,
        unit="",
        bound=BOUND,
        series=Series(sizes=tuple(sizes), values=tuple(values), slope=grown, **more),
        note=f"{values[-1]:.3g} s at {sizes[-1]:,}, {1000 * values[-1] / sizes[-1]:.3g} ms each",
    )


def _stages(sizes: Sequence[int]) -> Iterator[Figure]:
    spent: dict[str, list[float]] = defaultdict(list)
    for samples in sizes:
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            env = {"EDCT_STORE": str(Path(folder) / "store")}
            took = apart.run("bench.growth:chain", env=env, root=folder, samples=samples)
            for stage, seconds in took.result.items():
                spent[stage].append(seconds)
    for stage, values in spent.items():
        yield _figure(stage, sizes, values)


def chain(root: str, samples: int) -> dict[str, float]:
    """Run all stages one after the other in a folder; CPU seconds of each."""
    place = Path(root)
    study.furnish(place)
    params = study.of_stand_ins("bench.growth.Echo", samples)
    params["chain"]["k"] = 1
    folders = Folders(place)
    folders.plan.mkdir(parents=True)
    folders.annotations.mkdir()
    (folders.plan / "cells.json").write_text(json.dumps([CELL.model_dump()]), encoding="utf-8")
    jsonl.write(folders.calibration / "coverage.jsonl", [])
    shutil.copytree(apart.ROOT / "data" / "reference", folders.reference)
    took = {}
    for stage, (run, axes) in STAGES.items():
        if stage == "edit" and samples > EDITED:
            _leave_edits(folders)
            continue
        began = time.process_time()
        run(place, params, **axes)
        took[stage] = time.process_time() - began
    return took


def _leave_edits(folders: Folders) -> None:
    """Accepted edits, each with an image that nobody was asked about before."""
    images = folders.edit(CELL) / "images"
    samples = jsonl.read(folders.prepare / "samples.jsonl", Sample)
    rows = []
    for number, sample in enumerate(samples):
        pixels = study.disc_image(number)[::-1, :, ::-1]
        edited = Picture.of(np.ascontiguousarray(pixels)).save(images)
        row = attempt(sample)
        measured = row.measurement and row.measurement.model_copy(update={"delta": edited})
        shown = {"edited": edited, "mask": edited, "measurement": measured}
        rows.append(row.model_copy(update=shown))
    jsonl.write(folders.edit(CELL) / "attempts.jsonl", rows)


def _pairs(sizes: Sequence[int]) -> Figure:
    rng = np.random.default_rng(0)
    source = study.photograph(rng, 640, 480)
    edited = study.with_disc(source, (40, 40, 200))
    mask = (study.with_disc(np.zeros_like(source), (255, 255, 255)) > 0)[..., 0]
    _, settings = parameters.verification(study.params())
    values = [_verified(source, edited, mask, settings, pairs) for pairs in sizes if pairs <= 100]
    return _figure("verification", sizes, values, of="pairs of 640 × 480")


def _verified(source: Any, edited: Any, mask: Any, settings: Settings, pairs: int) -> float:
    began = time.process_time()
    for _ in range(pairs):
        localization.localize(source, edited, mask, settings=settings)
    return time.process_time() - began


def _dvc(sizes: Sequence[int]) -> Iterator[Figure]:
    alone, spent = folder_times(1), {size: folder_times(size) for size in sizes}
    for step in DVC:
        beyond = [max(spent[size][step] - alone[step], NOISE) for size in sizes]
        grown = slope(sizes, beyond) if beyond[-2] > NOISE else None
        yield Figure(
            topic=TOPIC,
            name=f"DVC's {step} of a folder of {sizes[-1]:,} images",
            value=spent[sizes[-1]][step],
            unit="s",
            baseline="of one image",
            baseline_value=alone[step],
            series=Series(sizes=tuple(sizes), values=tuple(beyond), of="images", slope=grown),
            note="" if grown is None else f"exponent {grown:.2f} beyond one image",
        )


def folder_times(images: int, parent: Path | None = None) -> dict[str, float]:
    """Have DVC commit a folder of small files, look at it again, and bring it back; seconds."""
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        root = Path(folder)
        _run(root, "git", "init", "-q")
        _run(root, "dvc", "init", "-q")
        _run(root, "dvc", "config", "core.analytics", "false")
        (root / "images").mkdir()
        content = np.random.default_rng(0).bytes(IMAGE_BYTES)
        for number in range(images):
            name = hashlib.sha256(str(number).encode()).hexdigest()
            (root / "images" / f"{name}.png").write_bytes(number.to_bytes(4, "big") + content)
        took = {"commit": _run(root, "dvc", "add", "-q", "images")}
        took["status"] = _run(root, "dvc", "status", "-q")
        shutil.rmtree(root / "images")
        took["checkout"] = _run(root, "dvc", "checkout", "-q")
    return took


def _run(root: Path, *command: str) -> float:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    began = time.perf_counter()
    subprocess.run(command, cwd=root, env={**os.environ, "PATH": path}, check=True)
    return time.perf_counter() - began


def main() -> None:
    """`python -m bench.growth IMAGES …`: what DVC takes for folders of so many images."""
    for images in map(int, sys.argv[1:]):
        took = ", ".join(
            f"{step} {seconds:.1f} s" for step, seconds in folder_times(images).items()
        )
        print(f"{images:,} images: {took}", flush=True)


if __name__ == "__main__":
    main()
