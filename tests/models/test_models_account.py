"""Money: every call that may be charged is in the ledger, and none passes the budget."""

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stages.models.account import BUDGET, Account, Budget, on_behalf_of
from stages.models.calls import Calls
from stages.models.ledger import Ledger
from stages.models.prices import Price, Prices
from stages.models.prompt import Prompt
from stages.models.protocol import Billing, CallError, Chat, Completion, Conversation, Turn
from stages.models.replies import Unparsed
from stages.models.store import Store
from stages.records.base import Status
from stages.records.charge import Charge
from stages.records.errors import UserError
from stages.records.usage import Usage

MODEL = "maker/model"
PRICES = Prices({MODEL: Price(input=1.0, output=10.0)})
REPAIR = Prompt("Again, since {{reason}}.", ("reason",), "0" * 64)
TOKENS = Usage(input_tokens=1000, output_tokens=100)  # 0.002 by PRICES


class Paid(Chat):
    """A model that charges, and says so or not."""

    def __init__(
        self, *replies: str | CallError, usage: Usage = TOKENS, keyed: bool = True, at_once: int = 8
    ) -> None:
        self.replies, self.usage, self.keyed = list(replies), usage, keyed
        self.concurrency, self.heard = at_once, 0

    @property
    def billing(self) -> Billing:
        return Billing(MODEL, self.keyed)

    def identity(self) -> Mapping[str, Any]:
        return {"model": MODEL}

    async def complete(self, conversation: Conversation) -> Completion:
        self.heard += 1
        await asyncio.sleep(0.002)
        reply = self.replies.pop(0) if self.replies else "7"
        if isinstance(reply, CallError):
            raise reply
        return Completion(reply, usage=self.usage)


def number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Unparsed(f"{text!r} is no number") from None


def calls_of(
    root: Path, *, usd: float | None = None, calls: int | None = None, prices: Prices = PRICES
) -> Calls:
    store = Store(root)
    return Calls(store, Account.of(store, "study", prices, Budget(usd, calls)))


def ask(calls: Calls, model: Chat, questions: int, first: int = 0) -> list[Any]:
    async def all_of_them() -> list[Any]:
        asked = (
            calls.chat(
                "judge", model, Conversation((Turn("user", f"q{n}"),), max_tokens=100), number
            )
            for n in range(first, first + questions)
        )
        return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(all_of_them())


def ledger(root: Path) -> Ledger:
    found = Ledger(root / "ledger.jsonl")
    found.read()
    return found


def reported(usd: float) -> Usage:
    return Usage(input_tokens=10, output_tokens=10, cost_usd=usd)


def test_what_the_provider_reports_is_what_is_spent(tmp_path: Path) -> None:
    ask(calls_of(tmp_path), Paid(usage=reported(0.25)), 4)
    spent = ledger(tmp_path).spent("study")
    assert (spent.calls, spent.usd, spent.estimated_usd, spent.unknown) == (4, 1.0, 0.0, 0)
    assert spent.open_calls == 0


def test_where_nothing_is_reported_the_price_table_speaks_and_says_so(tmp_path: Path) -> None:
    ask(calls_of(tmp_path), Paid(), 3)
    spent = ledger(tmp_path).spent("study")
    assert spent.usd == spent.estimated_usd == pytest.approx(0.006)
    assert spent.unknown == 0


def test_what_nobody_knows_is_unknown_and_not_nothing(tmp_path: Path) -> None:
    calls = calls_of(tmp_path, prices=Prices())
    ask(calls, Paid(), 3)
    (charge,) = {charge.cost_usd for charge in ledger(tmp_path).charges()}
    assert charge is None
    assert ledger(tmp_path).spent("study").unknown == 3
    assert "3 calls of unknown cost" in calls.summary()


def test_a_server_without_a_key_costs_what_it_reports_and_nothing_else(tmp_path: Path) -> None:
    ask(calls_of(tmp_path), Paid(keyed=False), 2)
    ask(calls_of(tmp_path), Paid(keyed=False, usage=reported(0.5)), 1, first=2)
    spent = ledger(tmp_path).spent("study")
    assert (spent.calls, spent.usd, spent.unknown) == (3, 0.5, 0)


