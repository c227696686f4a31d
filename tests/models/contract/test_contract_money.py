"""What providers charge is in the ledger, whether the reply was of use or not: all adapters."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stages.models.calls import Calls
from stages.models.chat.openai_compatible import OpenAICompatible
from stages.models.editor.black_forest_labs import BlackForestLabs
from stages.models.ledger import Ledger
from stages.models.protocol import CallError
from stages.models.store import Store
from stages.records.charge import Charge
from stages.records.errors import UserError
from tests.models.contract.cases import ASKED, CASES, EDITED, MODEL, SOURCE, Case
from tests.models.wire.loopback import KEY, QUICK, Act, Server, bfl_route, chat_reply

COST = {"cost": 0.5, "prompt_tokens": 10, "completion_tokens": 20}


async def through(calls: Calls, case: Case, adapter: Any) -> Any:
    if case.role == "chat":
        return await calls.chat("target", adapter, ASKED, str)
    if case.role == "editor":
        return await calls.edit(adapter, SOURCE, "Make it brighter.", seed=0, attempt=1)
    return await calls.detect(adapter, SOURCE, "cup")


def charges(root: Path) -> list[Charge]:
    return list(Ledger(root / "ledger.jsonl").charges())


@pytest.mark.parametrize("name", CASES)
def test_every_adapter_has_its_calls_in_the_ledger(
    name: str, server: Server, tmp_path: Path
) -> None:
    case = CASES[name]
    server.route = case.route(server)
    adapter = case.adapter(server.url)
    found = asyncio.run(through(Calls(Store(tmp_path)), case, adapter))
    (charge,) = charges(tmp_path)
    assert charge.outcome == "ok"
    assert charge.cost_usd == found.note.usage.cost_usd or charge.told in ("free", "unknown")
    assert (charge.told == "free") == (case.key is None)
    assert found.note.charged == (case.key is not None)
    assert charge.model == adapter.billing.model


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (chat_reply("cut", finish="length", usage=COST), "truncated"),
        (chat_reply(None, finish="content_filter", usage=COST), "refused"),
        (chat_reply("", usage=COST), "api_error"),
        (chat_reply(None, message={"refusal": "I will not."}, usage=COST), "refused"),
    ],
)
def test_a_reply_that_is_of_no_use_is_paid_for(
    reply: Any, outcome: str, server: Server, tmp_path: Path
) -> None:
    server.will(Act(reply))
    model = OpenAICompatible(MODEL, server.url, patience=QUICK)
    with pytest.raises(CallError) as caught:
        asyncio.run(Calls(Store(tmp_path)).chat("target", model, ASKED, str))
    assert caught.value.usage.cost_usd == 0.5
    (charge,) = charges(tmp_path)
    assert (charge.outcome, charge.cost_usd, charge.told) == (outcome, 0.5, "reported")


def test_a_try_in_vain_is_paid_for_beside_the_one_that_answered(
    server: Server, tmp_path: Path
) -> None:
    server.will(Act(chat_reply(None, finish=None, usage=COST)), Act(chat_reply("A cup.")))
    model = OpenAICompatible(MODEL, server.url, patience=QUICK)
    found = asyncio.run(Calls(Store(tmp_path)).chat("target", model, ASKED, str))
    (charge,) = charges(tmp_path)
    assert charge.cost_usd == pytest.approx(0.5125)
    assert found.note.usage.cost_usd == 0.0125  # the record is the reply's, whatever came before


def test_another_model_that_answers_ends_the_run_and_is_paid_for(
    server: Server, tmp_path: Path
) -> None:
    served = {"model": "google/gemini-3.5-flash-lite"}
    server.will(Act(chat_reply("Yes.", usage=COST, **served)))
    model = OpenAICompatible("google/gemini-2.5-flash", server.url, patience=QUICK)
    with pytest.raises(UserError, match=r"answers with google/gemini-3.5-flash-lite"):
        asyncio.run(Calls(Store(tmp_path)).chat("target", model, ASKED, str))
    (charge,) = charges(tmp_path)
    assert (charge.outcome, charge.cost_usd) == ("stopped", 0.5)
    assert list(Store(tmp_path).keys()) == []


def test_an_image_that_was_refused_after_its_task_was_taken_is_paid_for(
    server: Server, tmp_path: Path
) -> None:
    taken = bfl_route(server, EDITED.png)

    def route(seen: Any) -> Act:
        polled = seen.path.startswith("/v1/get_result")
        return Act({"id": "t-1", "status": "Content Moderated"}) if polled else taken(seen)

    server.route = route
    editor = BlackForestLabs("flux-2-max", server.url, poll_s=0.005, patience=QUICK)
    with pytest.raises(CallError) as caught:
        asyncio.run(Calls(Store(tmp_path)).edit(editor, SOURCE, "x", seed=0, attempt=1))
    assert caught.value.usage.cost_usd == pytest.approx(0.1)
    (charge,) = charges(tmp_path)
    assert (charge.outcome, charge.cost_usd) == ("refused", pytest.approx(0.1))


def test_words_in_place_of_a_picture_or_of_boxes_are_paid_for(
    server: Server, tmp_path: Path
) -> None:
    server.route = lambda seen: Act(chat_reply("I'd rather not.", usage=COST))
    for name in ("chat images", "chat boxes"):
        case = CASES[name]
        adapter = case.adapter(server.url)
        with pytest.raises(CallError):
            asyncio.run(through(Calls(Store(tmp_path)), case, adapter))
    assert [charge.cost_usd for charge in charges(tmp_path)] == [0.5, 0.5]


@pytest.mark.parametrize("status", [200, 400])
def test_a_key_that_is_echoed_in_what_is_of_no_use_is_not_in_the_ledger(
    status: int, server: Server, tmp_path: Path
) -> None:
    echo = {"model": KEY, "provider": KEY, "choices": [], "usage": COST}
    error = {"error": {"message": "bad"}} if status == 400 else {}
    server.route = lambda seen: Act({**echo, **error}, status)
    model = OpenAICompatible("other/model", server.url, patience=QUICK, allow_other_model=True)
    with pytest.raises(CallError):
        asyncio.run(Calls(Store(tmp_path)).chat("target", model, ASKED, str))
    written = (tmp_path / "ledger.jsonl").read_text()
    assert KEY not in written
    assert '"provider":"[key]"' in written


def test_a_refused_request_of_a_paid_model_is_of_unknown_cost(
    server: Server, tmp_path: Path
) -> None:
    server.will(Act({"error": {"message": "bad request", "code": 400}}, 400))
    model = OpenAICompatible(MODEL, server.url, patience=QUICK)
    with pytest.raises(CallError):
        asyncio.run(Calls(Store(tmp_path)).chat("target", model, ASKED, str))
    (charge,) = charges(tmp_path)
    assert (charge.outcome, charge.cost_usd, charge.told) == ("api_error", None, "unknown")
