"""Figure 5: CCS against what is known of the targets from elsewhere (capability, CoT-Bias).

The scores from elsewhere are rows of `data/reference/capability.csv`, each with its source; a row
without a value is one that somebody may fill. Nothing is fitted and no correlation is computed: a
handful of targets carries none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stages.records.errors import UserError
from stages.records.score import Cell
from stages.reporting import palette
from stages.reporting.figures import blank
from stages.reporting.study import Study
from stages.reporting.words import shorten

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("target", "scale", "value", "source")
ACROSS = 3
"""Panels in a row."""


@dataclass(frozen=True)
class OtherScore:
    """A target's score on another scale, in the unit of its source."""

    target: str
    scale: str
    value: float
    source: str


def read_scores(rows: Iterable[Mapping[str, str | None]], where: str) -> tuple[OtherScore, ...]:
    """Take rows of the table (strings by column); those without a value are left out.

    Raises UserError, with the row's number as a spreadsheet counts it, where a value is no number,
    has no source, or stands twice.
    """
    found: dict[tuple[str, str], OtherScore] = {}
    for number, row in enumerate(rows, 2):
        at = f"{where} row {number}"
        if missing := [column for column in COLUMNS if row.get(column) is None]:
            raise UserError(at, f"has no {missing[0]}", f"The columns are {', '.join(COLUMNS)}.")
        target, scale, text, source = (str(row[column]).strip() for column in COLUMNS)
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not abs(value) < float("inf"):
            raise UserError(at, f"{text!r} is no number", "Write one, or leave the cell empty.")
        if not source:
            raise UserError(at, "the value has no source", "Say where it was published.")
        if (target, scale) in found:
            raise UserError(at, f"{target} has a second value of {scale}", "Keep one of them.")
        found[target, scale] = OtherScore(target, scale, value, source)
    return tuple(found.values())


def beside(study: Study, scores: Iterable[OtherScore]) -> "Figure | None":
    """Binary CCS with its interval against each scale, a panel a scale; None without a common one.

    A scale is drawn where two targets of the study or more have a value. Where a target has several
    cells, each is a mark.
    """
    cells: dict[str, list[Cell]] = {}
    for cell in study.cells:
        if (found := study.estimate(cell, "ccs_binary")) and found.mean is not None:
            cells.setdefault(cell.target, []).append(cell)
    scales: dict[str, list[OtherScore]] = {}
    for score in scores:
        if score.target in cells:
            scales.setdefault(score.scale, []).append(score)
    drawn = {scale: known for scale, known in scales.items() if len(known) > 1}
    if not drawn:
        return None
    down = -(-len(drawn) // ACROSS)
    figure = blank(0.5 + 2.1 * down)
    panels = figure.subplots(down, min(ACROSS, len(drawn)), squeeze=False, sharey=True).ravel()
    names = list(cells)
    for ax, (scale, known) in zip(panels, drawn.items(), strict=False):
        for score in known:
            for cell in cells[score.target]:
                _mark(ax, study, cell, score.value, names.index(score.target))
        ax.set_title(f"{shorten(scale, 34)}, n = {len(known)}", fontsize=8)
        ax.margins(x=0.12)
        ax.set_ylim(-0.02, 1.02)
        ax.grid(axis="y")
    for ax in panels[len(drawn) :]:
        ax.set_visible(False)
    figure.supylabel("CCS, binary", fontsize=8)
    marks: dict[str, Artist] = {}
    for ax in panels:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            marks.setdefault(str(label), handle)
    figure.legend(list(marks.values()), list(marks), loc="outside lower center", ncols=4)
    return figure


def _mark(ax: "Axes", study: Study, cell: Cell, x: float, series: int) -> None:
    estimate = study.estimate(cell, "ccs_binary")
    assert estimate is not None
    assert estimate.mean is not None
    colour = palette.SERIES[series % len(palette.SERIES)]
    if estimate.low is not None and estimate.high is not None:
        ax.plot([x, x], [estimate.low, estimate.high], "-", color=colour, linewidth=1.2)
    known = ax.get_legend_handles_labels()[1]
    label = shorten(cell.target, 30)
    ax.plot(
        x,
        estimate.mean,
        palette.MARKERS[series % len(palette.MARKERS)],
        color=colour,
        markersize=5,
        linestyle="none",
        label=None if label in known else label,
    )
