"""The account of a stage: may this call be made within the budget, and what did it cost?

A budget counts all calls of a study, whatever process makes them, the failed ones too. What a call
will cost is put aside before it is made: the largest cost that a call of its kind ever had, else
the price table with all tokens that it may use; and the first of a kind goes alone, since it tells
what the others will cost. A kind is a model in one role, in one stage of one study, with one
limit of tokens. What was put aside stays so where nobody tells what the call cost. A call that does
not fit waits for those under way, which may come cheaper; if there are none, the run stops, and
goes on later with a larger budget.
"""

import asyncio
import math
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime

from stages.models.ledger import BEGUN, NAME, Kind, Ledger, Spent
from stages.models.prices import Prices
from stages.models.protocol import Billing
from stages.models.store import Store
from stages.records.charge import Charge
from stages.records.errors import UserError
from stages.records.usage import Usage

BUDGET = "EDCT_BUDGET_USD"
_ROUNDING = 1e-9
_STAGE: ContextVar[str] = ContextVar("stage", default="")


def on_whose_behalf() -> str:
    """The stage that this is done for; empty outside of one."""
    return _STAGE.get()


@contextmanager
def on_behalf_of(stage: str) -> Iterator[None]:
    """Put a stage's name on all lines that are written within."""
    token = _STAGE.set(stage)
    try:
        yield
    finally:
        _STAGE.reset(token)


@dataclass(frozen=True)
class Budget:
    """What a study may spend. None: as much as it takes."""

    usd: float | None = None
    """US dollars."""
    calls: int | None = None
    """Calls that may be charged."""

    @classmethod
    def of(cls, usd: float | None, calls: int | None) -> "Budget":
        """The budget of the parameters, or the one that EDCT_BUDGET_USD sets instead."""
        given = os.environ.get(BUDGET, "").strip()
        if not given:
            return cls(usd, calls)
        if given.lower() in ("none", "null"):
            return cls(None, calls)
        try:
            amount = float(given)
        except ValueError:
            amount = math.nan
        if not (math.isfinite(amount) and amount >= 0):
            raise UserError(
                f"environment variable {BUDGET}",
                f"{given!r} is no amount",
                "Give e.g. 25, or none.",
            )
        return cls(amount, calls)


