"""Chat over HTTP: what is sent, what is taken from a reply, and what is not."""

import asyncio
import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stages.models.calls import Calls
from stages.models.chat.openai_compatible import OpenAICompatible
from stages.models.picture import Picture
from stages.models.prompt import Prompt
from stages.models.protocol import CallError, Completion, Conversation, Turn
from stages.models.replies import VERDICT_SCHEMA, Unparsed
from stages.models.store import Store
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.usage import Usage
from tests.models.contract.cases import ASKED, MODEL, SOURCE
from tests.models.wire.loopback import QUICK, Act, Server, chat_reply


def model(server: Server, **values: Any) -> OpenAICompatible:
    return OpenAICompatible(MODEL, f"{server.url}/v1", patience=QUICK, **values)


def ask(server: Server, body: Any, conversation: Conversation = ASKED, **values: Any) -> Completion:
    server.route = lambda seen: Act(body)
    return asyncio.run(model(server, **values).complete(conversation))


def sent(server: Server, conversation: Conversation = ASKED, **values: Any) -> dict[str, Any]:
    ask(server, chat_reply("Yes."), conversation, **values)
    assert server.seen[-1].path == "/v1/chat/completions"
    return server.seen[-1].json


def test_a_request_holds_what_was_asked_and_nothing_else(server: Server) -> None:
    body = sent(server)
    url = f"data:image/png;base64,{base64.b64encode(SOURCE.png).decode()}"
    assert body == {
        "model": MODEL,
        "max_tokens": 64,
        "seed": 3,
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": url}},
                    {"type": "text", "text": "What is it?"},
                ],
            }
        ],
    }


def test_yaml_shapes_the_request(server: Server) -> None:
    extra = {"reasoning": {"enabled": True}, "provider": {"only": ["google-vertex"]}}
    body = sent(
        server,
        sampling={"temperature": 0.0, "top_k": 5},
        extra_body=extra,
        token_limit="max_completion_tokens",
        send_seed=False,
        images_first=False,
        images={"format": "jpeg", "max_side": 32},
    )
    assert {name: body[name] for name in ("temperature", "top_k", *extra)} == {
        "temperature": 0.0,
        "top_k": 5,
        **extra,
    }
    assert (body["max_completion_tokens"], "max_tokens" in body, "seed" in body) == (
        64,
        False,
        False,
    )
    text, image = body["messages"][0]["content"]
    assert text["type"] == "text"
    head, _, data = image["image_url"]["url"].partition(",")
    assert head == "data:image/jpeg;base64"
    picture = Picture(base64.b64decode(data))
    assert picture.pixels.shape == (24, 32, 3)


@pytest.mark.parametrize(
    ("structured", "kind"), [("json_schema", "json_schema"), ("json_object", "json_object")]
)
def test_a_schema_is_handed_over_where_the_model_takes_one(
    server: Server, structured: Any, kind: str
) -> None:
    asked = Conversation((Turn("user", "Judge."),), max_tokens=64, reply_schema=VERDICT_SCHEMA)
    body = sent(server, asked, structured=structured)
    assert body["response_format"]["type"] == kind
    if kind == "json_schema":
        assert body["response_format"]["json_schema"] == {
            "name": "verdict",
            "strict": True,
            "schema": VERDICT_SCHEMA,
        }
    assert "response_format" not in sent(server, asked, structured="none")
    assert "response_format" not in sent(server, ASKED, structured=structured)
    assert body["messages"] == [{"role": "user", "content": "Judge."}]


def test_replicates_are_sampled_with_seeds_of_their_own(server: Server) -> None:
    def seed(run: int, replicate: int) -> int:
        turns = (Turn("user", "q"),)
        asked = Conversation(turns, max_tokens=64, seed=run, replicate=replicate)
        return sent(server, asked)["seed"]

    seeds = [seed(run, replicate) for run in (0, 1) for replicate in (0, 1, 2)]
    assert len(set(seeds)) == 6
    assert (seeds[0], seeds[3]) == (0, 1)
    assert all(0 <= value < 2**31 for value in seeds)


