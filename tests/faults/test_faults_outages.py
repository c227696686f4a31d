"""Providers that are away for a while: what was answered stays, what was not is asked when they
are back, nothing is asked twice."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from stages.models.calls import Calls
from stages.models.protocol import Conversation, Turn
from stages.models.store import Store
from stages.records.errors import UserError
from tests.faults import book
from tests.models.contract.cases import CASES
from tests.models.wire.loopback import KEY, Act, Seen, Server, chat_reply

SOME = ("openrouter chat", "black forest labs", "moondream cloud")
ASKED = 60
AWAY_S = 0.8
PATIENCE = {"tries": 12, "total_s": 60.0, "first_wait_s": 0.05, "max_wait_s": 0.4}
DOWN: dict[str, Act] = {
    "503": Act({"error": {"message": "no capacity", "code": 503}}, 503),
    "502, a web page": Act(b"<html>Bad gateway</html>", 502, {"content-type": "text/html"}),
    "no reply": Act(drop="before"),
}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDCT_REPLAY", raising=False)
    for case in CASES.values():
        if case.key:
            monkeypatch.setenv(case.key, KEY)


class Outage(Server):
    """Answers well, then not at all for a while, then well again."""

    def __init__(self, good: Callable[[Seen], Act], away: Act, after: int) -> None:
        super().__init__()
        self.good, self.away, self.after = good, away, after
        self.answered: list[bytes] = []
        self._back: float | None = None
        self.route = self.reply

    def reply(self, seen: Seen) -> Act:
        """Called under the server's lock."""
        if len(self.answered) >= self.after and self._back is None:
            self._back = time.monotonic() + AWAY_S
        if self._back is not None and time.monotonic() < self._back:
            return self.away
        self.answered.append(seen.raw)
        return self.good(seen)


@pytest.mark.parametrize("away", DOWN)
def test_a_provider_that_is_down_for_a_while_costs_nothing_but_time(
    away: str, tmp_path: Any
) -> None:
    with Outage(lambda seen: Act(chat_reply("ok")), DOWN[away], ASKED // 2) as server:
        model: Any = CASES["openrouter chat"].adapter(server.url, patience=PATIENCE, concurrency=8)
        calls = Calls(Store(tmp_path))

        async def ask() -> list[str]:
            every = [Conversation((Turn("user", f"q{n}"),), max_tokens=16) for n in range(ASKED)]
            said = await asyncio.gather(
                *(calls.chat("target", model, one, read=lambda text: text) for one in every)
            )
            return [one.value.text for one in said]

        assert asyncio.run(ask()) == ["ok"] * ASKED
        assert len(server.answered) == len(set(server.answered)) == ASKED
        assert calls.failed.total() == 0
    book.note(book.SERVERS, f"a provider that is down for a while: {away}", ASKED, ASKED)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Late(Server):
    """Nothing listens at its address until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self._http.server_close()
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> "Late":
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            super().__exit__()

    def come_up(self) -> None:
        """Listen from now on."""
        self._http.socket = socket.socket()
        self._http.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._http.server_address = ("127.0.0.1", self.port)
        self._http.server_bind()
        self._http.server_activate()
        self._thread.start()


@pytest.mark.parametrize("name", CASES if book.LONG else SOME)
def test_nobody_is_there_and_then_all_are(name: str) -> None:
    """With nothing at the address a run ends in a line, since an address is likelier wrong than
    away; the next one, when all are back, is as any other."""
    case = CASES[name]
    with Late() as server:
        server.route = case.route(server)
        first = {**PATIENCE, "tries": 2}
        with pytest.raises(UserError, match="can't be reached") as caught:
            asyncio.run(case.call(case.adapter(server.url, patience=first)))
        assert "\n" not in str(caught.value)
        assert KEY not in str(caught.value)
        server.come_up()
        assert asyncio.run(case.call(case.adapter(server.url, patience=first))) == case.good
    book.note(book.SERVERS, "all providers away, then back: the next run goes on", 1, 1)


@pytest.mark.parametrize("name", CASES if book.LONG else SOME)
def test_an_address_that_comes_back_between_two_tries_is_waited_for(name: str) -> None:
    case = CASES[name]
    with Late() as server:
        server.route = case.route(server)
        patience = {**PATIENCE, "first_wait_s": 1.0, "max_wait_s": 1.0}
        adapter = case.adapter(server.url, patience=patience)
        timer = threading.Timer(0.3, server.come_up)
        timer.start()
        assert asyncio.run(case.call(adapter)) == case.good
        timer.join()
    book.note(book.SERVERS, "all providers away for a moment: waited for", 1, 1)


@pytest.mark.parametrize("name", CASES if book.LONG else ["openrouter chat"])
def test_names_that_resolve_to_nothing_for_a_while_are_tried_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, real, failed = CASES[name], socket.getaddrinfo, 0

    def flickers(host: Any, *given: Any, **named: Any) -> Any:
        nonlocal failed
        if failed < 1:
            failed += 1
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return real("127.0.0.1", *given, **named)

    with Server() as server:
        server.route = case.route(server)
        port = server.url.rpartition(":")[2]
        monkeypatch.setattr(socket, "getaddrinfo", flickers)
        server.url = f"http://provider.invalid:{port}"  # what its own links name, too
        adapter = case.adapter(server.url, patience=PATIENCE)
        assert asyncio.run(case.call(adapter)) == case.good
    assert failed == 1
    book.note(book.SERVERS, "DNS that fails for a moment", 1, 1)
