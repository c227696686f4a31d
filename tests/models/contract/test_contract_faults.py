"""What every adapter over HTTP does when things go wrong, and when they go right."""

import asyncio
import importlib
import json
import pkgutil
import time
from typing import Any

import pytest

from stages.models import chat, detector, editor
from stages.models.protocol import CallError
from stages.models.wire.remote import Remote
from stages.records.base import Status
from stages.records.errors import UserError
from tests.models.contract.cases import ASKED, CASES, Case
from tests.models.wire.loopback import KEY, Act, Server, chat_reply

every = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
free = pytest.mark.parametrize(
    "case",
    [c for c in CASES.values() if not c.paid],
    ids=[n for n, c in CASES.items() if not c.paid],
)
paid = pytest.mark.parametrize(
    "case", [c for c in CASES.values() if c.paid], ids=[n for n, c in CASES.items() if c.paid]
)
with_key = pytest.mark.parametrize(
    "case", [c for c in CASES.values() if c.key], ids=[n for n, c in CASES.items() if c.key]
)


def call(case: Case, server: Server, *acts: Act, **values: object) -> object:
    server.route = case.route(server)
    server.will(*acts)
    return asyncio.run(case.call(case.adapter(server.url, **values)))


def posts(server: Server) -> int:
    return sum(seen.method == "POST" for seen in server.seen)


def error(message: str, code: int, **metadata: object) -> dict[str, object]:
    return {"error": {"message": message, "code": code, "metadata": metadata}}


@every
def test_a_good_reply_is_one_paid_request(case: Case, server: Server) -> None:
    assert call(case, server) == case.good
    assert posts(server) == 1


@every
def test_one_adapter_serves_several_event_loops(case: Case, server: Server) -> None:
    server.route = case.route(server)
    adapter = case.adapter(server.url)
    assert [asyncio.run(case.call(adapter)) for _ in range(2)] == [case.good] * 2


@every
def test_connections_are_closed_when_the_event_loop_ends(case: Case, server: Server) -> None:
    server.route = case.route(server)
    adapter = case.adapter(server.url)

    async def one_call() -> Any:
        await case.call(adapter)
        return await adapter.endpoint.client()

    assert asyncio.run(one_call()).is_closed


@every
def test_an_identity_is_json_without_the_key(case: Case, server: Server) -> None:
    identity = case.adapter(server.url).identity()
    assert KEY not in json.dumps(identity)
    assert server.url in json.dumps(identity)
    assert identity == case.adapter(server.url).identity()
    assert identity == case.adapter(server.url, patience={"tries": 9}, concurrency=2).identity()


@with_key
def test_the_key_is_sent_and_only_in_a_header(case: Case, server: Server) -> None:
    call(case, server)
    first = server.seen[0]
    assert sum(KEY in value for value in first.headers.values()) == 1
    assert KEY.encode() not in first.raw
    assert KEY not in first.path


