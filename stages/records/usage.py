"""What a call of a model used, and who served it."""

from collections.abc import Iterable
from typing import Any

from stages.records.base import Record


class Usage(Record):
    """Consumption of one call, as its provider reported it. None where it did not say."""

    served_model: str | None = None
    """The model id that the provider says answered, which may differ from the one asked for."""
    provider: str | None = None
    """Who served the call, e.g. the upstream provider behind a router."""
    input_tokens: int | None = None
    """Prompt tokens, cached ones included."""
    output_tokens: int | None = None
    """Generated tokens, thinking included."""
    images: int | None = None
    """Images generated."""
    cost_usd: float | None = None
    """Charge in US dollars."""


def total(usages: Iterable[Usage]) -> Usage:
    """What several requests used together, served by whom the last one was; None stays unknown."""
    listed = tuple(usages)

    def add(name: str) -> Any:
        values = [value for u in listed if (value := getattr(u, name)) is not None]
        return sum(values) if values else None

    numbers = ("input_tokens", "output_tokens", "images", "cost_usd")
    last = listed[-1] if listed else Usage()
    return last.model_copy(update={name: add(name) for name in numbers})


class CallNote(Record):
    """The trace of one model call on a record: which stored reply it rests on."""

    role: str
    """The role that was called: target, extractor, editor, detector, segmenter, verifier or
    judge."""
    key: str
    """Key of the reply in the response store (SHA-256 of the canonical request)."""
    usage: Usage
    """What the call used when it was made."""
    model: str | None = None
    """The model id that was asked for; None where the call was no model's."""
    charged: bool = False
    """Whether its provider charges for it, so that a missing cost is unknown and not 0."""
