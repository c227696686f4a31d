"""Image editing through OpenAI's ``images.edit``, or a server that speaks it.

There is no seed: a second attempt sends the same request and differs because the model samples.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from stages.models.chat.openai_compatible import gone
from stages.models.editor import sizes
from stages.models.editor.openrouter_images import first_image
from stages.models.picture import Picture
from stages.models.protocol import EditedImage, Editor, Finding
from stages.models.wire.bound import IMAGE_BYTES
from stages.models.wire.endpoint import Endpoint
from stages.models.wire.parts import Encoding
from stages.models.wire.preflight import of_listed
from stages.models.wire.remote import Remote
from stages.models.wire.sdk import client_of, send_by_sdk, silenced
from stages.models.wire.usage import usage_of

if TYPE_CHECKING:
    import httpx2


class OpenAIImages(Remote, Editor):
    """A model behind ``POST /images/edits``.

    Parameters
    ----------
    model : str
        Its id.
    provider : str
        What the provider is called.
    options : mapping
        Further fields of the form: ``quality``, ``output_format``, ``background``.
    size : str
        ``pixels`` sends the picture's size in multiples of 16; anything else is sent as it is
        (``auto``, ``1536x1024``).
    min_pixels, max_pixels : int
        Bounds on width times height where ``size`` is ``pixels``.
    images : mapping
        How the picture is sent, see `Encoding`.
    base_url, api_key_env, ends, successor, concurrency, timeout_s, patience
        See `OpenAICompatible`.
    """

    def __init__(
        self,
        model: str,
        base_url: str = "https://api.openai.com/v1",
        provider: str = "openai",
        api_key_env: str | None = "OPENAI_API_KEY",
        options: Mapping[str, Any] | None = None,
        size: Literal["pixels"] | str = "pixels",
        min_pixels: int = 655_360,
        max_pixels: int = 8_294_400,
        images: Mapping[str, Any] | None = None,
        ends: str | None = None,
        successor: str | None = None,
        concurrency: int = 8,
        timeout_s: float = 300.0,
        patience: Mapping[str, Any] | None = None,
    ) -> None:
        import openai  # noqa: F401 - missing, it is named before anything is spent

        self.model, self.options, self.size = model, dict(options or {}), size
        self.min_pixels, self.max_pixels = min_pixels, max_pixels
        self.encoding, self.concurrency = Encoding(**(images or {})), concurrency
        self.endpoint = Endpoint(
            provider=provider,
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
        """Address, model and all fields of the form."""
        return {
            "provider": self.endpoint.provider,
            "base_url": self.endpoint.base_url,
            "api": "images.edit",
            "model": self.model,
            "options": self.options,
            "size": [self.size, self.min_pixels, self.max_pixels],
            "images": [self.encoding.format, self.encoding.max_side],
        }

    async def preflight(self, role: str) -> Sequence[Finding]:
        """Whether the server lists the model."""
        return await of_listed(self.endpoint, role, path="/models")

    async def edit(
        self, picture: Picture, instruction: str, *, seed: int, attempt: int
    ) -> EditedImage:
        """Edit; seed and attempt tell stored replies apart and are not sent."""
        form: dict[str, Any] = {
            "model": self.model,
            "prompt": instruction,
            "n": 1,
            "size": self._size(picture),
            "image": (
                f"image.{self.encoding.format}",
                self.encoding.encode(picture),
                self.encoding.media_type,
            ),
        }

        async def send(http: "httpx2.AsyncClient") -> "httpx2.Response":
            images = client_of(self.endpoint, http).images
            return await send_by_sdk(
                lambda: images.with_raw_response.edit(
                    **form, extra_body=self.options, extra_headers=silenced(self.endpoint)
                )
            )

        return await self.endpoint.call(send, self._read, paid=True)

    def _size(self, picture: Picture) -> str:
        if self.size != "pixels":
            return self.size
        width, height = picture.size
        columns, rows = sizes.in_steps(
            width, height, max_pixels=self.max_pixels, min_pixels=self.min_pixels
        )
        return f"{columns}x{rows}"

    def _read(self, response: "httpx2.Response") -> EditedImage:
        body = self.endpoint.json(response)
        return EditedImage(first_image(body), usage_of(body, images=1))
