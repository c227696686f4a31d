"""SAM 3 by Transformers: one model that is detector and segmenter (Carion et al. 2025).

From a phrase it finds all instances of a concept, from a box the instances that look alike, each
with box, score and mask. Both roles share the weights where they name the same ones.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.models.detector.ranking import overlap, ranked
from stages.models.local.batching import Batcher
from stages.models.local.checkpoint import Checkpoint
from stages.models.local.loading import once
from stages.models.local.looking import Eye, Inputs, finite, placed, together
from stages.models.local.placement import Placement
from stages.models.local.presence import presence
from stages.models.picture import Picture
from stages.models.protocol import Detection, Detector, Finding, Segmentation, Segmenter
from stages.models.segmenter.boxes import Corners, within
from stages.records.attempt import Box

TOKENS = 32
"""Tokens that its text side takes."""
_SIZES = "original_sizes"


class Instances(NamedTuple):
    """What the model saw of one prompt."""

    corners: NDArray[np.float32]
    """``(N, 4)``, XYXY in pixels."""
    scores: NDArray[np.float32]
    """``(N,)`` in [0, 1]: that it is there, and of this concept."""
    logits: Any = None
    """``(h, w)`` tensor: mask logits of the one that was chosen, at the model's own size."""


Choose = Callable[[Corners, Instances], int | None]
"""Which of the instances is what a box is about, if any."""


class Ask(NamedTuple):
    """One call: a picture with a phrase, or with boxes of which each is a prompt of its own."""

    inputs: Inputs
    size: tuple[int, int]
    """Rows and columns of the picture."""
    boxes: Sequence[Corners] = ()
    choose: Choose | None = None

    def prompts(self) -> list[Inputs]:
        """What the model is asked of the picture, one by one."""
        kept = {n: t for n, t in self.inputs.tensors.items() if n not in ("pixel_values", _SIZES)}
        if not self.boxes:
            return [Inputs(kept)]
        each = ("input_boxes", "input_boxes_labels")
        return [
            Inputs({n: t[:, k : k + 1] if n in each else t for n, t in kept.items()})
            for k in range(len(self.boxes))
        ]


class Engine:
    """The model in memory, with the queue of all who share it."""

    def __init__(self, eye: Eye, batch_size: int) -> None:
        self.eye, self.batch_size = eye, batch_size
        self.batcher: Batcher[Ask, list[Instances]] = Batcher(
            self._run,
            batch_size,
            len(eye.placement.named),
            lambda copy: eye.placement.most(copy, batch_size),
        )

    async def phrase(self, pixels: NDArray[np.uint8], phrase: str) -> Instances:
        """All instances of what a phrase names, without masks."""

        def ask() -> Ask:
            text = self.eye.shortened(phrase, TOKENS)
            return Ask(self.eye.prepared(pixels, text=[text]), pixels.shape[:2])

        (found,) = await self.batcher.submit("phrase", await asyncio.to_thread(ask))
        return found

    async def boxes(
        self, pixels: NDArray[np.uint8], boxes: Sequence[Corners], choose: Choose
    ) -> Sequence[Instances]:
        """For each box the instances that look like what is in it, with the chosen one's mask."""

        def ask() -> Ask:
            inputs = self.eye.prepared(pixels, input_boxes=[[list(box) for box in boxes]])
            return Ask(inputs, pixels.shape[:2], boxes, choose)

        return await self.batcher.submit("boxes", await asyncio.to_thread(ask))

    def _run(self, copy: int, asks: Sequence[Ask]) -> list[list[Instances]]:
        """What the model saw of each prompt of each call.

        The pictures are seen together; then so many prompts at once as pictures may be.
        """
        import torch

        most = self.eye.placement.most(copy, self.batch_size)
        rows = [(number, each) for number, ask in enumerate(asks) for each in ask.prompts()]
        found: list[list[Instances]] = [[] for _ in asks]
        with self.eye.at_work(copy) as model:
            pixels = torch.cat([ask.inputs.tensors["pixel_values"] for ask in asks])
            seen = model.get_vision_features(**placed({"pixel_values": pixels}, model))
            for start in range(0, len(rows), most):
                numbers, prompts = zip(*rows[start : start + most], strict=True)
                outputs = model(
                    vision_embeds=_rows(seen, numbers), **together(prompts, self.eye, model)
                )
                read = _instances(outputs, [asks[number].size for number in numbers])
                for row, (number, instances) in enumerate(zip(numbers, read, strict=True)):
                    ask = asks[number]
                    if ask.choose is not None:
                        best = ask.choose(ask.boxes[len(found[number])], instances)
                        if best is not None:
                            logits = outputs.pred_masks[row, best].float().cpu()
                            instances = instances._replace(logits=logits)
                    found[number].append(instances)
        return found


def _rows(seen: Any, numbers: Sequence[int]) -> Any:
    """What the encoder saw of some pictures, a row each."""
    chosen = list(numbers)
    return type(seen)(
        fpn_hidden_states=tuple(level[chosen] for level in seen.fpn_hidden_states),
        fpn_position_encoding=tuple(level[chosen] for level in seen.fpn_position_encoding),
    )


def _instances(outputs: Any, sizes: Sequence[tuple[int, int]]) -> list[Instances]:
    finite(outputs.pred_boxes, outputs.pred_logits)
    scores = outputs.pred_logits.float().sigmoid()
    if outputs.presence_logits is not None:
        scores = scores * outputs.presence_logits.float().sigmoid()
    extents = np.array([(w, h, w, h) for h, w in sizes], dtype=np.float32)
    corners = outputs.pred_boxes.float().cpu().numpy() * extents[:, None]
    return [Instances(*each) for each in zip(corners, scores.cpu().numpy(), strict=True)]


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
        Pictures that the encoder sees together, at most, whatever their sizes; then as many phrases
        or boxes. On a CPU one at a time, see `Placement.most`.
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
        self.concurrency = 2 * batch_size * len(placement.named)  # the next batch waits, whole
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
        found = await self.engine.phrase(picture.pixels, " ".join(phrase.lower().split()))
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
        corners = within(boxes, width, height)
        if not corners:
            return Segmentation(np.zeros((height, width), dtype=np.bool_))
        found = await self.engine.boxes(picture.pixels, corners, self._best)
        mask = await asyncio.to_thread(self._mask, found, (height, width))
        return Segmentation(mask, self.eye.usage)

    def _mask(self, found: Sequence[Instances], size: tuple[int, int]) -> NDArray[np.bool_]:
        mask = np.zeros(size, dtype=np.bool_)
        for instances in found:
            if instances.logits is not None:
                mask |= _enlarged(instances.logits, size) > self.mask_threshold
        return mask

    def _best(self, box: Corners, instances: Instances) -> int | None:
        """The instance that covers a box best, of those above the threshold."""
        shares = [overlap(np.array(box), corners) for corners in instances.corners]
        order = np.argsort(-np.array(shares), kind="stable")
        fit = [n for n in order if instances.scores[n] > self.threshold]
        return int(fit[0]) if fit and shares[fit[0]] >= self.min_iou else None


def _enlarged(logits: Any, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Probabilities of one mask at the picture's size."""
    import torch

    shown = torch.nn.functional.interpolate(
        logits[None, None].sigmoid(), size=shape, mode="bilinear", align_corners=False
    )
    return np.asarray(shown[0, 0].numpy(), dtype=np.float32)