def test_usage_is_what_the_provider_reported(server: Server) -> None:
    assert ask(server, chat_reply("Yes.")).usage == Usage(
        served_model=MODEL,
        provider="Upstream",
        input_tokens=11,
        output_tokens=7,
        cost_usd=0.0125,
    )
    absurd = {"prompt_tokens": -1, "completion_tokens": "7", "cost": -0.5}
    assert ask(server, chat_reply("Yes.", usage=absurd)).usage == Usage(
        served_model=MODEL, provider="Upstream"
    )


@pytest.mark.parametrize(
    ("content", "message", "text", "thinking"),
    [
        ("Yes.", {"reasoning": "Hm."}, "Yes.", "Hm."),
        ("Yes.", {"reasoning_content": "Hm."}, "Yes.", "Hm."),
        ("<think>Hm.</think>\n\nYes.", {}, "Yes.", "Hm."),
        ("Hm.\n</think>\n\nYes.", {}, "Yes.", "Hm."),
        ("I <think> so.", {}, "I <think> so.", None),
        ([{"type": "text", "text": "Ye"}, {"type": "text", "text": "s."}], {}, "Yes.", None),
        (" Yes. ", {}, " Yes. ", None),
    ],
)
def test_thinking_is_kept_apart(
    server: Server, content: Any, message: Any, text: str, thinking: str | None
) -> None:
    found = ask(server, chat_reply(content, message=message))
    assert (found.text, found.thinking) == (text, thinking)


def test_tags_are_text_where_yaml_says_so(server: Server) -> None:
    found = ask(server, chat_reply("<think>Hm.</think>Yes."), thinking_tags=False)
    assert (found.text, found.thinking) == ("<think>Hm.</think>Yes.", None)


HALF = "\ud83d"
"""Half of a surrogate pair, as JSON can write it."""


def unread(text: str) -> str:
    raise Unparsed("not what was asked for")


@pytest.mark.parametrize(
    ("said", "message"),
    [("a \N{REPLACEMENT CHARACTER} b", {}), ("Yes.", {"reasoning": f"Hm {HALF}"})],
    ids=["text", "thinking"],
)
def test_half_a_sign_in_a_reply_is_replaced_and_stops_nothing(
    server: Server, tmp_path: Path, said: str, message: Any
) -> None:
    content = said.replace("\N{REPLACEMENT CHARACTER}", HALF)
    server.route = lambda seen: Act(chat_reply(content, message=message))
    calls, chat = Calls(Store(tmp_path)), model(server)
    found = asyncio.run(calls.chat("target", chat, ASKED, str))
    assert found.value.text == said
    repair = Prompt("Again, since {{reason}}.", ("reason",), "0" * 64)
    again = replace(ASKED, replicate=1)
    with pytest.raises(CallError) as caught:
        asyncio.run(calls.chat("target", chat, again, unread, repair))
    assert caught.value.status is Status.UNPARSED
    assert server.seen[-1].json["messages"][1]["content"] == said


@pytest.mark.parametrize("status", [200, 400, 403])
def test_half_a_sign_in_a_refusal_or_an_error_is_replaced(server: Server, status: int) -> None:
    refused = chat_reply(None, message={"refusal": f"no {HALF}"})
    error = {"error": {"message": f"no {HALF}", "code": status, "metadata": {"reasons": ["x"]}}}
    server.route = lambda seen: Act(refused if status == 200 else error, status)
    with pytest.raises((CallError, UserError)) as caught:
        asyncio.run(model(server).complete(ASKED))
    assert "no \N{REPLACEMENT CHARACTER}" in str(caught.value)
    str(caught.value).encode()


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (chat_reply(None, finish="length"), Status.TRUNCATED, "token limit"),
        (chat_reply("The an", finish="length"), Status.TRUNCATED, "token limit"),
        (chat_reply("", finish="content_filter"), Status.REFUSED, "filter"),
        (chat_reply(None, message={"refusal": "I can't."}), Status.REFUSED, "I can't"),
        (chat_reply(None), Status.API_ERROR, "no text"),
        (chat_reply(" \n"), Status.API_ERROR, "no text"),
        (chat_reply(None, finish="tool_calls"), Status.API_ERROR, "no text"),
        (chat_reply("<think>and on and on"), Status.API_ERROR, "no text"),
        (chat_reply(None, message={"reasoning": "only that"}), Status.API_ERROR, "no text"),
    ],
)
def test_what_is_no_answer_has_a_status_and_is_asked_for_once(
    server: Server, body: Any, status: Status, says: str
) -> None:
    with pytest.raises(CallError, match=says) as caught:
        ask(server, body)
    assert caught.value.status is status
    assert len(server.seen) == 1