def test_what_the_store_answers_is_not_paid_for(tmp_path: Path) -> None:
    for _ in range(2):
        ask(calls_of(tmp_path), Paid(), 3)
    assert ledger(tmp_path).spent("study").calls == 3


def test_a_failed_call_is_paid_for_and_carries_its_usage(tmp_path: Path) -> None:
    cut = CallError(Status.TRUNCATED, "cut", reported(0.3))
    (error,) = ask(calls_of(tmp_path), Paid(cut), 1)
    assert isinstance(error, CallError)
    assert error.usage.cost_usd == 0.3
    (charge,) = ledger(tmp_path).charges()
    assert (charge.outcome, charge.cost_usd, charge.told) == ("truncated", 0.3, "reported")


def test_both_requests_of_a_vain_repair_are_paid_for(tmp_path: Path) -> None:
    calls, model = calls_of(tmp_path), Paid("seven", "VII", usage=reported(0.5))
    asked = Conversation((Turn("user", "q"),), max_tokens=100)
    with pytest.raises(CallError) as caught:
        asyncio.run(calls.chat("judge", model, asked, number, REPAIR))
    assert caught.value.status is Status.UNPARSED
    assert caught.value.usage.cost_usd == 1.0
    assert ledger(tmp_path).spent("study").usd == 1.0


def test_the_first_of_a_repair_is_paid_for_where_the_second_fails(tmp_path: Path) -> None:
    calls = calls_of(tmp_path)
    model = Paid("seven", CallError(Status.REFUSED, "no"), usage=reported(0.5))
    asked = Conversation((Turn("user", "q"),), max_tokens=100)
    with pytest.raises(CallError):
        asyncio.run(calls.chat("judge", model, asked, number, REPAIR))
    assert ledger(tmp_path).spent("study").usd == 0.5


@pytest.mark.parametrize("at_once", [1, 8])
@pytest.mark.parametrize("prices", [PRICES, Prices()], ids=["priced", "unpriced"])
def test_a_run_stops_before_the_call_that_would_pass_the_budget(
    tmp_path: Path, at_once: int, prices: Prices
) -> None:
    model = Paid(usage=reported(0.25), at_once=at_once)
    ended = ask(calls_of(tmp_path, usd=1.1, prices=prices), model, 20)
    errors = {str(error) for error in ended if isinstance(error, Exception)}
    assert model.heard == 4
    assert ledger(tmp_path).spent("study").usd == 1.0
    (error,) = errors
    assert "limits.budget_usd" in error
    assert "would pass the budget of $1.1000: $1.0000 spent in 4 calls" in error
    assert "\n" not in error


def test_a_larger_budget_goes_on_where_the_smaller_ended(tmp_path: Path) -> None:
    for budget, made in ((0.5, 2), (0.5, 0), (1.5, 4), (None, 4)):
        model = Paid(usage=reported(0.25))
        ask(calls_of(tmp_path, usd=budget), model, 10)
        assert model.heard == made
    assert len(list(Store(tmp_path).keys())) == 10


def test_failed_calls_count_against_the_budget(tmp_path: Path) -> None:
    model = Paid(*(CallError(Status.REFUSED, "no", reported(0.5)) for _ in range(9)), at_once=1)
    ask(calls_of(tmp_path, usd=1.0), model, 9)
    assert model.heard == 2


def test_a_budget_counts_calls_where_it_is_one_of_calls(tmp_path: Path) -> None:
    model = Paid()
    (*_, last) = ask(calls_of(tmp_path, calls=3), model, 5)
    assert model.heard == 3
    assert "limits.budget_calls" in str(last)


def test_a_call_that_does_not_fit_waits_for_those_under_way(tmp_path: Path) -> None:
    # By the table a call may cost 0.00103; each then costs a tenth of it, so all four fit.
    model = Paid(usage=reported(0.0001), at_once=4)
    ended = ask(calls_of(tmp_path, usd=0.0015), model, 4)
    assert not [error for error in ended if isinstance(error, Exception)]


