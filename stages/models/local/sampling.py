"""Which token comes next: the most likely one, or one drawn with a seed of the call's own.

The library draws a batch's tokens from one generator, so that a reply would depend on what else is
in its batch. Here each row has a generator of its own: a seed gives a reply, in any company.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Generation:
    """Settings of generation, from YAML; nothing is taken over from the checkpoint's own.

    Parameters
    ----------
    do_sample : bool
        Draw tokens; otherwise the most likely one is taken (greedy decoding).
    temperature : float
        Divides the logits; > 0.
    top_k : int
        Draw among so many tokens; 0: all.
    top_p, min_p : float
        Draw among the tokens that hold this share of the probability, or that have at least this
        share of the likeliest one's.
    repetition_penalty : float
        Divides the logits of tokens that were there before; 1: none.
    """

    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError("generation.temperature must be > 0; greedy is do_sample: false")
        if self.top_k < 0 or not 0 < self.top_p <= 1 or not 0 <= self.min_p <= 1:
            raise ValueError("generation: top_k ≥ 0, 0 < top_p ≤ 1 and 0 ≤ min_p ≤ 1 are wanted")
        if not self.repetition_penalty > 0:
            raise ValueError("generation.repetition_penalty must be > 0")
        chosen = (self.temperature, self.top_k, self.top_p, self.min_p)
        if not self.do_sample and chosen != (1, 0, 1, 0):
            raise ValueError("generation: temperature, top_k, top_p, min_p want do_sample: true")

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> "Generation":
        """Read the mapping of a YAML file."""
        values = dict(given or {})
        known = [name.name for name in fields(cls)]
        for name in values:
            if name not in known:
                raise ValueError(f"generation: {name!r} is none of {', '.join(known)}")
        return cls(**values)

    def processors(self, seeds: Sequence[int], watched: "Watched | None" = None) -> Any:
        """Logits processors of a batch whose rows have these seeds; the first one only looks."""
        from transformers import (
            LogitsProcessorList,
            MinPLogitsWarper,
            TemperatureLogitsWarper,
            TopKLogitsWarper,
            TopPLogitsWarper,
        )

        chain = LogitsProcessorList([watched] if watched is not None else [])
        if not self.do_sample:
            return chain
        if self.temperature != 1:
            chain.append(TemperatureLogitsWarper(self.temperature))
        if self.top_k:
            chain.append(TopKLogitsWarper(self.top_k))
        if self.top_p < 1:
            chain.append(TopPLogitsWarper(self.top_p))
        if self.min_p:
            chain.append(MinPLogitsWarper(self.min_p))
        chain.append(_row_sampler(seeds))
        return chain


class Watched:
    """Looks at the logits of a batch as they come, and changes nothing.

    The most likely of no numbers is token 0, again and again: a reply without end, or a wrong one.
    """

    def __init__(self) -> None:
        self._steps: list[Any] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Note which rows hold what is no number, or infinity; ``-inf`` is a token left out."""
        self._steps.append(~(scores < float("inf")).all(-1))  # read at the end: no wait for a GPU
        return scores

    def first(self) -> list[int | None]:
        """The first such step of each row, from 0; None: there was none."""
        import torch

        rows = torch.stack(self._steps, 1).tolist()
        return [row.index(True) if any(row) else None for row in rows]


def _row_sampler(seeds: Sequence[int]) -> Any:
    """A processor that leaves each row one token, drawn by the row's own generator."""
    import torch
    from transformers import LogitsProcessor

    generators = [np.random.default_rng(seed) for seed in seeds]

    class RowSampler(LogitsProcessor):  # type: ignore[misc]
        def __call__(self, input_ids: Any, scores: Any) -> Any:
            drawn = torch.tensor([generator.random() for generator in generators])
            shares = scores.float().softmax(-1).cumsum(-1).cpu()
            shares = shares / shares[:, -1:]  # rounding: the last is to be 1
            chosen = torch.searchsorted(shares, drawn[:, None].float(), right=True)
            # a draw that rounds to 1 falls on the last token that has a share
            last = (shares < 1).sum(-1, keepdim=True)
            chosen = torch.minimum(chosen, last).to(scores.device)
            return torch.full_like(scores, -torch.inf).scatter(-1, chosen, 0.0)

    return RowSampler()