BROKEN = chat_reply("Half an ans", finish="error")
BROKEN["choices"][0]["error"] = {"code": 502, "message": "upstream broke off"}


@pytest.mark.parametrize(
    "body",
    [
        {**chat_reply(""), "choices": []},
        {**chat_reply(""), "choices": None},
        {**chat_reply(""), "choices": [None]},
        {**chat_reply(""), "choices": [{"finish_reason": "stop", "message": None}]},
        chat_reply(None, finish=None),
        BROKEN,
        [],
        "busy",
    ],
    ids=["empty", "none", "null", "no message", "blank", "finish error", "list", "string"],
)
def test_a_reply_that_holds_nothing_is_asked_for_again_and_then_given_up(
    server: Server, body: Any
) -> None:
    server.will(Act(body))
    assert ask(server, chat_reply("Yes.")).text == "Yes."
    assert len(server.seen) == 2
    with pytest.raises(CallError, match="4 tries") as caught:
        ask(server, body)
    assert caught.value.status is Status.API_ERROR


@pytest.mark.parametrize("served", ["maker/model-2", "gemini-3.5-flash-lite", "model"])
def test_another_model_ends_the_run_unless_allowed(server: Server, served: str) -> None:
    body = chat_reply("Yes.", model=served)
    with pytest.raises(UserError, match=served):
        ask(server, body, successor="maker/model-9")
    assert len(server.seen) == 1
    assert ask(server, body, served_as=[served]).usage.served_model == served
    assert ask(server, body, allow_other_model=True).usage.served_model == served


def test_a_model_that_is_gone_is_named_with_its_successor(server: Server) -> None:
    server.will(Act({"error": {"message": "No endpoints found", "code": 404}}, 404))
    with pytest.raises(UserError, match=r"ends there on 2026-12-01\. Nearest: maker/model-9"):
        ask(server, {}, ends="2026-12-01", successor="maker/model-9")


def test_what_shapes_a_reply_is_in_the_identity(server: Server) -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"sampling": {"temperature": 0.5}},
        {"send_seed": False},
        {"token_limit": "max_completion_tokens"},
        {"structured": "json_schema"},
        {"extra_body": {"provider": {"only": ["a"]}}},
        {"extra_body": {"provider": {"only": ["b"]}}},
        {"images": {"format": "jpeg"}},
        {"images": {"max_side": 512}},
        {"images_first": False},
        {"provider": "other"},
        {"allow_other_model": True},
    ]
    identities = [str(model(server, **values).identity()) for values in variants]
    assert len(set(identities)) == len(variants)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"structured": "yes"}, "structured"),
        ({"images": {"format": "gif"}}, "format"),
        ({"patience": {"tries": 0}}, "tries"),
        ({"concurrency": 0}, "concurrency"),
        ({"timeout_s": 0}, "timeout_s"),
    ],
)
def test_values_that_can_not_be_are_named(server: Server, values: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        OpenAICompatible(MODEL, server.url, **values)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000",
        "ftp://host",
        "",
        "https://user:secret@host/v1",
        "https://host/v1?key=secret",
    ],
)
def test_an_address_carries_no_secret_and_is_one(server: Server, url: str) -> None:
    with pytest.raises(UserError, match="base_url") as caught:
        OpenAICompatible(MODEL, url)
    assert "secret" not in str(caught.value)


def test_no_header_is_sent_that_nobody_asked_for(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    ask(server, chat_reply("Yes."), api_key_env=None)
    headers = server.seen[0].headers
    assert "authorization" not in headers
    assert not {"org-1", "proj-1"} & set(headers.values())


def test_a_picture_that_is_sent_as_it_is_is_not_encoded_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stages.models.wire.parts import Encoding

    made: list[Picture] = []
    encode = Encoding._encode
    monkeypatch.setattr(
        Encoding, "_encode", lambda self, picture: made.append(picture) or encode(self, picture)
    )
    picture = Picture.of(np.full((8, 8, 3), 17, np.uint8))
    first = (Turn("user", "q", (picture,)),)
    for turns in (first, (*first, Turn("assistant", "a"), Turn("user", "why?"))):
        sent(server, Conversation(turns, max_tokens=64))
    assert not made
