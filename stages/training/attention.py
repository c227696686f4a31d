"""The attention of an answer over the tokens of an image, of any model of Qwen3-VL's kind.

One forward pass over question and answer in eager mode; the query is the place whose output is the
first token of the label, since there the model decides on it. What is made of the numbers is
`imaging.attention`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.imaging.attention import AttentionMap, differential_map, find_sinks
from stages.records.errors import UserError
from stages.training.prompting import Encoded, collate

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]


class Attended(NamedTuple):
    """Attention over the tokens of one image."""

    query: Floats
    """``(layers, heads, tokens)``: from the query."""
    background: Floats
    """``(layers, tokens)``: mean over heads and over the text between image and query."""
    grid: tuple[int, int]
    """Rows and columns of image tokens."""


def attend(model: Any, encoded: Encoded, layers: Sequence[int]) -> Attended:
    """Run a model on one example and read the attention of the given layers.

    Parameters
    ----------
    model
        A model of Qwen3-VL's kind, with or without an adapter, on any device.
    encoded : Encoded
    layers : sequence of int
        Text layers, counted from 1 (paper: 7 to 12).

    Raises
    ------
    UserError
        If the model has no such layer, or gives no attention: then it is not in eager mode.
    """
    import torch

    plain = model.get_base_model() if hasattr(model, "get_base_model") else model
    blocks = plain.model.language_model.layers
    if not layers or min(layers) < 1 or max(layers) > len(blocks):
        raise UserError(
            "finetune: layers",
            f"{list(layers)} are not all among the {len(blocks)} text layers",
            "Name layers from 1 on.",
        )
    visible = encoded.types == 1
    after = int(visible.nonzero()[-1]) + 1
    rows = slice(after, max(after + 1, encoded.query + 1))
    found: dict[int, Floats] = {}

    def keep(number: int, output: Any) -> None:
        """Of one layer's attention keep what is asked for: all layers together take gigabytes."""
        weights = output[1] if isinstance(output, tuple) and len(output) > 1 else None
        if weights is not None:
            chosen = weights[0, :, rows][..., visible.to(weights.device)]
            found[number] = chosen.float().cpu().numpy().astype(np.float64)

    hooks = [
        blocks[number - 1].self_attn.register_forward_hook(
            lambda _module, _inputs, output, number=number: keep(number, output)
        )
        for number in layers
    ]
    inputs = collate([encoded], 0, model.device)
    inputs.pop("labels")
    model.eval()
    try:
        with torch.inference_mode():
            model(**inputs, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    if len(found) < len(layers):
        raise UserError(
            "attention",
            "the model gives none: it is not in eager mode",
            "Load it with attn_implementation: eager.",
        )
    chosen = np.stack([found[number] for number in layers])
    # The text between image and query: what of the image all of it looks at is no answer to it.
    before = chosen[:, :, :-1] if chosen.shape[2] > 1 else chosen
    merge = int(plain.config.vision_config.spatial_merge_size)
    _, high, wide = (int(n) for n in encoded.grid[0])
    return Attended(
        query=chosen[:, :, encoded.query - after],
        background=before.mean(axis=(1, 2)),
        grid=(high // merge, wide // merge),
    )


def attention_map(
    model: Any, encoded: Encoded, layers: Sequence[int], *, sink_ratio: float | None, drop: float
) -> AttentionMap:
    """The differential attention map of one example: see `imaging.attention`."""
    found = attend(model, encoded, layers)
    sinks = find_sinks(found.background, sink_ratio)
    return differential_map(found.query, found.grid, sinks=sinks, drop=drop)
