"""The fine-tuning study: how answers, losses, attention and CCS change with an adapter.

A sample is the unit of resampling. The loss ratio, counterfactual over original, and the change of
CCS are paired: they rest on samples that have both.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stages.analysis.measures import Resampling, measured
from stages.records.finding import Comparison, Measured
from stages.records.tuning import AttentionRow, Images, Reading, TuningRow
from stages.stats.estimates import estimate
from stages.stats.interval import Interval
from stages.stats.ratio import mean_of, ratio_of_means
from stages.stats.resampling import stream

IMAGES: tuple[Images, ...] = ("original", "counterfactual")


class Tuned(NamedTuple):
    """What was recorded of one adapter."""

    target: str
    readings: Sequence[Reading]
    attention: Sequence[AttentionRow]


def conclude(
    tuned: Iterable[Tuned], base: str, compared: Sequence[Comparison], resampling: Resampling
) -> Iterator[TuningRow]:
    """All numbers of the study, adapter by adapter."""
    for each in tuned:
        yield from _answers(each, base, resampling)
        yield from _attention(each, base, resampling)
        epochs = [row.epoch for row in each.readings]
        yield from _ccs(each.target, base, max(epochs, default=0), compared)


def _answers(each: Tuned, base: str, resampling: Resampling) -> Iterator[TuningRow]:
    parts: dict[tuple[int, str], list[Reading]] = defaultdict(list)
    for row in each.readings:
        parts[row.epoch, row.split].append(row)
    for (epoch, split), rows in parts.items():
        losses: dict[Images, Mapping[str, float]] = {}
        for images in IMAGES:
            shown = [row for row in rows if row.images == images]
            about = (each.target, str(epoch), split, images)
            blank = TuningRow(
                quantity="accuracy",
                target=each.target,
                base=base,
                split=split,
                images=images,
                epoch=epoch,
                measured=measured(_share(shown, about, resampling)),
            )
            yield blank
            losses[images] = _by_sample((row.sample_id, row.loss) for row in shown)
            found = _mean(losses[images], ("loss", *about), resampling)
            yield blank.model_copy(update={"quantity": "loss", "measured": measured(found)})
        original, edited = losses["original"], losses["counterfactual"]
        both = sorted(original.keys() & edited.keys())
        ratio = ratio_of_means(
            [edited[s] for s in both],
            [original[s] for s in both],
            rng=stream(resampling.seed, "loss_ratio", each.target, str(epoch), split),
            confidence=resampling.confidence,
            n_resamples=resampling.n,
        )
        yield TuningRow(
            quantity="loss_ratio",
            target=each.target,
            base=base,
            split=split,
            images=None,
            epoch=epoch,
            measured=measured(ratio),
        )


def _share(rows: Sequence[Reading], about: Sequence[str], resampling: Resampling) -> Interval:
    return estimate(
        [float(row.correct) for row in rows],
        [row.sample_id for row in rows],
        rng=stream(resampling.seed, "accuracy", *about),
        method=resampling.method,
        confidence=resampling.confidence,
        n_resamples=resampling.n,
    )


def _mean(values: Mapping[str, float], about: Sequence[str], resampling: Resampling) -> Interval:
    return mean_of(
        list(values.values()),
        rng=stream(resampling.seed, *about),
        confidence=resampling.confidence,
        n_resamples=resampling.n,
    )


def _attention(each: Tuned, base: str, resampling: Resampling) -> Iterator[TuningRow]:
    parts: dict[tuple[int, Images], list[AttentionRow]] = defaultdict(list)
    for row in each.attention:
        if row.inside is not None:
            parts[row.epoch, row.images].append(row)
    for (epoch, images), rows in parts.items():
        inside = _by_sample((row.sample_id, row.inside or 0.0) for row in rows)
        even = _by_sample((row.sample_id, row.mask_share) for row in rows)
        about = (each.target, str(epoch), images)
        blank = TuningRow(
            quantity="attention_inside",
            target=each.target,
            base=base,
            split="held_out",
            images=images,
            epoch=epoch,
            measured=measured(_mean(inside, ("inside", *about), resampling)),
        )
        yield blank
        gain = ratio_of_means(
            [inside[sample] for sample in inside],
            [even[sample] for sample in inside],
            rng=stream(resampling.seed, "gain", *about),
            confidence=resampling.confidence,
            n_resamples=resampling.n,
        )
        yield blank.model_copy(update={"quantity": "attention_gain", "measured": measured(gain)})


def _ccs(target: str, base: str, epoch: int, compared: Sequence[Comparison]) -> Iterator[TuningRow]:
    """CCS after minus before, by domain, from the paired comparisons of the study."""
    for row in compared:
        pair = {row.first, row.second}
        if row.axis != "target" or pair != {base, target} or row.metric != "ccs_binary":
            continue
        if row.domain is None or row.position is not None:
            continue
        change = row.difference if row.first == target else _negated(row.difference)
        yield TuningRow(
            quantity="ccs_change",
            target=target,
            base=base,
            split=row.domain,
            images=None,
            epoch=epoch,
            measured=change,
        )


def _negated(found: Measured) -> Measured:
    def minus(value: float | None) -> float | None:
        return None if value is None else 0.0 - value

    ends = {"mean": minus(found.mean), "low": minus(found.high), "high": minus(found.low)}
    return found.model_copy(update=ends)


def _by_sample(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    held: dict[str, list[float]] = defaultdict(list)
    for sample, value in values:
        held[sample].append(value)
    return {sample: float(np.mean(numbers)) for sample, numbers in sorted(held.items())}
