"""The real stages under both executors: equal bytes, also where a worker was killed."""

from pathlib import Path
from typing import Any

import pytest

from stages import baseline, concepts, edit, instructions, judge, plan, prepare, requery
from stages.models.store import Store
from tests.exchange.conftest import Run, composed, fresh
from tests.workflow.crews import DyingEditor, ray_settings

pytestmark = pytest.mark.ray
CELL = {"target": "demo_mixture", "seed": "0"}
EXTRACTED = {**CELL, "extractor": "demo"}
EDITED = {**EXTRACTED, "editor": "demo"}
SMALL = ("target=[demo_mixture]", "benchmarks.demo.samples=4")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A small study in one process, up to the verdicts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("EDCT_STORE", raising=False)
        run = composed(fresh(tmp_path_factory.mktemp("local") / "edct"), *SMALL)
        plan.run(run.root, run.params)
        prepare.run(run.root, run.params)
        baseline.run(run.root, run.params, **CELL)
        concepts.run(run.root, run.params, **EXTRACTED)
        instructions.run(run.root, run.params, **EXTRACTED)
        edit.run(run.root, run.params, **EDITED)
        requery.run(run.root, run.params, **EDITED)
        judge.run(run.root, run.params, **EDITED, judge="demo")
        yield run


def without(local: Run, root: Path, *stages: str) -> Run:
    """The same study without the outputs of some stages and without a store, for Ray."""
    run = composed(fresh(root), *SMALL)
    run.params["executor"] = ray_settings().model_dump()
    for source in (local.root / "data").rglob("*"):
        if source.is_file() and source.relative_to(local.root / "data").parts[0] not in stages:
            copied = root / source.relative_to(local.root)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(source.read_bytes())
    return run


def outputs(run: Run, *stages: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(run.root)): path.read_bytes()
        for stage in stages
        for path in (run.root / "data" / stage).rglob("*")
        if path.is_file()
    }


def test_edits_by_workers_are_the_same_bytes_though_one_was_killed(
    local: Run,
    cluster: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("EDCT_STORE", raising=False)
    run = without(local, tmp_path / "edct", "edit", "requery", "judge")
    died = run.root / "died"
    editor = {**run.params["editors"]["demo"], "died": str(died)}
    editor["_target_"] = f"{DyingEditor.__module__}.{DyingEditor.__name__}"
    run.params["editors"]["demo"] = editor
    edit.run(run.root, run.params, **EDITED)
    assert "a worker died" in capsys.readouterr().err
    assert outputs(run, "edit") == outputs(local, "edit")
    # What had ended before is as it was: a call made again would have replaced its file.
    finished = dict(line.split() for line in died.read_text(encoding="utf-8").splitlines())
    assert finished
    assert {path: str(Path(path).stat().st_ino) for path in finished} == finished
    ours, theirs = (Store.open(root) for root in (run.root, local.root))
    assert set(ours.keys()) <= set(theirs.keys())


def test_verdicts_by_workers_are_the_same_bytes(
    local: Run,
    cluster: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("EDCT_STORE", raising=False)
    run = without(local, tmp_path / "edct", "judge")
    judge.run(run.root, run.params, **EDITED, judge="demo")
    by_workers = capsys.readouterr().out
    assert outputs(run, "judge") == outputs(local, "judge")
    run.params["executor"] = {"name": "local"}
    judge.run(without(local, tmp_path / "again", "judge").root, run.params, **EDITED, judge="demo")
    assert capsys.readouterr().out == by_workers
