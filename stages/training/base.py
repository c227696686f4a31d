"""The weights that an adapter is trained on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stages.models.local.checkpoint import folder_digest
from stages.models.local.images import PixelBudget
from stages.records.errors import UserError


class Base(NamedTuple):
    """A model with its processor, ready to be trained."""

    model: Any
    processor: Any
    pad: int
    """Token that fills a batch."""
    digest: str
    """What names the weights: of a folder its content, else the id."""

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
            ``cpu``, ``cuda``, ``cuda:1`` …
        dtype : str
            ``float32``, ``bfloat16`` … or ``auto``.
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
        folder = root / model
        source = str(folder) if folder.is_dir() else model
        transformers.utils.logging.disable_progress_bar()
        options: dict[str, Any] = {
            "attn_implementation": "eager",
            "dtype": dtype,
            "revision": revision,
        }
        if quantization:
            options["quantization_config"] = transformers.BitsAndBytesConfig(**quantization)
            options["device_map"] = {"": device}
        try:
            processor = transformers.AutoProcessor.from_pretrained(source, revision=revision)
            loaded = transformers.AutoModelForImageTextToText.from_pretrained(source, **options)
        except (OSError, ValueError) as error:
            what = " ".join(str(error).split())[:200]
            raise UserError(f"finetune: {model}", what, "Name a folder or a model id.") from None
        if not quantization:
            loaded = loaded.to(device)
        PixelBudget(None, max_pixels).set_on(processor.image_processor, model)
        digest = folder_digest(folder) if folder.is_dir() else f"{model}@{revision}"
        pad = processor.tokenizer.pad_token_id
        return cls(loaded, processor, 0 if pad is None else int(pad), digest)


def one_thread() -> None:
    """Let sums be added in one order: more threads would give other last digits."""
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
