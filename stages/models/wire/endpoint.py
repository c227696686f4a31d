"""One provider: its address, key, clients, gate and patience, and the call that uses them all."""

import asyncio
import itertools
import json
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from stages.models import charges
from stages.models.protocol import Billing, CallError
from stages.models.wire.bound import PLAIN, TEXT_BYTES, bounded
from stages.models.wire.errors import Blame, carries_error, one_line, reported
from stages.models.wire.fault import Fault, Kind
from stages.models.wire.gate import Gate, gate_of
from stages.models.wire.patience import Patience, persist
from stages.models.wire.secrets import Secret
from stages.models.wire.usage import usage_of
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.usage import Usage

if TYPE_CHECKING:
    import ssl

    import httpx2

T = TypeVar("T")
Send = Callable[["httpx2.AsyncClient"], Awaitable["httpx2.Response"]]

CONNECT_S = 10.0
CALLS_A_CLIENT = 8
"""Calls at once for which there is one HTTP client."""


class Endpoint:
    """A model at a provider.

    Parameters
    ----------
    provider : str
        What the provider is called in errors and in the store's key.
    base_url : str
        Its address, without credentials and query.
    model : str
        The model's id, for errors.
    api_key_env : str or None
        Environment variable that holds the key; None where no key is asked for.
    concurrency : int
        Calls that may be under way at once, and the most that this adapter adds to the gate.
    timeout_s : float
        Seconds that one try may take in all.
    patience : mapping or None
        Values of `Patience`.
    hint : str
        What to do where the model is gone.
    ends : str or None
        Date on which the model ends there, if one is known.
    most_bytes : int
        Largest reply that is read.

    Raises
    ------
    ImportError
        Without the package httpx2, which the extra `api` brings.
    UserError
        If the key is missing or the address is none; nothing has been sent then.
    """

    def __init__(
        self,
        *,
        provider: str,
        base_url: str,
        model: str,
        api_key_env: str | None,
        concurrency: int,
        timeout_s: float,
        patience: Mapping[str, Any] | None = None,
        hint: str = "",
        ends: str | None = None,
        most_bytes: int = TEXT_BYTES,
    ) -> None:
        import httpx2

        self._httpx = httpx2
        self.base_url = checked_url(base_url, f"{provider}: base_url")
        self.provider, self.model, self.ends = provider, model, ends
        self.secret = Secret(api_key_env, provider)
        if concurrency < 1:
            raise ValueError(f"concurrency is {concurrency}; it must be at least 1")
        if timeout_s <= 0:
            raise ValueError(f"timeout_s is {timeout_s}; it must be positive")
        self.concurrency, self.timeout_s = concurrency, float(timeout_s)
        self.most_bytes = most_bytes
        self.patience = Patience(**(patience or {}))
        self.blame = Blame(provider, self.base_url, model, api_key_env, hint)
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, _Clients] = WeakKeyDictionary()

    @property
    def gate(self) -> Gate:
        """The gate of the running event loop, shared with all adapters of this provider and key."""
        key = self.secret.variable
        return gate_of(self.base_url, key, self.concurrency, self.patience.clock)

    @property
    def billing(self) -> Billing:
        """Calls are charged by the model's price, or, without a key, by what the server reports."""
        return Billing(self.model, keyed=self.secret.variable is not None)

    async def client(self) -> "httpx2.AsyncClient":
        """An HTTP client of the running event loop, which closes it when it ends.

        There is one for every few calls at once, and they take turns: a client looks at each of its
        connections whenever a request begins or ends, which with many of them takes longer than
        the request.

        A stage runs one event loop and says to no adapter when it is over. But a loop closes the
        asynchronous generators that are still open, so one of these holds the clients.
        """
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            made = [self._client() for _ in range(math.ceil(self.concurrency / CALLS_A_CLIENT))]
            keeper = _keep(made)
            await anext(keeper)
            self._clients[loop] = _Clients(itertools.cycle(made), keeper)
        return next(self._clients[loop].turn)

    def _client(self) -> "httpx2.AsyncClient":
        kept = min(self.concurrency, 2 * CALLS_A_CLIENT)  # turns are not always even
        return self._httpx.AsyncClient(
            verify=_tls(),
            headers=PLAIN,
            event_hooks={"response": [bounded(self.provider, self.most_bytes)]},
            timeout=self._httpx.Timeout(self.timeout_s, connect=CONNECT_S),
            limits=self._httpx.Limits(max_connections=None, max_keepalive_connections=kept),
        )

    async def call(
        self,
        send: Send,
        read: Callable[["httpx2.Response"], T],
        *,
        paid: bool,
        holds_slot: bool = False,
        elsewhere: bool = False,
    ) -> T:
        """Send until there is a reply that can be read.

        Parameters
        ----------
        send : callable
            Sends one request and returns the response, whatever its status.
        read : callable
            Reads a good response; may raise Fault, CallError or UserError.
        paid : bool
            Whether a request that may have been carried out must not be sent again.
        holds_slot : bool
            Whether the caller holds a slot of the gate already.
        elsewhere : bool
            Whether the request goes to another server, whose absence says nothing of this one.

        Raises
        ------
        CallError
            If this call has failed for good.
        UserError
            If the next call would fail as well.
        """
        try:
            return await persist(
                lambda: self.once(send, read),
                gate=self.gate,
                patience=self.patience,
                paid=paid,
                holds_slot=holds_slot,
            )
        except Fault as fault:
            raise self._given_up(fault, paid, elsewhere) from None

    async def once(self, send: Send, read: Callable[["httpx2.Response"], T]) -> T:
        """Make one try, outside of the gate; raises Fault where another may fare better."""
        response = await self.exchange(await self.client(), send)
        if response.is_success:
            try:
                return read(response)
            except Exception:  # a reply that is of no use was charged all the same
                charges.note(self._usage_in(response))
                raise
        charges.note(self._usage_in(response))
        raise self.exception(response.status_code, response, known=self.gate.good > 0)

    async def exchange(self, client: "httpx2.AsyncClient", send: Send) -> "httpx2.Response":
        """Send one request; raises Fault where no response comes, UserError for no address."""
        httpx2 = self._httpx
        reason, kind = "", Kind.UNKNOWN
        try:
            async with asyncio.timeout(self.timeout_s):
                return await send(client)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
            reason, kind = (
                f"can't be reached ({one_line(str(error)) or 'no answer'})",
                (Kind.UNREACHABLE),
            )
        except (TimeoutError, httpx2.TimeoutException):
            reason = f"no reply within {self.timeout_s:g} s"
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise UserError(
                f"{self.provider} ({self.base_url})", f"is no address ({error})", "Mend base_url."
            ) from None
        except httpx2.RequestError as error:
            reason = f"the connection was lost ({one_line(str(error)) or type(error).__name__})"
        raise Fault(kind, self.secret.scrub(f"{self.provider}: {reason}"))

    def exception(
        self, status: int, response: "httpx2.Response", *, known: bool = False
    ) -> Exception:
        """What a response that is an error means."""
        if 300 <= status < 400:
            target = self.secret.scrub(response.headers.get("location", "elsewhere"))
            return UserError(
                f"{self.provider} ({self.base_url})", f"redirects to {target}", "Mend base_url."
            )
        text = self.secret.scrub(response.text)  # before anything cuts it, and with it a key
        body = self.loaded(response)
        return self.exception_of(status, body, response.headers, text, known=known)

    def exception_of(
        self,
        status: int,
        body: Any,
        headers: Mapping[str, str] | None = None,
        text: str = "",
        *,
        known: bool = True,
    ) -> Exception:
        """What an error that was read already means."""
        error = reported(status, body, headers, "" if body else text)
        return self._scrubbed(self.blame.exception(error, known=known))

    def loaded(self, response: "httpx2.Response") -> Any:
        """The JSON of a body without the key and in valid Unicode, or None where it is none."""
        try:
            return self.secret.scrubbed(json.loads(response.content))
        except (ValueError, RecursionError):
            return None

    def json(self, response: "httpx2.Response") -> dict[str, Any]:
        """The body of a good response: an object without an error in it."""
        body = self.loaded(response)
        if carries_error(body):
            raise self.exception(response.status_code, response, known=True)
        if not isinstance(body, dict):
            excerpt = one_line(self.secret.scrub(response.text), 80) or "nothing"
            raise Fault(Kind.UNKNOWN, f"{self.provider}: the reply is no JSON object: {excerpt}")
        return body

    def _usage_in(self, response: "httpx2.Response") -> Usage:
        """What a reply says that it used; nothing where it says nothing of tokens or cost."""
        body = self.loaded(response)
        used = usage_of(body) if isinstance(body, dict) else Usage()
        told = (used.input_tokens, used.output_tokens, used.cost_usd)
        return Usage() if told == (None, None, None) else used

    def _scrubbed(self, error: Exception) -> Exception:
        scrub = self.secret.scrub
        if isinstance(error, Fault):
            return Fault(error.kind, scrub(error.reason), error.wait, error.pauses)
        if isinstance(error, CallError):
            return CallError(error.status, scrub(error.reason))
        if isinstance(error, UserError):
            return UserError(scrub(error.where), scrub(error.what), scrub(error.remedy))
        return error

    def _given_up(self, fault: Fault, paid: bool, elsewhere: bool) -> Exception:
        where = f"{self.provider} ({self.base_url})"
        if fault.kind is Kind.UNREACHABLE and not elsewhere:
            return UserError(
                where,
                fault.reason.removeprefix(f"{self.provider}: "),
                "Start the server or mend `base_url`, and run again: what was answered is stored.",
            )
        if fault.wait is not None and fault.wait > self.patience.total_s and not elsewhere:
            return UserError(
                where,
                f"asks to wait {fault.wait:.0f} s ({fault.reason})",
                "Run again then: what was answered is stored.",
            )
        if fault.kind is Kind.UNKNOWN and paid:
            return CallError(
                Status.API_ERROR,
                f"{fault.reason}; the outcome is unknown, and a paid call is not repeated",
            )
        tries = f" ({fault.tries} tries)" if fault.tries > 1 else ""
        return CallError(Status.API_ERROR, f"{fault.reason}{tries}")


def checked_url(url: str, where: str) -> str:
    """An address without its last slash; credentials would get into the store with it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(
            where, f"{url!r} is no http(s) address", "Give e.g. http://127.0.0.1:8000/v1."
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UserError(
            where,
            "must not carry credentials, a query or a fragment",
            "Put the key in an environment variable and name that in `api_key_env`.",
        )
    return url.rstrip("/")


@lru_cache(maxsize=1)
def _tls() -> "ssl.SSLContext":
    """The TLS settings that all clients share: they take longer to make than a client."""
    import httpx2

    return httpx2.create_ssl_context()


class _Clients(NamedTuple):
    """The clients of one event loop."""

    turn: Iterator["httpx2.AsyncClient"]
    """Each in its turn, without end."""
    keeper: AsyncGenerator[None, None]


async def _keep(clients: "list[httpx2.AsyncClient]") -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        for client in clients:
            await client.aclose()
