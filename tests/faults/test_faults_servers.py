"""Servers at their worst: every adapter over HTTP ends in time, within bounds, and says why."""

import asyncio
import os
import socket
import time
import tracemalloc
from typing import Any

import pytest

from stages.models.protocol import CallError
from stages.models.wire.bound import IMAGE_BYTES, TEXT_BYTES
from stages.records.errors import UserError
from tests.faults import book
from tests.faults.rude import BEHAVIOURS, Bytes, Rude, sends_without_end
from tests.models.contract.cases import CASES, Case
from tests.models.wire.loopback import KEY

ONE_OF_A_KIND = ("openrouter chat", "black forest labs", "http editor", "moondream cloud")
TIRED = {"tries": 2, "total_s": 5.0, "first_wait_s": 0.001, "max_wait_s": 0.002}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDCT_REPLAY", raising=False)
    for case in CASES.values():
        if case.key:
            monkeypatch.setenv(case.key, KEY)


def ends(case: Case, url: str, **values: Any) -> str:
    """Call an adapter on a bad server: it must end in an error of one line without the key."""
    began = time.monotonic()
    adapter = case.adapter(url, **{"patience": TIRED, "timeout_s": 0.3, **values})
    with pytest.raises((CallError, UserError)) as caught:
        asyncio.run(case.call(adapter))
    said = caught.value.reason if isinstance(caught.value, CallError) else str(caught.value)
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert time.monotonic() - began < 10 * busy
    assert "\n" not in said
    assert KEY not in said
    return said


@pytest.mark.parametrize("name", CASES if book.LONG else ONE_OF_A_KIND)
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_a_server_at_its_worst_ends_a_call_and_no_more(name: str, behaviour: Bytes) -> None:
    with Rude(behaviour) as server:
        ends(CASES[name], server.url)
        assert server.connections <= 2
    book.note(book.SERVERS, f"server: {behaviour.__name__.replace('_', ' ')}", 1, 1)


@pytest.mark.parametrize(
    ("name", "most"), [("openrouter chat", TEXT_BYTES), ("http editor", IMAGE_BYTES)]
)
def test_no_more_is_read_than_the_bound(name: str, most: int) -> None:
    with Rude(sends_without_end) as server:
        tracemalloc.start()
        said = ends(CASES[name], server.url, timeout_s=20, patience={**TIRED, "tries": 1})
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert f"larger than {most / 1e6:g} MB" in said
        assert most <= server.sent < most + 20_000_000
    assert peak < 4 * most
    book.note(book.SERVERS, "replies without an end: read to the bound and no further", 1, 1)


@pytest.mark.parametrize("name", CASES)
def test_a_name_that_resolves_to_nothing_is_one_line(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(*_: object, **__: object) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    said = ends(CASES[name], "http://provider.invalid", timeout_s=20)
    assert "can't be reached" in said
    assert "Name or service not known" in said
    book.note(book.SERVERS, "DNS failure", 1, 1)


def test_uncompressed_replies_are_asked_for() -> None:
    seen: list[bytes] = []

    async def listens() -> Any:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await reader.readuntil(b"\r\n\r\n"))
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            for name in ONE_OF_A_KIND:
                adapter = CASES[name].adapter(f"http://127.0.0.1:{port}", patience=TIRED)
                with pytest.raises((CallError, UserError)):
                    await CASES[name].call(adapter)

    asyncio.run(listens())
    assert len(seen) >= len(ONE_OF_A_KIND)
    assert all(b"accept-encoding: identity\r\n" in head.lower() for head in seen)
