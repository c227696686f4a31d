"""What an executor needs, without Ray: recipes, settings, a worker in this process."""

import asyncio
import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stages import baseline, concepts, edit, instructions, judge, requery
from stages.models.chat.openai_compatible import OpenAICompatible
from stages.models.counts import Counts
from stages.models.ledger import Spent
from stages.models.protocol import Chat
from stages.records.errors import UserError
from stages.workflow import adapters, executor, executor_cluster, executor_ray
from stages.workflow.executor_worker import Fault, Plan, Reply, Worker, kinds, named
from tests.workflow.crews import Item, counting, ray_settings

NAMES = [f"name {'x' * n}" for n in range(12)]
RAY: dict[str, Any] = {"executor": ray_settings().model_dump()}


def items(**does: str) -> list[Item]:
    """All names; what is to go wrong with the n-th is given as ``n3="die"``."""
    return [Item(name=name, does=does.get(f"n{n}", "")) for n, name in enumerate(NAMES)]


@pytest.mark.parametrize(
    ("recipe", "module", "item", "row"),
    [
        (baseline.asking, "baseline", "Sample", "Answer"),
        (concepts.reading, "concepts", "Answer", "ConceptList"),
        (instructions.writing, "instructions", "ConceptList", "InstructionChain"),
        (edit.editing, "edit", "InstructionChain", "Attempt"),
        (requery.asking, "requery", "Attempt", "Answer"),
        (judge.judging, "judge", "Case", "Judgement"),
    ],
)
def test_a_stage_names_a_recipe_that_another_process_can_find(
    recipe: Any, module: str, item: str, row: str
) -> None:
    assert named(recipe) == (f"stages.{module}", recipe.__name__)
    taken, given = kinds(recipe)
    assert item in repr(taken)
    assert row in repr(given)


def test_an_executor_that_there_is_not_is_named_with_those_that_there_are() -> None:
    assert executor.settings({}).name == "local"
    for wrong in ({"name": "slurm"}, {}, "ray", None):
        with pytest.raises(UserError, match=r"executor.name: is .* There are local and ray"):
            executor.settings({"executor": wrong})


def test_without_ray_its_executor_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="`make extras EXTRAS=ray`"):
        executor.settings(RAY)


@pytest.mark.parametrize("key", ["workers", "cpus", "deaths", "start_s", "object_store_mb"])
def test_wrong_numbers_of_ray_are_named(key: str) -> None:
    with pytest.raises(UserError, match=rf"executor\.{key}"):
        executor.settings({"executor": {**RAY["executor"], key: 0}})


@pytest.mark.parametrize("key", ["cpus", "gpus"])
@pytest.mark.parametrize("value", [1e308, float("inf"), float("nan"), -1])
def test_no_worker_has_more_than_a_machine_can(key: str, value: float) -> None:
    with pytest.raises(UserError, match=rf"executor\.{key}"):
        executor.settings({"executor": {**RAY["executor"], key: value}})


class Cluster:
    """A port that listens, as that of a cluster does, and what Ray is asked to connect to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"

    def is_initialized(self) -> bool:
        return False

    def init(self, *, address: str, **_: Any) -> None:
        self.asked.append(address)

    def shutdown(self) -> None:
        self.socket.close()


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of which nothing is written down yet; Ray's folder is ``tmp_path / "ray"``."""
    found = Cluster()
    monkeypatch.setattr(executor_cluster, "_imported", lambda: found)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (tmp_path / "ray").mkdir()
    yield found
    found.shutdown()


def connects(address: str) -> None:
    with executor_cluster.connected(ray_settings(address=address), 1):
        pass


