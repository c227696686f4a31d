"""Image editing through OpenRouter's image endpoint: Gemini 3 Pro Image, FLUX.2 and others."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from stages.models.chat.openai_compatible import gone
from stages.models.editor import sizes
from stages.models.picture import Picture
from stages.models.protocol import CallError, EditedImage, Editor, Finding
from stages.models.wire.bound import IMAGE_BYTES
from stages.models.wire.endpoint import Endpoint
from stages.models.wire.parts import Encoding, bytes_of, data_url
from stages.models.wire.preflight import of_listed
from stages.models.wire.remote import Remote
from stages.models.wire.seeds import edit_seed
from stages.models.wire.served import check_served
from stages.models.wire.usage import usage_of
from stages.records.base import Status

if TYPE_CHECKING:
    import httpx2

Json = dict[str, Any]


class OpenRouterImages(Remote, Editor):
    """A model behind ``POST /images`` that takes the picture as its only reference.

    Parameters
    ----------
    model : str
        OpenRouter's id.
    options : mapping
        Further fields of the request: ``resolution``, ``quality``, ``output_format``, ``provider``.
    size : str
        ``pixels`` sends ``size: WxH``, ``ratio`` sends ``aspect_ratio``, ``none`` leaves it to the
        model, which then follows the picture.
    max_pixels : int
        Largest output where the size is sent.
    send_seed : bool
        Send a seed, another for each attempt.
    images : mapping
        How the picture is sent, see `Encoding`.
    served_as, allow_other_model, ends, successor, base_url, api_key_env, concurrency, timeout_s,
    patience
        See `OpenAICompatible`.
    """

    def __init__(
        self,
        model: str,
        base_url: str = "https://openrouter.ai/api/v1",
        api_key_env: str = "OPENROUTER_API_KEY",
        options: Mapping[str, Any] | None = None,
        size: Literal["pixels", "ratio", "none"] = "none",
        max_pixels: int = 4_000_000,
        send_seed: bool = True,
        images: Mapping[str, Any] | None = None,
        served_as: Sequence[str] = (),
        allow_other_model: bool = False,
        ends: str | None = None,
        successor: str | None = None,
        concurrency: int = 8,
        timeout_s: float = 300.0,
        patience: Mapping[str, Any] | None = None,
    ) -> None:
        if size not in ("pixels", "ratio", "none"):
            raise ValueError(f"size is {size!r}; it must be pixels, ratio or none")
        self.model, self.options = model, dict(options or {})
        self.size, self.max_pixels, self.send_seed = size, max_pixels, send_seed
        self.encoding, self.concurrency = Encoding(**(images or {})), concurrency
        self.served_as, self.allow_other_model = tuple(served_as), allow_other_model
        self.endpoint = Endpoint(
            provider="openrouter",
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
            "provider": "openrouter",
            "base_url": self.endpoint.base_url,
            "api": "images",
            "model": self.model,
            "options": self.options,
            "size": [self.size, self.max_pixels],
            "send_seed": self.send_seed,
            "images": [self.encoding.format, self.encoding.max_side],
            "allow_other_model": self.allow_other_model,
        }

    async def preflight(self, role: str) -> Sequence[Finding]:
        """Whether the server lists the model."""
        return await of_listed(self.endpoint, role, path="/images/models")

    async def edit(
        self, picture: Picture, instruction: str, *, seed: int, attempt: int
    ) -> EditedImage:
        """Edit; the request is sent again only where the provider did certainly nothing."""
        body = self.request(picture, instruction, edit_seed(seed, attempt))

        async def send(http: "httpx2.AsyncClient") -> "httpx2.Response":
            key = {"Authorization": f"Bearer {self.endpoint.secret.value}"}
            return await http.post(f"{self.endpoint.base_url}/images", json=body, headers=key)

        return await self.endpoint.call(send, self._read, paid=True)

    def request(self, picture: Picture, instruction: str, seed: int) -> Json:
        """The body of the request."""
        width, height = picture.size
        reference = {
            "type": "image_url",
            "image_url": {"url": data_url(picture, self.encoding)},
        }
        body: Json = {
            **self.options,
            "model": self.model,
            "prompt": instruction,
            "input_references": [reference],
            "n": 1,
        }
        if self.send_seed:
            body["seed"] = seed
        if self.size == "pixels":
            columns, rows = sizes.in_steps(width, height, max_pixels=self.max_pixels)
            body["size"] = f"{columns}x{rows}"
        elif self.size == "ratio":
            body["aspect_ratio"] = sizes.ratio(width, height)
        return body

    def _read(self, response: "httpx2.Response") -> EditedImage:
        body = self.endpoint.json(response)
        check_served(self.endpoint, body, self.served_as, self.allow_other_model)
        return EditedImage(first_image(body), usage_of(body, images=1))


def first_image(body: Json) -> bytes:
    """The first image of a body ``{"data": [{"b64_json": …}]}``."""
    data = body.get("data")
    first = data[0] if isinstance(data, list) and data else None
    image = first.get("b64_json") if isinstance(first, dict) else None
    if not isinstance(image, str) or not image:
        raise CallError(Status.API_ERROR, "the reply holds no image")
    return bytes_of(image)
