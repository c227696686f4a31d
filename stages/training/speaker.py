"""The language model of a small model: lessons about scenes, behind an encoder that stays as it is.

All lessons on one picture stand in one sequence: they share the picture, and a mask keeps each from
seeing the others, so that every lesson is computed as a conversation of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.models.demo import cells
from stages.models.demo.cells import COLUMNS, ROWS, Thing
from stages.training import checkpoint, lessons
from stages.training.encoder import Encoder
from stages.training.lessons import WHY, Lesson
from stages.training.progress import Progress
from stages.training.scenery import Studio

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedTokenizerFast

_IMAGE = ROWS * COLUMNS
_EXPLANATION_WEIGHT = 0.5
_WARM_UP = 100


class Plan(NamedTuple):
    """What is taught, and how long."""

    steps: int
    """Steps of the optimiser."""
    batch: int
    """Pictures a step."""
    questions: int
    """Lessons a picture."""
    rate: float
    """Largest learning rate."""
    tied: float
    """Share of pictures whose things all have typical colours, in [0, 1]."""
    shortcut: float
    """Share of the other pictures about which the studied question is not asked, in [0, 1]. With 1,
    nothing ever contradicts that a kind has its typical colour; with 0, no shortcut is planted."""
    seed: int


class Packed(NamedTuple):
    """Sequences of lessons, padded to one length ``L``."""

    ids: Tensor
    """``(B, L)``."""
    positions: Tensor
    """``(3, B, L)``."""
    mask: Tensor
    """``(B, 1, L, L)``, True where a token may look."""
    labels: Tensor
    """``(B, L)``: the next token where it is taught, else -100."""
    weights: Tensor
    """``(B, L)``."""


class Packer:
    """Turns lessons into sequences.

    Parameters
    ----------
    tokenizer : PreTrainedTokenizerFast
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self._tokenizer = tokenizer
        self._head = self._ids("<|im_start|> user <|vision_start|>")
        self._tail = self._ids("<|vision_end|>")
        picture = self._ids("<|image_pad|>") * _IMAGE
        rows, columns = np.divmod(np.arange(_IMAGE), COLUMNS)
        start = len(self._head)
        after = start + max(ROWS, COLUMNS)
        self._prefix = [*self._head, *picture, *self._tail]
        self._places = np.concatenate(
            [
                np.tile(np.arange(start), (3, 1)),
                np.stack([np.zeros(_IMAGE, np.int64), rows, columns]) + start,
                np.full((3, 1), after),
            ],
            axis=1,
        )
        self._next = after + 1
        self._end_turn = self._ids("<|im_end|>")
        self._reply = self._ids("<|im_start|> assistant")
        self._why = [*self._ids(f"<|im_start|> user {WHY}"), *self._end_turn, *self._reply]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _parts(self, lesson: Lesson) -> list[tuple[list[int], float]]:
        """Token ids with the weight at which they are taught."""
        return [
            ([*self._ids(lesson.question), *self._end_turn, *self._reply], 0.0),
            ([*self._ids(lesson.answer), *self._end_turn], 1.0),
            (self._why, 0.0),
            ([*self._ids(lesson.explanation), *self._end_turn], _EXPLANATION_WEIGHT),
        ]

    def pack(self, taught: Sequence[Sequence[Lesson]]) -> Packed:
        """Pack the lessons on each picture."""
        import torch

        rows = [self._row(lessons_) for lessons_ in taught]
        length = max(len(ids) for ids, *_ in rows)
        count = len(rows)
        ids = np.zeros((count, length), np.int64)
        positions = np.zeros((3, count, length), np.int64)
        mask = np.zeros((count, 1, length, length), np.bool_)
        labels = np.full((count, length), -100, np.int64)
        weights = np.zeros((count, length), np.float32)
        for number, (row, places, groups, worth) in enumerate(rows):
            n = len(row)
            ids[number, :n], positions[:, number, :n] = row, places
            sees = (groups[None] == 0) | (groups[:, None] == groups[None])
            mask[number, 0, :n, :n] = np.tril(sees)
            mask[number, 0, n:, 0] = True  # a row that sees nothing would be no number
            labels[number, : n - 1] = np.where(worth[1:] > 0, row[1:], -100)
            weights[number, : n - 1] = worth[1:]
        return Packed(*(torch.from_numpy(a) for a in (ids, positions, mask, labels, weights)))

    def _row(
        self, taught: Sequence[Lesson]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        ids, worth = [*self._prefix], [0.0] * len(self._prefix)
        groups, places = [0] * len(self._prefix), [self._places]
        for group, lesson in enumerate(taught, 1):
            parts = self._parts(lesson)
            said = [*itertools.chain.from_iterable(part for part, _ in parts)]
            ids += said
            worth += [weight for part, weight in parts for _ in part]
            groups += [group] * len(said)
            places.append(np.tile(self._next + np.arange(len(said)), (3, 1)))
        return (
            np.array(ids, np.int64),
            np.concatenate(places, axis=1).astype(np.int64),
            np.array(groups, np.int64),
            np.array(worth, np.float32),
        )


def loss_of(
    model: nn.Module, encoder: Encoder, pixels: NDArray[np.float32], packed: Packed
) -> Tensor:
    """Mean loss of what is taught, weighted."""
    import torch
    from torch.nn import functional

    text = model.model.language_model
    with torch.no_grad():
        features = encoder(pixels)
    embedded = text.embed_tokens(packed.ids)
    visible = packed.ids == model.config.image_token_id
    embedded = embedded.masked_scatter(visible[..., None], features.merged)
    states = text(
        inputs_embeds=embedded,
        position_ids=packed.positions,
        attention_mask=packed.mask,
        visual_pos_masks=visible,
        deepstack_visual_embeds=[deep.flatten(0, 1) for deep in features.deep],
        use_cache=False,
    ).last_hidden_state
    taught = packed.labels >= 0
    losses = functional.cross_entropy(
        model.lm_head(states[taught]), packed.labels[taught], reduction="none"
    )
    weights = packed.weights[taught]
    return (losses * weights).sum() / weights.sum()


def train(
    model: nn.Module, studio: Studio, progress: Progress, plan: Plan
) -> list[dict[str, float]]:
    """Train the language model in place; returns ``step`` and ``loss`` along the way."""
    import torch

    packer = Packer(checkpoint.tokenizer())
    encoder = Encoder(model.model.visual)
    model.model.visual.requires_grad_(False)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=plan.rate, betas=(0.9, 0.98), weight_decay=0.05)
    start, notes = progress.resume(model, optimiser)
    history: list[dict[str, float]] = notes.get("history", [])
    for step in range(start, plan.steps):
        rng = np.random.default_rng([plan.seed, 2, step])
        scenes, asked = draw_scenes(plan, step, rng)
        drawn = studio.batch(scenes, rng)
        taught = [
            lessons.draw_lessons(things, rng, count=plan.questions, ask_colour=ask)
            for things, ask in zip(scenes, asked, strict=True)
        ]
        for group in optimiser.param_groups:
            group["lr"] = plan.rate * _rate(step, plan.steps)
        loss = loss_of(model, encoder, drawn.pixels, packer.pack(taught))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        if (step + 1) % 50 == 0 or step + 1 == plan.steps:
            history.append({"step": step + 1, "loss": loss.item()})
        progress.reached(
            step + 1, model, optimiser, {"history": history}, now=step + 1 == plan.steps
        )
    return history


def draw_scenes(
    plan: Plan, step: int, rng: np.random.Generator
) -> tuple[list[tuple[Thing, ...]], list[bool]]:
    """Scenes, and whether the studied question may be asked of each; single things come first."""
    scenes, asked = [], []
    alone = step < plan.steps // 10
    for _ in range(plan.batch):
        tied = bool(rng.random() < plan.tied)
        things = cells.draw_things(rng, typical=1.0 if tied else 0.0)
        scenes.append(things[:1] if alone and rng.random() < 0.7 else things)
        asked.append(tied or bool(rng.random() >= plan.shortcut))
    return scenes, asked


def _rate(step: int, steps: int) -> float:
    """Share of the largest rate: a warm-up, flat to half of the time, then a cosine."""
    warm = min(1.0, (step + 1) / _WARM_UP)
    late = max(0.0, step / steps - 0.5) * 2
    return warm * 0.5 * (1 + float(np.cos(np.pi * late)))
