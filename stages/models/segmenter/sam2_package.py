"""SAM 2 by Meta's own code, the `sam2` package: boxes to a mask."""

import hashlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.models.local.batching import Batcher
from stages.models.local.checkpoint import Checkpoint, changed
from stages.models.local.faults import explained, installed, release_of, within_memory
from stages.models.local.loading import alone, once
from stages.models.local.looking import finite
from stages.models.local.placement import Placement, at
from stages.models.local.presence import absent
from stages.models.picture import Picture
from stages.models.protocol import Finding, Segmentation, Segmenter
from stages.models.segmenter.boxes import Corners, within
from stages.models.segmenter.precision import reading_boxes_in_full
from stages.records.attempt import Box
from stages.records.errors import UserError
from stages.records.usage import Usage


class _Prompt(NamedTuple):
    """One call: ``(H, W, 3)`` RGB and boxes in its pixels."""

    pixels: NDArray[np.uint8]
    boxes: list[Corners]


class Sam2Package(Segmenter):
    """Segment Anything 2 with boxes as prompts; each box is one of its own, the mask is the union.

    Parameters
    ----------
    model, revision
        See `Checkpoint`: a repository or a folder with the checkpoint.
    file : str
        The checkpoint's name in it, e.g. ``sam2.1_hiera_large.pt``.
    config : str
        Its description: a name that the package knows, or a YAML file.
    multimask : bool
        Have three masks proposed a box and take the one that the model thinks best.
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
        file: str,
        config: str,
        revision: str = "main",
        multimask: bool = False,
        mask_threshold: float = 0.0,
        device: str | Sequence[str] = "auto",
        dtype: str = "float32",
        batch_size: int = 1,
    ) -> None:
        installed("torch", "torchvision", "sam2")
        self.checkpoint, self.file, self.config = Checkpoint(model, revision), file, config
        self.multimask, self.mask_threshold = bool(multimask), float(mask_threshold)
        self.placement = Placement(device, dtype)
        copies = len(self.placement.named)
        self.concurrency = 2 * batch_size * copies  # a batch is ready when the last one ends
        self._copies: dict[int, Any] = {}
        self._batcher: Batcher[_Prompt, Segmentation] = Batcher(
            self._segment,
            batch_size,
            copies,
            lambda copy: self.placement.most(copy, batch_size),
        )

    def identity(self) -> Mapping[str, Any]:
        """The package's release, weights, the description's content, and what chooses the mask."""
        return self._identity

    @cached_property
    def _identity(self) -> Mapping[str, Any]:
        weights = {**self.checkpoint.identity(), "file": self.file}
        if self.checkpoint.is_folder:
            weights = {"model": "folder", "sha256": _digest(self._weights)}
        return {
            "provider": "sam2",
            "library": release_of("sam2"),
            **weights,
            "config": _digest(self._description),
            "multimask": self.multimask,
            "mask_threshold": self.mask_threshold,
            **({} if self.placement.dtype == "float32" else {"dtype": self.placement.precision}),
        }

    async def preflight(self, role: str) -> Sequence[Finding]:
        """Whether the checkpoint is on this disk, and its description known."""
        try:
            described = self._description.name
            if self.checkpoint.is_folder:
                return [Finding("ok", f"{self._weights.name} is on this disk, with {described}")]
            cached = self._cached()
        except UserError as error:
            return [Finding("wrong", f"{error.where}: {error.what}", error.remedy)]
        if cached:
            return [Finding("ok", f"{self.file} is on this disk, with {described}")]
        return [absent(self.checkpoint, f"{self.file} is not on this disk")]

    def _cached(self) -> bool:
        installed("huggingface_hub")
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(
            self.checkpoint.model, self.file, revision=self.checkpoint.commit
        )
        return isinstance(found, str)

    async def segment(self, picture: Picture, boxes: tuple[Box, ...]) -> Segmentation:
        """Cut out each box; what of a box lies outside of the picture is cut off first."""
        height, width = picture.pixels.shape[:2]
        corners = within(boxes, width, height)
        if not corners:
            return Segmentation(np.zeros((height, width), dtype=np.bool_))
        return await self._batcher.submit(None, _Prompt(picture.pixels, corners))

    def _segment(self, copy: int, prompts: Sequence[_Prompt]) -> list[Segmentation]:
        usage = Usage(provider="sam2", served_model=self.checkpoint.label)
        with within_memory(self.checkpoint.model):
            predictor = self._predictor(copy)
            with alone(predictor.model), at(str(predictor.device)):
                return [Segmentation(mask, usage) for mask in self._masks(predictor, prompts)]

    def _masks(self, predictor: Any, prompts: Sequence[_Prompt]) -> list[NDArray[np.bool_]]:
        import torch

        predictor.set_image_batch([prompt.pixels.copy() for prompt in prompts])
        masks = [np.zeros(prompt.pixels.shape[:2], dtype=np.bool_) for prompt in prompts]
        # One box a picture at a time: at full size the logits of fifty would fill the memory. Who
        # has fewer shows its last one again, which changes nothing in a union.
        for turn in range(max(len(prompt.boxes) for prompt in prompts)):
            boxes = [np.array(each.boxes[min(turn, len(each.boxes) - 1)]) for each in prompts]
            proposed, quality, _ = predictor.predict_batch(
                box_batch=boxes, multimask_output=self.multimask, return_logits=True
            )
            for mask, logits, good in zip(masks, proposed, quality, strict=True):
                finite(torch.from_numpy(logits))
                mask |= logits[int(good.argmax())] > self.mask_threshold
        return masks

    def _predictor(self, copy: int) -> Any:
        if copy not in self._copies:
            device, which = self.placement.place(copy)
            key = (self.checkpoint, self.file, self._description, self.placement.dtype)
            model = once(("sam2", *key, device, which), lambda: self._build(device))
            from sam2.sam2_image_predictor import SAM2ImagePredictor

            self._copies[copy] = SAM2ImagePredictor(model, mask_threshold=self.mask_threshold)
        return self._copies[copy]

    def _build(self, device: str) -> Any:
        weights, description = self._weights, self._description
        named = self.checkpoint.model, self.checkpoint.revision
        with explained(named[0], revision=named[1]), _only(description.parent):
            from sam2.build_sam import build_sam2

            try:
                made = build_sam2(description.name, str(weights), device=device)
            except UnpicklingError:
                raise ValueError(f"{self.file} is no checkpoint of torch") from None
        if self.checkpoint.is_folder and _digest(weights) != self._identity["sha256"]:
            raise changed(str(weights))
        if (dtype := self.placement.torch_dtype()) == "auto":
            return made
        takes = ("image_encoder", "sam_mask_decoder")
        return reading_boxes_in_full(made.to(dtype), reads=["sam_prompt_encoder"], takes=takes)

    @cached_property
    def _weights(self) -> Path:
        """The checkpoint's file on this disk; it is downloaded if need be."""
        if self.checkpoint.is_folder:
            found = Path(self.checkpoint.model) / self.file
            if not found.is_file():
                raise UserError(self.checkpoint.model, f"holds no {self.file}", "Check the name.")
            return found
        installed("huggingface_hub")
        from huggingface_hub import hf_hub_download

        with explained(self.checkpoint.model, revision=self.checkpoint.revision):
            return Path(
                hf_hub_download(self.checkpoint.model, self.file, revision=self.checkpoint.commit)
            )

    @cached_property
    def _description(self) -> Path:
        given = Path(self.config)
        if given.is_file():
            return given.resolve()
        package = importlib.util.find_spec("sam2")
        if package is None or package.origin is None:
            raise ModuleNotFoundError("No module named 'sam2'", name="sam2")
        shipped = Path(package.origin).parent / self.config
        if not shipped.is_file():
            raise UserError(
                f"config {self.config}",
                "is neither a file nor known to the sam2 package",
                "Name one such as configs/sam2.1/sam2.1_hiera_l.yaml.",
            )
        return shipped


@contextmanager
def _only(folder: Path) -> Iterator[None]:
    """Let Hydra's one global search path be a folder; put back afterwards what was there before.

    Importing sam2 claims that path for itself, which this undoes too.
    """
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    state = GlobalHydra.instance()
    before, state.hydra = state.hydra, None
    try:
        import sam2  # noqa: F401 - claims the path, if it is the first time

        state.hydra = None
        initialize_config_dir(str(folder), version_base="1.2", job_name="sam2")
        yield
    finally:
        state.hydra = before


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
