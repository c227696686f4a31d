"""The whole pipeline with a target whose weights are here: tiny and random, so that it says little.

Random words are an answer like any other. What can't be made of them is lost with a reason, the run
ends complete, and nothing of the machine gets into what it writes.
"""

import json
from pathlib import Path

import pytest

from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.base import Status
from stages.records.concept import ConceptList
from tests.pipeline.conftest import fresh

pytestmark = [pytest.mark.pipeline, pytest.mark.local]
NAME = "qwen3_vl_8b_local"


def test_random_weights_run_through_with_every_loss_told(
    tiny_qwen3_vl: Path, tmp_path: Path
) -> None:
    workspace = fresh(tmp_path / "edct")
    values = {"model": tiny_qwen3_vl, "device": "cpu", "dtype": "float32", "max_pixels": 65536}
    workspace.compose(
        f"target=[{NAME}]",
        "benchmarks.demo.samples=6",
        "generation.max_tokens=64",
        "limits.max_failed_share=1",
        *(f"targets.{NAME}.{name}={value}" for name, value in values.items()),
    )
    outcome = workspace.repro()
    assert {"baseline", "concepts", "judge", "score", "report"} <= outcome.stages
    data = workspace.root / "data"
    answers = jsonl.read(data / "baseline" / f"{NAME}-0" / "answers.jsonl", Answer)
    assert len(answers) == 6
    answered = [row for row in answers if row.status is Status.OK]
    assert answered
    assert {row.status for row in answers} <= {Status.OK, Status.TRUNCATED, Status.API_ERROR}
    assert all(row.reason for row in answers if row.status is not Status.OK)
    assert {call.usage.provider for row in answered for call in row.calls} == {"transformers"}
    rows = jsonl.read(data / "concepts" / f"{NAME}-demo-0" / "concepts.jsonl", ConceptList)
    assert all(row.concepts or row.reason for row in rows)
    metrics = json.loads((workspace.root / "reports" / "metrics.json").read_text())[NAME]
    assert metrics["n_scored"] == 0  # random words name nothing that could be edited
    rates = [json.loads(row) for row in (data / "score" / "rates.jsonl").read_text().splitlines()]
    lost = [row for row in rates if row["measure"] == "lost" and row["by"] == "reason"]
    assert sum(row["count"] for row in lost) == 6
    written = [p for folder in ("data", "reports") for p in (workspace.root / folder).rglob("*")]
    for path in written:
        if path.is_file() and not path.is_symlink() and path.suffix in (".jsonl", ".csv", ".json"):
            assert str(tiny_qwen3_vl) not in path.read_text(encoding="utf-8"), path
