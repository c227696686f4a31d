"""Pairs: gate and verifier beside the labels, each counted apart."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from stages import pairs, plan
from stages.models.demo import scene, sight, world
from stages.models.editor import demo
from stages.models.picture import Picture
from stages.records import jsonl
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.records.errors import UserError
from stages.stats.agreement import wilson
from stages.workflow.compose import compose

ROOT = Path(__file__).parents[2]
FAULTS = {"clean": None, "nothing": "unchanged", "bystander": "bystander", "backdrop": "background"}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with four labelled pairs: one is right, and the gate can't see why one isn't."""
    monkeypatch.delenv("EDCT_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    for name in ("conf", "prompts"):
        (tmp_path / name).symlink_to(ROOT / name)
    folder = tmp_path / "data" / "recorded" / "pairs"
    folder.mkdir(parents=True)
    brief = world.compose("sport", 0, np.random.default_rng([0, 0]))
    rng = np.random.default_rng([1, 0])
    source = scene.render(brief, driving=False, width=640, height=480, rng=rng).pixels
    (ball,) = (thing for thing in sight.see(source) if thing.kind == "ball")
    new = "blue" if ball.colour != "blue" else "red"
    instruction = f"change the colour of the ball from {ball.colour} to {new}"
    (folder / "source.png").write_bytes(Picture.of(source).png)
    index, labels, looks = [], [], []
    for name, fault in FAULTS.items():
        out = demo.edit(source, instruction, fault=fault, rng=np.random.default_rng(3))
        (folder / f"{name}.png").write_bytes(Picture.of(out).png)
        images = {"edited": f"{name}.png", "instruction": instruction}
        index.append({"id": name, "original": "source.png", **images})
        valid = "yes" if fault is None else "no"
        labels.append({"id": name, "edit_type": "modify", "target": "ball", "valid": valid})
        labels[-1]["box"] = [int(edge) for edge in ball.box]
        if name != "backdrop":
            seen = {"change_present": name != "nothing", "rest_unchanged": name != "bystander"}
            looks.append({"source": "pairs/source.png", **images, **seen, "reason": "I looked"})
            looks[-1]["edited"] = f"pairs/{name}.png"
    (folder / "pairs.json").write_text(json.dumps(index))
    (folder / "labels.json").write_text(json.dumps(labels))
    (folder.parent / "verifier.jsonl").write_text("\n".join(map(json.dumps, looks)))
    return tmp_path


def verified(root: Path, *overrides: str) -> tuple[dict[str, Any], dict[str, Attempt]]:
    overrides = ("study=pairs", "limits.max_failed_share=0.5", *overrides)
    text = compose(root, list(overrides))
    params = yaml.safe_load(text)
    plan.run(root, params)
    pairs.run(root, params, pair="own")
    folder = root / "data" / "pairs" / "own"
    rows = {row.sample_id: row for row in jsonl.read(folder / "attempts.jsonl", Attempt)}
    return json.loads((folder / "agreement.json").read_text()), rows


def counts(found: dict[str, Any]) -> dict[str, tuple[int, int, int]]:
    return {name: (v["agree"], v["n"], v["missing"]) for name, v in found["raters"].items()}


def test_without_a_verifier_there_is_the_gate(root: Path) -> None:
    found, rows = verified(root)
    assert (found["agree"], found["n"], found["raters"]) == (3, 4, {})
    assert [row["gate"] for row in found["rows"]].count("ok") == 2  # the bystander came through
    assert all(row.inspection is None for row in rows.values())


def test_the_built_in_verifier_sees_what_the_gate_can_t(root: Path) -> None:
    found, rows = verified(root, "verifier=demo")
    assert found["agree"] == 3
    assert counts(found) == {
        "verifier": (4, 4, 0),
        "gate_and_verifier": (4, 4, 0),
        "gate_or_verifier": (3, 4, 0),
    }
    ends = wilson(4, 4)
    assert found["raters"]["verifier"]["low"] == pytest.approx(ends.low, abs=1e-6)
    assert rows["bystander"].status is Status.OK  # report_only: it decides nothing
    assert [note.role for note in rows["clean"].calls].count("verifier") == 1


@pytest.mark.parametrize(
    ("mode", "bystander", "backdrop"),
    [
        ("and", Status.REST_CHANGED, Status.OUTSIDE_CHANGED),
        ("or", Status.OK, Status.OUTSIDE_CHANGED),
    ],
)
def test_recorded_words_decide_as_the_mode_says(
    root: Path, mode: str, bystander: Status, backdrop: Status
) -> None:
    found, rows = verified(root, "verifier=recorded", f"verify.with_verifier={mode}")
    assert {name: row.status for name, row in rows.items()} == {
        "clean": Status.OK,
        "nothing": Status.INSIDE_UNCHANGED,
        "bystander": bystander,
        "backdrop": backdrop,
    }
    assert found["agree"] == 3  # the gate's own, whatever the mode
    # Nobody looked at the backdrop: missing, but for both together, since the gate rejects it.
    assert counts(found) == {
        "verifier": (3, 3, 1),
        "gate_and_verifier": (4, 4, 0),
        "gate_or_verifier": (2, 3, 1),
    }
    assert rows["backdrop"].inspection is not None
    assert rows["backdrop"].inspection.status is Status.NOT_RECORDED


def test_a_verifier_that_says_too_little_ends_the_stage_before_it_writes(root: Path) -> None:
    (root / "data" / "recorded" / "verifier.jsonl").write_text("")
    with pytest.raises(UserError, match="4 not_recorded"):
        verified(root, "verifier=recorded")
    assert not (root / "data" / "pairs" / "own" / "agreement.json").exists()


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("verifier._target_=stages.models.detector.demo.DemoDetector", "is no Chat"),
        ("+verifier.eyes=2", "eyes"),
        ("verify.with_verifier=xor", "with_verifier"),
    ],
)
def test_the_plan_names_a_wrong_verifier(root: Path, override: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        verified(root, "verifier=demo", override)
