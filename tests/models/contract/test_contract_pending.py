"""A paid task whose run was killed: the next run asks for it, and does not pay again."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stages.models.account import Account, Budget
from stages.models.calls import Answered, Calls
from stages.models.editor.black_forest_labs import KEPT_S, BlackForestLabs
from stages.models.ledger import Ledger
from stages.models.pending import Pending
from stages.models.picture import Picture
from stages.models.protocol import CallError
from stages.models.store import Store
from stages.records.base import Status
from stages.records.errors import UserError
from tests.models.contract.cases import EDITED, SOURCE
from tests.models.wire.loopback import KEY, QUICK, Act, Seen, Server, bfl_route

ROOT = Path(__file__).parents[3]
ONE_EDIT = """
import sys
from pathlib import Path
from tests.models.contract.test_contract_pending import edit
edit(sys.argv[1], Path(sys.argv[2]))
"""


def edit(url: str, store: Path, budget: Budget | None = None, **values: Any) -> Answered[Picture]:
    values = {"poll_s": 0.005, "patience": QUICK, **values}
    editor = BlackForestLabs("flux-2-max", url, **values)
    calls = Calls(Store(store), Account.of(Store(store), budget=budget))
    return asyncio.run(calls.edit(editor, SOURCE, "Paint it red.", seed=0, attempt=1))


def submissions(server: Server) -> int:
    return sum(seen.method == "POST" for seen in server.seen)


def tickets(store: Path) -> list[Path]:
    return list((store / "pending").glob("*"))


def replies(store: Path) -> dict[str, bytes]:
    files = [*store.glob("replies/*/*"), *store.glob("blobs/*/*")]
    return {str(path.relative_to(store)): path.read_bytes() for path in files}


def with_polls(server: Server, *polls: Act, fetch: Act | None = None) -> None:
    """Answer the next polls like this, and downloads, too, if so told; then all is well."""
    well, left = bfl_route(server, EDITED.png), list(polls)

    def route(seen: Seen) -> Act:
        if seen.path.startswith("/v1/get_result") and left:
            return left.pop(0)
        if seen.path.startswith("/d") and fetch is not None:
            return fetch
        return well(seen)

    server.route = route


@pytest.mark.parametrize("moment", ["/v1/get_result", "/d"])
def test_a_run_killed_after_its_submission_pays_once(
    server: Server, tmp_path: Path, moment: str
) -> None:
    well, ready, run = bfl_route(server, EDITED.png), threading.Event(), []

    def route(seen: Seen) -> Act:
        if seen.path.startswith(moment) and ready.wait(10) and run[0].poll() is None:
            os.kill(run[0].pid, signal.SIGKILL)
            run[0].wait()
        return well(seen)

    server.route = route
    command = [sys.executable, "-c", ONE_EDIT, server.url, str(tmp_path / "store")]
    run.append(subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": ""}))
    ready.set()
    assert run[0].wait(30) == -signal.SIGKILL
    (ticket,) = tickets(tmp_path / "store")
    assert json.loads(ticket.read_bytes())["task"]["id"] == "t-1"
    assert KEY.encode() not in ticket.read_bytes()
    assert replies(tmp_path / "store") == {}

    found = edit(server.url, tmp_path / "store")
    assert (found.value.png, found.note.usage.cost_usd) == (EDITED.png, 0.1)
    assert submissions(server) == 1
    assert tickets(tmp_path / "store") == []
    # What was interrupted leaves the bytes of what was not: no clock gets into a reply.
    edit(server.url, tmp_path / "other")
    assert replies(tmp_path / "store") == replies(tmp_path / "other") != {}


def test_a_task_that_was_slow_or_whose_image_did_not_come_is_asked_for_by_the_next_run(
    server: Server, tmp_path: Path
) -> None:
    with_polls(server, *[Act({"status": "Pending"})] * 1000)
    with pytest.raises(CallError, match="not ready within"):
        edit(server.url, tmp_path, deadline_s=0.05)
    with_polls(server, fetch=Act(b"<html>busy</html>"))
    with pytest.raises(CallError, match="no image"):
        edit(server.url, tmp_path)
    with_polls(server)
    assert edit(server.url, tmp_path).value.png == EDITED.png
    assert (submissions(server), tickets(tmp_path)) == (1, [])


LOST: list[Callable[[Server], None]] = [
    lambda server: with_polls(server, Act({"id": "t-1", "status": "Task not found"})),
    lambda server: with_polls(server, Act({"detail": "Task not found"}, 404)),
    lambda server: with_polls(server, Act({"detail": "not yours"}, 403)),
]


@pytest.mark.parametrize("lost", LOST, ids=["not found", "404", "another account's"])
def test_a_task_that_is_lost_is_paid_for_again(
    server: Server, tmp_path: Path, lost: Callable[[Server], None]
) -> None:
    with_polls(server, *[Act({"status": "Pending"})] * 1000)
    with pytest.raises(CallError):
        edit(server.url, tmp_path, deadline_s=0.05)
    lost(server)
    assert edit(server.url, tmp_path).value.png == EDITED.png
    assert (submissions(server), tickets(tmp_path)) == (2, [])


def test_a_task_that_is_lost_is_paid_for_again_only_within_the_budget(
    server: Server, tmp_path: Path
) -> None:
    def edit_for(usd: float) -> Answered[Picture]:
        return edit(server.url, tmp_path, Budget(usd=usd), deadline_s=0.05)

    with_polls(server, *[Act({"status": "Pending"})] * 1000)
    with pytest.raises(CallError):
        edit_for(0.15)
    with_polls(server, Act({"detail": "Task not found"}, 404))
    with pytest.raises(UserError, match=r"would pass the budget of \$0.15.*\$0.1000 spent"):
        edit_for(0.15)
    assert submissions(server) == 1
    with_polls(server)
    assert edit_for(0.25).value.png == EDITED.png
    assert submissions(server) == 2
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.read()
    assert ledger.spent("").bound_usd == pytest.approx(0.2)


def test_an_image_that_is_no_longer_kept_is_paid_for_again(server: Server, tmp_path: Path) -> None:
    with_polls(server, *[Act({"status": "Pending"})] * 1000)
    with pytest.raises(CallError):
        edit(server.url, tmp_path, deadline_s=0.05)
    with_polls(server, fetch=Act(b"gone", 410))
    with pytest.raises(CallError, match="410"):  # the second task's image is not there either
        edit(server.url, tmp_path)
    assert (submissions(server), tickets(tmp_path)) == (2, [])


@pytest.mark.parametrize(
    ("state", "status"),
    [("Content Moderated", Status.REFUSED), ("Error", Status.API_ERROR)],
)
def test_a_task_that_ended_leaves_no_ticket(
    server: Server, tmp_path: Path, state: str, status: Status
) -> None:
    with_polls(server, Act({"id": "t-1", "status": state}))
    with pytest.raises(CallError) as caught:
        edit(server.url, tmp_path)
    assert (caught.value.status, tickets(tmp_path)) == (status, [])


def test_a_task_that_never_ends_is_let_go_when_its_image_could_not_be_there_any_more(
    server: Server, tmp_path: Path
) -> None:
    def left_after_a_run() -> list[Path]:
        with_polls(server, *[Act({"status": "Pending"})] * 1000)
        with pytest.raises(CallError, match="not ready within"):
            edit(server.url, tmp_path, deadline_s=0.05)
        return tickets(tmp_path)

    left_after_a_run()
    (ticket,) = left_after_a_run()
    held = json.loads(ticket.read_bytes())
    ticket.write_text(json.dumps({**held, "submitted_at": time.time() - KEPT_S - 1}))
    assert left_after_a_run() == []
    assert submissions(server) == 1


@pytest.mark.parametrize(
    "held",
    [
        b"",
        b"[1]",
        b'{"submitted_at": 1, "task": {"id": 7}}',
        b'{"submitted_at": 1, "task": {"id": "t", "polling_url": "http://evil.example/p"}}',
    ],
)
def test_a_ticket_that_is_none_is_passed_over(
    server: Server, tmp_path: Path, held: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_polls(server)
    path = tmp_path / "pending" / "t.json"
    path.parent.mkdir()
    path.write_bytes(held)
    monkeypatch.setattr(Store, "pending", lambda self, key: Pending(path))
    assert edit(server.url, tmp_path).value.png == EDITED.png
    assert submissions(server) == 1
    assert not path.exists()


def test_a_ticket_that_can_not_be_written_costs_nobody_the_image(
    server: Server, tmp_path: Path
) -> None:
    with_polls(server)
    (tmp_path / "pending").write_text("in the way")
    assert edit(server.url, tmp_path).value.png == EDITED.png
    assert submissions(server) == 1
