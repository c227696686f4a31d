"""`own_server.yaml` against a server that nobody here wrote: `transformers serve`, tiny weights."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from stages.models.calls import Calls
from stages.models.protocol import CallError, Chat, Completion, Conversation, Turn
from stages.models.replies import VERDICT_SCHEMA
from stages.models.store import Store
from stages.records.base import Status
from stages.records.errors import UserError
from stages.workflow import adapters
from tests.models.chat.test_chat_transformers import adapter, asked

pytestmark = pytest.mark.local("fastapi", "uvicorn", "openai")
CONF = Path(__file__).parents[3] / "conf"


def by_yaml(group: str, url: str, folder: Path, **values: Any) -> Chat:
    config = yaml.safe_load((CONF / group / "own_server.yaml").read_text())
    config |= {"base_url": url, "model": str(folder), **values}
    params = {f"{group}s": {"own_server": config}}
    return adapters.build(params, f"{group}s.own_server", Chat)


def replies(model: Chat, conversations: Sequence[Conversation]) -> list[Any]:
    async def run() -> list[Any]:
        calls = (model.complete(each) for each in conversations)
        return list(await asyncio.gather(*calls, return_exceptions=True))

    return asyncio.run(run())


def words_of(reply: Any) -> str:
    """A reply's text without the word that ended it, and without marks of the chat.

    This server leaves both in: the first since the tiny checkpoints end by common words too, the
    others in the texts of Qwen's models, which it decodes with their marks.
    """
    assert isinstance(reply, Completion), reply
    return re.sub(r"\s?[]!;({-]$", "", re.sub(r"<\|\w+\|>", "", reply.text)).strip()


@pytest.mark.parametrize("kind", ["qwen3_vl", "llava", "causal_lm"])
def test_a_server_gives_the_texts_that_the_weights_give_here(
    kind: str, served: str, request: pytest.FixtureRequest
) -> None:
    folder = Path(request.getfixturevalue(f"tiny_{kind}"))
    conversations = asked(kind)
    there = replies(by_yaml("target", served, folder), conversations)
    here = replies(adapter(kind, folder), conversations)
    compared = 0
    for answer, own in zip(there, here, strict=True):
        if isinstance(own, Completion) and own.thinking is None:
            assert words_of(answer) == own.text.strip()
            assert answer.usage.input_tokens == own.usage.input_tokens
            assert answer.usage.output_tokens == own.usage.output_tokens
            compared += 1
        elif isinstance(own, CallError) and own.status is Status.TRUNCATED:
            assert isinstance(answer, CallError)
            assert answer.status is Status.TRUNCATED
    assert compared > 1


@pytest.mark.parametrize("group", ["extractor", "judge"])
def test_a_schema_that_the_server_does_not_know_costs_no_reply(
    group: str, served: str, tiny_causal_lm: Path, tmp_path: Path
) -> None:
    model = by_yaml(group, served, tiny_causal_lm)
    turn = Turn("user", "is the car red ?")
    conversation = Conversation((turn,), max_tokens=200, reply_schema=VERDICT_SCHEMA)
    calls = Calls(Store(tmp_path))
    answered = asyncio.run(calls.chat(group, model, conversation, read=str))
    assert answered.value.text
    assert answered.note.usage.served_model == str(tiny_causal_lm)
    assert calls.made[group] == 1


def test_a_value_that_the_server_refuses_is_on_the_row_with_its_words(
    served: str, tiny_causal_lm: Path
) -> None:
    model = by_yaml("target", served, tiny_causal_lm, extra_body={"top_k": 5})
    (reply,) = replies(model, asked("causal_lm")[:1])
    assert isinstance(reply, CallError)
    assert reply.status is Status.API_ERROR
    assert "top_k" in reply.reason


def test_a_model_that_the_server_can_not_load_is_an_error(served: str, tmp_path: Path) -> None:
    patience = {"tries": 2, "first_wait_s": 0.01, "max_wait_s": 0.02}
    model = by_yaml("target", served, tmp_path / "nowhere", patience=patience)
    (reply,) = replies(model, asked("causal_lm")[:1])
    assert isinstance(reply, CallError | UserError)
    assert "\n" not in str(reply)
