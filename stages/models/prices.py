"""Prices per model, and what a call costs by them where its provider does not say.

`conf/prices.yaml` is no part of `params.yaml`: a price changes no result, so it runs no stage but
`report` again.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from stages.records.base import Record
from stages.records.charge import Told
from stages.records.errors import UserError
from stages.records.usage import Usage

MILLION = 1_000_000
_DIGITS = 9


class Price(Record):
    """What a model costs, in US dollars. None: not charged by that, or not known."""

    input: float | None = None
    """Per million input tokens."""
    output: float | None = None
    """Per million output tokens, thinking included."""
    image: float | None = None
    """Per image that is made, its first megapixel included."""
    input_megapixel: float | None = None
    """Per megapixel of the image that is sent."""
    output_megapixel: float | None = None
    """Per megapixel of an image that is made, beyond the first."""

    def cost(self, usage: Usage, megapixels: float = 1.0) -> float | None:
        """The cost of a call; None where usage or price lack what it takes.

        Parameters
        ----------
        usage : Usage
            Tokens and images.
        megapixels : float
            Size of the image that was sent, and of the one that was made.
        """
        if self.image is not None and usage.images is not None:
            each = self.image + (self.input_megapixel or 0.0) * megapixels
            each += (self.output_megapixel or 0.0) * max(0.0, megapixels - 1)
            return round(usage.images * each, _DIGITS)
        if None in (self.input, self.output, usage.input_tokens, usage.output_tokens):
            return None
        tokens = (usage.input_tokens or 0) * (self.input or 0.0)
        tokens += (usage.output_tokens or 0) * (self.output or 0.0)
        return round(tokens / MILLION, _DIGITS)


@dataclass(frozen=True)
class Cost:
    """What calls cost, as far as it is known."""

    usd: float | None
    """Sum of what is known; None where nothing is."""
    estimated_usd: float = 0.0
    """How much of it comes from the price table."""
    unknown: int = 0
    """Calls of unknown cost."""

    @property
    def told(self) -> Told:
        """Where the number comes from, by its weakest part."""
        if self.unknown:
            return "unknown"
        return "estimated" if self.estimated_usd else "reported"


@dataclass(frozen=True)
class Prices:
    """The price table: prices by model id."""

    models: Mapping[str, Price] = field(default_factory=dict)
    tokens: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Tokens in and out that a call of a stage is taken to use, where none was made yet."""
    thinking: int = 0
    """What thinking is taken to add to those that come out."""

    @classmethod
    def load(cls, path: Path) -> "Prices":
        """Read a price table; a file that is not there is an empty one, in which all is unknown."""
        where = str(path)
        try:
            table = _Loader(path.read_text(encoding="utf-8")).get_single_data()
        except FileNotFoundError:
            return cls()
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            why = " ".join(str(error).split())
            raise UserError(where, f"no YAML ({why})", "Mend it.") from None
        models = table.get("models") if isinstance(table, dict) else None
        if not isinstance(models, dict):
            raise UserError(where, "holds no mapping `models`", "List prices by model id there.")
        assumed = table.get("assumed") or {}
        if not isinstance(assumed, dict):
            raise _no_tokens(f"{where}: assumed")
        rows = dict(assumed)
        thinking = _tokens(f"{where}: assumed.thinking", rows.pop("thinking", 0))
        tokens = {str(name): _in_and_out(f"{where}: assumed.{name}", rows[name]) for name in rows}
        priced = {str(name): _price(where, str(name), row) for name, row in models.items()}
        return cls(priced, tokens, thinking)

    def of(self, asked: str, served: str | None = None) -> Price | None:
        """The price of the model that answered, else of the one that was asked for."""
        return self.models.get(served or "") or self.models.get(asked)

    def assumed(self, stage: str, *, thinking: bool) -> tuple[int | None, int | None]:
        """Tokens in and out of a call that nobody has made yet; None where nothing is assumed."""
        if stage not in self.tokens:
            return None, None
        given, written = self.tokens[stage]
        return given, written + (self.thinking if thinking else 0)

    def with_live(self, live: Mapping[str, Price]) -> "Prices":
        """Prices that an API gives now before those of the table."""
        return replace(self, models={**self.models, **live})

    def cost(self, asked: str, usages: Iterable[Usage]) -> Cost:
        """Sum what was reported, and by this table what was not."""
        known, estimated, unknown = [], 0.0, 0
        for usage in usages:
            if usage.cost_usd is not None:
                known.append(usage.cost_usd)
                continue
            price = self.of(asked, usage.served_model)
            by_table = price.cost(usage) if price is not None else None
            if by_table is None:
                unknown += 1
            else:
                known.append(by_table)
                estimated += by_table
        total = round(math.fsum(known), _DIGITS) if known else None
        return Cost(total, round(estimated, _DIGITS), unknown)


class _Loader(yaml.SafeLoader):
    """Plain YAML without a key that is given twice, of which the last would count in silence."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key for key, _ in node.value]
        for place, key in enumerate(keys):
            if key.value in [earlier.value for earlier in keys[:place]]:
                why = f"{key.value} is given twice"
                raise yaml.constructor.ConstructorError(None, None, why, key.start_mark)
        return super().construct_mapping(node, deep)


def _no_tokens(where: str) -> UserError:
    return UserError(where, "is no table of tokens", "Give {input: …, output: …} a stage.")


def _in_and_out(where: str, row: Any) -> tuple[int, int]:
    if not isinstance(row, dict) or set(row) != {"input", "output"}:
        raise _no_tokens(where)
    return _tokens(f"{where}.input", row["input"]), _tokens(f"{where}.output", row["output"])


def _tokens(where: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise UserError(where, f"{value!r} is no number of tokens", "Give e.g. 1200.")
    return value


def _price(where: str, name: str, row: Any) -> Price:
    for key, value in row.items() if isinstance(row, dict) else ():
        if isinstance(value, bool):
            raise UserError(f"{where}: models.{name}.{key}", "is no price", "Give US dollars.")
    try:
        price = Price.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(["models", name, *(str(part) for part in first["loc"])])
        raise UserError(f"{where}: {key}", first["msg"].lower(), "Mend it.") from None
    for key, value in price:
        if value is not None and value < 0:
            raise UserError(f"{where}: models.{name}.{key}", "is negative", "Mend it.")
    return price
