"""SAM 3 by Transformers: one model that is detector and segmenter (Carion et al. 2025).

From a phrase it finds all instances of a concept, from a box the instances that look alike, each
with box, score and mask. Both roles share the weights where they name the same ones.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.models.detector.ranking import overlap, ranked
from stages.models.local.batching import Batcher
from stages.models.local.checkpoint import Checkpoint
from stages.models.local.faults import within_memory
from stages.models.local.loading import once
from stages.models.local.looking import Eye, finite, placed, shortened, shown
from stages.models.local.placement import Placement
from stages.models.local.presence import presence
from stages.models.picture import Picture
from stages.models.protocol import Detection, Detector, Finding, Segmentation, Segmenter
from stages.models.segmenter.boxes import Corners, within
from stages.records.attempt import Box

TOKENS = 32
"""Tokens that its text side takes."""


class Instance(NamedTuple):
    """Instances that the model saw in a picture."""

    corners: NDArray[np.float32]
    """``(N, 4)``, XYXY in pixels."""
    scores: NDArray[np.float32]
    """``(N,)`` in [0, 1]: that it is there, and of this concept."""
    logits: Any
    """``(N, h, w)`` tensor: mask logits at the model's own size."""


class Ask(NamedTuple):
    """One call: ``(H, W, 3)`` RGB with a phrase, or with boxes in its pixels."""

    pixels: NDArray[np.uint8]
    phrase: str | None
    boxes: tuple[Corners, ...] = ()


class Engine:
    """The model in memory, with the queue of all who share it."""

    def __init__(self, eye: Eye, batch_size: int) -> None:
        self.eye = eye
        self.batcher: Batcher[Ask, list[Instance]] = Batcher(
            self._run, batch_size, len(eye.placement.named)
        )

    def _run(self, copy: int, asks: Sequence[Ask]) -> list[list[Instance]]:
        with within_memory(self.eye.checkpoint.model):
            model, processor = self.eye.copy(copy)
            if asks[0].phrase is None:
                return [self._by_boxes(model, processor, ask) for ask in asks]
            return self._by_phrase(model, processor, asks)

    def _by_phrase(self, model: Any, processor: Any, asks: Sequence[Ask]) -> list[list[Instance]]:
        """A list of one entry a call: all instances of the phrase."""
        inputs = processor(
            images=[shown(ask.pixels) for ask in asks],
            text=[shortened(processor.tokenizer, str(ask.phrase), TOKENS) for ask in asks],
            return_tensors="pt",
        )
        inputs.pop("original_sizes")
        found = self._instances(model, placed(inputs, model), [ask.pixels for ask in asks])
        return [[each] for each in found]

    def _by_boxes(self, model: Any, processor: Any, ask: Ask) -> list[Instance]:
        """An entry a box: the instances that look like what is in it. One look at the picture."""
        import torch

        seen = None
        found = []
        for box in ask.boxes:
            inputs = processor(
                images=shown(ask.pixels), input_boxes=[[list(box)]], return_tensors="pt"
            )
            inputs.pop("original_sizes")
            tensors = placed(inputs, model)
            pixel_values = tensors.pop("pixel_values")
            if seen is None:
                with torch.inference_mode():
                    seen = model.get_vision_features(pixel_values)
            found += self._instances(model, {**tensors, "vision_embeds": seen}, [ask.pixels])
        return found

    def _instances(
        self, model: Any, tensors: Mapping[str, Any], pictures: Sequence[NDArray[np.uint8]]
    ) -> list[Instance]:
        import torch

        with torch.inference_mode():
            outputs = model(**tensors)
        finite(outputs.pred_boxes, outputs.pred_logits)
        scores = outputs.pred_logits.float().sigmoid()
        if outputs.presence_logits is not None:
            scores = scores * outputs.presence_logits.float().sigmoid()
        extents = np.array(
            [(w, h, w, h) for h, w, _ in (pixels.shape for pixels in pictures)], dtype=np.float32
        )
        corners = outputs.pred_boxes.float().cpu().numpy() * extents[:, None]
        return [
            Instance(*each)
            for each in zip(corners, scores.cpu().numpy(), outputs.pred_masks.cpu(), strict=True)
        ]


