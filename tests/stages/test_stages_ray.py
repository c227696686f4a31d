"""Workers of Ray give what one process gives: rows, lines and errors, whatever becomes of them."""

import hashlib
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stages import baseline, concepts, edit, instructions, judge, plan, prepare, requery
from stages.models.store import Store
from stages.records.errors import UserError
from stages.workflow import executor
from tests.exchange.conftest import Run, composed, fresh
from tests.workflow.crews import SECRET, DyingEditor, Item, counting, ray_settings

pytestmark = pytest.mark.ray
NAMES = [f"name {'x' * n}" for n in range(12)]
RAY: dict[str, Any] = {"executor": ray_settings().model_dump()}
ONE: dict[str, Any] = {"executor": ray_settings(workers=1).model_dump()}


def work(root: Path, items: list[Item], params: dict[str, Any], case: str = "") -> Any:
    root.mkdir(exist_ok=True)
    return executor.over(items, counting, root, params, label="counting", case=case)


def items(**does: str) -> list[Item]:
    """All names; what is to go wrong with the n-th is given as ``n3="die"``."""
    return [Item(name=name, does=does.get(f"n{n}", "")) for n, name in enumerate(NAMES)]


def computed(root: Path) -> Counter[str]:
    return Counter((root / "computed").read_text(encoding="utf-8").splitlines())


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
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("EDCT_STORE", raising=False)
    run = without(local, tmp_path / "edct", "edit", "requery", "judge")
    died = run.root / "died"
    editor = {**run.params["editors"]["demo"], "died": str(died)}
    editor["_target_"] = f"{DyingEditor.__module__}.{DyingEditor.__name__}"
    run.params["editors"]["demo"] = editor
    edit.run(run.root, run.params, **EDITED)
    said = capfd.readouterr()
    assert "a worker died" in said.err
    assert said.err.count("\n") == said.out.count("\n") == 1
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


def test_workers_give_the_rows_and_the_line_of_one_process(cluster: Path, tmp_path: Path) -> None:
    local = work(tmp_path / "local", items(), {})
    shared = work(tmp_path / "ray", items(), RAY)
    assert [[row.name for row in rows] for rows in shared.rows] == [[name] for name in NAMES]
    key = hashlib.sha256(SECRET.encode()).hexdigest()  # the cluster's environment, not this one's
    assert {row.key for rows in shared.rows for row in rows} == {key}
    alike = [[row.model_copy(update={"key": key}) for row in rows] for rows in local.rows]
    assert list(shared.rows) == alike
    assert shared.summary == local.summary
    assert computed(tmp_path / "ray") == Counter(NAMES)
    again = work(tmp_path / "ray", items(), {})  # either finds what the other has stored
    assert [[r.length for r in rows] for rows in again.rows] == [
        [r.length for r in rows] for rows in shared.rows
    ]
    assert "calls made 0; answered from the store 12 (measurement 12)" in again.summary
    held = [path for path in cluster.rglob("*") if path.is_file()]
    assert len(held) > 10
    assert not [path for path in held if SECRET.encode() in path.read_bytes()]


def test_a_worker_that_is_killed_costs_only_what_it_had_in_hand(
    cluster: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    local = work(tmp_path / "local", items(), {}, case="one")
    shared = work(tmp_path / "ray", items(n5="die once"), ONE, case="one")
    assert [[r.length for r in rows] for rows in shared.rows] == [
        [r.length for r in rows] for rows in local.rows
    ]
    assert (tmp_path / "ray" / "died").exists()
    assert computed(tmp_path / "ray") == Counter(NAMES)  # its own call had ended: it is stored
    out, said = capfd.readouterr()
    assert "a worker died (ActorDiedError); its 1 unfinished items go to another" in said
    assert said.count("\n") == 1
    assert out == ""


def test_an_item_that_kills_every_worker_ends_the_stage_and_is_named(
    cluster: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as caught:
        work(tmp_path / "ray", items(n4="die"), ONE)
    assert "3 workers died under item 5" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert computed(tmp_path / "ray")[NAMES[4]] == 1


@pytest.mark.parametrize(("does", "case"), [("bug", ""), ("", "unmade")])
def test_an_error_in_a_worker_is_the_one_of_the_stage(
    does: str, case: str, cluster: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = []
    for name, params in (("local", {}), ("ray", ONE)):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, twice
            work(tmp_path / name, items(n3=does)[:4], params, case=case)
        found.append((type(caught.value).__name__, str(caught.value)))
    assert found[0] == found[1]
    assert capfd.readouterr().err == ""
    left = [p for p in (tmp_path / "ray").rglob("*") if p.name.startswith(".executor-")]
    assert left == []


def test_who_has_no_place_ends_with_a_line(cluster: Path, tmp_path: Path) -> None:
    large = {"executor": ray_settings(cpus=64, start_s=1.0).model_dump()}
    with pytest.raises(UserError, match=r"no worker has a place after 1 s; the cluster has 2 CPUs"):
        work(tmp_path / "ray", items(), large)


SLEEPER = """
import signal, sys, time
from pathlib import Path
from stages.workflow import executor
from tests.workflow import crews

def handler(*_):
    print("interrupted", file=sys.stderr, flush=True)
    import os
    os._exit(130)

signal.signal(signal.SIGINT, handler)
params = {"executor": crews.ray_settings(workers=1).model_dump()}
executor.over([crews.Item(name="x")], crews.sleeping, Path(sys.argv[1]), params, label="sleeping")
"""


def lives(process: Any) -> bool:
    import psutil

    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_who_interrupts_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    import psutil

    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, str(tmp_path)], stderr=subprocess.PIPE, text=True
    )
    try:
        while not (tmp_path / "begun").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.1)
        children = psutil.Process(process.pid).children(recursive=True)
        said = " ".join(word for child in children for word in child.cmdline())
        folders = {Path(found) for found in re.findall(r"=(/[^ =]*/edct-ray-[^/ ]+)/", said)}
        modes = [folder.stat().st_mode & 0o777 for folder in folders]
        ports = [c for child in children for c in child.net_connections() if c.status == "LISTEN"]
        process.send_signal(signal.SIGINT)
        assert process.communicate()[1] == "interrupted\n"
    finally:
        process.kill()
    assert process.returncode == 130
    assert {port.laddr.ip.removeprefix("::ffff:") for port in ports} == {"127.0.0.1"}
    assert modes == [0o700]  # one folder, which nobody else enters
    assert not next(iter(folders)).exists()
    assert [path for path in tmp_path.rglob("*") if "executor-" in path.name] == []
    until = time.monotonic() + 20
    while any(map(lives, children)) and time.monotonic() < until:
        time.sleep(0.1)
    assert [child for child in children if lives(child)] == []