def test_studies_have_budgets_of_their_own(tmp_path: Path) -> None:
    store = Store(tmp_path)
    other = Calls(store, Account.of(store, "other", PRICES, Budget()))
    ask(other, Paid(usage=reported(5.0)), 1)
    model = Paid(usage=reported(0.25))
    ask(calls_of(tmp_path, usd=0.5), model, 3, first=1)
    assert model.heard <= 2
    assert ledger(tmp_path).spent("study").usd <= 0.5


def test_a_call_whose_process_was_killed_keeps_what_was_put_aside(tmp_path: Path) -> None:
    script = f"""
import asyncio, os, pathlib
from tests.models.test_models_account import Paid, ask, calls_of
class Killed(Paid):
    async def complete(self, conversation):
        os._exit(9)
ask(calls_of(pathlib.Path({str(tmp_path)!r})), Killed(), 1)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == 9
    spent = ledger(tmp_path).spent("study")
    assert (spent.calls, spent.open_calls) == (0, 1)
    assert 0 < spent.bound_usd == spent.open_usd


def test_processes_write_one_ledger_and_lose_no_line(tmp_path: Path) -> None:
    script = f"""
import pathlib, sys
from tests.models.test_models_account import Paid, ask, calls_of, reported
ask(calls_of(pathlib.Path({str(tmp_path)!r}), usd=10.0), Paid(usage=reported(0.01)), 30,
    first=100 * int(sys.argv[1]))
