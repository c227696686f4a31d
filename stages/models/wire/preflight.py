"""Is a model there, for what it is wanted for, and for how long? Asked without a charge."""

import difflib
from collections.abc import Iterable
from datetime import UTC, date, datetime

from stages.models.prices import Price
from stages.models.protocol import SEEING, Finding
from stages.models.wire.endpoint import Endpoint
from stages.models.wire.listing import Listed, get, listing
from stages.models.wire.served import is_same_model

SOON_DAYS = 60
"""A model that ends within so many days is worth a word."""


async def reached(endpoint: Endpoint) -> list[Finding]:
    """Whether a server is there: any answer will do."""
    response = await get(endpoint, "", {})
    if isinstance(response, Finding):
        return [response]
    return [Finding("ok", f"{endpoint.base_url} answers")]


async def price_of(endpoint: Endpoint, path: str = "/models") -> Price | None:
    """What a server says that a model costs now."""
    entries = await listing(endpoint, path)
    entry = None if isinstance(entries, Finding) else _found(entries, endpoint.model, ())
    return entry.price if entry is not None else None


async def of_listed(
    endpoint: Endpoint,
    role: str,
    *,
    path: str = "/models",
    served_as: Iterable[str] = (),
    sent: Iterable[str] = (),
    strict: bool = False,
) -> list[Finding]:
    """Hold a model against its server's list.

    Parameters
    ----------
    path : str
        Where the list is.
    served_as : iterable of str
        Further ids of the model.
    sent : iterable of str
        Parameters that requests carry.
    strict : bool
        Whether a parameter that the model does not know makes a request fail; else it is dropped.
    """
    entries = await listing(endpoint, path)
    if isinstance(entries, Finding):
        return [entries, *_ending(endpoint.model, endpoint.ends, endpoint.blame.hint)]
    entry = _found(entries, endpoint.model, served_as)
    if entry is None:
        near = difflib.get_close_matches(endpoint.model, entries, n=3)
        remedy = endpoint.blame.hint or (
            f"It serves e.g. {', '.join(near or sorted(entries)[:3])}."
        )
        what = f"{endpoint.provider} does not list {endpoint.model}"
        return [Finding("wrong", what, remedy)]
    found = [Finding("ok", f"{endpoint.provider} lists {entry.id}")]
    found += _ending(endpoint.model, entry.ends or endpoint.ends, endpoint.blame.hint)
    if role in SEEING and entry.sees is False:
        found.append(Finding("wrong", f"{entry.id} takes no images", "Choose a model that does."))
    if role == "editor" and entry.draws is False:
        found.append(Finding("wrong", f"{entry.id} makes no images", "Choose a model that does."))
    unknown = sorted(set(sent) - entry.parameters) if entry.parameters else []
    if unknown:
        what = f"{entry.id} does not know {', '.join(unknown)}"
        found.append(
            Finding("wrong", what, "Take it out, or take out provider.require_parameters.")
            if strict
            else Finding("note", f"{what}, which is dropped in silence")
        )
    return found


def _found(entries: dict[str, Listed], model: str, served_as: Iterable[str]) -> Listed | None:
    if model in entries:
        return entries[model]
    same = (e for e in entries.values() if is_same_model(model, e.id, served_as))
    return next(same, None)


def _ending(model: str, ends: str | None, hint: str) -> list[Finding]:
    try:
        last = date.fromisoformat(ends or "")
    except ValueError:
        return []
    left = (last - datetime.now(UTC).date()).days
    if left < 0:
        return [Finding("wrong", f"{model} ended there on {last}", hint)]
    if left <= SOON_DAYS:
        return [Finding("note", f"{model} ends there on {last}", hint)]
    return []