@with_key
@pytest.mark.parametrize("value", [None, "", " "])
def test_a_missing_key_is_named_before_anything_is_sent(
    case: Case, server: Server, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.setenv(case.key, value) if value is not None else monkeypatch.delenv(case.key)
    with pytest.raises(UserError, match=case.key) as caught:
        case.adapter(server.url)
    assert "\n" not in str(caught.value)
    assert server.seen == []


@with_key
def test_replay_needs_no_key(case: Case, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(case.key)
    monkeypatch.setenv("EDCT_REPLAY", "1")
    assert case.adapter(server.url).identity()["base_url"].startswith(server.url)


@every
@pytest.mark.parametrize(
    ("act", "says"),
    [
        (Act(error("User not found", 401), 401), "does not accept the key"),
        (Act({"detail": "Not authenticated"}, 401), "Not authenticated"),
        (
            Act(error("Insufficient credits", 402, limit_source="openrouter_credits"), 402),
            "payment",
        ),
        (Act(error("Key limit", 403, limit_source="openrouter_key_limit"), 403), "payment"),
        (Act({"detail": "Insufficient credits"}, 402), "Insufficient credits"),
        (
            Act({"error": {"message": "over quota", "code": "insufficient_quota"}}, 429),
            "over quota",
        ),
        (Act(error("No endpoints found", 404), 404), "does not serve"),
        (Act({"error": {"message": "unknown", "code": "model_not_found"}}, 400), "does not serve"),
        (Act({"detail": "Forbidden"}, 403), "denies access"),
        (Act(error("Payment", 402, limit_source="openrouter_credits"), 200), "payment"),
        (Act(b"", 301, {"location": "https://elsewhere.example"}), "redirects to"),
    ],
)
def test_what_every_next_call_would_meet_ends_the_stage_at_once(
    case: Case, server: Server, act: Act, says: str
) -> None:
    with pytest.raises(UserError, match=says) as caught:
        call(case, server, act)
    assert posts(server) == 1
    assert "\n" not in str(caught.value)


@every
@pytest.mark.parametrize(
    "act",
    [
        Act(error("slow down", 429), 429, {"retry-after": "0"}),
        Act({"detail": "Too many active tasks"}, 429),
        Act({"error": "busy", "message": "busy", "retry_after": 0.01}, 429),
        Act(
            error(
                "in flight",
                402,
                limit_source="openrouter_in_flight_budget",
                reason="in_flight_budget_exhausted",
            ),
            402,
            {"retry-after": "0"},
        ),
        Act(error("no capacity", 503), 503),
        Act(error("overloaded", 529), 529),
    ],
    ids=["429 with wait", "429 without", "429 in the body", "402 in flight", "503", "529"],
)
def test_what_was_certainly_not_done_is_asked_for_again(
    case: Case, server: Server, act: Act
) -> None:
    assert call(case, server, act, act) == case.good
    assert posts(server) == 3


UNKNOWN = [
    Act(error("internal", 500), 500),
    Act(error("bad gateway", 502), 502),
    Act(b"<html><body>Gateway Timeout</body></html>", 504, {"content-type": "text/html"}),
    Act(error("upstream timeout", 524), 524),
    Act(drop="before"),
    Act({"long": "x" * 4000}, drop="middle"),
    Act(b"<html>welcome</html>", 200, {"content-type": "text/html"}),
    Act(b'{"cut of', 200, {"content-type": "application/json"}),
    Act(error("provider returned error", 502), 200),
    Act({"long": "x" * 4000}, excess=100),
    Act({"long": "x" * 4000}, excess=-100),
]
NAMES = ["500", "502", "504", "524", "dropped", "cut", "html", "no json", "200 with 502"]
NAMES += ["longer than said", "shorter than said"]


@free
@pytest.mark.parametrize("act", UNKNOWN, ids=NAMES)
def test_a_free_call_is_repeated_whatever_happened(case: Case, server: Server, act: Act) -> None:
    assert call(case, server, act) == case.good
    assert posts(server) == 2


@paid
@pytest.mark.parametrize("act", UNKNOWN, ids=NAMES)
def test_a_paid_call_is_never_repeated_blindly(case: Case, server: Server, act: Act) -> None:
    with pytest.raises(CallError, match="outcome is unknown") as caught:
        call(case, server, act)
    assert caught.value.status is Status.API_ERROR
    assert posts(server) == 1


@every
def test_a_slow_server_is_not_waited_for_longer_than_said(case: Case, server: Server) -> None:
    began = time.monotonic()
    slow = Act({}, delay_s=2.0)
    if case.paid:
        with pytest.raises(CallError, match=r"within 0\.4 s"):
            call(case, server, slow, timeout_s=0.4)
    else:
        assert call(case, server, slow, timeout_s=0.4) == case.good
    assert time.monotonic() - began < 1.9
    assert posts(server) == (1 if case.paid else 2)


@every
def test_trying_again_has_an_end(case: Case, server: Server) -> None:
    with pytest.raises(CallError, match="4 tries"):
        call(case, server, *[Act(error("no capacity", 503), 503)] * 9)
    assert posts(server) == 4


@every
def test_a_wait_beyond_all_patience_ends_the_stage(case: Case, server: Server) -> None:
    with pytest.raises(UserError, match="asks to wait 86400 s"):
        call(case, server, Act(error("daily limit", 429), 429, {"retry-after": "86400"}))
    assert posts(server) == 1


@every
def test_a_server_that_is_not_there_is_one_line_with_the_remedy(case: Case, server: Server) -> None:
    adapter = case.adapter("http://127.0.0.1:9")
    with pytest.raises(UserError, match="can't be reached") as caught:
        asyncio.run(case.call(adapter))
    assert "\n" not in str(caught.value)


@every
@pytest.mark.parametrize(
    "act",
    [
        Act(error("flagged", 403, reasons=["violence"], flagged_input="…"), 403),
        Act({"error": {"message": "no", "code": "content_policy_violation"}}, 400),
        Act({"error": {"message": "no", "code": "moderation_blocked", "type": "u"}}, 400),
        Act(error("no", 403, error_type="refusal"), 403),
    ],
)
def test_moderation_is_a_refusal(case: Case, server: Server, act: Act) -> None:
    with pytest.raises(CallError) as caught:
        call(case, server, act)
    assert caught.value.status is Status.REFUSED
    assert posts(server) == 1


@every
def test_a_request_that_is_at_fault_fails_alone_and_says_why(case: Case, server: Server) -> None:
    complaint = {"detail": [{"loc": ["body", "seed"], "msg": "too large", "type": "value_error"}]}
    with pytest.raises(CallError, match="seed: too large") as caught:
        call(case, server, Act(complaint, 422))
    assert caught.value.status is Status.API_ERROR
    assert posts(server) == 1


@with_key
@pytest.mark.parametrize("status", [200, 400, 401, 402, 403, 404, 422, 500, 503])
def test_a_key_that_is_echoed_gets_into_no_error(case: Case, server: Server, status: int) -> None:
    server.route = lambda seen: Act(error(f"{'x' * 280} {KEY}{KEY}", status or 500), status)
    with pytest.raises((CallError, UserError)) as caught:
        asyncio.run(case.call(case.adapter(server.url)))
    assert KEY[:12] not in f"{caught.value!r} {caught.value} {vars(caught.value)}"
    assert KEY not in repr(vars(case.adapter(server.url).endpoint.secret.__class__))
    assert KEY not in repr(case.adapter(server.url).endpoint.secret)


CHATTY = [case for name, case in CASES.items() if "chat" in name]
chatty = pytest.mark.parametrize("case", CHATTY, ids=[n for n in CASES if "chat" in n])


@chatty
@pytest.mark.parametrize(
    "body",
    [
        {**chat_reply(""), "choices": []},
        {**chat_reply(""), "choices": None},
        {**chat_reply(""), "choices": [{"finish_reason": "stop", "message": None}]},
        chat_reply(None, finish=None),
    ],
    ids=["empty choices", "no choices", "no message", "null content"],
)
def test_a_reply_with_nothing_in_it_is_no_reply_whatever_it_was_to_be(
    case: Case, server: Server, body: Any
) -> None:
    if case.paid:
        with pytest.raises(CallError, match="outcome is unknown"):
            call(case, server, Act(body))
    else:
        assert call(case, server, Act(body)) == case.good
    assert posts(server) == (1 if case.paid else 2)


@chatty
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (chat_reply("The an", finish="length"), Status.TRUNCATED),
        (chat_reply(None, finish="length"), Status.TRUNCATED),
        (chat_reply("", finish="content_filter"), Status.REFUSED),
        (chat_reply(None, message={"refusal": "I can't."}), Status.REFUSED),
    ],
    ids=["cut off", "cut off in thinking", "filtered", "refused"],
)
def test_what_was_cut_off_or_withheld_is_final_whatever_it_was_to_be(
    case: Case, server: Server, body: Any, status: Status
) -> None:
    with pytest.raises(CallError) as caught:
        call(case, server, Act(body))
    assert caught.value.status is status
    assert posts(server) == 1