"""
    running = [subprocess.Popen([sys.executable, "-c", script, str(n)]) for n in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    spent = ledger(tmp_path).spent("study")
    assert (spent.calls, spent.open_calls, round(spent.usd, 6)) == (90, 0, 0.9)


def test_a_call_of_unknown_outcome_keeps_what_was_put_aside(tmp_path: Path) -> None:
    # By the table a call may cost 0.001001.
    model = Paid(*(CallError(Status.API_ERROR, "no reply") for _ in range(9)), at_once=3)
    (*_, last) = ask(calls_of(tmp_path, usd=0.0035), model, 9)
    assert model.heard == 3
    assert "$0.0000 spent in 3 calls of study study, $0.0030 put aside for 3 of unknown" in str(
        last
    )
    spent = ledger(tmp_path).spent("study")
    assert (spent.usd, spent.unknown, spent.open_usd) == (0.0, 3, 0.0)
    assert spent.bound_usd == spent.held_usd == pytest.approx(0.003003)


def test_a_call_that_is_given_up_while_it_waits_keeps_what_was_put_aside(tmp_path: Path) -> None:
    class Slow(Paid):
        async def complete(self, conversation: Conversation) -> Completion:
            await asyncio.sleep(9)
            return await super().complete(conversation)

    asked = Conversation((Turn("user", "q"),), max_tokens=100)
    call = calls_of(tmp_path).chat("judge", Slow(), asked, number)
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(call, 0.05))
    assert ledger(tmp_path).spent("study").bound_usd == pytest.approx(0.001001)


def test_what_is_known_in_part_is_held_but_for_that_part(tmp_path: Path) -> None:
    account = calls_of(tmp_path, prices=Prices({MODEL: Price(image=0.5)})).account
    billing = Billing(MODEL, keyed=True)
    begun = asyncio.run(account.begin("editor", billing, "key", Usage(images=1)))
    account.end(begun, billing, "ok", [reported(0.2), Usage(output_tokens=1)])
    spent = account.ledger.spent("study")
    assert (spent.usd, spent.held_usd, spent.bound_usd) == (0.2, pytest.approx(0.3), 0.5)


@pytest.mark.parametrize(
    ("study", "stage", "limit"),
    [("study", "preflight", 100), ("other", "", 100), ("study", "", 5)],
    ids=["a probe", "another study", "another limit"],
)
def test_a_cheaper_kind_of_call_does_not_tell_what_one_costs(
    tmp_path: Path, study: str, stage: str, limit: int
) -> None:
    store, cheap = Store(tmp_path), Paid(usage=reported(0.00001))
    asked = Conversation((Turn("user", "small"),), max_tokens=limit)
    with on_behalf_of(stage):
        calls = Calls(store, Account.of(store, study, PRICES, Budget()))
        asyncio.run(calls.chat("judge", cheap, asked, number))
    model = Paid(usage=reported(0.001))
    ask(calls_of(tmp_path, usd=0.0025), model, 8)
    assert model.heard == 2
    assert ledger(tmp_path).spent("study").usd <= 0.0025


def test_a_call_that_may_be_repaired_has_both_requests_put_aside(tmp_path: Path) -> None:
    asked = Conversation((Turn("user", "q"),), max_tokens=100)
    requests = [
        Usage(input_tokens=1, output_tokens=100),
        Usage(input_tokens=101, output_tokens=100),
    ]
    for repair, made in ((None, requests[:1]), (REPAIR, requests)):
        calls = calls_of(tmp_path / str(len(made)))
        asyncio.run(calls.chat("judge", Paid(), asked, number, repair))
        (charge,) = calls.account.ledger.charges()
        assert charge.expected_usd is not None
        assert charge.expected_usd >= (PRICES.cost(MODEL, made).usd or 0.0)


def test_a_torn_line_costs_that_line_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(calls_of(tmp_path), Paid(), 1)
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(path.read_bytes() + b'{"id": "half')
    ask(calls_of(tmp_path), Paid(), 1, first=1)
    assert ledger(tmp_path).spent("study").calls == 2
    assert "damaged" in capsys.readouterr().err


@pytest.mark.parametrize("ended", [b"\n", b""], ids=["ended", "at the end"])
@pytest.mark.parametrize("length", [(1 << 20) - 1, 1 << 20, 3 << 20])
def test_a_long_damaged_line_costs_that_line_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], length: int, ended: bytes
) -> None:
    before = calls_of(tmp_path)
    ask(before, Paid(), 1)
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(path.read_bytes() + bytes(length) + ended)
    ask(before, Paid(), 1, first=1)
    ask(calls_of(tmp_path), Paid(), 1, first=2)
    for reader in (before.account.ledger, ledger(tmp_path)):
        reader.read()
        spent = reader.spent("study")
        assert (spent.calls, spent.open_calls) == (3, 0)
    assert capsys.readouterr().err.count("is damaged") == 3, "once a reader"


@pytest.mark.parametrize("name", ["cost_usd", "expected_usd"])
def test_a_charge_below_nothing_is_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    ask(calls_of(tmp_path), Paid(), 1)
    path = tmp_path / "ledger.jsonl"
    charge = next(iter(ledger(tmp_path).charges()))
    line = charge.model_copy(update={"id": "other", name: -5.0}).model_dump_json()
    path.write_bytes(path.read_bytes() + line.encode() + b"\n")
    assert ledger(tmp_path).spent("study").calls == 1
    assert "damaged" in capsys.readouterr().err


def test_a_ledger_of_many_calls_is_read_in_parts_and_not_held(tmp_path: Path) -> None:
    model, calls = Paid(), Calls(Store(tmp_path))
    ask(calls, model, 1)
    begun, ended = calls.account.ledger.path.read_text().splitlines()
    lines = [
        line.replace(Charge.model_validate_json(begun).id, f"{n:032x}") + "\n"
        for n in range(4000)
        for line in (begun, ended)
    ]
    text = "".join(lines)
    assert len(text) > 2 << 20, "several parts"
    calls.account.ledger.path.write_text(text)
    ledger = Ledger(calls.account.ledger.path)
    ledger.read()
    spent = ledger.spent("")
    assert (spent.calls, spent.open_calls, spent.unknown) == (4000, 0, 4000)
    assert not ledger._last
    assert not ledger._open


def test_a_line_names_the_stage_that_it_was_written_for(tmp_path: Path) -> None:
    with on_behalf_of("baseline"):
        ask(calls_of(tmp_path), Paid(), 1)
    (charge,) = ledger(tmp_path).charges()
    assert (charge.stage, charge.study, charge.role) == ("baseline", "study", "judge")
    assert Charge.model_validate_json(charge.model_dump_json()) == charge


def test_the_environment_sets_a_budget_or_takes_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, budget in (("", 5.0), ("2.5", 2.5), ("0", 0.0), ("none", None)):
        monkeypatch.setenv(BUDGET, given)
        assert Budget.of(5.0, None).usd == budget
    for wrong in ("much", "-1", "nan", "inf"):
        monkeypatch.setenv(BUDGET, wrong)
        with pytest.raises(UserError, match="no amount"):
            Budget.of(None, None)


@pytest.mark.parametrize(
    ("price", "usage", "cost"),
    [
        (Price(input=2.0, output=4.0), Usage(input_tokens=500_000, output_tokens=250_000), 2.0),
        (Price(input=2.0, output=4.0), Usage(input_tokens=1), None),
        (Price(input=2.0), Usage(input_tokens=1, output_tokens=1), None),
        (Price(image=0.1, input=2.0, output=4.0), Usage(images=3, input_tokens=1), 0.3),
        (Price(), Usage(images=3), None),
    ],
)
def test_a_price_is_applied_only_where_all_that_it_takes_is_known(
    price: Price, usage: Usage, cost: float | None
) -> None:
    assert price.cost(usage) == pytest.approx(cost) if cost else price.cost(usage) is None


def test_megapixels_beyond_the_first_and_those_that_are_sent_are_charged() -> None:
    flux = Price(image=0.07, input_megapixel=0.03, output_megapixel=0.03)
    assert flux.cost(Usage(images=1), 1.0) == pytest.approx(0.10)
    assert flux.cost(Usage(images=1), 2.0) == pytest.approx(0.16)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("models: {m: {input: true}}", "models.m.input"),
        ("models: {m: {input: .inf}}", "models.m.input"),
        ("models: {m: {input: 1}, m: {input: 2}}", "m is given twice"),
        ("models: {}\nassumed: {judge: {input: 1, output: .inf}}", "assumed.judge.output"),
        ("models: {}\nassumed: {judge: {input: -5, output: 1}}", "assumed.judge.input"),
        ("models: {}\nassumed: {judge: {input: true, output: 1}}", "assumed.judge.input"),
        ("models: {}\nassumed: {judge: {input: 1}}", "assumed.judge"),
        ("models: {}\nassumed: {judge: 3}", "assumed.judge"),
        ("models: {}\nassumed: {thinking: -1}", "assumed.thinking"),
        ("models: {}\nassumed: [1]", "assumed"),
    ],
)
def test_a_wrong_value_in_a_price_table_is_one_line_that_names_its_key(
    tmp_path: Path, text: str, named: str
) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        Prices.load(path)
    assert "prices.yaml" in str(caught.value)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["models: [", "models: 3", "models: {m: {input: -1}}", "x: 1"])
def test_a_broken_price_table_is_one_line_that_names_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"prices\.yaml"):
        Prices.load(path)


def test_a_task_that_is_resumed_is_counted_once(tmp_path: Path) -> None:
    book, billing = ledger(tmp_path), Billing(MODEL, keyed=True)
    account = Account(book, "study", PRICES)
    failed = asyncio.run(account.begin("editor", billing, "key", Usage(images=1)))
    account.end(failed, billing, "api_error", [Usage(cost_usd=0.1)])
    killed = account.begin("editor", billing, "key", Usage(images=1), resumes=True)
    asyncio.run(killed)
    again = asyncio.run(account.begin("editor", billing, "key", Usage(images=1), resumes=True))
    account.end(again, billing, "ok", [Usage(cost_usd=0.1)])
    spent = ledger(tmp_path).spent("study")
    assert (spent.usd, spent.open_calls, spent.open_usd) == (pytest.approx(0.1), 0, 0.0)
