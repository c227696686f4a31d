"""The stages and cells of `dvc.yaml`, and what DVC says of each."""

import json
import subprocess
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from stages.records.errors import UserError

_LOCK = "dvc.lock"


class Node(NamedTuple):
    """One stage in one cell."""

    stage: str
    cell: str
    """Names of its axes, joined by hyphens; empty for a stage without a matrix."""

    @property
    def name(self) -> str:
        """As DVC calls it."""
        return f"{self.stage}@{self.cell}" if self.cell else self.stage


class Word(NamedTuple):
    """DVC's word on the stages."""

    changes: Mapping[str, list[str]]
    """Stage → what changed, e.g. ``missing data/judge/…``; without an entry nothing did."""
    unknown: str | None
    """Why DVC could not say; None where it could."""


def nodes(root: Path, params: Mapping[str, Any]) -> list[Node]:
    """Every stage in every cell, in the order of `dvc.yaml`."""
    path = root / "dvc.yaml"
    try:
        stages = yaml.safe_load(path.read_text(encoding="utf-8"))["stages"]
        return [
            Node(stage, "-".join(map(str, cell)))
            for stage, stanza in stages.items()
            for cell in product(
                *(params[axis.strip("${}")] for axis in stanza.get("matrix", {}).values())
            )
        ]
    except (OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__} at {error}".replace("\n", " ")
        raise UserError(str(path), f"does not fit params.yaml ({why})", "`make params`.") from None


class Asked:
    """DVC at work on its answer, which takes a second or more: ask first, then do other things."""

    def __init__(self, root: Path) -> None:
        command = ["dvc", "status", "--json"]
        lock = root / _LOCK
        self._empty = lock.exists() and not lock.read_bytes().strip()
        try:
            self._process = subprocess.Popen(
                command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        except FileNotFoundError:
            raise UserError("dvc", "is not installed here", "`make install`.") from None

    def answer(self) -> Word:
        """Wait for the answer."""
        said, complaint = self._process.communicate()
        try:
            return Word(changes(json.loads(said)), None)
        except ValueError:
            pass
        if self._empty:
            return Word({}, "dvc.lock is empty, as DVC leaves it when killed: remove it")
        lines = [line.strip() for line in complaint.splitlines() if line.strip()]
        line = next((line for line in lines if line.startswith("ERROR")), (lines or ["nothing"])[0])
        if "is busy" in line:
            return Word({}, "a run is under way, and DVC says nothing until it ends")
        return Word({}, line.removeprefix("ERROR: "))


def changes(said: Mapping[str, Any]) -> dict[str, list[str]]:
    """What DVC's JSON says, in words; a stage that only follows another changed one is not in it.

    Parameters
    ----------
    said : mapping
        Stage → list of ``"changed command"`` or ``{"changed deps": {path: how}}``, as
        `dvc status --json` prints it.
    """
    found: dict[str, list[str]] = {}
    for name, items in said.items():
        if name.endswith(".dvc"):
            continue
        words = found.setdefault(name, [])
        for item in items:
            if isinstance(item, str):
                words.append(item)
                continue
            for kind, paths in item.items():
                words += _worded(kind, paths)
    return found


def _worded(kind: str, paths: Any) -> list[str]:
    if not isinstance(paths, Mapping):
        return [str(kind)]
    words: list[str] = []
    for path, how in paths.items():
        if isinstance(how, Mapping):  # parameters: file → key → how
            words += [f"{how[key]} {key}" for key in how]
        else:
            gone = kind == "changed outs" and how == "deleted"
            words.append(f"{'missing' if gone else how} {path}")
    return words
