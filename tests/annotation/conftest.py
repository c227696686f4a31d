"""A finished study with images, small enough to write in a moment, and its forms."""

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stages.analysis.simulation import Design, draw
from stages.annotation.__main__ import write
from stages.models.picture import Picture
from stages.records import jsonl
from stages.records.form import FormKey
from stages.records.score import Cell
from stages.workflow.folders import Folders
from stages.workflow.params import load

ROOT = Path(__file__).parents[2]
DESIGN = Design(60, 2, 0.5, 0.5, 0.6, 2, 0.05, domains=("zqmarket", "zqroad", "zqroom"))
TARGETS = ("zqtarget_one", "zqtarget_two")
HOSTILE = (
    '<script>alert("x")</script> </script><img src=x onerror=alert(1)> <!-- '
    "[a](javascript:alert(1)) {{ 7*7 }} &amp; \x07\x1b[31m \u202eevil\u202c \u2028 红宝石"
)


@dataclass(frozen=True)
class Written:
    """A workspace with a study and its forms."""

    root: Path
    params: dict[str, Any]
    key: FormKey

    @property
    def folder(self) -> Path:
        """The forms' folder."""
        return self.root / "reports" / "annotation" / self.key.form

    @property
    def accepted(self) -> dict[str, bool]:
        """Opaque name → whether the gate accepted the edit."""
        rows = {}
        for target in TARGETS:
            path = Folders(self.root).edit(cell(target)) / "attempts.jsonl"
            for line in path.read_text().splitlines():
                row = json.loads(line)
                rows[target, row["sample_id"], row["position"], row["attempt"]] = row["status"]
        return {
            item.id: rows[item.target, item.sample_id, item.position, item.attempt] == "ok"
            for item in self.key.items
        }


def cell(target: str, judge: str = "zqjudge") -> Cell:
    """A cell of the study."""
    return Cell(target=target, extractor="zqextractor", editor="zqeditor", judge=judge, seed=0)


def picture(*seed: int) -> Picture:
    """A small picture of its own."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 255, (4, 6, 3), dtype=np.uint8)
    return Picture.of(np.kron(coarse, np.ones((8, 8, 1), dtype=np.uint8)))


def write_study(root: Path, hostile: str = "", judges: tuple[str, ...] = ("zqjudge",)) -> None:
    """Write what the stages up to the judge would have, with images."""
    folders = Folders(root)
    cells = [cell(target, judge) for target in TARGETS for judge in judges]
    originals: dict[str, Picture] = {}
    for number, target in enumerate(TARGETS):
        one = cell(target)
        drawn = draw(DESIGN, np.random.default_rng(number))
        if not originals:
            originals = {s.id: picture(i) for i, s in enumerate(drawn.samples)}
            for found in originals.values():
                found.save(folders.prepare / "images")
            samples = [
                s.model_copy(
                    update={
                        "image": originals[s.id].sha256,
                        "question": f"What is in picture {i}? {hostile}",
                        "system_prompt": "You are a car." if s.domain == "zqroad" else None,
                    }
                )
                for i, s in enumerate(drawn.samples)
            ]
            jsonl.write(folders.prepare / "samples.jsonl", samples)
        words = {"answer": f"An answer. {hostile}", "explanation": f"First.\nSecond. {hostile}"}
        trail = drawn.trail
        jsonl.write(
            folders.baseline(one) / "answers.jsonl",
            [a.model_copy(update=words) for a in trail.baseline],
        )
        jsonl.write(
            folders.requery(one) / "answers.jsonl",
            [a.model_copy(update={**words, "answer": "A new answer."}) for a in trail.answers],
        )
        jsonl.write(folders.concepts(one) / "concepts.jsonl", trail.concepts)
        parts = {"keep": "the rest", "change": f"turn it blue {hostile}", "appearance": "matt blue"}
        jsonl.write(
            folders.instructions(one) / "instructions.jsonl",
            [
                c.model_copy(update={"steps": tuple(s.model_copy(update=parts) for s in c.steps)})
                for c in trail.chains
            ],
        )
        jsonl.write(
            folders.edit(one) / "attempts.jsonl", _edits(trail.attempts, originals, one, folders)
        )
        for judge in judges:
            jsonl.write(folders.judge(cell(target, judge)) / "judgements.jsonl", trail.judgements)
    folders.plan.mkdir(parents=True)
    (folders.plan / "cells.json").write_text(json.dumps([c.model_dump() for c in cells]))


def _edits(attempts: Any, originals: Any, one: Cell, folders: Folders) -> Any:
    """The attempts with images; a rejected one has an image too, as real ones do."""
    stood: dict[str, str] = {}
    for row in attempts:
        if row.attempt == 0:
            yield row
            continue
        source = stood.get(row.sample_id, originals[row.sample_id].sha256)
        seed = (int(row.sample_id[1:]), row.position, row.attempt, TARGETS.index(one.target), 7)
        edited = picture(*seed).save(folders.edit(one) / "images")
        if row.status == "ok":
            stood[row.sample_id] = edited
        yield row.model_copy(update={"source": source, "edited": edited})


def write_forms(root: Path, **settings: Any) -> Written:
    """Write the forms of a study that lies in a workspace."""
    import yaml

    params = load(ROOT / "params.yaml")
    params["study"] = "trial"
    params["annotation"] = {**params["annotation"], **settings}
    params["targets"] = {target: {"_target_": "no.such.Model"} for target in TARGETS}
    params["score"] = {**params["score"], "resamples": 200}
    (root / "params.yaml").write_text(yaml.safe_dump(params))
    said = write(root)
    (name,) = re.findall(r"annotation_keys/(\S+)\.json", said)
    key = FormKey.model_validate_json((root / "data/annotation_keys" / f"{name}.json").read_text())
    return Written(root, params, key)


def data_of(html: str) -> dict[str, Any]:
    """The data block of a form."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    return json.loads(found)


def unsealed(item: dict[str, Any]) -> Any:
    """What an item keeps until the edit was judged."""
    return json.loads(base64.b64decode(item["sealed"]))


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A study and its forms. Not to be changed."""
    root = tmp_path_factory.mktemp("annotation") / "edct"
    write_study(root)
    return write_forms(root)


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., Path]:
    """Writes a study below a temporary folder; returns its root."""

    def make(**options: Any) -> Path:
        write_study(tmp_path / "edct", **options)
        return tmp_path / "edct"

    return make
