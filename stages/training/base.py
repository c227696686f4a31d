"""The weights that an adapter is trained on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stages.models.local.checkpoint import Checkpoint
from stages.models.local.images import PixelBudget
from stages.models.local.loading import companion, pretrained
from stages.models.local.placement import Placement
from stages.records.errors import UserError


class Base(NamedTuple):
    """A model with its processor, ready to be trained."""

    model: Any
    processor: Any
    pad: int
    """Token that fills a batch."""
    identity: Mapping[str, str]
    """What names the weights: of a folder its content, else id and commit."""

    @classmethod
    def load(
        cls,
        root: Path,
        model: str,
        *,
        quantization: Mapping[str, Any] | None = None,
        device: str = "cpu",
        dtype: str = "float32",
        max_pixels: int | None = None,
        revision: str = "main",
    ) -> Base:
        """Load a folder of the workspace or a model of the Hub, in eager mode.

        Parameters
        ----------
        root : Path
            The workspace.
        model : str
            Folder in it, or ``maker/name``.
        quantization : mapping or None
            Values of `BitsAndBytesConfig`, for Q-LoRA.
        device : str
            ``cpu``, ``cuda``, ``cuda:1`` …, see `Placement`.
        dtype : str
            ``float32``, ``bfloat16``, ``float16`` or ``auto``.
        max_pixels : int or None
            Area of a picture as the model sees it, at most.
        revision : str
            Commit, tag or branch of a model of the Hub; without meaning for a folder.
        """
        try:
            import peft  # noqa: F401
            import torch  # noqa: F401
            import transformers
        except ImportError as error:
            raise UserError(
                "finetune",
                f"needs {error.name}",
                "`make extras EXTRAS=finetune` brings it.",
            ) from None
        one_thread()
        transformers.utils.logging.disable_progress_bar()
        folder = root / model
        checkpoint = Checkpoint(str(folder) if folder.is_dir() else model, revision)
        placement = Placement(device, dtype)
        place = placement.devices()[0]
        options: dict[str, Any] = {"attn_implementation": "eager"}
        if quantization:
            options["quantization_config"] = transformers.BitsAndBytesConfig(**quantization)
        processor = companion("AutoProcessor", checkpoint)
        loaded = pretrained("AutoModelForImageTextToText", checkpoint, placement, place, **options)
        PixelBudget(None, max_pixels).set_on(processor.image_processor, model)
        pad = processor.tokenizer.pad_token_id
        return cls(loaded, processor, 0 if pad is None else int(pad), checkpoint.identity())


def one_thread() -> None:
    """Let sums be added in one order: more threads would give other last digits."""
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
