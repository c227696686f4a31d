"""The whole pipeline under DVC: from nothing, again, and after each kind of change."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.pipeline.conftest import Outcome, Workspace, clone_of

pytestmark = pytest.mark.pipeline


def test_from_nothing_everything_runs_and_is_scored(finished: tuple[Workspace, Outcome]) -> None:
    workspace, outcome = finished
    assert {"prepare", "baseline", "edit", "judge", "score", "report"} <= outcome.stages
    metrics = json.loads((workspace.root / "reports" / "metrics.json").read_text())
    assert metrics["demo_looks"]["n_scored"] > 8
    assert metrics["demo_looks"]["ccs_binary"] == 1.0
    assert (workspace.root / "reports" / "index.html").stat().st_size > 10_000
    assert outcome.made["judge"] > 0


def test_a_second_run_runs_nothing(finished: tuple[Workspace, Outcome]) -> None:
    assert finished[0].repro().ran == []


def test_from_nothing_in_another_folder_gives_the_same_lock(
    finished: tuple[Workspace, Outcome], tmp_path: Path
) -> None:
    other = clone_of(finished[0], tmp_path / "elsewhere" / "deeper")
    (other.root / "dvc.lock").unlink()
    outcome = other.repro()
    assert outcome.made == finished[1].made
    assert other.lock == finished[0].lock


def test_replay_reproduces_the_lock_without_a_call(workspace: Workspace) -> None:
    lock = workspace.lock
    outcome = workspace.repro("--force", EDCT_REPLAY="1")
    assert outcome.made.total() == 0
    assert outcome.answered["judge"] > 0
    assert workspace.lock == lock


def test_replay_with_an_empty_store_names_the_first_missing_call(workspace: Workspace) -> None:
    shutil.rmtree(workspace.root / ".store")
    outcome = workspace.repro("--force", fails=True, EDCT_REPLAY="1")
    assert "holds no reply to this target call" in outcome.text
    assert "Traceback" not in outcome.text


def test_a_new_threshold_edits_again_and_asks_nobody_twice(
    workspace: Workspace, finished: tuple[Workspace, Outcome]
) -> None:
    workspace.compose("verify.tau_in=0.11")
    outcome = workspace.repro()
    assert "edit" in outcome.stages
    assert not outcome.stages & {"prepare", "baseline", "concepts", "instructions"}
    # Every call of before is answered; only attempts that nobody ever made may be new.
    assert outcome.answered["editor"] >= 8
    retried = outcome.made["editor"]
    assert outcome.made["measurement"] <= retried
    assert retried < 0.2 * finished[1].made["editor"]


def test_a_new_judge_runs_judging_scoring_and_the_report_alone(workspace: Workspace) -> None:
    workspace.compose("judge=[demo_lenient]")
    outcome = workspace.repro()
    assert outcome.stages == {"plan", "judge", "score", "report"}
    assert set(outcome.made) == {"judge"}


def test_a_shorter_chain_keeps_the_baseline(workspace: Workspace) -> None:
    workspace.compose("chain.k=1")
    outcome = workspace.repro()
    assert "concepts" in outcome.stages
    assert not outcome.stages & {"prepare", "baseline"}
    assert outcome.made["editor"] == outcome.made["detector"] == outcome.made["segmenter"] == 0
    assert outcome.made["target"] == 0


def test_one_more_sample_makes_only_its_own_calls(
    workspace: Workspace, finished: tuple[Workspace, Outcome]
) -> None:
    workspace.compose("benchmarks.demo.samples=9")
    outcome = workspace.repro()
    assert "baseline" in outcome.stages
    assert 2 <= outcome.made["target"] <= 2 * (2 + 4)
    assert outcome.made["editor"] <= 2 * 4
    assert outcome.answered["target"] == finished[1].made["target"] + finished[1].answered["target"]


def test_cells_that_left_the_study_leave_no_trace_in_the_lock(
    workspace: Workspace,
) -> None:
    before = workspace.lock
    workspace.compose("target=[demo_looks,demo_prior]", "judge=[demo,demo_lenient]")
    workspace.repro()
    workspace.compose()
    workspace.repro()
    now, then = yaml.safe_load(workspace.lock)["stages"], yaml.safe_load(before)["stages"]
    assert {name: now[name] for name in then} == then


def test_lists_of_editors_make_a_row_each(workspace: Workspace) -> None:
    workspace.run("dvc", "exp", "run", "-S", "editor=[demo,demo_exact]", *small_overrides())
    metrics = json.loads((workspace.root / "reports" / "metrics.json").read_text())
    assert len(metrics) == 4
    assert workspace.run("dvc", "metrics", "diff").text


def small_overrides() -> list[str]:
    from tests.pipeline.conftest import SMALL

    return [part for override in SMALL for part in ("-S", override)]


def test_a_clone_with_cache_and_store_does_nothing(workspace: Workspace, tmp_path: Path) -> None:
    remote, clone = tmp_path / "remote", tmp_path / "clone"
    workspace.run("dvc", "remote", "add", "-d", "shared", str(remote))
    workspace.run("python", "-m", "stages.models.store", "export", "data/store.tar")
    workspace.run("dvc", "add", "-q", "data/store.tar")
    workspace.commit()
    workspace.run("dvc", "push", "-q")
    there = clone_of(workspace, clone)
    there.run("dvc", "pull", "-q")
    there.run("python", "-m", "stages.models.store", "import", "data/store.tar")
    assert there.repro(EDCT_REPLAY="1").ran == []
    outcome = there.repro("--force", EDCT_REPLAY="1")
    assert outcome.made.total() == 0
    assert there.lock == workspace.lock
