"""Figures for print, as PNG and SVG: estimates first, drawing second.

Every function takes numbers and returns a figure; `save` writes it. Equal input gives equal
bytes: no date, no random ids, matplotlib's own font. Text from models is never read as markup.
"""

import io
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stages.records.score import Estimate
from stages.reporting import palette
from stages.reporting.funnel import Step as FunnelStep
from stages.reporting.gallery import Case, Verified
from stages.reporting.pictures import fit, panel
from stages.reporting.study import Study
from stages.reporting.words import METRICS, cell_label, reason, shorten, varying_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "axes.titlesize": 9.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "text.parse_math": False,
    "svg.hashsalt": "edct",
    "svg.fonttype": "path",
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}
WIDTH = 7.0
"""Inches: the text width of a page."""


@contextmanager
def style() -> Iterator[None]:
    """Draw and save within this."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE), warnings.catch_warnings():
        # Text from models may hold signs that the font lacks; it is drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def save(figure: "Figure", *, dpi: int) -> dict[str, bytes]:
    """The figure's files by ending. SVG keeps pictures at the size in which they were drawn."""
    out = {}
    for ending, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=ending, dpi=dpi, metadata=metadata)
        out[ending] = buffer.getvalue()
    return out


def _figure(height: float) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def estimates(study: Study) -> "Figure | None":
    """Forest plot: binary and graded CCS of each cell; planted and published values beside."""
    axes = varying_axes(study.cells)
    rows = [
        (cell_label(cell, axes), cell)
        for cell in study.cells
        if (e := study.estimate(cell, "ccs_binary")) and e.mean is not None
    ]
    if not rows:
        return None
    figure = _figure(1.0 + 0.42 * len(rows))
    ax = figure.subplots()
    for y, (_, cell) in enumerate(rows):
        for metric, offset, marker, colour in (
            ("ccs_binary", -0.14, "o", palette.BLUE),
            ("ccs_graded", 0.14, "s", palette.VERMILLION),
        ):
            label = METRICS[metric] if y == 0 else None
            hollow = metric == "ccs_graded"
            _interval(
                ax, study.estimate(cell, metric), y + offset, colour, marker, label, hollow=hollow
            )
        published = study.published.get((cell.target, None, "ccs_binary", None))
        for value, marker, name in (
            (study.planted(cell.target), "D", "planted"),
            (published.mean if published else None, "|", "published, binary"),
        ):
            if value is not None:
                known = ax.get_legend_handles_labels()[1]
                ax.plot(
                    value,
                    y - 0.14,
                    marker,
                    markersize=10 if marker == "|" else 8,
                    markerfacecolor="none",
                    markeredgecolor=palette.BLACK,
                    linestyle="none",
                    label=None if name in known else name,
                    zorder=4,
                )
    ax.set_yticks(range(len(rows)), [shorten(label, 40) for label, _ in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel(f"CCS, mean over samples, {100 * study.estimates[0].confidence:g} % interval")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.grid(axis="x")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper left", ncols=4)
    return figure


def _interval(
    ax: "Axes",
    estimate: Estimate | None,
    y: float,
    colour: str,
    marker: str,
    label: str | None,
    *,
    hollow: bool = False,
    vertical: bool = False,
) -> None:
    """One mark with its interval; nothing where there is no estimate."""
    if estimate is None or estimate.mean is None:
        return
    face = "white" if hollow else colour
    if estimate.low is not None and estimate.high is not None:
        ends = [estimate.low, estimate.high]
        along, across = ([y, y], ends) if vertical else (ends, [y, y])
        ax.plot(along, across, "-", color=colour, linewidth=1.4, solid_capstyle="butt")
    point = (y, estimate.mean) if vertical else (estimate.mean, y)
    ax.plot(*point, marker, color=colour, markerfacecolor=face, markersize=5, label=label, zorder=3)


def positions(study: Study) -> "Figure | None":
    """AC and EF by chain position, a series a cell."""
    if not study.positions:
        return None
    axes = varying_axes(study.cells)
    figure = _figure(2.9 + 0.14 * (len(study.cells) // 4))
    panels = figure.subplots(1, 2, sharey=True)
    spread = min(0.12, 0.6 / max(1, len(study.cells)))
    for ax, metric in zip(panels, ("ac", "ef"), strict=True):
        for i, cell in enumerate(study.cells):
            colour = palette.SERIES[i % len(palette.SERIES)]
            marker = palette.MARKERS[i % len(palette.MARKERS)]
            offset = (i - (len(study.cells) - 1) / 2) * spread
            found = [
                (k + offset, e)
                for k in study.positions
                if (e := study.estimate(cell, metric, position=k)) and e.mean is not None
            ]
            ax.plot(
                [x for x, _ in found], [e.mean or 0.0 for _, e in found], "-", color=colour, lw=0.6
            )
            for j, (x, estimate) in enumerate(found):
                label = None if j else shorten(cell_label(cell, axes), 30)
                _interval(ax, estimate, x, colour, marker, label, vertical=True)
        ax.set_title(METRICS[metric])
        ax.set_xticks(study.positions)
        ax.set_xlim(min(study.positions) - 0.5, max(study.positions) + 0.5)
        ax.set_ylim(-0.02, 1.02)
        ax.set_xlabel("position k in the edit chain")
        ax.grid(axis="y")
    handles, labels = panels[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def funnel(steps: Sequence[FunnelStep]) -> "Figure":
    """From samples to scored edits: what came through each step, what was lost, and why."""
    figure = _figure(0.5 + 0.4 * len(steps))
    ax = figure.subplots()
    most = max([1, *(step.entered for step in steps)])
    for y, step in enumerate(steps):
        colour = palette.BLUE if step.unit == "edits" else palette.SKY
        ax.barh(y, step.kept, height=0.62, color=colour)
        ax.barh(
            y,
            step.entered - step.kept,
            left=step.kept,
            height=0.62,
            color="white",
            edgecolor=palette.VERMILLION,
            hatch="////",
            linewidth=0.6,
        )
        why = "\n".join(
            textwrap.wrap(
                "; ".join(f"−{n} {reason(status)}" for status, n in step.lost.items()), 66
            )[:2]
        )
        ax.annotate(
            f"{step.kept}" + (f"   {why}" if why else ""),
            (max(step.entered, step.kept), y),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
        )
    ax.set_yticks(range(len(steps)), [f"{step.name} ({step.unit})" for step in steps])
    ax.set_ylim(len(steps) - 0.5, -0.5)
    ax.set_xlim(0, most * 1.75)
    ax.set_xticks([])
    ax.tick_params(axis="y", length=0)
    for side in ("bottom", "left"):
        ax.spines[side].set_visible(False)
    return figure


def panels(items: Sequence[Verified], tau_in: float | None, tau_out: float | None) -> "Figure":
    """Verification, a row an attempt: original, edited, heat map of Δ, box and mask."""
    figure = _figure(1.62 * len(items) + 0.2)
    grid = figure.subplots(len(items), 4, squeeze=False)
    heads = ("original", "edited", "Δ, changed pixels", "box and mask")
    for i, item in enumerate(items):
        drawn = panel(item.attempt, item.pixels, width=320)
        views = (drawn.original, drawn.edited, drawn.change, drawn.target)
        for j, (ax, pixels) in enumerate(zip(grid[i], views, strict=True)):
            _picture(ax, pixels)
            if i == 0:
                ax.set_title(heads[j], fontsize=8, fontweight="normal")
        a = item.attempt
        verdict = "accepted" if a.status == "ok" else f"rejected: {reason(a.status)}"
        grid[i, 0].text(
            0.0,
            -0.04,
            f"{shorten(item.change, 118)}\n{measured(a.measurement, tau_in, tau_out)}  {verdict}",
            transform=grid[i, 0].transAxes,
            va="top",
            fontsize=6.5,
            linespacing=1.35,
        )
    return figure


def measured(measurement: Any, tau_in: float | None, tau_out: float | None) -> str:
    """r_in and r_out against their thresholds, in one line."""
    if measurement is None:
        return "not measured."
    parts = []
    for name, value, tau, sign in (
        ("r_in", measurement.r_in, tau_in, (">", "≤")),
        ("r_out", measurement.r_out, tau_out, ("<", "≥")),
    ):
        if value is None:
            parts.append(f"{name} undefined")
        elif tau is None:
            parts.append(f"{name} = {100 * value:.1f} %")
        else:
            passed = value > tau if name == "r_in" else value < tau
            parts.append(f"{name} = {100 * value:.1f} % {sign[0 if passed else 1]} {100 * tau:g} %")
    return ", ".join(parts) + "."


def _picture(ax: "Axes", pixels: Any) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(False)
    if pixels is None:
        ax.text(0.5, 0.5, "none", ha="center", va="center", color=palette.GREY)
        ax.set_aspect(0.75)
    else:
        ax.imshow(pixels, interpolation="antialiased")


def example(case: Case) -> "Figure":
    """One chain as it went: images above, words below, a column a step."""
    n = 1 + len(case.steps)
    figure = _figure(4.6)
    grid = figure.subplots(2, n, squeeze=False, height_ratios=(1.0, 1.25))
    chars = int(118 / n)
    columns: list[tuple[str | None, list[tuple[str, str]]]] = [
        (
            case.sample.image,
            [
                ("Question", case.sample.question),
                ("Answer", case.baseline.answer or "–" if case.baseline else "–"),
                ("Because", case.baseline.explanation or "–" if case.baseline else "–"),
                ("Cites", "; ".join(c.text for c in case.concepts) or "–"),
            ],
        )
    ]
    for step in case.steps:
        judged = step.judgements[0] if step.judgements else None
        marks = "–"
        if judged and judged.status == "ok":
            marks = f"AC {judged.answer_consistent}, EF {judged.explanation_faithful}, "
            marks += f"grade {judged.grade if judged.grade is not None else '–'}"
        edit = step.accepted
        columns.append(
            (
                edit.edited if edit else None,
                [
                    ("Edit", step.instruction.change if step.instruction else "–"),
                    ("Answer", step.answer.answer or "–" if step.answer else "–"),
                    ("Because", step.answer.explanation or "–" if step.answer else "–"),
                    ("Verdict", marks),
                ],
            )
        )
    for j, (sha, words) in enumerate(columns):
        top, below = grid[0, j], grid[1, j]
        _picture(top, fit(case.pixels(sha), width=420) if sha else None)
        top.set_title("original" if j == 0 else f"after edit {j}", fontsize=8)
        below.axis("off")
        lines: list[str] = []
        for name, said in words:
            wrapped = textwrap.wrap(shorten(f"{name}: {said}", chars * 5), chars) or [name]
            lines += [*wrapped, ""]
        below.text(0, 1, "\n".join(lines[:26]), transform=below.transAxes, va="top", fontsize=6.6)
    return figure
