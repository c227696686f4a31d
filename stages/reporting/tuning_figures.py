"""Figures of the fine-tuning study: curves by epoch, and attention over the image."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from stages.imaging.attention import enlarge
from stages.records.tuning import AttentionRow
from stages.reporting import palette
from stages.reporting.figures import WIDTH, blank
from stages.reporting.study import Study
from stages.reporting.words import shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SAMPLES = 3
"""Samples in the figure of attention; the rows have all."""


def curves(study: Study) -> "Figure | None":
    """Accuracy and loss by epoch on held-out scenes, a line for each adapter and kind of image."""
    rows = [r for r in study.findings.tuning if r.split == "held_out" and r.images]
    if not rows:
        return None
    figure = blank(2.6)
    for ax, quantity in zip(figure.subplots(1, 2), ("accuracy", "loss"), strict=True):
        here = [row for row in rows if row.quantity == quantity]
        for number, target in enumerate(dict.fromkeys(row.target for row in here)):
            colour = palette.SERIES[number % len(palette.SERIES)]
            for images, line in (("original", ":"), ("counterfactual", "-")):
                those = [r for r in here if r.target == target and r.images == images]
                those = [row for row in those if row.measured.mean is not None]
                epochs = [row.epoch for row in those]
                means = [row.measured.mean or 0.0 for row in those]
                label = f"{target}, {images}s" if quantity == "accuracy" else None
                ax.plot(epochs, means, line, color=colour, marker="o", markersize=3, label=label)
                ends = [(r.measured.low, r.measured.high) for r in those]
                if ends and all(low is not None and high is not None for low, high in ends):
                    lows, highs = zip(*ends, strict=True)
                    ax.fill_between(epochs, lows, highs, color=colour, alpha=0.12, linewidth=0)
        ax.set(xlabel="epoch", title=f"{quantity}, held-out scenes")
        ax.grid(axis="y")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def attention(study: Study) -> "Figure | None":
    """Attention maps at every kept epoch, original above counterfactual, of one adapter."""
    rows = study.tuning
    chosen = _choose(rows)
    if not chosen:
        return None
    epochs = sorted({row.epoch for row in rows})
    lines = [(sample, images) for sample in chosen for images in ("original", "counterfactual")]
    columns = len(epochs) + 1
    figure = blank(0.35 + len(lines) * WIDTH / columns * 0.8)
    panels = figure.subplots(len(lines), columns, squeeze=False)
    for number, (sample, images) in enumerate(lines):
        here = [r for r in rows if r.sample_id == sample and r.images == images]
        pixels = study.pixels_of(here[0].image) if here else None
        for ax in panels[number]:
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set_visible(False)
        if pixels is None:
            continue
        panels[number][0].imshow(pixels)
        panels[number][0].set_ylabel(f"{shorten(sample, 18)}\n{images}")
        for ax, epoch in zip(panels[number][1:], epochs, strict=True):
            row = next(row for row in here if row.epoch == epoch)
            grid = np.array(row.values, np.float64).reshape(row.rows, row.columns)
            ax.imshow(np.asarray(pixels).mean(axis=2), cmap="gray", vmin=0, vmax=255)
            ax.imshow(enlarge(grid, pixels.shape[:2]), cmap="inferno", alpha=0.6)
            inside = "–" if row.inside is None else f"{row.inside:.2f}"
            ax.set_xlabel(f"inside {inside}", fontsize=6)
            if number == 0:
                ax.set_title(f"epoch {epoch}")
    panels[0][0].set_title(shorten(rows[0].target, 20))
    return figure


def _choose(rows: Sequence[AttentionRow]) -> list[str]:
    """Samples with both kinds of image, in order of appearance."""
    shown: dict[str, set[str]] = {}
    for row in rows:
        shown.setdefault(row.sample_id, set()).add(row.images)
    return [sample for sample, kinds in shown.items() if len(kinds) == 2][:MOST_SAMPLES]
