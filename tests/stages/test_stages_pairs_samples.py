"""Pairs of real edits: those that the gate lets through although they are not right."""

import json
import os
from pathlib import Path

import pytest
import yaml

from stages import pairs, plan
from stages.workflow.compose import compose

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("EDCT_SAMPLES") or ROOT.parent / "shared" / "samples") / "edit_pairs"
MISSING_LETTER = ("sdcpp_flux2_flux2-klein-4b-edit", "sdcpp_mage_flow_edit_example")
RIGHT = "sdcpp_flux2_flux2-klein-9b-edit"


@pytest.mark.samples
@pytest.mark.skipif(not FOLDER.exists(), reason="samples are absent")
def test_a_verifier_can_reject_what_the_gate_lets_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words are stand-ins for a real verifier's: its labels. What is shown is the machinery."""
    monkeypatch.delenv("EDCT_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    for name in ("conf", "prompts"):
        (tmp_path / name).symlink_to(ROOT / name)
    labels = {row["id"]: row for row in json.loads((FOLDER / "labels.json").read_text())}
    chosen = [
        row
        for row in json.loads((FOLDER / "pairs.json").read_text())
        if row["id"] in (*MISSING_LETTER, RIGHT)
    ]
    folder = tmp_path / "data" / "recorded"
    folder.mkdir(parents=True)
    looks = []
    for row in chosen:
        for image in ("original", "edited"):
            row[image] = str(FOLDER / row[image])
        right = labels[row["id"]]["valid"] == "yes"
        looks.append(
            {
                "source": row["original"],
                "edited": row["edited"],
                "instruction": row["instruction"],
                "change_present": right,
                "rest_unchanged": True,
                "reason": labels[row["id"]]["reason"],
            }
        )
    (folder / "pairs.json").write_text(json.dumps(chosen))
    (folder / "labels.json").write_text(json.dumps([labels[row["id"]] for row in chosen]))
    (folder / "verifier.jsonl").write_text("\n".join(map(json.dumps, looks)))
    text = compose(
        tmp_path,
        ["study=pairs", "pairs.own.folder=data/recorded", "verifier=recorded",
         "verify.with_verifier=and"],
    )  # fmt: skip
    params = yaml.safe_load(text)
    plan.run(tmp_path, params)
    pairs.run(tmp_path, params, pair="own")
    found = json.loads((tmp_path / "data/pairs/own/agreement.json").read_text())
    status = {row["id"]: (row["gate"], row["status"]) for row in found["rows"]}
    assert status == {
        **dict.fromkeys(MISSING_LETTER, ("ok", "change_absent")),
        RIGHT: ("ok", "ok"),
    }
    assert (found["agree"], found["n"]) == (1, 3)
    both = found["raters"]["gate_and_verifier"]
    assert (both["agree"], both["n"], both["missing"]) == (3, 3, 0)
