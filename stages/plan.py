"""Plan: check the whole study before anything is spent, and list its cells.

Reads all of `params.yaml` and the prompts. Writes `data/plan/cells.json`, which every gathering
stage loops over, and `data/plan/checked`, on which the chain of stages hangs. Folders of cells that
are no longer in the study are removed from `data/` (DVC's cache keeps them), so that what a
gathering stage depends on is this study and nothing else. It calls no model, but asks servers
whether they serve what the study wants, which costs nothing.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from stages.benchmarks.pairs import PairFolder
from stages.benchmarks.protocol import Benchmark
from stages.models.protocol import Adapter, Chat, Detector, Editor, Segmenter
from stages.records.errors import UserError
from stages.records.score import PANELS, Cell
from stages.workflow import adapters, cast, cells, executor, preflight, prompts, sections
from stages.workflow import params as parameters
from stages.workflow.folders import Folders
from stages.workflow.runner import main

A = TypeVar("A", bound=Adapter)
CELL_STAGES = ("baseline", "concepts", "instructions", "edit", "requery", "judge")
MODES = ("and", "or")
"""In which a verifier decides, so that there must be one."""
KINDS = {"targets": Chat, "extractors": Chat, "judges": Chat, "editors": Editor}


def run(root: Path, params: Mapping[str, Any]) -> None:
    """Check the study and list its cells."""
    study = cells.study_cells(params)
    if not study and not params["pair_names"]:
        raise UserError(
            "params.yaml: target_names",
            "is empty, and so is pair_names",
            "Choose a target, whose file in conf/ begins with `# @package targets.NAME`.",
        )
    check_settings(params)
    check_adapters(params)
    check_sight(params)
    check_prompts(root, params)
    preflight.check(params)
    folders = Folders(root)
    sweep(folders, study, params)
    folders.plan.mkdir(parents=True, exist_ok=True)
    listing = json.dumps([cell.model_dump() for cell in study], indent=1)
    (folders.plan / "cells.json").write_text(listing + "\n", encoding="utf-8")
    (folders.plan / "checked").write_text("checked\n", encoding="utf-8")
    print(f"plan: {len(study)} cells, {len(params['pair_names'])} sets of pairs")


def check_settings(params: Mapping[str, Any]) -> None:
    """Every section holds what its stages expect."""
    for name, model in sections.SECTIONS.items():
        parameters.section(params, name, model)
    if params.get("verifier") is None and parameters.verification(params)[0].with_verifier in MODES:
        raise UserError(
            "params.yaml: verify.with_verifier",
            f"is {params['verify']['with_verifier']!r}, and the study has no verifier",
            "Choose one, `-S verifier=…` (conf/verifier/), or leave it at report_only.",
        )
    executor.settings(params)
    cast.budget(params)  # of the parameters or of the environment: an amount
    parameters.value(params, "study", str)
    if taken := set(params["judge_names"]) & set(PANELS.values()):
        raise UserError(
            "params.yaml: judge_names", f"{min(taken)!r} is a panel's name", "Rename the judge."
        )
    check_training(params)


def check_training(params: Mapping[str, Any]) -> None:
    """Every target has weights from one place, and what is to be trained says how."""
    for key in (*cells.TRAINED, "ready_names"):
        parameters.value(params, key, list)
    for key in ("pretrain", "finetune"):
        parameters.value(params, key, dict)
    for name in params["pretrain_names"]:
        parameters.section(params["pretrain"], name, sections.Pretrain)
    for name in params["finetune_names"]:
        parameters.section(params["finetune"], name, sections.Finetune)
    origins = [name for names in (*cells.TRAINED, "ready_names") for name in params[names]]
    for name in params["target_names"]:
        if origins.count(name) != 1:
            raise UserError(
                f"params.yaml: targets.{name}",
                f"is in {origins.count(name)} of ready_names, {', '.join(cells.TRAINED)}",
                "Name it in exactly one: its weights come from one place.",
            )
    tuning = parameters.section(params, "tuning", sections.Tuning)
    if params["finetune_names"] and tuning.base not in params["target_names"]:
        raise UserError(
            "params.yaml: tuning.base", f"{tuning.base!r} is no target of the study", "Name one."
        )
    made = {f"{c.target}-{c.extractor}-{c.editor}-{c.seed}" for c in cells.study_cells(params)}
    if params["finetune_names"] and tuning.cell not in made:
        raise UserError(
            "params.yaml: tuning.cell",
            f"{tuning.cell!r} is no cell of the study, target-extractor-editor-seed",
            f"Name one: {', '.join(sorted(made)[:3])} …",
        )


def check_adapters(params: Mapping[str, Any]) -> None:
    """Every model of the study names a class of its kind and fits its values."""
    for group, kind in KINDS.items():
        for name in params.get(f"{group[:-1]}_names", []):
            key = f"{group}.{name}"
            if group == "targets" and name in cells.trained(params):
                adapters.check(adapters.lookup(params, key), key, kind)
            else:
                _try(params, key, kind)
    _try(params, "detector", Detector)
    _try(params, "segmenter", Segmenter)
    if params.get("verifier") is not None:
        _try(params, "verifier", Chat)
    if params.get("benchmarks") is not None:
        parameters.value(params, "benchmarks", dict)
    for name in params.get("benchmarks") or {}:
        key = f"benchmarks.{name}"
        adapters.build(params, key, Benchmark)
    for name in params["pair_names"]:
        adapters.build(params, f"pairs.{name}", PairFolder)
    if params["target_names"] and not params.get("benchmarks"):
        raise UserError(
            "params.yaml: benchmarks", "is empty", "Choose one, e.g. `-S benchmark=[demo]`."
        )


def _try(params: Mapping[str, Any], key: str, kind: type[A]) -> A | type[A]:
    """Check that a model can be made; make it, to have its values checked, unless that is heavy."""
    made = adapters.check(adapters.lookup(params, key), key, kind)
    return made if made.heavy else adapters.build(params, key, kind)


def check_sight(params: Mapping[str, Any]) -> None:
    """Whoever is to be shown pictures besides the targets can be shown pictures."""
    keys = ["verifier"] if params.get("verifier") is not None else []
    if parameters.section(params, "judge", sections.JudgeSettings).sees_images:
        keys += [f"judges.{name}" for name in params["judge_names"]]
    for key in keys:
        if not _try(params, key, Chat).sees_pictures:
            raise UserError(
                f"params.yaml: {key}",
                "can't be shown images",
                "Choose a vision-language model"
                + ("." if key == "verifier" else ", or set `judge.sees_images=false`."),
            )


def check_prompts(root: Path, params: Mapping[str, Any]) -> None:
    """Every prompt of the set is there and declares what it will be given."""
    for name in prompts.VARIABLES:
        prompts.load(root, params, name)


def sweep(folders: Folders, study: list[Cell], params: Mapping[str, Any]) -> None:
    """Remove the folders of cells that the study no longer has."""
    wanted = {
        "pairs": {folders.pairs(name).name for name in params["pair_names"]},
        "weights": set(params["target_names"]),
        "pretrain": set(params["pretrain_names"]),
        "finetune": set(params["finetune_names"]),
        **{stage: {getattr(folders, stage)(cell).name for cell in study} for stage in CELL_STAGES},
    }
    for stage, names in wanted.items():
        parent = folders.root / "data" / stage
        parent.mkdir(parents=True, exist_ok=True)
        for folder in parent.iterdir():
            if folder.is_dir() and folder.name not in names:
                shutil.rmtree(folder)
            elif folder.name not in (*names, ".keep"):
                folder.unlink()


if __name__ == "__main__":
    main("plan", run)