@pytest.mark.parametrize("how", ["environment", "file", "both", "explicit"])
def test_auto_is_the_cluster_that_is_named_and_reached(
    how: str, running: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = running.address if how == "file" else "192.0.2.1:1"
    if how != "environment":
        (tmp_path / "ray" / "ray_current_cluster").write_text(f"{written}\n", encoding="utf-8")
    if how in ("environment", "both"):
        monkeypatch.setenv("RAY_ADDRESS", running.address)
    connects(running.address if how == "explicit" else "auto")
    assert running.asked == [running.address]


@pytest.mark.parametrize("named", ["", "auto", "local", "ray://head:10001", "127.0.0.1:1"])
def test_auto_takes_no_cluster_that_nobody_named(
    named: str, running: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_cluster, "_CURRENT", "of-no-cluster")
    monkeypatch.setenv("RAY_ADDRESS", named)
    with pytest.raises(UserError, match=r"executor\.address: no cluster at .*`ray start --head`"):
        connects("auto")
    assert running.asked == []


@pytest.mark.parametrize("address", ["ray://head:10001", "head", "auto ", "", "http://head:1"])
def test_what_is_no_address_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "find_spec", lambda name: object())
    given = {"executor": {**RAY["executor"], "address": address}}
    with pytest.raises(UserError, match="on a machine of the cluster"):
        executor.settings(given)
    for good in ("auto", "head:6379", "192.0.2.1:6379", "[::1]:6379", None):
        given["executor"]["address"] = good
        assert executor.settings(given).name == "ray"


