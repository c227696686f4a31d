"""SAM 2 by Transformers: boxes to a mask. SAM 3's tracker takes boxes likewise."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.models.local.batching import Batcher
from stages.models.local.checkpoint import Checkpoint
from stages.models.local.looking import Eye, Inputs, finite
from stages.models.local.placement import Placement
from stages.models.local.presence import presence
from stages.models.picture import Picture
from stages.models.protocol import Finding, Segmentation, Segmenter
from stages.models.segmenter.boxes import within
from stages.models.segmenter.precision import reading_boxes_in_full
from stages.records.attempt import Box

KINDS = {
    "sam2": ("Sam2Model", "Sam2Processor"),
    "sam3_tracker": ("Sam3TrackerModel", "Sam3TrackerProcessor"),
}


class _Proposals(NamedTuple):
    """What the model says of one picture's boxes."""

    logits: Any
    """``(boxes, masks, h, w)`` tensor at the model's own size, on the CPU."""
    quality: Any
    """``(boxes, masks)`` tensor: how good it thinks each mask is."""


class Sam2(Segmenter):
    """Segment Anything 2 (Ravi et al. 2024, arXiv:2408.00714) with boxes as prompts.

    Each box is a prompt of its own; the mask is the union.

    Parameters
    ----------
    model, revision
        See `Checkpoint`.
    kind : str
        ``sam2``, or ``sam3_tracker`` for the part of SAM 3 that takes boxes.
    multimask : bool
        Have three masks proposed a box and take the one that the model thinks best; a box is
        rarely ambiguous, so one will do.
    mask_threshold : float
        Logit above which a pixel belongs to the mask.
    device, dtype
        See `Placement`. In half precision the part that reads boxes keeps float32.
    batch_size : int
        Pictures that the encoder sees together, at most, whatever their sizes; their boxes are
        then decoded picture by picture. On a CPU one at a time, see `Placement.most`.
    """

    def __init__(
        self,
        model: str,
        revision: str = "main",
        kind: str = "sam2",
        multimask: bool = False,
        mask_threshold: float = 0.0,
        device: str | Sequence[str] = "auto",
        dtype: str = "float32",
        batch_size: int = 1,
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(KINDS)}")
        self.multimask, self.mask_threshold = bool(multimask), float(mask_threshold)
        self.eye = Eye(
            *KINDS[kind], Checkpoint(model, revision), Placement(device, dtype), _finished
        )
        copies = len(self.eye.placement.named)
        self.concurrency = 2 * batch_size * copies  # a batch is ready when the last one ends
        self._batcher: Batcher[Inputs, _Proposals] = Batcher(
            self._proposed,
            batch_size,
            copies,
            lambda copy: self.eye.placement.most(copy, batch_size),
        )

    def identity(self) -> Mapping[str, Any]:
        """Weights, and what chooses the mask."""
        return {
            **self.eye.identity,
            "multimask": self.multimask,
            "mask_threshold": self.mask_threshold,
            **({} if self.eye.placement.dtype == "float32" else {"boxes": "float32"}),
        }

    async def preflight(self, role: str) -> Sequence[Finding]:
        """Whether the weights are on this disk and fit into memory; they are not loaded."""
        return presence(self.eye.checkpoint, self.eye.placement)

    async def segment(self, picture: Picture, boxes: tuple[Box, ...]) -> Segmentation:
        """Cut out each box; what of a box lies outside of the picture is cut off first."""
        height, width = picture.pixels.shape[:2]
        corners = within(boxes, width, height)
        if not corners:
            return Segmentation(np.zeros((height, width), dtype=np.bool_))
        pixels, prompts = picture.pixels, [[list(box) for box in corners]]
        inputs = await asyncio.to_thread(self.eye.prepared, pixels, input_boxes=prompts)
        proposals = await self._batcher.submit(inputs.shape, inputs)
        mask = await asyncio.to_thread(self._mask, proposals, inputs.tensors["original_sizes"])
        return Segmentation(mask, self.eye.usage)

    def _proposed(self, copy: int, prompts: Sequence[Inputs]) -> list[_Proposals]:
        import torch

        with self.eye.at_work(copy) as model:
            pixels = torch.cat([each.tensors["pixel_values"] for each in prompts])
            seen = model.get_image_embeddings(pixels.to(model.device))
            found = []
            for number, prompt in enumerate(prompts):
                outputs = model(
                    input_boxes=prompt.tensors["input_boxes"].to(model.device, torch.float32),
                    image_embeddings=[level[number : number + 1] for level in seen],
                    multimask_output=self.multimask,
                )
                logits, quality = outputs.pred_masks[0], outputs.iou_scores[0]
                found.append(_Proposals(logits.float().cpu(), quality.float().cpu()))
        finite(*(each.logits for each in found))
        return found

    def _mask(self, proposals: _Proposals, size: Any) -> NDArray[np.bool_]:
        """The union of each box's best mask, ``(H, W)``."""
        processor = self.eye.copy(0)[1]
        mask = np.zeros([int(side) for side in size[0]], dtype=np.bool_)
        for proposed, quality in zip(*proposals, strict=True):
            # One box at a time: at full size the logits of fifty would fill the memory.
            best = proposed[int(quality.argmax())]
            (full,) = processor.post_process_masks(
                [best[None, None]], size, mask_threshold=self.mask_threshold
            )
            mask |= full[0, 0].numpy()
        return mask


def _finished(model: Any) -> Any:
    reads = ("prompt_encoder", "shared_image_embedding")
    return reading_boxes_in_full(model, reads=reads, takes=("vision_encoder", "mask_decoder"))
