"""The openai package as a sender: its requests, our HTTP client, our patience, our reading."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stages.models.wire.endpoint import Endpoint
from stages.models.wire.fault import Fault, Kind

if TYPE_CHECKING:
    import httpx2
    import openai


def client_of(endpoint: Endpoint, http: "httpx2.AsyncClient") -> "openai.AsyncOpenAI":
    """An openai client on the endpoint's own HTTP client, without retries of its own."""
    import openai

    return openai.AsyncOpenAI(
        api_key=endpoint.secret.value or "none",
        base_url=endpoint.base_url,
        max_retries=0,
        timeout=endpoint.timeout_s,
        http_client=http,
    )


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


async def send_by_sdk(create: Callable[[], Awaitable[Any]]) -> "httpx2.Response":
    """Make a raw call of the openai package and return its response, whatever the status."""
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
    response: httpx2.Response = raw.http_response
    return response
