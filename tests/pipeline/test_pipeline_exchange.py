"""Export → fresh workspace → import → `dvc repro`: the same tables, and no model was called."""

import csv
import json
from pathlib import Path

import pytest

from tests.pipeline.conftest import SMALL, Outcome, Workspace, fresh

pytestmark = pytest.mark.pipeline
REPORT = [override for override in SMALL if override.startswith("report.")]
BENCH = "data/recorded/edct_bench"
OF_SIMULATIONS = ("planted_ccs", "planted_inside")


def table(workspace: Workspace, name: str) -> list[dict[str, str]]:
    """A table without what is known of simulated targets only."""
    text = (workspace.root / "reports" / "tables" / f"{name}.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    return [{k: v for k, v in row.items() if k not in OF_SIMULATIONS} for row in rows]


def test_a_run_comes_back_from_its_export(
    finished: tuple[Workspace, Outcome], tmp_path: Path
) -> None:
    origin, ran = finished
    origin.run("python", "-m", "stages.exchange", "export", str(tmp_path / "bench"))
    there = fresh(tmp_path / "there")
    (tmp_path / "bench").rename(there.root / BENCH)
    there.run("python", "-m", "stages.exchange", "replay", BENCH)
    there.run("python", "-m", "stages.workflow.compose", "study=replay", *REPORT)
    params = (there.root / "params.yaml").read_text(encoding="utf-8")
    assert ".demo" not in params  # no built-in model, no built-in benchmark
    again = there.repro()
    for name in ("table1", "table3"):
        assert table(there, name) == table(origin, name)
        assert table(there, name)
    metrics = [
        json.loads((w.root / "reports" / "metrics.json").read_text()) for w in (there, origin)
    ]
    assert metrics[0] == metrics[1]
    # Verification measured every pair again; recorded replies stood in for every model.
    assert again.made["measurement"] == ran.made["measurement"]
    assert again.made["target"] == ran.made["target"]
    assert there.repro(EDCT_REPLAY="1").ran == []
