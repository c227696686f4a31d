"""What the calls that a study still needs will cost, by a price table or the prices of the day."""

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stages.models.ledger import NAME, Ledger
from stages.models.prices import Price, Prices
from stages.models.protocol import Adapter, Chat
from stages.models.store import Store
from stages.models.wire.secrets import not_needed
from stages.records.errors import UserError
from stages.records.sample import Sample
from stages.records.usage import Usage
from stages.spending.made import Made, add_ledger, from_records, stored
from stages.spending.needs import Need, missing_questions, needs, samples_of
from stages.workflow import adapters, cells, preflight

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
class Estimate:
    """The dry run."""

    n_samples: int
    lines: tuple[Line, ...]

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
        If a model can't be made, or nothing says how many samples there are.
    """
    study = cells.study_cells(params)
    samples = samples_of(root, params) if study else 0
    n_samples = samples if isinstance(samples, int) else len(samples)
    models = _models(params)
    prices = Prices.load(root / PRICES)
    if live:
        prices = prices.with_live(asyncio.run(_live(models)))
    store = Store.open(root)
    made = from_records(root, study)
    wanted = list(needs(root, params, made, n_samples))
    charges = list(Ledger(store.root / NAME).charges())
    asked = {need.post: _asked(models[need.post.role, need.post.name]) for need in wanted}
    add_ledger(made, charges, asked)
    megapixels = _megapixels(samples)
    lines = []
    for need in wanted:
        post, model = need.post, models[need.post.role, need.post.name]
        entry = made.get(post, Made())
        if post.stage == "baseline" and isinstance(model, Chat) and not isinstance(samples, int):
            left = missing_questions(root, params, post.name, model)
        else:
            left = max(0, need.calls - stored(store, entry, dict(model.identity())))
        lines.append(_line(need, model, left, entry, prices, megapixels))
    return Estimate(n_samples, tuple(lines))


def _line(
    need: Need, model: Adapter, left: int, entry: Made, prices: Prices, megapixels: float
) -> Line:
    billing = model.billing
    if billing is None or not billing.keyed:
        return Line(need, _asked(model), left, None, None, None, 0.0, assumed=False)
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


def _models(params: Mapping[str, Any]) -> dict[tuple[str, str], Adapter]:
    """Every model of a study by role and name."""
    with not_needed():
        return {
            (part.role, part.name): adapters.build(params, part.key, part.kind)
            for part in preflight.parts(params)
        }


def _asked(model: Adapter) -> str:
    identity = model.identity()
    named = model.billing.model if model.billing else identity.get("model") or identity.get("id")
    return str(named or "-")


def _thinks(model: Adapter) -> bool:
    identity = model.identity()
    extra = identity.get("extra_body")
    reasoning = extra.get("reasoning") if isinstance(extra, Mapping) else None
    off = isinstance(reasoning, Mapping) and reasoning.get("enabled") is False
    return bool(reasoning and not off) or "thinking" in _asked(model)


def _megapixels(samples: Sequence[Sample] | int) -> float:
    if isinstance(samples, int) or not samples:
        return 1.0
    return statistics.fmean(sample.width * sample.height for sample in samples) / 1e6


async def _live(models: Mapping[tuple[str, str], Adapter]) -> dict[str, Price]:
    found: dict[str, Price] = {}
    for model in models.values():
        if model.billing is None or model.billing.model in found:
            continue
        try:
            price = await model.price_now()
        except UserError:
            continue  # then the table's stands
        if price is not None:
            found[model.billing.model] = price
    return found
