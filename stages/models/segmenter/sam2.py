"""SAM 2 by Transformers: boxes to a mask. SAM 3's tracker takes boxes likewise."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.models.local.batching import Batcher
from stages.models.local.checkpoint import Checkpoint
from stages.models.local.faults import within_memory
from stages.models.local.looking import Eye, finite, placed, shown
from stages.models.local.placement import Placement
from stages.models.local.presence import presence
from stages.models.picture import Picture
from stages.models.protocol import Finding, Segmentation, Segmenter
from stages.models.segmenter.boxes import Corners, within
from stages.records.attempt import Box

KINDS = {
    "sam2": ("Sam2Model", "Sam2Processor"),
    "sam3_tracker": ("Sam3TrackerModel", "Sam3TrackerProcessor"),
}


class _Prompt(NamedTuple):
    """One call: ``(H, W, 3)`` RGB and boxes in its pixels."""

    pixels: NDArray[np.uint8]
    boxes: list[Corners]


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
        See `Placement`. In half precision the corners of a box are rounded by some pixels.
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
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(KINDS)}")
        self.multimask, self.mask_threshold = bool(multimask), float(mask_threshold)
        self.eye = Eye(*KINDS[kind], Checkpoint(model, revision), Placement(device, dtype))
        self.concurrency = len(self.eye.placement.named)
        self._batcher: Batcher[_Prompt, Segmentation] = Batcher(self._segment, 1, self.concurrency)

    def identity(self) -> Mapping[str, Any]:
        """Weights, and what chooses the mask."""
        return {
            **self.eye.identity,
            "multimask": self.multimask,
            "mask_threshold": self.mask_threshold,
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
        return await self._batcher.submit(None, _Prompt(picture.pixels, corners))

    def _segment(self, copy: int, prompts: Sequence[_Prompt]) -> list[Segmentation]:
        return [Segmentation(self._mask(copy, each), self.eye.usage) for each in prompts]

    def _mask(self, copy: int, prompt: _Prompt) -> NDArray[np.bool_]:
        import torch

        with within_memory(self.eye.checkpoint.model):
            model, processor = self.eye.copy(copy)
            inputs = processor(
                images=shown(prompt.pixels),
                input_boxes=[[list(box) for box in prompt.boxes]],
                return_tensors="pt",
            )
            size = inputs.pop("original_sizes")
            with torch.inference_mode():
                outputs = model(**placed(inputs, model), multimask_output=self.multimask)
        logits, quality = outputs.pred_masks[0].float().cpu(), outputs.iou_scores[0]
        finite(logits)
        mask = np.zeros(prompt.pixels.shape[:2], dtype=np.bool_)
        for proposed, best in zip(logits, quality.argmax(-1).tolist(), strict=True):
            # One box at a time: at full size the logits of fifty would fill the memory.
            (full,) = processor.post_process_masks(
                [proposed[best][None, None]], size, mask_threshold=self.mask_threshold
            )
            mask |= full[0, 0].numpy()
        return mask
