"""Figures of findings: thresholds as heat maps, paired differences, calibration. Nothing is
estimated here."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stages.records.finding import CoverageRow, Measured, SensitivityRow
from stages.records.score import Cell
from stages.reporting import palette
from stages.reporting.figures import blank
from stages.reporting.finding_tables import part_label
from stages.reporting.study import Study
from stages.reporting.words import cell_label, shorten, varying_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 6
"""Cells in the heat map; the table has all."""
MOST_PAIRS = 24
"""Pairs in the figure of differences; the table has all."""


def sensitivity(study: Study) -> "Figure | None":
    """Heat maps over the thresholds, a row a cell: accepted, CCS, edits that would be made anew."""
    cells = [c for c in study.cells if _grid(study, c)][:MOST_ROWS]
    if not cells:
        return None
    figure = blank(0.5 + 1.75 * len(cells))
    panels = figure.subplots(len(cells), 3, squeeze=False)
    axes = varying_axes(study.cells)
    for row, cell in enumerate(cells):
        points = _grid(study, cell)
        for ax, (name, value, colours) in zip(
            panels[row],
            (
                ("attempts accepted", lambda p: p.acceptance.mean, "Blues"),
                ("CCS, binary", lambda p: p.ccs_binary, "viridis"),
                ("edits to ask about or make anew", _share_anew, "Oranges"),
            ),
            strict=True,
        ):
            title = name if row == 0 else ""
            _heat(ax, points, value, colours, title)
        panels[row][0].set_ylabel(f"{shorten(cell_label(cell, axes), 26)}\nτ_in")
    for ax in panels[-1]:
        ax.set_xlabel("τ_out")
    return figure


def _grid(study: Study, cell: Cell) -> list[SensitivityRow]:
    return [row for row in study.findings.sensitivity if row.cell == cell and row.warped]


def _share_anew(row: SensitivityRow) -> float | None:
    return (row.n_to_edit + row.n_to_requery) / row.n_planned if row.n_planned else None


def _heat(
    ax: "Axes", points: Sequence[SensitivityRow], value: Any, colours: str, title: str
) -> None:
    """One heat map with its numbers; the run's own thresholds are framed."""
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    rows, columns = (sorted({getattr(p, tau) for p in points}) for tau in ("tau_in", "tau_out"))
    shades = colormaps[colours]
    for point in points:
        x, y = columns.index(point.tau_out), rows.index(point.tau_in)
        number = value(point)
        shade = (1.0, 1.0, 1.0, 1.0) if number is None else shades(float(number))
        ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=shade))
        if point.used:
            frame = Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor=palette.BLACK)
            frame.set(linewidth=1.4, zorder=3)
            ax.add_patch(frame)
        dark = sum(shade[:3]) < 1.5
        said = "–" if number is None else f"{number:.2f}"
        ink = "white" if dark else "black"
        ax.text(x, y, said, ha="center", va="center", fontsize=6, color=ink, zorder=4)
    ax.set_xlim(-0.5, len(columns) - 0.5)
    ax.set_ylim(-0.5, len(rows) - 0.5)
    ax.set_xticks(range(len(columns)), [f"{tau:g}" for tau in columns])
    ax.set_yticks(range(len(rows)), [f"{tau:g}" for tau in rows])
    ax.tick_params(length=0)
    ax.set_title(title)


def differences(study: Study) -> "Figure | None":
    """Paired differences of targets in binary CCS, with intervals; hollow where p ≥ 0.05."""
    found = [
        row
        for row in study.findings.comparisons
        if row.metric == "ccs_binary"
        and row.domain is None
        and row.position is None
        and row.difference.mean is not None
    ][:MOST_PAIRS]
    if not found:
        return None
    figure = blank(0.9 + 0.24 * len(found))
    ax = figure.subplots()
    labels = []
    for y, row in enumerate(found):
        clear = row.p_holm is not None and row.p_holm < 0.05
        _whisker(ax, row.difference, y, filled=clear)
        part = part_label(study, row.part)
        within = "" if part == "all" else f" ({part})"
        axis = "" if row.axis == "target" else f"{row.axis}: "
        between = f"{row.first} − {row.second}" if "×" not in row.axis else "own − other"
        labels.append(shorten(f"{axis}{between}{within}", 64))
    ax.axvline(0, color=palette.GREY, linewidth=0.8, zorder=1)
    ax.set_yticks(range(len(found)), labels)
    ax.set_ylim(len(found) - 0.5, -0.5)
    ax.set_xlabel("difference in binary CCS on common samples (filled: Holm-corrected p < 0.05)")
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x")
    return figure


def _whisker(ax: "Axes", measured: Measured, at: float, *, filled: bool) -> None:
    if measured.low is not None and measured.high is not None:
        ax.plot([measured.low, measured.high], [at, at], "-", color=palette.BLUE, linewidth=1.4)
    face = palette.BLUE if filled else "white"
    ax.plot(
        [measured.mean or 0.0], [at], "o", color=palette.BLUE, markerfacecolor=face, markersize=5
    )


