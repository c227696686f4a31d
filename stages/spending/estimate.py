"""What the calls that a study still needs will cost, by a price table or the prices of the day."""

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stages.models.account import BUDGET
from stages.models.ledger import NAME, Ledger
from stages.models.prices import Price, Prices
from stages.models.protocol import Adapter, Billing, Chat
from stages.models.store import Store
from stages.models.wire.secrets import not_needed
from stages.records.errors import UserError
from stages.records.sample import Sample
from stages.records.usage import Usage
from stages.spending.made import Made, add_ledger, from_records, stored
from stages.spending.needs import Need, missing_questions, needs, samples_of
from stages.workflow import adapters, cast, cells, preflight

PRICES = Path("conf") / "prices.yaml"


@dataclass(frozen=True)
class Line:
    """What one model will be asked in one stage, and for how much."""

    need: Need
    model: str
    to_make: int
    """Calls that the store does not answer."""
    input_tokens: int | None
    output_tokens: int | None
    images: int | None
    cost_usd: float | None
    """None: unknown."""
    assumed: bool
    """Whether tokens are this project's guess, since no such call was made yet."""


@dataclass(frozen=True)
class Model:
    """A model of the study as far as it can be known without being used."""

    name: str
    """What it is called in the table."""
    adapter: Adapter | None
    identity: Mapping[str, Any] | None
    """None: can't be told now, so that its calls can't be looked up in the store."""
    why: str = ""
    """Why it can't be told."""

    @property
    def billing(self) -> Billing | None:
        """How calls are charged; None where nothing leaves this machine."""
        return None if self.adapter is None else self.adapter.billing


