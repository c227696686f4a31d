"""A study's folder to measure a stage in: parameters, prompts, samples, and what earlier stages
would have left."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import yaml
from numpy.typing import NDArray

from bench.apart import ROOT
from stages.models.picture import Picture
from stages.records import jsonl
from stages.records.base import Status
from stages.records.concept import Concept
from stages.records.instruction import Instruction, InstructionChain
from stages.records.sample import Sample
from stages.workflow import cells
from stages.workflow.folders import Folders

ROLES = ("target", "extractor", "editor", "judge")
CELL = cells.cell(target="bench", extractor="bench", editor="bench", judge="bench", seed="0")
TO_TARGET = {"target": "bench", "seed": "0"}
TO_EDIT = {**TO_TARGET, "extractor": "bench", "editor": "bench"}
TO_JUDGE = {**TO_EDIT, "judge": "bench"}
SPOT = (0.375, 0.375, 0.625, 0.625)
"""Where the thing is that is edited: XYXY as shares of width and height."""


def params(**sections: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the repository with a model called ``bench`` in the roles given.

    Parameters
    ----------
    sections : mapping
        ``target``, ``extractor``, ``editor``, ``judge``: the values of that model. Any other name:
        a section as it is to be.
    """
    made: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    made["study"] = "bench"
    for name, values in sections.items():
        if name in ROLES:
            made[f"{name}s"], made[f"{name}_names"] = {"bench": values}, ["bench"]
        else:
            made[name] = values
    return made


def of_stand_ins(talker: str, samples: int) -> dict[str, Any]:
    """The parameters with stand-ins in every role, so that nothing but the harness takes time.

    Parameters
    ----------
    talker : str
        The class that is target, extractor and judge.
    samples : int
        Samples of the benchmark.
    """
    made, chat = "bench.stand_ins.", {"_target_": talker}
    return params(
        benchmarks={"discs": {"_target_": f"{made}Discs", "samples": samples}},
        target=chat,
        extractor=chat,
        judge=chat,
        editor={"_target_": f"{made}Painter"},
        detector={"_target_": f"{made}Spot"},
        segmenter={"_target_": f"{made}Whole"},
    )


def furnish(root: Path) -> None:
    """Make a folder in which stages run: prompts and prices."""
    shutil.copytree(ROOT / "prompts" / "default", root / "prompts" / "default")
    (root / "conf").mkdir()
    shutil.copy(ROOT / "conf" / "prices.yaml", root / "conf")


def sample(number: int, image: str, width: int, height: int) -> Sample:
    """A sample about an image."""
    return Sample(
        id=f"bench-{number:05d}",
        domain="bench",
        image=image,
        width=width,
        height=height,
        question="What colour is the disc in the middle of the picture?",
    )


def photograph(rng: np.random.Generator, width: int, height: int) -> NDArray[np.uint8]:
    """Colours, shapes and grain; as PNG about as large as a photograph. ``(H, W, 3)`` RGB."""
    small = rng.integers(20, 235, (9, 12, 3)).astype(np.float32)
    scene = cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)
    for share in (2, 8):
        grain = rng.normal(0, 6, (height // share, width // share, 1)).astype(np.float32)
        scene += cv2.resize(grain, (width, height))[..., None]
    return np.asarray(np.clip(scene, 0, 255), dtype=np.uint8)


def with_disc(scene: NDArray[np.uint8], colour: tuple[int, int, int]) -> NDArray[np.uint8]:
    """The scene with a disc at the spot, in an RGB colour."""
    height, width = scene.shape[:2]
    radius = int(min(height, width) * (SPOT[2] - SPOT[0]) / 2)
    drawn = cv2.circle(scene.copy(), (width // 2, height // 2), radius, colour, -1)
    return np.asarray(drawn, dtype=np.uint8)


def disc_image(number: int, width: int = 96, height: int = 72) -> NDArray[np.uint8]:
    """A small image that no other number has. ``(H, W, 3)`` RGB."""
    plain = np.empty((height, width, 3), np.uint8)
    plain[:] = 40 + number % 101, 40 + number // 101 % 101, 40 + number // 101**2
    return with_disc(plain, (200, 40, 40))


def photographs(root: Path, n: int, width: int, height: int) -> None:
    """Write that many samples, as `prepare` would; all images differ, from a few scenes."""
    rng = np.random.default_rng(0)
    scenes = [with_disc(photograph(rng, width, height), (200, 40, 40)) for _ in range(8)]
    folder = root / "data" / "prepare" / "images"
    samples = []
    for number in range(n):
        pixels = np.roll(scenes[number % len(scenes)], number, axis=1)
        image = Picture.of(pixels).save(folder)
        samples.append(sample(number, image, width, height))
    jsonl.write(folder.parent / "samples.jsonl", samples)


def scene_with_edits(root: Path, n: int, width: int, height: int) -> Path:
    """Write samples of one scene, each with a mark of its own, and their instructions.

    Returns the folder of what an editor would make of any of them.
    """
    rng = np.random.default_rng(1)
    scene = photograph(rng, width, height)
    folders = Folders(root)
    before = with_disc(scene, (200, 40, 40))
    samples = []
    for number in range(n):
        marked = before.copy()
        marked[number // width, number % width] = (255, 0, 255)
        image = Picture.of(marked).save(folders.prepare / "images")
        samples.append(sample(number, image, width, height))
    jsonl.write(folders.prepare / "samples.jsonl", samples)
    chains = [chain(row.id) for row in samples]
    jsonl.write(folders.instructions(CELL) / "instructions.jsonl", chains)
    edited = root / "edited"
    for blue in (160, 200, 240):
        Picture.of(with_disc(scene, (40, 40, blue))).save(edited)
    return edited


def chain(sample_id: str, k: int = 1) -> InstructionChain:
    """Instructions for the disc."""
    concept = Concept(object="disc", text="the colour of the disc")
    steps = tuple(
        Instruction(
            position=position,
            concept=concept,
            keep="Keep everything else as it is.",
            change="Change the colour of the disc in the middle.",
            appearance="It is to look plain and blue.",
            avoid="Do not move it.",
            edit_type="modify",
            target_object="disc",
        )
        for position in range(1, k + 1)
    )
    return InstructionChain(sample_id=sample_id, status=Status.OK, steps=steps)
