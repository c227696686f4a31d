"""What a server says that it serves: ids, and whatever else it tells of them.

OpenRouter tells of each model when it ends, what it takes and makes, which parameters it knows and
what it costs. Other servers give ids alone: what is not told is None.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from stages.models.prices import MILLION, Price
from stages.models.protocol import Finding
from stages.models.wire.endpoint import Endpoint
from stages.models.wire.errors import one_line, reported
from stages.models.wire.fault import Fault
from stages.records.errors import UserError

if TYPE_CHECKING:
    import httpx2

WAIT_S = 20.0
"""Seconds after which a server that says nothing counts as absent."""


@dataclass(frozen=True)
class Listed:
    """A model as its server lists it."""

    id: str
    ends: str | None = None
    """Date on which it ends there."""
    sees: bool | None = None
    draws: bool | None = None
    parameters: frozenset[str] | None = None
    price: Price | None = None


async def get(
    endpoint: Endpoint, path: str, headers: Mapping[str, str]
) -> "httpx2.Response | Finding":
    """GET something that costs nothing, in one try: the response, or why there is none."""

    async def send(http: "httpx2.AsyncClient") -> "httpx2.Response":
        return await http.get(f"{endpoint.base_url}{path}", headers=dict(headers))

    try:
        async with asyncio.timeout(WAIT_S):
            return await endpoint.exchange(await endpoint.client(), send)
    except TimeoutError:
        return Finding("wrong", f"{endpoint.base_url} says nothing for {WAIT_S:g} s", _START)
    except Fault as fault:
        return Finding("wrong", f"{fault.reason} at {endpoint.base_url}", _START)
    except UserError as error:
        return Finding("wrong", error.what, error.remedy)


async def fetched(
    endpoint: Endpoint, path: str, headers: Mapping[str, str]
) -> dict[str, Any] | Finding:
    """GET an object; a refused key is wrong, anything else that is none is no more than a note."""
    response = await get(endpoint, path, headers)
    if isinstance(response, Finding):
        return response
    found = endpoint.loaded(response)
    if response.status_code in (401, 403):
        key = endpoint.secret.variable
        said = endpoint.secret.scrub(reported(response.status_code, found).message)
        remedy = f"Mend {key}." if key else "Name its variable in `api_key_env`."
        return Finding("wrong", f"{endpoint.provider} does not accept the key ({said})", remedy)
    if not response.is_success or not isinstance(found, dict) or found.get("error"):
        said = one_line(endpoint.secret.scrub(response.text), 60) or "nothing"
        what = f"{endpoint.base_url}{path} tells nothing ({response.status_code}: {said})"
        return Finding("note", what, "A call will tell.")
    return found


_START = "Start the server, or mend `base_url`."
_ASKED: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str | None], Any]] = (
    WeakKeyDictionary()
)


async def listing(endpoint: Endpoint, path: str = "/models") -> dict[str, Listed] | Finding:
    """All models that a server lists, by id, or why there is no such list. Asked once for all."""
    asked = _ASKED.setdefault(asyncio.get_running_loop(), {})
    key = (f"{endpoint.base_url}{path}", endpoint.secret.variable)
    if key not in asked:
        secret = endpoint.secret.value
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        asked[key] = asyncio.ensure_future(fetched(endpoint, path, headers))
    answer: dict[str, Any] | Finding = await asked[key]
    if isinstance(answer, Finding):
        return answer
    rows = answer.get("data", answer.get("models"))
    if not isinstance(rows, list):
        return Finding("note", f"{key[0]} holds no list", "A call will tell.")
    listed = (_listed(row) for row in rows)
    return {entry.id: entry for entry in listed if entry is not None}


def _listed(row: Any) -> Listed | None:
    if not isinstance(row, dict):
        return None
    name = row.get("id") or row.get("name")
    if not isinstance(name, str):
        return None
    shape = row.get("architecture")
    shape = shape if isinstance(shape, dict) else {}
    known, ends = row.get("supported_parameters"), row.get("expiration_date")
    return Listed(
        id=name,
        ends=ends[:10] if isinstance(ends, str) and ends else None,
        sees=_holds(shape.get("input_modalities"), "image"),
        draws=_holds(shape.get("output_modalities"), "image"),
        parameters=frozenset(map(str, known)) if isinstance(known, list) else None,
        price=_price(row.get("pricing")),
    )


def _holds(modalities: Any, wanted: str) -> bool | None:
    return wanted in modalities if isinstance(modalities, list) else None


def _price(pricing: Any) -> Price | None:
    """OpenRouter's prices, which are dollars per token as text."""
    if not isinstance(pricing, dict):
        return None
    each = {name: _dollars(pricing.get(name)) for name in ("prompt", "completion")}
    if None in each.values():
        return None
    tokens = {name: round((value or 0.0) * MILLION, 6) for name, value in each.items()}
    return Price(input=tokens["prompt"], output=tokens["completion"])


def _dollars(value: Any) -> float | None:
    try:
        amount = float(value)
    except (TypeError, ValueError):
        return None
    return amount if 0 <= amount < 1 else None  # -1 stands for a price that varies
