"""An image editor behind any HTTP server, described by YAML: what to send, where the image is.

In the template ``{image}`` is the picture as base64, ``{image_url}`` as a data URL,
``{instruction}`` the text, ``{seed}`` the seed; ``{width}`` and ``{height}`` are the picture's. A
value that is nothing but a placeholder keeps its type, so that ``seed: "{seed}"`` sends a number.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from stages.models.picture import Picture
from stages.models.protocol import CallError, EditedImage, Editor
from stages.models.wire.bound import IMAGE_BYTES
from stages.models.wire.endpoint import Endpoint
from stages.models.wire.parts import Encoding, base64_of, bytes_of, data_url
from stages.models.wire.remote import Remote
from stages.models.wire.seeds import edit_seed
from stages.records.base import Status
from stages.records.usage import Usage

if TYPE_CHECKING:
    import httpx2

_SLOT = re.compile(r"\{(image|image_url|instruction|seed|width|height|key)\}")


class HttpEditor(Remote, Editor):
    """Sends one POST and takes the image from the reply.

    Parameters
    ----------
    url : str
        Where the request goes.
    name : str
        What the model is called, part of the store's key.
    body : mapping
        Template of the request's body; may be nested.
    encoding : str
        ``json`` sends the body as JSON; ``form`` as multipart, the picture as a file where a field
        is ``{image}``.
    image_at : str or None
        Where the image (base64, data URL or http address) is in a JSON reply, e.g.
        ``images.0.url``; None where the reply is the image itself.
    headers : mapping
        Further headers; ``{key}`` is the key.
    api_key_env : str or None
        Environment variable with the key.
    paid : bool
        Whether a request that may have been carried out must not be repeated.
    images : mapping
        How the picture is sent, see `Encoding`.
    concurrency, timeout_s, patience
        See `Endpoint`.
    """

    def __init__(
        self,
        url: str,
        name: str,
        body: Mapping[str, Any],
        encoding: Literal["json", "form"] = "json",
        image_at: str | None = None,
        headers: Mapping[str, str] | None = None,
        api_key_env: str | None = None,
        paid: bool = True,
        images: Mapping[str, Any] | None = None,
        concurrency: int = 1,
        timeout_s: float = 600.0,
        patience: Mapping[str, Any] | None = None,
    ) -> None:
        if encoding not in ("json", "form"):
            raise ValueError(f"encoding is {encoding!r}; it must be json or form")
        self.name, self.body, self.encoding, self.image_at = name, dict(body), encoding, image_at
        self.headers, self.paid = dict(headers or {}), paid
        self.images, self.concurrency = Encoding(**(images or {})), concurrency
        self.endpoint = Endpoint(
            provider=name,
            base_url=url,
            model=name,
            api_key_env=api_key_env,
            concurrency=concurrency,
            timeout_s=timeout_s,
            patience=patience,
            most_bytes=IMAGE_BYTES,
        )

    def identity(self) -> Mapping[str, Any]:
        """Address, name and template; headers hold the key's place and not the key."""
        return {
            "provider": "http",
            "base_url": self.endpoint.base_url,
            "model": self.name,
            "body": self.body,
            "encoding": self.encoding,
            "image_at": self.image_at,
            "headers": self.headers,
            "images": [self.images.format, self.images.max_side],
        }

    async def edit(
        self, picture: Picture, instruction: str, *, seed: int, attempt: int
    ) -> EditedImage:
        """Fill the template, send it, and take the image out of the reply."""
        width, height = picture.size
        values: dict[str, Any] = {
            "image": base64_of(picture, self.images),
            "image_url": data_url(picture, self.images),
            "instruction": instruction,
            "seed": edit_seed(seed, attempt),
            "width": width,
            "height": height,
        }
        headers = fill(self.headers, {"key": self.endpoint.secret.value or ""})

        async def send(http: "httpx2.AsyncClient") -> "httpx2.Response":
            url = self.endpoint.base_url
            if self.encoding == "json":
                return await http.post(url, json=fill(self.body, values), headers=headers)
            data, files = self._form(picture, values)
            return await http.post(url, data=data, files=files, headers=headers)

        found = await self.endpoint.call(send, self._read, paid=self.paid)
        data = found if isinstance(found, bytes) else await self._fetch(found)
        return EditedImage(data, Usage(images=1))

    def _form(
        self, picture: Picture, values: Mapping[str, Any]
    ) -> tuple[dict[str, str], dict[str, tuple[str, bytes, str]]]:
        file = (f"image.{self.images.format}", self.images.encode(picture), self.images.media_type)
        files = {name: file for name, value in self.body.items() if value == "{image}"}
        rest = {name: value for name, value in self.body.items() if name not in files}
        return {name: str(fill(value, values)) for name, value in rest.items()}, files

    def _read(self, response: "httpx2.Response") -> bytes | str:
        if self.image_at is None:
            return response.content
        node: Any = self.endpoint.json(response)
        for step in self.image_at.split("."):
            try:
                node = node[int(step)] if isinstance(node, list) else node[step]
            except (KeyError, IndexError, ValueError, TypeError):
                raise CallError(
                    Status.API_ERROR, f"the reply has nothing at {self.image_at!r} (no {step!r})"
                ) from None
        if not isinstance(node, str):
            raise CallError(Status.API_ERROR, f"what is at {self.image_at!r} is no text")
        return node if node.startswith(("http://", "https://")) else bytes_of(node)

    async def _fetch(self, url: str) -> bytes:
        async def send(http: "httpx2.AsyncClient") -> "httpx2.Response":
            response = await http.get(url, follow_redirects=True)
            if 400 <= response.status_code < 500:
                raise CallError(
                    Status.API_ERROR, f"the image could not be fetched ({response.status_code})"
                )
            return response

        return await self.endpoint.call(
            send, lambda response: response.content, paid=False, elsewhere=True
        )


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """Put values into a template of any depth; values are never searched for slots themselves."""
    if isinstance(template, Mapping):
        return {name: fill(value, values) for name, value in template.items()}
    if isinstance(template, list | tuple):
        return [fill(item, values) for item in template]
    if not isinstance(template, str):
        return template
    whole = _SLOT.fullmatch(template)
    if whole and whole[1] in values:
        return values[whole[1]]
    return _SLOT.sub(lambda slot: str(values.get(slot[1], slot[0])), template)
