"""The study's matrix: which models meet which, and the names that make up a cell."""

import re
from collections import Counter
from collections.abc import Mapping
from itertools import product
from typing import Any

from stages.records.errors import UserError
from stages.records.score import Cell
from stages.workflow import params as parameters

AXES = {
    "target_names": "targets",
    "extractor_names": "extractors",
    "editor_names": "editors",
    "judge_names": "judges",
}

_NAME = re.compile(r"[a-z0-9_]+")


TRAINED = ("pretrain_names", "finetune_names")
"""Lists of targets whose weights the study itself makes."""


def trained(params: Mapping[str, Any]) -> frozenset[str]:
    """Targets that can't be made beforehand: the study itself makes their weights."""
    return frozenset(name for names in TRAINED for name in params.get(names) or [])


def study_cells(params: Mapping[str, Any]) -> list[Cell]:
    """All cells of the study in the order of params; empty where the study has no target."""
    for names in (*AXES, "pair_names"):
        for name in parameters.value(params, names, list):
            _check_name(names, name)
    seeds = parameters.value(params, "seeds", list)
    for seed in seeds:
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise UserError(
                "params.yaml: seeds", f"{seed!r} is no whole number ≥ 0", "Use e.g. [0, 1]."
            )
    _check_not_empty(params, seeds)
    for axis in (*AXES, "seeds", "pair_names"):
        twice = [name for name, n in Counter(params[axis]).items() if n > 1]
        if twice:
            raise UserError(f"params.yaml: {axis}", f"holds {twice[0]!r} twice", "Name each once.")
    return [
        Cell(target=target, extractor=extractor, editor=editor, judge=judge, seed=seed)
        for target, extractor, editor, judge, seed in product(
            params["target_names"],
            params["extractor_names"],
            params["editor_names"],
            params["judge_names"],
            seeds,
        )
    ]


def _check_name(axis: str, name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UserError(
            f"params.yaml: {axis}",
            f"{name!r} can't name a folder",
            "Use a-z, 0-9 and _ in the `# @package` line of its file in conf/.",
        )


def _check_not_empty(params: Mapping[str, Any], seeds: list[Any]) -> None:
    if not params["target_names"]:
        return
    for names in (*AXES, "seeds"):
        if not (seeds if names == "seeds" else params[names]):
            raise UserError(
                f"params.yaml: {names}", "is empty", "A study with targets needs at least one."
            )


def cell(*, target: str, seed: str, extractor: str = "", editor: str = "", judge: str = "") -> Cell:
    """The cell that a stage was started for; axes that the stage does not depend on stay empty."""
    if not seed.isdecimal():
        raise UserError("--seed", f"{seed!r} is no whole number ≥ 0", "Give e.g. --seed 0.")
    for axis, name in (
        ("--target", target),
        ("--extractor", extractor),
        ("--editor", editor),
        ("--judge", judge),
    ):
        if name and not _NAME.fullmatch(name):
            raise UserError(axis, f"{name!r} can't name a folder", "Give a name of params.yaml.")
    return Cell(target=target, extractor=extractor, editor=editor, judge=judge, seed=int(seed))
