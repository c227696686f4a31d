"""The openai package as a sender: its requests, our HTTP client, our patience, our reading."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stages.models.wire.endpoint import Endpoint
from stages.models.wire.fault import Fault, Kind

if TYPE_CHECKING:
    import httpx2
    import openai

_MADE = "_edct_openai"
"""The openai client lives on the HTTP client that it sends by, which belongs to one endpoint."""


def client_of(endpoint: Endpoint, http: "httpx2.AsyncClient") -> "openai.AsyncOpenAI":
    """An openai client on the endpoint's own HTTP client, without retries of its own."""
    import openai

    if isinstance(made := getattr(http, _MADE, None), openai.AsyncOpenAI):
        return made
    made = openai.AsyncOpenAI(
        api_key=endpoint.secret.value or "none",
        base_url=endpoint.base_url,
        max_retries=0,
        timeout=endpoint.timeout_s,
        http_client=http,
    )
    setattr(http, _MADE, made)
    return made


def silenced(endpoint: Endpoint) -> dict[str, Any]:
    """Headers that the package would send of itself and that this server must not get.

    Those are a key where none is asked for, and what stands in OPENAI_ORG_ID and OPENAI_PROJECT_ID
    for any server but OpenAI's.
    """
    import openai

    names = [] if endpoint.secret.value else ["Authorization"]
    if urlsplit(endpoint.base_url).hostname != "api.openai.com":
        names += ["OpenAI-Organization", "OpenAI-Project"]
    return {name: openai.Omit() for name in names}


async def post_json(
    endpoint: Endpoint, http: "httpx2.AsyncClient", path: str, body: bytes
) -> "httpx2.Response":
    """Post a body that is written already, by the openai package.

    Its typed methods walk through every message of a body before they write it, which takes longer
    than all else that is done for a call here.
    """
    import httpx2

    return await send_by_sdk(
        lambda: client_of(endpoint, http).post(
            path, cast_to=httpx2.Response, content=body, options={"headers": silenced(endpoint)}
        )
    )


async def send_by_sdk(create: Callable[[], Awaitable[Any]]) -> "httpx2.Response":
    """Make a call of the openai package and return its response, raw, whatever the status."""
    import httpx2
    import openai

    try:
        raw = await create()
    except openai.APIStatusError as error:
        return error.response
    except openai.APIConnectionError as error:
        if isinstance(error.__cause__, (httpx2.RequestError, Fault)):
            raise error.__cause__ from None
        raise Fault(
            Kind.UNKNOWN, f"the connection failed ({type(error.__cause__).__name__})"
        ) from None
    response: httpx2.Response = getattr(raw, "http_response", raw)
    return response
