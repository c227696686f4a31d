"""What detectors and segmenters that hold weights share: a model and its processor, on pictures."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.models.local.checkpoint import Checkpoint
from stages.models.local.faults import installed, release_of
from stages.models.local.loading import companion, once, pretrained
from stages.models.local.placement import Placement
from stages.models.protocol import CallError
from stages.records.base import Status
from stages.records.usage import Usage

PACKAGES = ("torch", "torchvision", "transformers")
"""What looking needs: the image processors are torchvision's."""


@dataclass(frozen=True)
class Eye:
    """A model of Transformers that takes pictures, and its processor; loaded at the first look.

    Parameters
    ----------
    model, processor : str
        Their classes' names in Transformers.
    checkpoint, placement
        Which weights, where and in which precision.
    """

    model: str
    processor: str
    checkpoint: Checkpoint
    placement: Placement
    _copies: dict[int, tuple[Any, Any]] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        installed(*PACKAGES)

    @cached_property
    def identity(self) -> Mapping[str, Any]:
        """What names the model: the library's release, class, weights and precision."""
        return {
            "provider": "transformers",
            "library": release_of("transformers"),
            "class": self.model,
            **self.checkpoint.identity(),
            "dtype": self.placement.dtype,
        }

    @property
    def usage(self) -> Usage:
        """What a call's record says of who answered."""
        return Usage(provider="transformers", served_model=self.checkpoint.label)

    def copy(self, number: int) -> tuple[Any, Any]:
        """Model and processor of a copy; adapters of one process share them."""
        if number not in self._copies:
            device = self.placement.devices()[number]
            kind = (self.checkpoint.key, self.placement.dtype, self.placement.device_map)
            self._copies[number] = (
                once(
                    (self.model, *kind, device),
                    lambda: pretrained(self.model, self.checkpoint, self.placement, device),
                ),
                once(
                    (self.processor, self.checkpoint.key, device),
                    lambda: companion(self.processor, self.checkpoint),
                ),
            )
        return self._copies[number]


def shown(pixels: NDArray[np.uint8]) -> Any:
    """A picture as processors take it: of a bare array they guess which axis is colour."""
    from PIL import Image

    return Image.fromarray(pixels)


def placed(inputs: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """Tensors on the model's device, floating ones in its precision."""
    import torch

    return {
        name: value.to(model.device, model.dtype if torch.is_floating_point(value) else None)
        for name, value in inputs.items()
    }


def finite(*tensors: Any) -> None:
    """Raise CallError where a model returned what is no number: precision overflowed."""
    import torch

    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
        raise CallError(
            Status.API_ERROR, "the model returned what is no number; set dtype: float32"
        )


def shortened(tokenizer: Any, text: str, limit: int) -> str:
    """A text without its last words, as far as it takes to stay within a number of tokens."""
    while len(text) > 1 and len(tokenizer(text, verbose=False)["input_ids"]) > limit:
        head, _, _ = text.rpartition(" ")
        text = head or text[:-1]
    return text
