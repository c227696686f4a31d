"""A finished study drawn as records and written to disk, without a picture or a call."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from stages.analysis.simulation import Design, draw
from stages.records import jsonl
from stages.records.score import Cell
from stages.workflow.folders import Folders
from stages.workflow.params import load

ROOT = Path(__file__).parents[2]
DESIGN = Design(60, 2, 0.5, 0.5, 0.75, 2, 0.05, domains=("okvqa", "drivelm", "3dsrbench"))


def cell(
    target: str = "t", extractor: str = "x", editor: str = "e", judge: str = "j", seed: int = 0
) -> Cell:
    """A cell with default names."""
    return Cell(target=target, extractor=extractor, editor=editor, judge=judge, seed=seed)


def write_study(
    root: Path,
    planted: dict[Cell, float],
    design: Design = DESIGN,
    errors: dict[str, float] | None = None,
) -> dict[str, Any]:
    """Write what the stages before `score` would have; returns params for score and report.

    Cells that differ in their judge alone share their edits; ``errors`` are the judges' rates.
    Chains are shared over editors, so with several editors every sample must have concepts.
    """
    folders = Folders(root)
    edits = list(dict.fromkeys(one.model_copy(update={"judge": ""}) for one in planted))
    for index, (one, ccs) in enumerate(planted.items()):
        seed = edits.index(one.model_copy(update={"judge": ""}))
        error = (errors or {}).get(one.judge, 0.0)
        drawn = draw(design._replace(planted=ccs, judge_error=error), np.random.default_rng(seed))
        trail = drawn.trail
        if index == 0:
            jsonl.write(folders.prepare / "samples.jsonl", drawn.samples)
        jsonl.write(folders.judge(one) / "judgements.jsonl", trail.judgements)
        if (folders.edit(one) / "attempts.jsonl").exists():
            continue
        jsonl.write(folders.baseline(one) / "answers.jsonl", trail.baseline)
        jsonl.write(folders.concepts(one) / "concepts.jsonl", trail.concepts)
        jsonl.write(folders.instructions(one) / "instructions.jsonl", trail.chains)
        jsonl.write(folders.edit(one) / "attempts.jsonl", trail.attempts)
        jsonl.write(folders.requery(one) / "answers.jsonl", trail.answers)
    (folders.prepare / "left_out.json").write_text("{}")
    folders.plan.mkdir(parents=True)
    (folders.plan / "cells.json").write_text(json.dumps([one.model_dump() for one in planted]))
    jsonl.write(folders.calibration / "coverage.jsonl", [])
    shutil.copytree(ROOT / "data" / "reference", folders.reference)
    (root / "prompts" / "default").mkdir(parents=True)
    params = load(ROOT / "params.yaml")
    params["targets"] = {one.target: {"_target_": "no.such.Model"} for one in planted}
    params["score"] = {**params["score"], "resamples": 300}
    return params
