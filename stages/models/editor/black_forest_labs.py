"""FLUX through the API of Black Forest Labs: submit a task, poll it, fetch the image.

Of the three requests only the first is paid, so only that one is never repeated once it may have
arrived, and what it returned is written down before the next: a run that goes on after a kill asks
for that task first. Where that one is lost, `Calls` asks once more, within the budget. A task
counts against the account's limit (24) until it ends; its place is held that long.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from stages.imaging import codec
from stages.models import charges
from stages.models.chat.openai_compatible import gone
from stages.models.editor import sizes
from stages.models.pending import Pending, Ticket
from stages.models.picture import Picture
from stages.models.protocol import CallError, EditedImage, Finding, Lost, TaskEditor
from stages.models.wire.bound import IMAGE_BYTES
from stages.models.wire.endpoint import Endpoint
from stages.models.wire.errors import one_line
from stages.models.wire.fault import Fault, Kind
from stages.models.wire.listing import fetched
from stages.models.wire.parts import Encoding, base64_of
from stages.models.wire.remote import Remote
from stages.models.wire.seeds import edit_seed
from stages.models.wire.usage import amount
from stages.records.base import Status
from stages.records.usage import Usage

if TYPE_CHECKING:
    import httpx2

Json = dict[str, Any]

CREDIT_USD = 0.01
MODERATED = frozenset({"Request Moderated", "Content Moderated"})
FAILED = frozenset({"Error", "Failed"})
UNKNOWN = "Task not found"
"""All other states are taken for work under way: new ones have been added before."""
_PASSING = (408, 425, 429)
KEPT_S = 600.0
"""Seconds for which the API keeps an image that is ready."""


class Ended(CallError):  # noqa: N818 - what became of the task
    """The task has ended without an image: to ask once more is to submit once more."""


class Gone(Ended):
    """The API holds the task or its image no longer."""


class Task(NamedTuple):
    """A task as the API confirmed it."""

    id: str
    polling_url: str
    cost_usd: float | None

    @classmethod
    def of(cls, ticket: Ticket) -> "Task | None":
        """The task of an earlier run; None where its ticket says something else."""
        task, url, cost = (ticket.task.get(name) for name in cls._fields)
        if not (isinstance(task, str) and isinstance(url, str)):
            return None
        return cls(task, url, amount(cost))


class BlackForestLabs(Remote, TaskEditor):
    """A FLUX model that edits.

    Parameters
    ----------
    model : str
        The end of the endpoint's address, e.g. ``flux-2-max``.
    options : mapping
        Further fields of the request. Prompt upsampling belongs here, switched off explicitly:
        ``disable_pup: true`` for FLUX.2 pro and max, ``prompt_upsampling: false`` for flex and
        Kontext, nothing for klein.
    size : str
        ``pixels`` sends width and height (FLUX.2), ``ratio`` sends the aspect ratio (Kontext),
        ``none`` leaves it to the API.
    max_pixels : int
        Largest output.
    images : mapping
        How the picture is sent, see `Encoding`.
    poll_s, deadline_s : float
        Seconds between polls, and after which a task is given up.
    base_url, api_key_env, ends, successor, concurrency, timeout_s, patience
        See `OpenAICompatible`.
    """

    def __init__(
        self,
        model: str = "flux-2-max",
        base_url: str = "https://api.bfl.ai",
        api_key_env: str = "BFL_API_KEY",
        options: Mapping[str, Any] | None = None,
        size: Literal["pixels", "ratio", "none"] = "pixels",
        max_pixels: int = 4_000_000,
        images: Mapping[str, Any] | None = None,
        poll_s: float = 0.5,
        deadline_s: float = 300.0,
        ends: str | None = None,
        successor: str | None = None,
        concurrency: int = 24,
        timeout_s: float = 60.0,
        patience: Mapping[str, Any] | None = None,
    ) -> None:
        if size not in ("pixels", "ratio", "none"):
            raise ValueError(f"size is {size!r}; it must be pixels, ratio or none")
        self.model, self.options = model, dict(options or {})
        self.size, self.max_pixels = size, max_pixels
        self.encoding = Encoding(**(images or {}))
        self.poll_s, self.deadline_s, self.concurrency = poll_s, deadline_s, concurrency
        self.endpoint = Endpoint(
            provider="black-forest-labs",
            base_url=base_url,
            model=model,
            api_key_env=api_key_env,
            concurrency=concurrency,
            timeout_s=timeout_s,
            patience=patience,
            hint=gone(model, ends, successor),
            ends=ends,
            most_bytes=IMAGE_BYTES,
        )

    def identity(self) -> Mapping[str, Any]:
        """Address, model and all fields of the request."""
        return {
            "provider": "black-forest-labs",
            "base_url": self.endpoint.base_url,
            "model": self.model,
            "options": self.options,
            "size": [self.size, self.max_pixels],
            "images": [self.encoding.format, self.encoding.max_side],
        }

    async def preflight(self, role: str) -> Sequence[Finding]:
        """Whether the key is accepted and has credits; the API lists no models."""
        found = await fetched(self.endpoint, "/v1/credits", self._key)
        if isinstance(found, Finding):
            return [found]
        if (credits := amount(found.get("credits"))) is None:
            return [Finding("note", "the API tells no credits", "A call will tell.")]
        what = f"{credits:g} credits (${credits * CREDIT_USD:.2f}) are left"
        state: Literal["ok", "wrong"] = "ok" if credits > 0 else "wrong"
        return [Finding(state, what, "" if credits > 0 else "Add credits.")]

    async def edit_task(
        self, picture: Picture, instruction: str, *, seed: int, attempt: int, pending: Pending
    ) -> EditedImage:
        """Edit; a refusal by moderation names its reasons."""
        body = self.request(picture, instruction, edit_seed(seed, attempt))
        async with self.endpoint.gate.slot():
            if (left := pending.read()) is not None:
                return await self._left(left, pending)
            task = await self._submit(body)
            await pending.write(task._asdict())
            return await self._collect(task, pending)

    async def _left(self, ticket: Ticket, pending: Pending) -> EditedImage:
        """What an earlier run has paid for; raises Lost where it is no more."""
        task = self._ours(ticket)
        if task is None:
            pending.clear()
            raise Lost(Status.API_ERROR, "the ticket of an earlier run is none")
        try:
            return await self._collect(task, pending, ticket.age_s)
        except Gone as error:
            raise Lost(error.status, error.reason) from None

    def _ours(self, ticket: Ticket) -> Task | None:
        task = Task.of(ticket)
        return task if task is not None and self._is_ours(task.polling_url) else None

    async def _collect(self, task: Task, pending: Pending, age_s: float = 0.0) -> EditedImage:
        """Wait for a task and fetch its image; a task that can give none loses its ticket."""
        used = Usage(provider=self.endpoint.provider, images=1, cost_usd=task.cost_usd)
        try:
            with charges.in_vain_if_it_fails(used):
                data = await self._fetch(await self._finished(task))
        except CallError as error:
            if isinstance(error, Ended) or age_s > self.deadline_s + KEPT_S:
                pending.clear()
            raise
        return EditedImage(data, used)

    def request(self, picture: Picture, instruction: str, seed: int) -> Json:
        """The body of the submission."""
        width, height = picture.size
        body: Json = {
            **self.options,
            "prompt": instruction,
            "input_image": base64_of(picture, self.encoding),
            "seed": seed,
        }
        if self.size == "pixels":
            columns, rows = sizes.in_steps(width, height, max_pixels=self.max_pixels)
            body |= {"width": columns, "height": rows}
        elif self.size == "ratio":
            body["aspect_ratio"] = sizes.ratio(width, height)
        return body

    @property
    def _key(self) -> dict[str, str]:
        return {"x-key": self.endpoint.secret.value or ""}

    async def _submit(self, body: Json) -> Task:
        url = f"{self.endpoint.base_url}/v1/{self.model}"

        async def send(http: "httpx2.AsyncClient") -> "httpx2.Response":
            return await http.post(url, json=body, headers=self._key)

        def read(response: "httpx2.Response") -> Task:
            reply = self.endpoint.json(response)
            task, polling_url = reply.get("id"), reply.get("polling_url")
            if not (isinstance(task, str) and isinstance(polling_url, str)):
                raise CallError(Status.API_ERROR, "the task was taken, but has no polling URL")
            if not self._is_ours(polling_url):
                shown = one_line(polling_url.partition("?")[0], 100)
                reason = f"the polling URL is on another host ({shown})"
                raise CallError(Status.API_ERROR, reason)
            credits = amount(reply.get("cost"))
            return Task(task, polling_url, None if credits is None else credits * CREDIT_USD)

        return await self.endpoint.call(send, read, paid=True, holds_slot=True)

    def _is_ours(self, polling_url: str) -> bool:
        """The key goes to the API's own hosts alone, whatever a reply says."""
        try:
            ours, theirs = (
                urlsplit(url).hostname or "" for url in (self.endpoint.base_url, polling_url)
            )
        except ValueError:  # no address at all
            return False
        return theirs == ours or theirs.split(".")[-2:] == ours.split(".")[-2:]

    async def _finished(self, task: Task) -> str:
        """Poll until the image is ready; return its URL."""
        clock = self.endpoint.patience.clock
        deadline = clock.now() + self.deadline_s

        async def send(http: "httpx2.AsyncClient") -> "httpx2.Response":
            response = await http.get(task.polling_url, headers=self._key)
            if response.status_code in (403, 404):  # 403: of another account
                raise Gone(Status.API_ERROR, f"task {task.id} is unknown or has expired")
            return response

        while True:
            wait = self.poll_s
            try:
                reply = await self.endpoint.once(send, self.endpoint.json)
                if (url := self._ready(task, reply)) is not None:
                    return url
            except Fault as fault:  # the task goes on, whatever befalls a poll
                wait = max(wait, fault.wait or 0.0)
            if clock.now() + wait > deadline:
                raise CallError(
                    Status.API_ERROR,
                    f"task {task.id} was not ready within {self.deadline_s:g} s; it may be charged",
                )
            await clock.sleep(wait)

    def _ready(self, task: Task, reply: Json) -> str | None:
        status = str(reply.get("status", ""))
        if status in MODERATED:
            details = reply.get("details")
            reasons = details.get("Moderation Reasons") if isinstance(details, dict) else None
            listed = (
                ", ".join(map(str, reasons)) if isinstance(reasons, list) else "no reason given"
            )
            said = self.endpoint.secret.scrub(f"{status}: {listed}")
            raise Ended(Status.REFUSED, one_line(said))
        if status == UNKNOWN:
            raise Gone(Status.API_ERROR, f"task {task.id}: {status}")
        if status in FAILED:
            details = self.endpoint.secret.scrub(str(reply.get("details") or "no details"))
            raise Ended(Status.API_ERROR, one_line(f"task {task.id}: {status} ({details})"))
        if status != "Ready":
            return None
        result = reply.get("result")
        url = result.get("sample") if isinstance(result, dict) else None
        if not isinstance(url, str):
            raise Ended(Status.API_ERROR, f"task {task.id} is ready, but has no image")
        return url

    async def _fetch(self, url: str) -> bytes:
        """Download the image, there for ten minutes; the URL is signed and gets no key."""

        async def send(http: "httpx2.AsyncClient") -> "httpx2.Response":
            response = await http.get(url, follow_redirects=True)
            if 400 <= response.status_code < 500 and response.status_code not in _PASSING:
                raise Gone(
                    Status.API_ERROR, f"the image could not be fetched ({response.status_code})"
                )
            return response

        def read(response: "httpx2.Response") -> bytes:
            try:
                codec.decode(response.content)
            except codec.ImageError as error:  # a page of a proxy, or half of the image
                raise Fault(Kind.UNKNOWN, f"the download is no image ({error})") from None
            return response.content

        return await self.endpoint.call(send, read, paid=False, holds_slot=True, elsewhere=True)