class Sam3(Detector, Segmenter):
    """Segment Anything 3: phrases to boxes, and boxes to a mask.

    As a segmenter it takes each box as an example and keeps the instance that covers the box best;
    a box that no instance covers adds nothing. `Sam2` with ``kind: sam3_tracker`` is the way to
    have each box cut out whatever is in it.

    Parameters
    ----------
    model, revision
        See `Checkpoint`.
    threshold : float
        Score that an instance must exceed, in [0, 1].
    min_iou : float
        Overlap of an instance with the box below which it is another thing, in [0, 1].
    mask_threshold : float
        Probability above which a pixel belongs to the mask, in [0, 1].
    top_k : int or None
        Boxes kept at most, the best.
    device, dtype
        See `Placement`.
    batch_size : int
        Pictures that go through the model together when phrases are looked for, at most.
    """

    def __init__(
        self,
        model: str = "facebook/sam3",
        revision: str = "main",
        threshold: float = 0.5,
        min_iou: float = 0.5,
        mask_threshold: float = 0.5,
        top_k: int | None = None,
        device: str | Sequence[str] = "auto",
        dtype: str = "float32",
        batch_size: int = 1,
    ) -> None:
        shares = {"threshold": threshold, "min_iou": min_iou, "mask_threshold": mask_threshold}
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise ValueError(f"{name} is {share}; it must lie in [0, 1]")
        if top_k is not None and top_k < 1:
            raise ValueError(f"top_k is {top_k}; it must be at least 1, or null")
        self.threshold, self.min_iou = float(threshold), float(min_iou)
        self.mask_threshold, self.top_k = float(mask_threshold), top_k
        placement = Placement(device, dtype)
        self.eye = Eye("Sam3Model", "Sam3Processor", Checkpoint(model, revision), placement)
        self.concurrency = batch_size * len(placement.named)
        key = ("sam3", self.eye.checkpoint, placement.named, dtype, batch_size)
        self.engine = once(key, lambda: Engine(self.eye, batch_size))

    def identity(self) -> Mapping[str, Any]:
        """Weights, and what chooses instances."""
        return {
            **self.eye.identity,
            "threshold": self.threshold,
            "min_iou": self.min_iou,
            "mask_threshold": self.mask_threshold,
            "top_k": self.top_k,
        }

    async def preflight(self, role: str) -> Sequence[Finding]:
        """Whether the weights are on this disk and fit into memory; they are not loaded."""
        return presence(self.eye.checkpoint, self.eye.placement)

    async def detect(self, picture: Picture, phrase: str) -> Detection:
        """Boxes of the instances of a phrase, best first."""
        ask = Ask(picture.pixels, " ".join(phrase.lower().split()))
        (found,) = await self.engine.batcher.submit("phrase", ask)
        height, width = picture.pixels.shape[:2]
        boxes = ranked(
            found.corners,
            found.scores,
            width=width,
            height=height,
            threshold=self.threshold,
            top_k=self.top_k,
        )
        return Detection(boxes, self.eye.usage)

    async def segment(self, picture: Picture, boxes: tuple[Box, ...]) -> Segmentation:
        """The union of the instances that the boxes are about."""
        height, width = picture.pixels.shape[:2]
        mask = np.zeros((height, width), dtype=np.bool_)
        corners = tuple(within(boxes, width, height))
        if not corners:
            return Segmentation(mask)
        found = await self.engine.batcher.submit("boxes", Ask(picture.pixels, None, corners))
        for box, instances in zip(corners, found, strict=True):
            best = self._best(box, instances)
            if best is not None:
                mask |= _enlarged(instances.logits[best], mask.shape) > self.mask_threshold
        return Segmentation(mask, self.eye.usage)

    def _best(self, box: Corners, instances: Instance) -> int | None:
        """The instance that covers a box best, of those above the threshold."""
        shares = [overlap(np.array(box), corners) for corners in instances.corners]
        order = np.argsort(-np.array(shares), kind="stable")
        fit = [n for n in order if instances.scores[n] > self.threshold]
        return int(fit[0]) if fit and shares[fit[0]] >= self.min_iou else None


def _enlarged(logits: Any, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Probabilities of one mask at the picture's size."""
    import torch

    shown = torch.nn.functional.interpolate(
        logits[None, None].float().sigmoid(), size=shape, mode="bilinear", align_corners=False
    )
    return np.asarray(shown[0, 0].numpy(), dtype=np.float32)
