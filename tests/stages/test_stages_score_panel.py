"""Several judges as a further row: in the score files, in Table 1, and nowhere else."""

import csv
from collections import Counter
from pathlib import Path

import pytest

from stages import (
    baseline,
    calibration,
    concepts,
    edit,
    instructions,
    judge,
    plan,
    prepare,
    report,
    requery,
    score,
)
from stages.records import jsonl
from stages.records.errors import UserError
from stages.records.score import Estimate, Intervention
from tests.exchange.conftest import ROOT, Run, composed, fresh

JUDGES = ("judge=[demo,demo_noisy]", "judges.demo_noisy.error_rate=0.5")
SMALL = ("target=[demo_mixture]", "benchmarks.demo.samples=6", "score.resamples=200")
SMALL_REPORT = ("report.gallery=0", "report.panels=0", "report.examples=0")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Run:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("EDCT_STORE", raising=False)
        root = fresh(tmp_path_factory.mktemp("judged") / "edct")
        made = composed(root, *SMALL, *JUDGES)
        params = made.params
        plan.run(root, params)
        prepare.run(root, params)
        cell = {"target": "demo_mixture", "seed": "0"}
        baseline.run(root, params, **cell)
        cell["extractor"] = "demo"
        concepts.run(root, params, **cell)
        instructions.run(root, params, **cell)
        cell["editor"] = "demo"
        edit.run(root, params, **cell)
        requery.run(root, params, **cell)
        for name in ("demo", "demo_noisy"):
            judge.run(root, params, **cell, judge=name)
        calibration.run(root, params)
        (root / "data" / "reference").symlink_to(ROOT / "data" / "reference")
        return made


def table(root: Path, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((root / "reports" / "tables" / f"{name}.csv").open()))


@pytest.mark.parametrize("how", ["none", "vote", "mean"])
def test_a_panel_is_a_row_beside_each_judge(judged: Run, how: str) -> None:
    params = composed(judged.root, *SMALL, *SMALL_REPORT, *JUDGES, f"score.panel={how}").params
    score.run(judged.root, params)
    found = jsonl.read(judged.root / "data/score/estimates.jsonl", Estimate)
    names = ["demo", "demo_noisy"] + ([] if how == "none" else [f"panel_{how}"])
    assert list(dict.fromkeys(e.cell.judge for e in found)) == names
    rows = jsonl.read(judged.root / "data/score/interventions.jsonl", Intervention)
    assert {row.cell.judge for row in rows} == {"demo", "demo_noisy"}
    panel = jsonl.read(judged.root / "data/score/panel.jsonl", Intervention)
    report.run(judged.root, params)
    shown = table(judged.root, "table1")
    assert [row["judge"] for row in shown] == names
    plotted = (judged.root / "reports/plots/estimates.csv").read_text()
    if how == "none":
        assert panel == []
        assert "panel" not in plotted
        return
    assert f"panel_{how}" in plotted
    said = {
        (row.sample_id, row.position): {
            other.cell.judge: other.ccs_binary
            for other in rows
            if (other.sample_id, other.position) == (row.sample_id, row.position)
        }
        for row in rows
    }
    divided = 0
    for row in panel:
        votes = said[row.sample_id, row.position].values()
        if None in votes:
            assert row.ccs_binary is None
        elif len(set(votes)) == 1:
            assert row.ccs_binary in votes
        else:
            divided += 1
            assert row.ccs_binary == (None if how == "vote" else 0.5)
    assert divided  # the noisy judge differs somewhere
    ties = Counter(row.status for row in panel)["tied"]
    assert ties == (divided if how == "vote" else 0)
    assert (f"{ties} tied" in shown[-1].get("lost", "")) == (how == "vote")


def test_no_judge_may_have_the_name_of_a_panel(judged: Run) -> None:
    params = composed(judged.root, *SMALL, *JUDGES).params
    with pytest.raises(UserError, match="panel"):
        plan.check_settings({**params, "judge_names": ["panel_vote"]})
