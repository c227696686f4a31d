"""What a call used, as far as the provider says so in a form that can be believed."""

import math
from collections.abc import Mapping
from typing import Any

from stages.records.usage import Usage


def usage_of(body: Mapping[str, Any], *, images: int | None = None) -> Usage:
    """Read served model, provider, tokens and charge from a reply.

    Tokens are called ``prompt_tokens`` and ``completion_tokens`` by chat endpoints,
    ``input_tokens`` and ``output_tokens`` by image endpoints. ``cost`` (OpenRouter) is in dollars.
    """
    given = body.get("usage")
    used: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    return Usage(
        served_model=_name(body.get("model")),
        provider=_name(body.get("provider")),
        input_tokens=_count(used.get("prompt_tokens", used.get("input_tokens"))),
        output_tokens=_count(used.get("completion_tokens", used.get("output_tokens"))),
        images=images,
        cost_usd=amount(used.get("cost")),
    )


def amount(value: object) -> float | None:
    """A charge: a finite number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
