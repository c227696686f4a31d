"""The plot of growth: seconds over samples, both logarithmic, each line with its own name."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.figure import Figure, Series
from stages.reporting import figures, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

PANELS = {
    "Stages that map over samples\nCPU, stand-in models": (
        "prepare",
        "baseline",
        "concepts",
        "instructions",
        "edit",
        "requery",
        "judge",
    ),
    "What gathers, and verification\nCPU": ("score", "report", "verification"),
    "DVC with a folder of images\nbeyond one image": ("commit", "status", "checkout"),
}
_HEIGHT = 3.4
_LEADER = {"arrowstyle": "-", "linewidth": 0.5, "relpos": (0, 0.5)}
_TICKS = {10: "10", 100: "100", 1_000: "1k", 10_000: "10k", 100_000: "100k"}
_GAP = 0.055
"""Least distance of two names, as a share of the height of a panel."""


def draw(found: Sequence[Figure], folder: Path) -> None:
    """Write ``growth.png`` and ``growth.svg``; equal figures give equal files."""
    with figures.style():
        for ending, data in figures.save(drawing(found), dpi=160).items():
            (folder / f"growth.{ending}").write_bytes(data)


def drawing(found: Sequence[Figure]) -> "Drawing":
    """The plot; a figure without series is left out."""
    series = {_cost(figure): figure.series for figure in found if figure.series}
    whole = figures.blank(_HEIGHT)
    panels = whole.subplots(1, len(PANELS), sharey=True)
    values = [value for each in series.values() for value in each.values]
    for ax, (title, costs) in zip(panels, PANELS.items(), strict=True):
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(min(values) / 2, max(values) * 2)
        ax.set_title(title, fontweight="normal", fontsize=8.0)
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.grid(which="major")
        _lines(ax, {cost: series[cost] for cost in costs if cost in series})
    panels[0].set_ylabel("seconds")
    return whole


def _cost(figure: Figure) -> str:
    """Which cost a figure is of: the word of `PANELS` that its name has."""
    words = figure.name.replace(",", " ").split()
    known = {cost for costs in PANELS.values() for cost in costs}
    return next((word for word in words if word in known), figure.name)


def _lines(ax: "Axes", series: dict[str, Series]) -> None:
    if not series:
        return
    left = min(min(each.sizes) for each in series.values())
    right = max(max(each.sizes) for each in series.values())
    ax.set_xlim(left / 1.5, right * (right / left) ** 1.0)  # room for the names
    ax.set_xticks(*zip(*((s, t) for s, t in _TICKS.items() if left <= s <= right), strict=True))
    ax.minorticks_off()
    ax.set_xlabel(" / ".join(dict.fromkeys(each.of for each in series.values())))
    low, high = ax.get_ylim()
    guide = np.array([left, right], dtype=float)
    start = low * 2
    ax.plot(guide, start * guide / left, ":", color=palette.GREY, linewidth=1.0, zorder=1)
    ends = {}
    for (cost, each), colour, marker in zip(
        series.items(), palette.SERIES, palette.MARKERS, strict=False
    ):
        ax.plot(each.sizes, each.values, marker=marker, color=colour, linewidth=1.4, markersize=3.5)
        ends[cost] = (float(np.log(each.values[-1] / low) / np.log(high / low)), colour)
    for cost, at in _apart({cost: at for cost, (at, _) in ends.items()}).items():
        each = series[cost]
        text = cost if each.slope is None else f"{cost}  {each.slope:.2f}"
        name = ax.annotate(
            text,
            (each.sizes[-1], each.values[-1]),
            xytext=(right * (right / left) ** 0.12, low * (high / low) ** at),
            textcoords="data",
            color=ends[cost][1],
            va="center",
            arrowprops={
                "arrowstyle": "-",
                "color": ends[cost][1],
                "linewidth": 0.5,
                "relpos": (0, 0.5),
            },
        )
        name.set_in_layout(False)


def _apart(ends: dict[str, float]) -> dict[str, float]:
    """Heights of names, as shares: at their lines' ends where there is room, moved up otherwise."""
    placed: dict[str, float] = {}
    floor = -1.0
    for cost in sorted(ends, key=lambda cost: ends[cost]):
        placed[cost] = max(ends[cost], floor + _GAP)
        floor = placed[cost]
    over = floor - (1 - _GAP / 2)
    return {cost: at - max(over, 0.0) for cost, at in placed.items()}
