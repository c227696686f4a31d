"""The small parts: served models, errors of all shapes, secrets, seeds."""

import email.utils
import time
from typing import Any

import pytest

from stages.models.wire.errors import Blame, carries_error, one_line, reported
from stages.models.wire.fault import Fault, Kind
from stages.models.wire.secrets import Secret, not_needed
from stages.models.wire.seeds import edit_seed, seed_of
from stages.models.wire.served import is_same_model
from stages.models.wire.usage import usage_of
from stages.records.errors import UserError


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ("google/gemma-3-27b-it", "google/gemma-3-27b-it"),
        ("google/gemma-3-27b-it", "gemma-3-27b-it"),
        ("openai/gpt-5.2", "openai/gpt-5.2-20251211"),
        ("gpt-5.2", "gpt-5.2-2025-12-11"),
        ("qwen/qwen3-vl-8b-instruct", "Qwen/Qwen3-VL-8B-Instruct"),
        ("qwen/qwen3-vl-8b-instruct:free", "qwen/qwen3-vl-8b-instruct"),
        ("Qwen/Qwen3-VL-8B", "Qwen/Qwen3-VL-8B@main"),
        ("tiny", "/models/tiny.gguf"),
    ],
)
def test_spellings_of_one_model(asked: str, served: str) -> None:
    assert is_same_model(asked, served)


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ("google/gemini-2.5-flash", "google/gemini-3.5-flash-lite"),
        ("google/gemini-2.5-flash", "google/gemini-2.5-flash-lite"),
        ("qwen/qwen3-235b-a22b-2507", "qwen/qwen3-235b-a22b"),
        ("qwen/qwen3-235b-a22b", "qwen/qwen3-235b-a22b-2507"),
        ("qwen/qwen3-vl-8b-instruct", "qwen/qwen3-vl-8b-thinking"),
        ("gpt-5.2", "gpt-5"),
        ("z-ai/glm-4.6v", "z-ai/glm-4.6"),
    ],
)
def test_other_models(asked: str, served: str) -> None:
    assert not is_same_model(asked, served)
    assert is_same_model(asked, served, [served])


@pytest.mark.parametrize(
    ("served", "same"),
    [
        ("google/gemini-2.5-flash-preview-09-2025", True),
        ("gemini-2.5-flash-002", True),
        ("google/gemini-3.5-flash-lite", False),
        ("google/gemini-2.5-flash-lite", False),
    ],
)
def test_a_pattern_allows_snapshots_and_no_other_model(served: str, same: bool) -> None:
    aliases = ["gemini-2.5-flash-preview-*", "google/gemini-2.5-flash-0??"]
    assert is_same_model("google/gemini-2.5-flash", served, aliases) is same


BLAME = Blame("prov", "https://p/v1", "m", "P_KEY")


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, {"error": {"message": "x"}}, Kind.BUSY),
        (200, {"error": {"message": "x", "code": 429}}, Kind.BUSY),
        (200, {"error": {"message": "x", "code": "429"}}, Kind.BUSY),
        (402, {"error": {"metadata": {"limit_source": "openrouter_in_flight_budget"}}}, Kind.BUSY),
        (503, None, Kind.UNAVAILABLE),
        (529, "overloaded", Kind.UNAVAILABLE),
        (409, {}, Kind.UNAVAILABLE),
        (200, {"error": {"message": "x", "error_type": "provider_overloaded"}}, Kind.UNAVAILABLE),
        (500, {"detail": "x"}, Kind.UNKNOWN),
        (408, {}, Kind.UNKNOWN),
        (599, {}, Kind.UNKNOWN),
        (200, {"error": {"message": "x"}}, Kind.UNKNOWN),
    ],
)
def test_passing_errors_by_what_was_done(status: int, body: Any, kind: Kind) -> None:
    error = BLAME.exception(reported(status, body))
    assert isinstance(error, Fault)
    assert error.kind is kind


def test_an_in_flight_budget_that_no_wait_can_mend_is_final() -> None:
    metadata = {"limit_source": "openrouter_in_flight_budget", "reason": "weight_exceeds_budget"}
    error = BLAME.exception(reported(402, {"error": {"message": "x", "metadata": metadata}}))
    assert isinstance(error, UserError)


def test_access_denied_to_one_call_among_good_ones_is_that_calls() -> None:
    error = reported(403, {"detail": "no"})
    assert isinstance(BLAME.exception(error), UserError)
    assert not isinstance(BLAME.exception(error, known=True), UserError | Fault)


