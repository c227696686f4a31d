"""Moondream over HTTP: its cloud, or a Moondream Station of one's own. It gives no scores."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stages.models.chat.openai_compatible import gone
from stages.models.detector.boxes import Frame
from stages.models.picture import Picture
from stages.models.protocol import CallError, Detection, Detector
from stages.models.wire.endpoint import Endpoint
from stages.models.wire.parts import Encoding, data_url
from stages.models.wire.remote import Remote
from stages.models.wire.usage import usage_of
from stages.records.base import Status

if TYPE_CHECKING:
    import httpx2

Json = dict[str, Any]
_CORNERS = ("x_min", "y_min", "x_max", "y_max")


class MoondreamHttp(Remote, Detector):
    """``POST /detect``.

    Parameters
    ----------
    base_url : str
        ``https://api.moondream.ai/v1``, or a station's ``http://localhost:2020/v1``.
    api_key_env : str or None
        Environment variable with the key; None for a station.
    model : str or None
        Which Moondream, where the server has several.
    settings : mapping
        The API's own, e.g. ``max_objects``.
    overhang : float
        Share of a side by which a box may reach over the image's edge; it is then cut off there.
        Moondream predicts centre and size apart, so that objects at the edge do overhang.
    images : mapping
        How the picture is sent, see `Encoding`.
    ends, successor, concurrency, timeout_s, patience
        See `OpenAICompatible`.
    """

    def __init__(
        self,
        base_url: str = "https://api.moondream.ai/v1",
        api_key_env: str | None = "MOONDREAM_API_KEY",
        model: str | None = None,
        settings: Mapping[str, Any] | None = None,
        overhang: float = 0.1,
        images: Mapping[str, Any] | None = None,
        ends: str | None = None,
        successor: str | None = None,
        concurrency: int = 4,
        timeout_s: float = 120.0,
        patience: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.settings, self.overhang = model, dict(settings or {}), float(overhang)
        self.encoding, self.concurrency = Encoding(**(images or {})), concurrency
        self.endpoint = Endpoint(
            provider="moondream",
            base_url=base_url,
            model=model or "moondream",
            api_key_env=api_key_env,
            concurrency=concurrency,
            timeout_s=timeout_s,
            patience=patience,
            hint=gone(model or "moondream", ends, successor),
            ends=ends,
        )

    def identity(self) -> Mapping[str, Any]:
        """Address, model and all that shapes the boxes."""
        return {
            "provider": "moondream",
            "base_url": self.endpoint.base_url,
            "model": self.model,
            "settings": self.settings,
            "overhang": self.overhang,
            "images": [self.encoding.format, self.encoding.max_side],
        }

    async def detect(self, picture: Picture, phrase: str) -> Detection:
        """Boxes in the order of the reply; none where it sees no such object."""
        body: Json = {"image_url": data_url(picture, self.encoding), "object": phrase}
        if self.model is not None:
            body["model"] = self.model
        if self.settings:
            body["settings"] = self.settings
        key = self.endpoint.secret.value

        async def send(http: "httpx2.AsyncClient") -> "httpx2.Response":
            headers = {"X-Moondream-Auth": key} if key else {}
            return await http.post(f"{self.endpoint.base_url}/detect", json=body, headers=headers)

        width, height = picture.size
        frame = Frame(width, height, 1.0, 1.0, self.overhang)

        def read(response: "httpx2.Response") -> Detection:
            reply = self.endpoint.json(response)
            objects = reply.get("objects")
            if not isinstance(objects, list):
                raise CallError(Status.UNPARSED, "the reply holds no list of objects")
            return Detection(
                tuple(frame.box([_corner(item, name) for name in _CORNERS]) for item in objects),
                usage_of(reply),
            )

        return await self.endpoint.call(send, read, paid=False)


def _corner(item: object, name: str) -> object:
    return item.get(name) if isinstance(item, dict) else None
