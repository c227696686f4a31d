"""Many calls through the store against a server with faults: nothing lost, doubled or leaked."""

import asyncio
import hashlib
import json
import logging
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stages.models.calls import Calls
from stages.models.chat.openai_compatible import OpenAICompatible
from stages.models.editor.openrouter_images import OpenRouterImages
from stages.models.protocol import CallError, Conversation, Turn
from stages.models.store import Store
from tests.models.contract.cases import EDITED, MODEL, SOURCE
from tests.models.wire.loopback import KEY, QUICK, Act, Seen, Server, chat_reply, image_reply

FREE = [
    Act({"error": {"message": f"slow down {KEY}", "code": 429}}, 429, {"retry-after": "0"}),
    Act({"error": {"message": "x", "code": 429}}, 429),
    Act({"error": {"message": f"bad gateway {KEY}", "code": 502}}, 502),
    Act({"error": {"message": "provider error", "code": 502}}),
    Act(
        {"error": {"message": "x", "metadata": {"limit_source": "openrouter_in_flight_budget"}}},
        402,
    ),
    Act(drop="before"),
    Act(chat_reply("x" * 500), drop="middle"),
    Act({**chat_reply(""), "choices": []}),
    Act(chat_reply(None, finish=None)),
    Act(b"<html>busy</html>", 200, {"content-type": "text/html"}),
]
FINAL = [
    Act(chat_reply("cut", finish="length")),
    Act(chat_reply(None, finish="content_filter")),
    Act({"error": {"message": f"no {KEY}", "code": "content_policy_violation"}}, 400),
    Act({"error": {"message": f"bad request {KEY}", "code": 400}}, 400),
]


class Faulty:
    """Every tenth request of its kind meets a fault, all kinds in turn."""

    def __init__(self, good: Any, faults: list[Act]) -> None:
        self.good, self.faults = good, faults
        self.count, self.met = 0, Counter[str]()
        self._lock = threading.Lock()

    def __call__(self, seen: Seen) -> Act:
        with self._lock:
            self.count += 1
            if self.count % 10:
                self.met["good"] += 1
                return Act(self.good)
            fault = self.faults[self.count // 10 % len(self.faults)]
            self.met["final" if fault in FINAL else "fault"] += 1
            return fault


def digest_files(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file())


def test_chat_calls_end_complete_and_the_servers_log_is_the_store_and_the_faults(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.route = faulty = Faulty(chat_reply("Yes."), FREE + FINAL)
    model = OpenAICompatible(MODEL, server.url, patience={**QUICK, "tries": 8}, concurrency=16)
    calls = Calls(Store(tmp_path))
    failures: list[CallError] = []

    async def one(number: int) -> None:
        asked = Conversation((Turn("user", f"q{number}", (SOURCE,)),), max_tokens=64)
        try:
            answered = await calls.chat("target", model, asked, str)
            assert answered.value.text == "Yes."
        except CallError as error:
            failures.append(error)

    async def all_calls() -> None:
        await asyncio.gather(*(one(number) for number in range(300)))

    asyncio.run(all_calls())
    stored = list(calls.store.keys())
    assert len(stored) + len(failures) == 300
    assert len(failures) == faulty.met["final"]
    assert len(server.seen) == len(stored) + faulty.met["final"] + faulty.met["fault"]
    assert faulty.met["fault"] > 15
    assert all("\n" not in error.reason for error in failures)
    shown = "".join(f"{error!r}{error}" for error in failures) + caplog.text
    assert KEY not in shown
    assert KEY.encode() not in digest_files(tmp_path)


def test_no_paid_image_is_asked_for_twice(server: Server, tmp_path: Path) -> None:
    server.route = faulty = Faulty(image_reply(EDITED.png), FREE)
    editor = OpenRouterImages(MODEL, server.url, patience=QUICK, concurrency=8)
    calls = Calls(Store(tmp_path))
    failed = 0

    async def one(number: int) -> None:
        nonlocal failed
        try:
            await calls.edit(editor, SOURCE, f"edit {number}", seed=0, attempt=1)
        except CallError:
            failed += 1

    async def all_calls() -> None:
        await asyncio.gather(*(one(number) for number in range(200)))

    asyncio.run(all_calls())
    asked = Counter(json.loads(seen.raw)["prompt"] for seen in server.seen)
    repeated = sum(asked.values()) - len(asked)
    assert len(asked) == 200
    assert failed > 5
    assert failed + len(list(calls.store.keys())) == 200
    assert repeated == faulty.met["fault"] - failed
    assert repeated >= 1
    assert KEY.encode() not in digest_files(tmp_path)


def test_what_is_stored_is_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    server.route = lambda seen: Act(image_reply(EDITED.png))
    for _ in range(2):
        editor = OpenRouterImages(MODEL, server.url, patience=QUICK)
        calls = Calls(Store(tmp_path))
        found = asyncio.run(calls.edit(editor, SOURCE, "edit", seed=0, attempt=1))
        assert list(calls.store.keys()) == [found.note.key]
    assert len(server.seen) == 1
    assert hashlib.sha256(SOURCE.png).hexdigest() in digest_files(tmp_path).decode("latin-1")