@pytest.mark.parametrize(
    ("body", "text", "message"),
    [
        ({"error": {"message": "bad\n thing"}}, "", "bad thing"),
        ({"error": "bad"}, "", "bad"),
        ({"detail": "bad"}, "", "bad"),
        ({"detail": [{"loc": ["body", "w"], "msg": "no"}, "odd"]}, "", "w: no; odd"),
        ({"message": "bad"}, "", "bad"),
        ({"error": {"message": "up", "metadata": {"raw": "quota"}}}, "", "up [quota]"),
        (None, "<html><b>Gateway</b>\nTimeout</html>", "Gateway Timeout"),
        (None, "", "HTTP 500 without a reason"),
        ([1], "", "HTTP 500 without a reason"),
    ],
)
def test_messages_of_all_shapes(body: Any, text: str, message: str) -> None:
    assert reported(500, body, text=text).message == message


@pytest.mark.parametrize(
    ("headers", "body", "wait"),
    [
        ({"retry-after": "7"}, {}, 7),
        ({"retry-after-ms": "250", "retry-after": "7"}, {}, 0.25),
        ({"retry-after": "-3"}, {}, 0),
        ({"retry-after": "soon"}, {}, None),
        ({"retry-after": "nan"}, {}, None),
        ({}, {"retry_after": 4}, 4),
        ({}, {"error": {"availability": {"retry_after": 9}}}, 9),
        ({}, {"error": {"metadata": {"retry_after": "5"}}}, 5),
        ({}, {}, None),
    ],
)
def test_how_long_to_wait(headers: Any, body: Any, wait: float | None) -> None:
    assert reported(429, body, headers).wait == wait


def test_a_date_to_wait_for() -> None:
    date = email.utils.formatdate(time.time() + 60, usegmt=True)
    wait = reported(429, {}, {"retry-after": date}).wait
    assert wait is not None
    assert 57 < wait <= 60


def test_what_carries_an_error() -> None:
    assert carries_error({"error": {"code": 1}})
    assert carries_error({"object": "error", "message": "vLLM"})
    assert not carries_error({"error": None, "choices": []})
    assert not carries_error([])


def test_a_long_text_is_one_line_of_bounded_length() -> None:
    line = one_line("a\n" * 10_000 + "<" * 50_000)
    assert len(line) == 300
    assert "\n" not in line


def test_a_secret_shows_itself_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("P_KEY", " s3cret-k \n")
    secret = Secret("P_KEY", "prov")
    assert secret.value == "s3cret-k"
    assert "s3cret-k" not in f"{secret!r} {secret}"
    assert secret.scrub("say s3cret-k, s3cret-k") == "say [key], [key]"
    assert Secret(None, "prov").scrub("text") == "text"


def test_a_secret_is_known_however_json_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("P_KEY", "s/k.y-1234")
    secret = Secret("P_KEY", "prov")
    for text in (r"s\/k.y-1234", r"\u0073\u002fk\u002Ey-1234", r"\\u0073\\/k.y-1234"):
        assert secret.scrub(f"say {text}!") == "say [key]!"
    assert secret.scrub(r"s\/kxy-1234 s\\n") == r"s\/kxy-1234 s\\n"
    echo = {"s/k.y-1234": ["say s/k.y-1234", {"n": 1, "none": None}]}
    assert secret.scrubbed(echo) == {"[key]": ["say [key]", {"n": 1, "none": None}]}


@pytest.mark.parametrize("key", ["x", "e", "none", "EMPTY", "seven-7"])
def test_a_word_in_the_place_of_a_key_stays_what_it_is(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("P_KEY", key)
    body = {"choices": [{"text": f"six boxes, none of them {key}"}], key: "data:,EMPTYx"}
    assert Secret("P_KEY", "prov").scrubbed(body) == body
    monkeypatch.setenv("P_KEY", "seven-78")
    assert Secret("P_KEY", "prov").scrub("no seven-78!") == "no [key]!"


@pytest.mark.parametrize("key", ["sk-té", "sk-\u200bx", "sk-a\nb", "sk-a\r\nHost: b", "sk-\x7f"])
def test_a_key_that_no_header_can_carry_is_one_line(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("P_KEY", key)
    with pytest.raises(UserError, match="environment variable P_KEY") as caught:
        Secret("P_KEY", "prov")
    assert key not in str(caught.value)
    assert "\n" not in str(caught.value)
    with not_needed():
        Secret("P_KEY", "prov")


def test_seeds_differ_and_are_numbers_that_all_take() -> None:
    seeds = {edit_seed(run, attempt) for run in range(50) for attempt in range(1, 11)}
    seeds |= {seed_of(run, replicate) for run in range(50) for replicate in range(1, 11)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seed_of(0, 0) == 0


def test_usage_takes_nothing_that_is_no_number() -> None:
    for cost in (True, "1", float("nan"), float("inf"), -1, None):
        assert usage_of({"usage": {"cost": cost}}).cost_usd is None
    assert usage_of({"usage": {"cost": 0}}).cost_usd == 0
    assert usage_of({"usage": [], "model": 7}).served_model is None
