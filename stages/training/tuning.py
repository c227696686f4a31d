"""The fine-tuning study of one adapter: train, then look at each kept epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.imaging.attention import enlarge, share_inside
from stages.records.tuning import AttentionRow, Reading, Split
from stages.training import attention, lora, losses
from stages.training.examples import Example
from stages.training.prompting import Prompting

Bools = NDArray[np.bool_]


class Watch(NamedTuple):
    """How attention is looked at."""

    layers: tuple[int, ...]
    """Text layers, from 1."""
    sink_ratio: float | None
    """See `imaging.attention.find_sinks`."""
    drop: float
    """Percentile below which values are dropped."""


def readings(
    tuned: Any,
    prompting: Prompting,
    examples: Mapping[Split, Sequence[Example]],
    states: Mapping[int, lora.State],
    *,
    target: str,
    batch: int,
    pad: int,
) -> Iterator[Reading]:
    """Loss and exactness of every example at every kept epoch."""
    for epoch, state in states.items():
        lora.put_state(tuned, state)
        for split, those in examples.items():
            found = losses.read(tuned, prompting, those, batch=batch, pad=pad)
            for example, (loss, exact) in zip(those, found, strict=True):
                yield Reading(
                    target=target,
                    epoch=epoch,
                    split=split,
                    images=example.images,
                    sample_id=example.sample.id,
                    position=example.position,
                    label=example.label,
                    loss=round(loss, 6),
                    correct=exact,
                )


def attention_rows(
    tuned: Any,
    prompting: Prompting,
    examples: Sequence[Example],
    states: Mapping[int, lora.State],
    watch: Watch,
    mask_of: Callable[[Example], Bools],
    *,
    target: str,
) -> Iterator[AttentionRow]:
    """The attention map of every example that has a mask, at every kept epoch."""
    masks = {e.mask: mask_of(e) for e in examples if e.mask is not None}
    for epoch, state in states.items():
        lora.put_state(tuned, state)
        for example in examples:
            if example.mask is None:
                continue
            mask = masks[example.mask]
            found = attention.attention_map(
                tuned,
                prompting.encode(example),
                watch.layers,
                sink_ratio=watch.sink_ratio,
                drop=watch.drop,
            )
            inside = share_inside(enlarge(found.values, mask.shape), mask)
            yield AttentionRow(
                target=target,
                epoch=epoch,
                images=example.images,
                sample_id=example.sample.id,
                position=example.position,
                image=example.image,
                rows=found.values.shape[0],
                columns=found.values.shape[1],
                values=tuple(round(float(value), 6) for value in found.values.ravel()),
                sinks=tuple(int(i) for i in np.flatnonzero(found.sinks)),
                inside=None if inside is None else round(inside, 6),
                mask_share=round(float(mask.mean()), 6),
            )