ECHOES = [
    chat_reply(f"say {KEY}", provider=KEY),
    chat_reply(None, finish=KEY),
    chat_reply(None, message={"refusal": KEY}),
    chat_reply("x", model=KEY),
    chat_reply(json.dumps([{"bbox_2d": [KEY, 0, 1, 1]}])),
    {"objects": [{"x_min": KEY, "y_min": 0, "x_max": 1, "y_max": 1}]},
    {"data": [{"b64_json": KEY}]},
    {"id": KEY, "polling_url": f"http://{KEY}/"},
    {KEY: KEY},
    [KEY],
]


@with_key
@pytest.mark.parametrize("written", [KEY, "".join(f"\\u{ord(c):04X}" for c in KEY)], ids=len)
@pytest.mark.parametrize("body", ECHOES, ids=range(len(ECHOES)))
def test_a_key_that_is_echoed_in_a_reply_gets_nowhere(
    case: Case, server: Server, body: Any, written: str
) -> None:
    server.route = lambda seen: Act(json.dumps(body).replace(KEY, written).encode())
    adapter = case.adapter(server.url)
    try:
        asked = adapter.complete(ASKED) if case.role == "chat" else case.call(adapter)
        shown = repr(asyncio.run(asked))
    except (CallError, UserError) as caught:
        shown = f"{caught!r} {caught} {vars(caught)}"
    assert KEY not in shown
    assert posts(server) >= 1


def test_every_adapter_over_http_is_held_to_this_contract(server: Server) -> None:
    for package in (chat, detector, editor):
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
    known = {cls for cls in Remote.__subclasses__() if cls.__module__.startswith("stages.")}
    assert len(known) >= 8
    assert known == {type(case.adapter(server.url)) for case in CASES.values()}
