"""Image editors that run here, by the pipelines of diffusers: FLUX.2, Kontext, Qwen-Image-Edit."""

import asyncio
import difflib
import inspect
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.imaging import codec
from stages.models.editor import sizes
from stages.models.local.batching import Batcher
from stages.models.local.checkpoint import Checkpoint, offline
from stages.models.local.faults import explained, installed, release_of, within_memory
from stages.models.local.loading import alone, once
from stages.models.local.placement import Placement, at
from stages.models.local.presence import presence
from stages.models.picture import Picture
from stages.models.protocol import CallError, EditedImage, Editor, Finding
from stages.models.wire.seeds import edit_seed
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.usage import Usage

OURS = ("image", "prompt", "generator", "output_type", "height", "width", "max_area")
"""Arguments of a pipeline's call that follow from the request."""
ROWS = ("FluxKontextPipeline",)
"""Pipelines that take a picture a row. To those of FLUX.2 and to Qwen's since 2509 several pictures
are several references of one edit."""
Offload = Literal["none", "model", "sequential"]


class _Edit(NamedTuple):
    """One call."""

    image: Any
    """The PIL image as the pipeline gets it, in RGB."""
    instruction: str
    seed: int
    """The seed of this attempt."""


class Diffusion(Editor):
    """Any pipeline of diffusers that edits an image by an instruction.

    Parameters
    ----------
    model, revision
        See `Checkpoint`.
    pipeline : str
        The pipeline's class, e.g. ``Flux2KleinPipeline``.
    call : mapping
        Further arguments of its call: steps, guidance, a negative prompt. What rewrites the
        instruction (``caption_upsample_temperature``) is to be left out.
    max_pixels, min_pixels : int or None
        The picture is handed over with an area between these, both sides multiples of 16, in
        proportions as near to its own as that allows, and comes back so. Left to itself, each
        pipeline has a way of its own, which may cut off the edges. None leaves it to the pipeline.
    offload : str
        ``model`` keeps only the part at work on the GPU, ``sequential`` only the layer (slow);
        ``none`` keeps all there. Without meaning on the CPU.
    quantization : mapping or None
        Arguments of diffusers' ``PipelineQuantizationConfig``.
    device, dtype
        See `Placement`; not ``checkpoint``, since the parts of a pipeline may differ.
    batch_size : int
        Pictures of one size that are edited together, at most, each with its instruction and its
        noise. More than one only with a pipeline of `ROWS`. On a CPU one at a time, see
        `Placement.most`.
    """

    def __init__(
        self,
        model: str,
        pipeline: str,
        revision: str = "main",
        call: Mapping[str, Any] | None = None,
        max_pixels: int | None = 1_048_576,
        min_pixels: int | None = None,
        offload: Offload = "none",
        quantization: Mapping[str, Any] | None = None,
        device: str | Sequence[str] = "auto",
        dtype: str = "bfloat16",
        batch_size: int = 1,
    ) -> None:
        installed("torch", "transformers", "diffusers")
        if offload not in ("none", "model", "sequential"):
            raise ValueError(f"offload is {offload!r}; it must be none, model or sequential")
        if dtype == "checkpoint":
            raise ValueError("dtype can't be checkpoint: the parts of a pipeline may differ")
        if batch_size > 1 and pipeline not in ROWS:
            known = ", ".join(ROWS)
            raise ValueError(
                f"batch_size must be 1: {pipeline} edits one picture at a time, unlike {known}"
            )
        if taken := sorted(set(call or {}) & set(OURS)):
            raise ValueError(f"call: {taken[0]} follows from the request")
        if max_pixels is None and min_pixels is not None:
            raise ValueError("min_pixels wants max_pixels")
        self.pipeline, self.call = pipeline, dict(call or {})
        self.max_pixels, self.min_pixels = max_pixels, min_pixels
        self.offload, self.quantization = offload, quantization and dict(quantization)
        self.checkpoint = Checkpoint(model, revision)
        self.placement = Placement(device, dtype)
        copies = len(self.placement.named)
        self.concurrency = 2 * batch_size * copies  # a batch is ready when the last one ends
        self._copies: dict[int, Any] = {}
        self._batcher: Batcher[_Edit, NDArray[np.uint8]] = Batcher(
            self._run, batch_size, copies, lambda copy: self.placement.most(copy, batch_size)
        )

    def identity(self) -> Mapping[str, Any]:
        """The libraries' releases, weights, and all arguments of the call."""
        return self._identity

    @cached_property
    def _identity(self) -> Mapping[str, Any]:
        return {
            "provider": "diffusers",
            "library": [release_of("diffusers"), release_of("transformers")],
            **self.checkpoint.identity(),
            "pipeline": self.pipeline,
            "call": self.call,
            "pixels": [self.min_pixels, self.max_pixels],
            "quantization": self.quantization,
            "dtype": self.placement.precision,
        }

    async def preflight(self, role: str) -> Sequence[Finding]:
        """Whether the pipeline takes this call, and the weights are on this disk and fit."""
        try:
            self._kind()
        except UserError as error:
            return [Finding("wrong", f"{error.where}: {error.what}", error.remedy)]
        whole = self.offload == "none" and self.quantization is None
        return presence(self.checkpoint, self.placement if whole else None)

    async def edit(
        self, picture: Picture, instruction: str, *, seed: int, attempt: int
    ) -> EditedImage:
        """Edit; the noise follows from seed and attempt, and is drawn on the CPU."""
        image = await asyncio.to_thread(self._image, picture)
        asked = _Edit(image, instruction, edit_seed(seed, attempt))
        made = await self._batcher.submit(image.size, asked)
        usage = Usage(provider="diffusers", served_model=self.checkpoint.label, images=1)
        return EditedImage(await asyncio.to_thread(codec.encode_png, made), usage)

    def _image(self, picture: Picture) -> Any:
        """The picture at the size that it goes in with."""
        from PIL import Image

        image = Image.fromarray(picture.pixels)
        if self.max_pixels is None:
            return image
        low, high = self.min_pixels or 0, self.max_pixels
        size = sizes.in_steps(image.width, image.height, max_pixels=high, min_pixels=low)
        return image if image.size == size else image.resize(size, Image.Resampling.LANCZOS)

    def _run(self, copy: int, edits: Sequence[_Edit]) -> list[NDArray[np.uint8] | Exception]:
        with within_memory(self.checkpoint.model):
            pipeline, device = self._pipeline(copy), self.placement.devices()[copy]
            with alone(pipeline), at(device):
                try:
                    made = pipeline(**self._arguments(pipeline, edits)).images
                except ValueError as error:  # a picture that it does not take
                    if len(edits) > 1:
                        raise  # which of them, shows when each is alone
                    return [CallError(Status.API_ERROR, " ".join(str(error).split()))]
        return [_pixels(image) for image in made]

    def _arguments(self, pipeline: Any, edits: Sequence[_Edit]) -> dict[str, Any]:
        """What the pipeline is called with: of several edits lists, with a generator each."""
        import torch

        arguments = {
            **self.call,
            "image": [edit.image for edit in edits],
            "prompt": [edit.instruction for edit in edits],
            "generator": [torch.Generator("cpu").manual_seed(edit.seed) for edit in edits],
        }
        if len(edits) == 1:
            arguments |= {name: arguments[name][0] for name in ("image", "prompt", "generator")}
        else:
            shared = [
                n for n, value in self.call.items() if "prompt" in n and isinstance(value, str)
            ]
            arguments |= {name: [self.call[name]] * len(edits) for name in shared}
        if self.max_pixels is not None:
            width, height = edits[0].image.size
            arguments |= {"width": width, "height": height}
            if "max_area" in inspect.signature(pipeline.__call__).parameters:
                arguments["max_area"] = width * height
        return {**arguments, "output_type": "np"}

    def _pipeline(self, copy: int) -> Any:
        if copy not in self._copies:
            kind = self._kind()
            device, which = self.placement.place(copy)
            key = (self.checkpoint.key, self.pipeline, self.placement.dtype, self.offload)
            self._copies[copy] = once(
                (*key, str(self.quantization), device, which), lambda: self._load(kind, device)
            )
        return self._copies[copy]

    def _kind(self) -> Any:
        """The pipeline's class; it takes all arguments of the call."""
        import diffusers

        where, kind = f"pipeline {self.pipeline}", getattr(diffusers, self.pipeline, None)
        if not (inspect.isclass(kind) and issubclass(kind, diffusers.DiffusionPipeline)):
            names = [name for name in dir(diffusers) if name.endswith("Pipeline")]
            near = difflib.get_close_matches(self.pipeline, names, n=1) or ["Flux2KleinPipeline"]
            raise UserError(where, "is none of diffusers'", f"Name one such as {near[0]}.")
        known = inspect.signature(kind.__call__).parameters
        if unknown := sorted(set(self.call) - set(known)):
            near = difflib.get_close_matches(unknown[0], known, n=3) or sorted(known)
            raise UserError(where, f"takes no {unknown[0]!r}", f"It takes: {', '.join(near)}.")
        return kind

    def _load(self, kind: Any, device: str) -> Any:
        import diffusers

        folder = self.checkpoint.is_folder
        options: dict[str, Any] = {} if folder else {"revision": self.checkpoint.commit}
        if not sys.stderr.isatty():
            diffusers.utils.logging.disable_progress_bar()
        with explained(self.checkpoint.model, revision=self.checkpoint.revision):
            if self.quantization is not None:
                quantized = diffusers.PipelineQuantizationConfig(**self.quantization)
                options["quantization_config"] = quantized
            made = kind.from_pretrained(
                self.checkpoint.model,
                dtype=self.placement.torch_dtype(),
                local_files_only=folder or offline(),
                **options,
            )
            self.checkpoint.check_unchanged()
            made.set_progress_bar_config(disable=True)
            if device == "cpu" or self.offload == "none":
                return made.to(device)
            if self.offload == "model":
                made.enable_model_cpu_offload(device=device)
            else:
                made.enable_sequential_cpu_offload(device=device)
            return made


def _pixels(made: Any) -> NDArray[np.uint8] | Exception:
    """``(H, W, 3)`` from a pipeline's floats in [0, 1]."""
    if not np.isfinite(made).all():
        return CallError(Status.API_ERROR, "the pipeline returned what is no number")
    pixels: NDArray[np.uint8] = (made * 255).round().clip(0, 255).astype(np.uint8)
    return pixels
