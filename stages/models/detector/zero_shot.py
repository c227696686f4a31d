"""Open-vocabulary detectors of Transformers: Grounding DINO, OWLv2 and their like, by one class."""

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.models.detector.ranking import ranked
from stages.models.local.batching import Batcher
from stages.models.local.checkpoint import Checkpoint
from stages.models.local.looking import Eye, Inputs, finite, together
from stages.models.local.placement import Placement
from stages.models.local.presence import presence
from stages.models.picture import Picture
from stages.models.protocol import Detection, Detector, Finding
from stages.records.attempt import Box


class _Look(NamedTuple):
    """One call."""

    inputs: Inputs
    text: str
    """What is looked for."""
    size: tuple[int, int]
    """Rows and columns of the picture."""


class ZeroShot(Detector):
    """Any model behind ``AutoModelForZeroShotObjectDetection``.

    Parameters
    ----------
    model, revision
        See `Checkpoint`.
    template : str
        What the model is asked, with ``{phrase}`` in it and no full stop. OWLv2 was trained on
        ``a photo of a {phrase}``, Grounding DINO on the phrase; its full stop comes by itself.
    threshold : float
        Score that a box must exceed, in [0, 1].
    nms_iou : float or None
        Overlap from which two boxes are one object, see `ranked`; None for models that give each
        object once.
    top_k : int or None
        Boxes kept at most, the best.
    device, dtype
        See `Placement`.
    batch_size : int
        Pictures that go through the model together, at most: those that it sees in one size, each
        with a phrase of its own. On a CPU one at a time, see `Placement.most`.
    """

    def __init__(
        self,
        model: str,
        revision: str = "main",
        template: str = "{phrase}",
        threshold: float = 0.3,
        nms_iou: float | None = None,
        top_k: int | None = None,
        device: str | Sequence[str] = "auto",
        dtype: str = "float32",
        batch_size: int = 1,
    ) -> None:
        if "{phrase}" not in template or "." in template:
            raise ValueError("template must hold {phrase}, and no full stop")
        for name, share in (("threshold", threshold), ("nms_iou", nms_iou)):
            if share is not None and not 0 <= share <= 1:
                raise ValueError(f"{name} is {share}; it must lie in [0, 1]")
        if top_k is not None and top_k < 1:
            raise ValueError(f"top_k is {top_k}; it must be at least 1, or null")
        self.template, self.threshold = template, float(threshold)
        self.nms_iou, self.top_k = nms_iou, top_k
        self.eye = Eye(
            "AutoModelForZeroShotObjectDetection",
            "AutoProcessor",
            Checkpoint(model, revision),
            Placement(device, dtype),
        )
        copies = len(self.eye.placement.named)
        self.concurrency = 2 * batch_size * copies  # a batch is ready when the last one ends
        self._batcher: Batcher[_Look, Detection] = Batcher(
            self._detect,
            batch_size,
            copies,
            lambda copy: self.eye.placement.most(copy, batch_size),
        )

    def identity(self) -> Mapping[str, Any]:
        """Weights, and all that shapes the boxes."""
        return {
            **self.eye.identity,
            "template": self.template,
            "threshold": self.threshold,
            "nms_iou": self.nms_iou,
            "top_k": self.top_k,
        }

    async def preflight(self, role: str) -> Sequence[Finding]:
        """Whether the weights are on this disk and fit into memory; they are not loaded."""
        return presence(self.eye.checkpoint, self.eye.placement)

    async def detect(self, picture: Picture, phrase: str) -> Detection:
        """Boxes with scores, best first; none where nothing exceeds the threshold."""
        # A full stop would part the phrase into several objects, and upper case is unknown to
        # Grounding DINO.
        plain = " ".join(phrase.replace(".", " ").lower().split())
        text = self.template.replace("{phrase}", plain)
        look = await asyncio.to_thread(self._look, picture.pixels, text)
        return await self._batcher.submit(look.inputs.shape, look)

    def _look(self, pixels: NDArray[np.uint8], text: str) -> _Look:
        text = self.eye.shortened(text, _positions(self.eye.config))
        return _Look(self.eye.prepared(pixels, text=[[text]]), text, pixels.shape[:2])

    def _detect(self, copy: int, looks: Sequence[_Look]) -> list[Detection]:
        with self.eye.at_work(copy) as model:
            inputs = together([look.inputs for look in looks], self.eye, model)
            outputs = model(**inputs)
        finite(outputs.pred_boxes)
        offered = {
            "outputs": outputs,
            "threshold": 0.0,
            "target_sizes": [look.size for look in looks],
            "text_labels": [[look.text] for look in looks],
            "input_ids": inputs["input_ids"],
            "nms_threshold": 1.0,
        }
        with self.eye.processing() as processor:
            reader = processor.post_process_grounded_object_detection
            wanted = inspect.signature(reader).parameters
            found = reader(**{name: value for name, value in offered.items() if name in wanted})
        return [
            Detection(self._ranked(each, look.size), self.eye.usage)
            for each, look in zip(found, looks, strict=True)
        ]

    def _ranked(self, found: Mapping[str, Any], size: tuple[int, int]) -> tuple[Box, ...]:
        return ranked(
            found["boxes"].float().cpu().numpy(),
            found["scores"].float().cpu().numpy(),
            width=size[1],
            height=size[0],
            threshold=self.threshold,
            nms_iou=self.nms_iou,
            top_k=self.top_k,
        )


def _positions(config: Any) -> int:
    """Tokens that the text side takes."""
    text = config.get_text_config()
    own = getattr(config, "max_text_len", None)  # Grounding DINO, with the full stop
    return int(text.max_position_embeddings if own is None else own - 1)
