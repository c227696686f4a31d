"""What detectors and segmenters that hold weights share: a model and its processor, on pictures."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from queue import SimpleQueue
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
    finished : callable, optional
        What is done to a model when it has been loaded; returns it.
    """

    model: str
    processor: str
    checkpoint: Checkpoint
    placement: Placement
    finished: Callable[[Any], Any] | None = None
    _copies: dict[int, tuple[Any, Any]] = field(default_factory=dict, compare=False, repr=False)
    _idle: "SimpleQueue[Any]" = field(default_factory=SimpleQueue, compare=False, repr=False)
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
        """Model and processor of a copy; adapters of one process share them.

        A processor belongs to no copy more than to another: `processing` lends whichever is idle.
        """
        with alone(self):
            if self._faults:  # as many calls as wait would load in vain one after the other
                raise self._faults[0]
            try:
                if number not in self._copies:
                    self._copies[number] = self._loaded(number)
                    self._idle.put(self._copies[number][1])
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
                lambda: self._finished(device),
            ),
            once(
                (self.processor, self.checkpoint.key, number),
                lambda: companion(self.processor, self.checkpoint),
            ),
        )

    @contextmanager
    def processing(self) -> Iterator[Any]:
        """A processor that no other thread uses meanwhile: a tokenizer serves one at a time."""
        self.copy(0)  # whatever is wrong with the weights is said first
        processor = self._idle.get()
        try:
            with alone(processor):
                yield processor
        finally:
            self._idle.put(processor)

    def _finished(self, device: str) -> Any:
        model = pretrained(self.model, self.checkpoint, self.placement, device)
        return model if self.finished is None else self.finished(model)

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
        with self.processing() as processor:
            made = processor(images=[shown(pixels)], **asked, return_tensors="pt")
        return Inputs(dict(made))

    def shortened(self, text: str, limit: int) -> str:
        """A text without its last words, as far as it takes to stay within a number of tokens."""
        with self.processing() as processor:
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
            fill = eye.copy(0)[1].tokenizer.pad_token_id if name == "input_ids" else 0
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