@dataclass
class Account:
    """What is written into the ledger, and when no more may be.

    Parameters
    ----------
    ledger : Ledger
        Where it is written.
    study : str
        Whose budget it is.
    prices : Prices
        For what providers do not tell.
    budget : Budget
        Where it ends.
    """

    ledger: Ledger
    study: str = ""
    prices: Prices = field(default_factory=Prices)
    budget: Budget = field(default_factory=Budget)
    made: Spent = field(default_factory=Spent)
    """What the calls of this account came to."""
    _under_way: int = 0
    _scouts: set[Kind] = field(default_factory=set)
    """Kinds of calls of which one is under way to find out what they cost."""
    _known: set[Kind] = field(default_factory=set)
    """Kinds of calls that were made before, even where nobody said what they cost."""
    _changed: asyncio.Event | None = None

    @classmethod
    def of(
        cls,
        store: Store,
        study: str = "",
        prices: Prices | None = None,
        budget: Budget | None = None,
    ) -> "Account":
        """The account beside a store."""
        return cls(Ledger(store.root / NAME), study, prices or Prices(), budget or Budget())

    async def begin(
        self, role: str, billing: Billing, key: str, most: Usage, *, resumes: bool = False
    ) -> Charge:
        """Put aside what a call will cost.

        Parameters
        ----------
        role, billing, key
            The call.
        most : Usage
            The most that it can use.
        resumes : bool
            Whether it asks for a task that was submitted, and put aside for, before.

        Raises
        ------
        UserError
            If it would pass the budget even when all calls under way have ended.
        """
        while True:
            event = self._changed = self._changed or asyncio.Event()
            charge = self._try(role, billing, key, most, resumes)
            if charge is not None:
                self._under_way += 1
                return charge
            await event.wait()

    def end(self, begun: Charge, billing: Billing, outcome: str, used: Sequence[Usage]) -> None:
        """Write down how a call ended and what it used, tries in vain included."""
        charge = self._ended(begun, billing, outcome, used)
        self.made.add(charge)
        try:
            self.ledger.append(charge)
        finally:
            self._under_way -= 1
            kind = Kind.of(begun)
            self._known.add(kind)
            self._scouts.discard(kind)
            if self._changed is not None:
                self._changed.set()
                self._changed = None

    def summary(self) -> list[str]:
        """What this account's calls cost, in a few words; empty where none was charged."""
        return self.made.said()

    def _try(
        self, role: str, billing: Billing, key: str, most: Usage, resumes: bool
    ) -> Charge | None:
        kind = Kind(self.study, _STAGE.get(), role, billing.model, most.output_tokens)
        limited = self.budget != Budget()

        def decide() -> Charge | None:
            expected = self._expected(kind, billing, most)
            if limited and kind in self._scouts:
                return None  # the first of its kind tells what the others will cost
            if limited and not resumes and not self._fits(expected, billing.keyed):
                if self._under_way:
                    return None
                raise self._spent(role, billing.model, expected)
            return Charge(
                id=uuid.uuid4().hex,
                at=_now(),
                **kind._asdict(),
                key=key,
                outcome=BEGUN,
                expected_usd=expected,
                resumes=resumes,
            )

        charge = self.ledger.append_if(decide)
        unheard = self.ledger.largest(kind) is None and kind not in self._known
        if charge is not None and unheard:
            self._scouts.add(kind)
        return charge

    def _expected(self, kind: Kind, billing: Billing, most: Usage) -> float | None:
        largest = self.ledger.largest(kind)
        if largest is not None or not billing.keyed:
            return largest
        price = self.prices.of(billing.model)
        return price.cost(most) if price is not None else None

    def _fits(self, expected: float | None, keyed: bool) -> bool:
        spent, budget = self.ledger.spent(self.study), self.budget
        if budget.calls is not None and spent.calls + spent.open_calls >= budget.calls:
            return False
        if budget.usd is None:
            return True
        room = budget.usd - spent.bound_usd + _ROUNDING
        if expected is None:  # a server without a key may cost nothing: its first call tells
            return room > 2 * _ROUNDING or not keyed
        return expected <= max(room, 0.0)

    def _spent(self, role: str, model: str, expected: float | None) -> UserError:
        spent, budget = self.ledger.spent(self.study), self.budget
        about = "" if expected is None else f", about ${expected:.4f}"
        said = f"${spent.usd:.4f} spent in {spent.calls} calls of study {self.study or '-'}"
        if spent.estimated_usd:
            said += f", ${spent.estimated_usd:.4f} of it estimated"
        if spent.open_calls:
            said += f", ${spent.open_usd:.4f} put aside for {spent.open_calls} under way or lost"
        if spent.unknown:
            said += f", ${spent.held_usd:.4f} put aside for {spent.unknown} of unknown cost"
        if budget.calls is not None and spent.calls + spent.open_calls >= budget.calls:
            where, limit = "params.yaml: limits.budget_calls", f"{budget.calls} calls"
        else:
            where, limit = "params.yaml: limits.budget_usd", f"${budget.usd:.4f}"
        return UserError(
            where,
            f"the next {role} call ({model}{about}) would pass the budget of {limit}: {said}",
            f"Raise it (or `export {BUDGET}=…`) and run again: what was paid for is in the store.",
        )

    def _ended(
        self, begun: Charge, billing: Billing, outcome: str, used: Sequence[Usage]
    ) -> Charge:
        prices = self.prices if billing.keyed else Prices()
        cost = prices.cost(billing.model, used)
        usd, told = cost.usd, cost.told
        if not used and outcome != "ok":
            told = "unknown"  # it may have been carried out, and charged
        if not billing.keyed and told == "unknown":
            usd, told = cost.usd or 0.0, "free"
        update = {"at": _now(), "outcome": outcome, "usage": tuple(used)}
        return begun.model_copy(update={**update, "cost_usd": usd, "told": told})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