@pytest.mark.parametrize(("processes", "share"), [(1, 16), (3, 5), (4, 4), (16, 1), (40, 1)])
def test_workers_share_the_calls_that_a_provider_allows(
    processes: int, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("httpx2")
    config = {"_target_": f"{OpenAICompatible.__module__}.OpenAICompatible", "model": "m"}
    values = {"base_url": "http://127.0.0.1:9/v1", "api_key_env": None, "concurrency": 16}
    demo = {"_target_": "stages.models.chat.demo_judge.DemoJudge"}
    params = {"judges": {"served": {**config, **values}, "demo": demo}}
    alone = adapters.build(params, "judges.demo", Chat).concurrency
    with adapters.shared_by(processes):
        served = adapters.build(params, "judges.served", Chat)
        assert isinstance(served, OpenAICompatible)
        assert served.concurrency == served.endpoint.concurrency == share
        assert adapters.build(params, "judges.demo", Chat).concurrency == alone
    assert adapters.build(params, "judges.served", Chat).concurrency == 16


def test_counts_of_processes_add_up_as_if_there_were_one() -> None:
    def counts(n: int) -> Counts:
        spent = Spent(calls=n, usd=0.25 * n, estimated_usd=0.125 * n, unknown=n % 2)
        return Counts(Counter(judge=n), Counter(target=2), Counter({"editor": 1}), spent)

    total = Counts()
    for n in (1, 2, 4):
        total.add(Counts.of_json(json.loads(json.dumps(counts(n).as_json()))))
    assert total.summary() == (
        "calls made 7 (judge 7); answered from the store 6 (target 6); failed 3 (editor 3); "
        "cost $1.7500, $0.8750 of it estimated, 1 calls of unknown cost"
    )
    assert counts(3).spent == Spent(calls=3, usd=0.75, estimated_usd=0.375, unknown=1)


@pytest.mark.parametrize(
    "error",
    [
        UserError("a: b", "c", "d"),
        OSError(errno.ENOSPC, "No space left on device", "images/x.png"),
        OSError(errno.EIO, "Input/output error"),
        ValueError("a value\nof two lines"),
    ],
)
def test_an_error_is_the_same_behind_a_process(error: Exception) -> None:
    again = Fault.model_validate_json(Fault.of(error).model_dump_json()).error()
    assert type(again).__name__ == type(error).__name__
    assert str(again) == str(error)
    assert vars(again).get("remedy") == vars(error).get("remedy")
    assert getattr(again, "filename", None) == getattr(error, "filename", None)


def plan(root: Path, **given: Any) -> str:
    told = {
        "recipe": named(counting),
        "workspace": str(root),
        "root": str(root),
        "params": {},
        "axes": {"case": ""},
        "stage": "counting",
        "workers": 1,
        "environment": {"EDCT_REPLAY": "0"},
        "probes": (),
    }
    return Plan(**{**told, **given}).model_dump_json()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder; whatever a worker in this process does to its surroundings is undone."""
    monkeypatch.chdir(tmp_path)
    for name in ("EDCT_STORE", "EDCT_REPLAY", "EDCT_BUDGET_USD", "EDCT_TRACE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return tmp_path


def test_a_worker_answers_in_json_and_counts(here: Path) -> None:
    async def shift() -> list[Reply]:
        worker = Worker()
        said = [await worker.look(plan(here)), await worker.open(plan(here))]
        given = [*items(n1="user")[:2], items()[0]]
        said += [await worker.work(item.model_dump_json()) for item in given]
        return [Reply.model_validate_json(text) for text in said]

    looked, opened, first, second, third = asyncio.run(shift())
    assert looked.value == os.getpid()
    assert opened.value == 3
    assert json.loads(str(first.value))[0]["length"] == len(NAMES[0])
    assert second.fault is not None
    assert second.fault.kind == "user"
    made, answered = (
        [(r.counts or {})[n] for r in (first, second, third)] for n in ("made", "answered")
    )
    assert made == [{"measurement": 1}, {"measurement": 1}, {}]
    assert answered == [{}, {}, {"measurement": 1}]
    assert os.environ["EDCT_REPLAY"] == "0"


def test_a_worker_that_sees_another_store_says_so_before_it_begins(here: Path) -> None:
    def looks(**given: Any) -> str:
        reply = Reply.model_validate_json(asyncio.run(Worker().look(plan(here, **given))))
        return str(reply.fault.error()) if reply.fault else ""

    probe = here / "probe"
    with probe.open("w") as held:
        assert "does not carry locks" in looks(probes=(str(probe),))
        fcntl.flock(held, fcntl.LOCK_EX)
        assert looks(probes=(str(probe),)) == ""
        said = looks(probes=(str(probe), str(here / "elsewhere" / "probe")))
        assert "does not see the stage's file" in said
        assert "shared file system" in said
        assert str(here / "away") in looks(workspace=str(here / "away"))


def test_what_a_killed_stage_left_goes_when_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(executor_cluster, "_BELOW", 0)
    running = executor_cluster._folder()
    left = tmp_path / "edct-ray-left"
    left.mkdir()
    (left / "lock").touch()
    wait = "import time; time.sleep(60)"
    helpers = [
        subprocess.Popen([sys.executable, "-c", wait, kind, f"--session={folder}"])
        for kind, folder in (("/ray/agent", left), ("/ray/agent", running), ("tail", left))
    ]
    try:
        executor_cluster._folder()
        assert helpers[0].wait(timeout=20) == -signal.SIGKILL
        assert [helper.poll() for helper in helpers[1:]] == [None, None]
        assert not left.exists()
        assert running.exists()
    finally:
        for helper in helpers:
            helper.kill()
            helper.wait()


def test_a_folder_is_this_users_and_no_pipe_in_it_holds_a_stage_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(executor_cluster, "_BELOW", 0)
    (tmp_path / "edct-ray-pipe").mkdir()
    os.mkfifo(tmp_path / "edct-ray-pipe" / "lock")
    ours = tmp_path / "edct-ray-ours"
    ours.mkdir()
    (ours / "lock").touch()

    def too_long(*_: Any) -> None:
        raise AssertionError("waits for a pipe")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(20)
    try:
        with monkeypatch.context() as another:
            another.setattr(os, "getuid", lambda: ours.stat().st_uid + 1)
            made = executor_cluster._folder()
        assert ours.exists()
        executor_cluster._folder()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert not ours.exists()
    assert made.stat().st_mode & 0o777 == 0o700


def probes(root: Path) -> list[str]:
    return sorted(str(p) for p in root.rglob("*") if "executor-" in p.name)


def test_probes_of_a_killed_stage_go_and_those_of_a_running_one_stay(here: Path) -> None:
    (here / ".dvc").mkdir()
    with executor_ray._probes(here) as first:
        assert probes(here) == sorted(first)
        dead = [Path(path).with_name(f".executor-{n}") for n, path in enumerate(first)]
        for path in dead:
            path.touch()
        with executor_ray._probes(here) as second:
            assert probes(here) == sorted(first + second)
            for path in second:
                with pytest.raises(BlockingIOError), Path(path).open() as held:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert probes(here) == sorted(first)
    assert probes(here) == []


def test_who_is_interrupted_leaves_no_probes(here: Path) -> None:
    seen: list[list[str]] = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(probes(here)))
    try:
        with executor_ray._probes(here) as made:
            assert probes(here) == sorted(made)
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [[], []]
