"""What detectors and segmenters that hold weights share: a model and its processor, on pictures."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.models.local.checkpoint import Checkpoint
from stages.models.local.faults import installed, release_of, within_memory
from stages.models.local.loading import alone, companion, once, pretrained
from stages.models.local.placement import Placement, at
from stages.models.protocol import CallError
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.usage import Usage

PACKAGES = ("torch", "torchvision", "transformers")
"""What looking needs: the image processors are torchvision's."""


@dataclass(frozen=True, eq=False)
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
    _faults: list[UserError] = field(default_factory=list, compare=False, repr=False)

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
            "dtype": self.placement.precision,
        }

    @property
    def usage(self) -> Usage:
        """What a call's record says of who answered."""
        return Usage(provider="transformers", served_model=self.checkpoint.label)

    def copy(self, number: int) -> tuple[Any, Any]:
        """Model and processor of a copy; adapters of one process share them."""
        with alone(self):
            if self._faults:  # as many calls as wait would load in vain one after the other
                raise self._faults[0]
            try:
                if number not in self._copies:
                    self._copies[number] = self._loaded(number)
            except UserError as error:
                self._faults.append(error)
                raise
            return self._copies[number]

    def _loaded(self, number: int) -> tuple[Any, Any]:
        device, which = self.placement.place(number)
        kind = (self.checkpoint.key, self.placement.dtype, self.placement.device_map)
        return (
            once(
                (self.model, *kind, device, which),
                lambda: pretrained(self.model, self.checkpoint, self.placement, device),
            ),
            once(
                (self.processor, self.checkpoint.key),
                lambda: companion(self.processor, self.checkpoint),
            ),
        )

    @property
    def processed_by(self) -> Any:
        """The processor, which all copies share."""
        return self.copy(0)[1]

    @property
    def config(self) -> Any:
        """What the checkpoint says of the model."""
        return self.copy(0)[0].config

    def prepared(self, pixels: NDArray[np.uint8], **asked: Any) -> "Inputs":
        """One call's inputs as the processor makes them; for a thread beside the model's.

        They are made call by call, so that what a model sees of a call depends on it alone.

        Parameters
        ----------
        pixels : (H, W, 3) array
            RGB.
        **asked
            Further arguments of the processor.
        """
        processor = self.processed_by
        with alone(processor):  # a tokenizer serves one thread at a time
            made = processor(images=[shown(pixels)], **asked, return_tensors="pt")
        return Inputs(dict(made))

    def shortened(self, text: str, limit: int) -> str:
        """A text without its last words, as far as it takes to stay within a number of tokens."""
        processor = self.processed_by
        with alone(processor):
            return shortened(processor.tokenizer, text, limit)

    @contextmanager
    def at_work(self, number: int) -> Iterator[Any]:
        """The model of a copy for a batch: this thread's alone, on its device, no gradients."""
        import torch

        with within_memory(self.checkpoint.model):
            model, _ = self.copy(number)
            with alone(model), at(str(model.device)), torch.inference_mode():
                yield model


@dataclass(frozen=True, eq=False)
class Inputs:
    """Tensors of one call, each with a leading axis of length 1, by the names of the model's."""

    tensors: Mapping[str, Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the picture as the model sees it; only equal ones go through together."""
        return tuple(self.tensors["pixel_values"].shape)


def together(calls: Sequence[Inputs], eye: Eye, model: Any) -> dict[str, Any]:
    """Stack the tensors of calls to a batch on the model's device, in its precision.

    Texts that are shorter than others are padded on the right; their attention mask says so.
    """
    import torch

    made = {}
    for name in calls[0].tensors:
        rows = [call.tensors[name] for call in calls]
        longest = max(row.shape[-1] for row in rows)
        if any(row.shape[-1] < longest for row in rows):
            fill = eye.processed_by.tokenizer.pad_token_id if name == "input_ids" else 0
            pad = torch.nn.functional.pad
            rows = [pad(row, (0, longest - row.shape[-1]), value=fill) for row in rows]
        made[name] = torch.cat(rows)
    return placed(made, model)


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