@dataclass(frozen=True)
class Estimate:
    """The dry run."""

    n_samples: int
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    """What the numbers do not say: what could not be looked at, and whether the budget does."""

    @property
    def known_usd(self) -> float:
        """Sum of what can be estimated."""
        return sum(line.cost_usd or 0.0 for line in self.lines)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Models of unknown price that will be called."""
        return tuple(dict.fromkeys(x.model for x in self.lines if x.to_make and x.cost_usd is None))


def estimate(root: Path, params: Mapping[str, Any], *, live: bool = False) -> Estimate:
    """Count and price what is left to do; no model is called.

    Parameters
    ----------
    root : Path
        The workspace.
    params : mapping
        The study.
    live : bool
        Ask providers for the prices of the day, which come before the table's.

    Raises
    ------
    UserError
        If a model that is charged can't be made, or nothing says how many samples there are.
        Weights that are not here, or that the study itself makes, are no error: their calls are
        counted without the store.
    """
    study = cells.study_cells(params)
    samples = samples_of(root, params) if study else 0
    n_samples = samples if isinstance(samples, int) else len(samples)
    models = _models(params)
    prices, notes = Prices.load(root / PRICES), []
    if live:
        found, without = asyncio.run(_live(models))
        prices = prices.with_live(found)
        if without:
            notes.append(
                f"No price of the day was had for {', '.join(without)}: the table's stand."
            )
    store = Store.open(root)
    made = from_records(root, study)
    wanted = list(needs(root, params, made, n_samples))
    ledger = Ledger(store.root / NAME)
    add_ledger(
        made,
        list(ledger.charges()),
        {need.post: models[need.post.role, need.post.name].name for need in wanted},
    )
    megapixels = _megapixels(samples)
    lines = []
    for need in wanted:
        post, model = need.post, models[need.post.role, need.post.name]
        entry = made.get(post, Made())
        if model.identity is None:
            left = need.calls
        elif post.stage == "baseline" and not isinstance(samples, int):
            assert isinstance(model.adapter, Chat)
            left = missing_questions(root, params, post.name, model.adapter)
        else:
            left = max(0, need.calls - stored(store, entry, dict(model.identity)))
        lines.append(_line(need, model, left, entry, prices, megapixels))
    unseen = dict.fromkeys(
        f"{' '.join((key[1] or key[0], model.name)).strip()} ({model.why})"
        for key, model in models.items()
        if model.why
    )
    if unseen:
        notes.append(f"Counted without a look at the store: {'; '.join(unseen)}.")
    notes += _beyond(params, sum(line.cost_usd or 0.0 for line in lines), ledger)
    return Estimate(n_samples, tuple(lines), tuple(notes))


def _beyond(params: Mapping[str, Any], usd: float, ledger: Ledger) -> list[str]:
    """Say that the budget ends before the study does, where that is so."""
    budget, spent = cast.budget(params), ledger.spent(str(params.get("study", "")))
    if budget.usd is None or spent.bound_usd + usd <= budget.usd:
        return []
    return [
        f"More than the budget of ${budget.usd:,.2f} (limits.budget_usd, or {BUDGET}): "
        f"${spent.bound_usd:,.2f} are spent or put aside, and ${usd:,.2f} to come."
    ]


def _line(
    need: Need, model: Model, left: int, entry: Made, prices: Prices, megapixels: float
) -> Line:
    billing = model.billing
    if billing is None or not billing.keyed:
        return Line(need, model.name, left, None, None, None, 0.0, assumed=False)
    tokens = [entry.mean(name) for name in ("input_tokens", "output_tokens")]
    draws = need.post.role == "editor"
    assumed = None in tokens and not draws
    if assumed:
        tokens = list(prices.assumed(need.post.stage, thinking=_thinks(model)))
    each = Usage(
        input_tokens=_whole(tokens[0]), output_tokens=_whole(tokens[1]), images=1 if draws else None
    )
    cost, price = entry.mean("cost_usd"), prices.of(billing.model)
    if cost is None and price is not None:
        cost = price.cost(each, megapixels)
    return Line(
        need,
        billing.model,
        left,
        None if each.input_tokens is None else left * each.input_tokens,
        None if each.output_tokens is None else left * each.output_tokens,
        left if draws else None,
        0.0 if left == 0 else None if cost is None else left * cost,
        assumed,
    )


def _whole(mean: float | None) -> int | None:
    return None if mean is None else round(mean)


def _models(params: Mapping[str, Any]) -> dict[tuple[str, str], Model]:
    """Every model of a study by role and name."""
    with not_needed():
        return {
            (part.role, part.name): _model(params, part, part.name in cells.trained(params))
            for part in preflight.parts(params)
        }


def _model(params: Mapping[str, Any], part: preflight.Part, trained: bool) -> Model:
    """A model; of one that is not charged, weights and packages may be missing."""
    config = adapters.lookup(params, part.key)
    charged = adapters.check(config, part.key, part.kind).billing is not Adapter.billing
    trained = trained and part.role == "target"
    adapter: Adapter | None = None
    try:
        adapter = adapters.build(params, part.key, part.kind)
        identity = adapter.identity()
    except UserError as error:
        if charged:
            raise
        if trained:
            return Model("", adapter, None, "this study trains it")
        return Model(str(config.get("model") or "-"), adapter, None, error.what)
    return Model(_asked(adapter, identity), adapter, identity)


def _asked(model: Adapter, identity: Mapping[str, Any]) -> str:
    named = model.billing.model if model.billing else identity.get("model") or identity.get("id")
    return str(named or "-")


def _thinks(model: Model) -> bool:
    extra = (model.identity or {}).get("extra_body")
    reasoning = extra.get("reasoning") if isinstance(extra, Mapping) else None
    off = isinstance(reasoning, Mapping) and reasoning.get("enabled") is False
    return bool(reasoning and not off) or "thinking" in model.name


def _megapixels(samples: Sequence[Sample] | int) -> float:
    if isinstance(samples, int) or not samples:
        return 1.0
    return statistics.fmean(sample.width * sample.height for sample in samples) / 1e6


async def _live(models: Mapping[tuple[str, str], Model]) -> tuple[dict[str, Price], list[str]]:
    """Prices of the day by model, and the charged models that no provider names one of."""
    found: dict[str, Price] = {}
    without: dict[str, None] = {}
    for model in models.values():
        if model.adapter is None or model.billing is None or not model.billing.keyed:
            continue
        if (name := model.billing.model) in found or name in without:
            continue
        try:
            price = await model.adapter.price_now()
        except UserError:
            price = None  # then the table's stands
        if price is None:
            without[name] = None
        else:
            found[name] = price
    return found, list(without)