def recovered(study: Study) -> "Figure | None":
    """Recovered against planted CCS of simulated targets, a panel an editor and judge."""
    cells = [cell for cell in study.cells if cell.target in study.planted]
    if len({study.planted[cell.target] for cell in cells}) < 4:
        return None
    panels = list(dict.fromkeys((cell.editor, cell.judge) for cell in cells))
    across = min(4, len(panels))
    down = -(-len(panels) // across)
    figure = blank(2.4 * down)
    grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
    for ax, (editor, judge) in zip(grid, panels, strict=False):
        ax.plot([0, 1], [0, 1], "-", color=palette.GREY, linewidth=0.8)
        for cell in cells:
            found = study.estimate(cell, "ccs_binary")
            if (cell.editor, cell.judge) != (editor, judge) or not found or found.mean is None:
                continue
            x = study.planted[cell.target]
            if found.low is not None and found.high is not None:
                ax.plot([x, x], [found.low, found.high], "-", color=palette.BLUE, linewidth=1.4)
            ax.plot(x, found.mean, "o", color=palette.BLUE, markersize=4)
        ax.set_title(f"{shorten(editor, 22)}\njudge {shorten(judge, 18)}", fontsize=8)
        ax.set_xlim(-0.05, 1.05)
        ax.set_ylim(-0.05, 1.05)
        ax.grid(True)
    for ax in grid[len(panels) :]:
        ax.set_visible(False)
    figure.supxlabel("planted CCS", fontsize=8)
    figure.supylabel("recovered CCS", fontsize=8)
    return figure


def calibration(study: Study) -> "Figure | None":
    """Simulated studies: recovered against planted, coverage, and bias by the judge's error."""
    if not study.coverage:
        return None
    figure = blank(3.0)
    left, middle, right = figure.subplots(1, 3)
    main = [r for r in study.coverage if r.experiment == "coverage"]
    main = [r for r in main if r.estimator == "sample_mean" and r.planted is not None]
    left.plot([0, 1], [0, 1], "-", color=palette.GREY, linewidth=0.8)
    sizes = list(dict.fromkeys((r.n_samples, r.k) for r in main))
    for i, (n, k) in enumerate(sizes):
        colour, marker = palette.SERIES[i % 7], palette.MARKERS[i % 7]
        rows = [r for r in main if (r.n_samples, r.k) == (n, k)]
        name = f"{n} samples, k = {k}"
        x = [r.planted for r in rows]
        left.plot(x, [r.mean for r in rows], marker, color=colour, markersize=4, label=name)
        beside = [0.018 * (i - (len(sizes) - 1) / 2) + (r.planted or 0.0) for r in rows]
        _series(middle, beside, [r.covered for r in rows], colour, marker, name)
    left.set(title="recovered", xlabel="planted CCS", ylabel="mean estimate")
    middle.axhspan(93, 97, color="#EEEEEE", zorder=0)
    middle.axhline(95, color=palette.GREY, linewidth=0.8)
    middle.set(title="coverage", xlabel="planted CCS", ylabel="per cent", ylim=(85, 100.5))
    _bias(right, [r for r in study.coverage if r.experiment == "judge" and r.planted is not None])
    for ax in (left, middle, right):
        ax.grid(axis="y")
    for ax in (left, right):
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.28), fontsize=6, ncols=2)
    return figure


def _series(
    ax: "Axes", x: Sequence[Any], values: Sequence[Measured], colour: str, marker: str, name: str
) -> None:
    for at, value in zip(x, values, strict=True):
        if value.mean is not None and value.low is not None and value.high is not None:
            ends = [100 * value.low, 100 * value.high]
            ax.plot([at, at], ends, "-", color=colour, linewidth=0.8)
            ax.plot(at, 100 * value.mean, marker, color=colour, markersize=4, label=name)


def _bias(ax: "Axes", rows: Sequence[CoverageRow]) -> None:
    """Bias by the judge's error rate, a line a planted value; corrected ones dashed."""
    for planted, colour in zip(sorted({r.planted for r in rows}), palette.SERIES, strict=False):  # type: ignore[type-var]
        for estimator, line in (("sample_mean", "-"), ("corrected", "--")):
            points = sorted(
                (r.judge_error, r.bias)
                for r in rows
                if (r.planted, r.estimator) == (planted, estimator) and r.bias is not None
            )
            label = f"planted {planted:g}" if line == "-" else None
            ax.plot([x for x, _ in points], [y for _, y in points], line, color=colour, label=label)
    ax.axhline(0, color=palette.GREY, linewidth=0.8)
    ax.set(title="bias (dashed: corrected)", xlabel="judge error rate", ylabel="bias of CCS")
