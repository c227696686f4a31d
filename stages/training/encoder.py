"""The image encoder of a small model, first: which thing of which colour is in which cell?

A throw-away head on every image token reads kind, colour and number of the cell; the deepstack
features are read likewise with less weight. Everything is computed with the weights of the stock
modules, but for whole batches at once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stages.models.demo import cells
from stages.models.demo.cells import COLUMNS, ROWS
from stages.training.checkpoint import MERGE, PATCH
from stages.training.progress import Progress
from stages.training.scenery import SMALL, Batch, Studio

if TYPE_CHECKING:
    from torch import Tensor, nn

    from stages.training.scenery import Floats

GRID = (SMALL[0] // PATCH, SMALL[1] // PATCH)
_DEEP_WEIGHT = 0.3


class Features(NamedTuple):
    """What the encoder makes of pictures: ``(B, CELLS, hidden)`` each."""

    merged: Tensor
    deep: list[Tensor]


class Encoder:
    """Runs the stock encoder of a model over batches of equal size."""

    def __init__(self, visual: nn.Module) -> None:
        import torch
        from transformers.models.qwen3_vl.modeling_qwen3_vl import (
            get_vision_interpolation_indices_and_weights,
            get_vision_position_ids,
        )

        self.visual = visual
        grid = torch.tensor([[1, *GRID]])
        self._where, self._weights = get_vision_interpolation_indices_and_weights(
            grid,
            num_grid_per_side=visual.num_grid_per_side,
            mode=visual.interpolation_mode,
            align_corners=visual.interpolation_align_corners,
            spatial_merge_size=MERGE,
            kwargs={},
        )
        places = get_vision_position_ids(grid, MERGE, kwargs={})
        cos, sin = visual.rotary_pos_emb(torch.zeros(1), places)
        self._cos, self._sin = cos[None, :, None], sin[None, :, None]

    def __call__(self, pixels: Floats) -> Features:
        """Encode ``(B, H, W, 3)`` RGB in [0, 255]."""
        from torch.nn import functional

        visual = self.visual
        patches = patchify(pixels)
        count, tokens, _ = patches.shape
        weight = visual.patch_embed.proj.weight.flatten(1)
        x = functional.linear(patches, weight, visual.patch_embed.proj.bias)
        x = x + (visual.pos_embed(self._where) * self._weights[:, :, None]).sum(1)
        deep = []
        for number, block in enumerate(visual.blocks):
            x = x + self._attend(block.attn, block.norm1(x))
            x = x + block.mlp(block.norm2(x))
            if number in visual.deepstack_visual_indexes:
                merger = visual.deepstack_merger_list[visual.deepstack_visual_indexes.index(number)]
                deep.append(
                    merger(x.reshape(count * tokens, -1)).view(
                        count, -1, merger.linear_fc2.out_features
                    )
                )
        merged = visual.merger(x.reshape(count * tokens, -1))
        return Features(merged.view(count, tokens // MERGE**2, -1), deep)

    def _attend(self, attention: nn.Module, x: Tensor) -> Tensor:
        from torch.nn import functional
        from transformers.models.qwen3_vl.modeling_qwen3_vl import rotate_half

        count, tokens, size = x.shape
        q, k, v = attention.qkv(x).view(count, tokens, 3, attention.num_heads, -1).unbind(2)
        q, k = (y * self._cos + rotate_half(y) * self._sin for y in (q, k))
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        y = functional.scaled_dot_product_attention(q, k, v, scale=attention.scaling)
        out: Tensor = attention.proj(y.transpose(1, 2).reshape(count, tokens, size))
        return out


def patchify(pixels: Floats) -> Tensor:
    """``(B, H, W, 3)`` RGB in [0, 255] → ``(B, patches, 1536)`` as the processor does."""
    import torch

    x = torch.from_numpy(pixels).permute(0, 3, 1, 2) / 127.5 - 1
    count, channels = x.shape[:2]
    rows, columns = GRID[0] // MERGE, GRID[1] // MERGE
    x = x.reshape(count, channels, rows, MERGE, PATCH, columns, MERGE, PATCH)
    x = x.permute(0, 2, 5, 3, 6, 1, 4, 7)
    x = x.unsqueeze(6).expand(-1, -1, -1, -1, -1, -1, 2, -1, -1)
    return x.reshape(count, GRID[0] * GRID[1], -1)


def train(
    model: nn.Module,
    studio: Studio,
    progress: Progress,
    *,
    steps: int,
    batch: int,
    rate: float,
    seed: int,
) -> list[dict[str, float]]:
    """Train the encoder of a model in place.

    Parameters
    ----------
    model : Qwen3VLForConditionalGeneration
    studio : Studio
    progress : Progress
    steps, batch : int
    rate : float
        Learning rate of AdamW, falling as a cosine.
    seed : int

    Returns
    -------
    list of dict
        ``step``, ``loss``, and the shares of things with the right ``kind`` and ``colour``.
    """
    import torch
    from torch.nn import functional

    encoder = Encoder(model.model.visual)
    torch.manual_seed(seed)
    sizes = (len(cells.KINDS) + 1, len(cells.COLOURS) + 1, ROWS * COLUMNS)
    width = model.config.text_config.hidden_size
    heads = torch.nn.ModuleList(torch.nn.Linear(width, sum(sizes)) for _ in range(3))
    together = torch.nn.ModuleDict({"visual": model.model.visual, "heads": heads})
    weights = list(together.parameters())
    optimiser = torch.optim.AdamW(weights, lr=rate, betas=(0.9, 0.98), weight_decay=0.05)
    place = torch.arange(ROWS * COLUMNS)
    start, notes = progress.resume(together, optimiser)
    history: list[dict[str, float]] = notes.get("history", [])
    for step in range(start, steps):
        rng = np.random.default_rng([seed, 1, step])
        drawn = draw_batch(studio, rng, batch)
        _set_rate(optimiser, rate, step, steps)
        features = encoder(drawn.pixels)
        wanted = (
            torch.from_numpy(drawn.kinds),
            torch.from_numpy(drawn.colours),
            place.expand(batch, -1),
        )
        loss = torch.zeros(())
        for number, (head, states) in enumerate(
            zip(heads, (features.merged, *features.deep), strict=True)
        ):
            said = head(states).split(sizes, dim=-1)
            part = sum(
                functional.cross_entropy(guess.flatten(0, 1), right.flatten())
                for guess, right in zip(said, wanted, strict=True)
            )
            loss = loss + part * (1.0 if number == 0 else _DEEP_WEIGHT)
            if number == 0:
                there = wanted[0] > 0
                rights = [
                    float((g.argmax(-1) == w)[there].float().mean())
                    for g, w in zip(said[:2], wanted[:2], strict=True)
                ]
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        if (step + 1) % 50 == 0 or step + 1 == steps:
            history.append(
                {"step": step + 1, "loss": loss.item(), "kind": rights[0], "colour": rights[1]}
            )
        progress.reached(step + 1, together, optimiser, {"history": history}, now=step + 1 == steps)
    return history


def draw_batch(studio: Studio, rng: np.random.Generator, count: int) -> Batch:
    """Scenes in free colours."""
    return studio.batch([cells.draw_things(rng, typical=0.0) for _ in range(count)], rng)


def _set_rate(optimiser: object, rate: float, step: int, steps: int) -> None:
    warm = min(1.0, (step + 1) / 50)
    for group in optimiser.param_groups:  # type: ignore[attr-defined]
        group["lr"] = rate * warm * 0.5 * (1 + math.cos(math.pi * step / steps))
