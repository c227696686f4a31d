"""Moondream in this process, by the engine of the `moondream` package (Photon). No scores.

The engine wants a GPU or Apple silicon, and reports its use (host name, GPU, token counts; no
pictures) to Moondream's servers.
"""

import asyncio
import textwrap
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from stages.models.detector.boxes import Frame
from stages.models.local.faults import installed, is_out_of_memory, release_of, within_memory
from stages.models.picture import Picture
from stages.models.protocol import CallError, Detection, Detector, Finding
from stages.models.wire.parts import Encoding, data_url
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.usage import Usage

_CORNERS = ("x_min", "y_min", "x_max", "y_max")


class MoondreamLocal(Detector):
    """``md.photon(model).detect(image, object)``: greedy, so equal calls give equal boxes.

    Parameters
    ----------
    model : str
        A name that ``moondream.photon_models()`` lists. The engine downloads the weights; which
        revision, it decides.
    max_objects : int
        Objects found at most.
    overhang : float
        Share of a side by which a box may reach over the image's edge; it is then cut off there.
    device : str or None
        ``cuda``, ``cuda:N`` or ``mps``; None leaves the choice to the engine.
    concurrency : int
        Calls under way at once, which the engine batches.
    runtime : mapping
        Further settings of the engine, e.g. ``max_batch_size``, ``kv_cache_pages``.
    """

    def __init__(
        self,
        model: str = "moondream3-preview",
        max_objects: int = 50,
        overhang: float = 0.1,
        device: str | None = None,
        concurrency: int = 4,
        runtime: Mapping[str, Any] | None = None,
    ) -> None:
        installed("torch", "moondream", "kestrel")
        if max_objects < 1:
            raise ValueError(f"max_objects is {max_objects}; it must be at least 1")
        self.model, self.max_objects, self.overhang = model, max_objects, float(overhang)
        self.device, self.runtime = device, dict(runtime or {})
        self.concurrency = concurrency
        self._client: Any = None
        self._starting = threading.Lock()

    def identity(self) -> Mapping[str, Any]:
        """Releases of package and engine, which choose the weights, and what shapes the boxes."""
        return {
            "provider": "moondream",
            "library": [release_of("moondream"), release_of("kestrel")],
            "model": self.model,
            "max_objects": self.max_objects,
            "overhang": self.overhang,
            "runtime": self.runtime,
        }

    async def preflight(self, role: str) -> Sequence[Finding]:
        """What can be known before the engine starts."""
        wants = "the engine wants a GPU or Apple silicon"
        return [Finding("note", f"{wants}, and looks for its weights when it starts")]

    async def detect(self, picture: Picture, phrase: str) -> Detection:
        """Boxes in the order of the reply; none where it sees no such object."""
        return await asyncio.to_thread(self._found, picture, phrase)

    def _found(self, picture: Picture, phrase: str) -> Detection:
        from moondream.types import Base64EncodedImage

        # As encoded bytes: a PIL image would be sent on as JPEG.
        image = Base64EncodedImage(image_url=data_url(picture, Encoding()))
        settings = {"max_objects": self.max_objects}
        with within_memory(self.model):
            reply = self._engine().detect(image, phrase, settings=settings)
        objects = reply.get("objects") if isinstance(reply, Mapping) else None
        if not isinstance(objects, list):
            raise CallError(Status.UNPARSED, "the reply holds no list of objects")
        height, width = picture.pixels.shape[:2]
        frame = Frame(width, height, 1.0, 1.0, self.overhang)
        boxes = tuple(frame.box([_corner(item, name) for name in _CORNERS]) for item in objects)
        return Detection(boxes, Usage(provider="moondream", served_model=self.model))

    def _engine(self) -> Any:
        with self._starting:
            if self._client is None:
                try:
                    import moondream

                    self._client = moondream.photon(self.model, device=self.device, **self.runtime)
                except Exception as error:
                    if is_out_of_memory(error):
                        raise
                    why = textwrap.shorten(" ".join(str(error).split()), 160, placeholder=" …")
                    raise UserError(
                        f"moondream {self.model}",
                        f"the engine does not start: {why}",
                        "It wants a GPU (Ampere or newer) or Apple silicon, what "
                        "`make extras EXTRAS=moondream` brings, and a network for its weights.",
                    ) from error
            return self._client


def _corner(item: object, name: str) -> object:
    return item.get(name) if isinstance(item, Mapping) else None
