"""Figures for print, as PNG and SVG: estimates first, drawing second.

Every function takes numbers and returns a figure; `save` writes it. Equal input gives equal
bytes: no date, no random ids, matplotlib's own font. Text from models is never read as markup.
"""

import io
import struct
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from stages.records.score import Estimate
from stages.reporting import palette
from stages.reporting.funnel import Step as FunnelStep
from stages.reporting.gallery import Case, Step, Verified
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
    "savefig.bbox": "tight",
    "savefig.pad_inches": 0.05,
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
    """The figure's files by ending. Pictures within SVG are kept at 120 dots an inch at most."""
    out = {}
    for ending, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        buffer = io.BytesIO()
        resolution = dpi if ending == "png" else min(dpi, 120)
        figure.savefig(buffer, format=ending, dpi=resolution, metadata=metadata)
        out[ending] = buffer.getvalue()
    return out


class Size(NamedTuple):
    """Width and height in pixels."""

    width: int
    height: int


def size_of(png: bytes) -> Size:
    """The size of a PNG file, from its header."""
    return Size(*struct.unpack(">II", png[16:24]))


def blank(height: float, layout: Literal["constrained"] | None = "constrained") -> "Figure":
    """A figure of the width of a page, without anything on it; height in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def estimates(study: Study) -> "Figure | None":
    """Forest plot: binary and graded CCS of each cell; planted and published values beside."""
    axes = varying_axes(study.scored)
    rows = [
        (cell_label(cell, axes), cell)
        for cell in study.scored
        if (e := study.estimate(cell, "ccs_binary")) and e.mean is not None
    ]
    if not rows:
        return None
    figure = blank(1.0 + 0.42 * len(rows))
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
        published = study.published_beside(cell, "ccs_binary")
        for value, marker, name in (
            (study.planted.get(cell.target), "D", "planted"),
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
        ax.plot(
            along, across, "-", color=colour, linewidth=1.4, solid_capstyle="butt", clip_on=False
        )
    point = (y, estimate.mean) if vertical else (estimate.mean, y)
    ax.plot(
        *point,
        marker,
        color=colour,
        markerfacecolor=face,
        markersize=5,
        label=label,
        zorder=3,
        clip_on=False,
    )


def positions(study: Study) -> "Figure | None":
    """AC and EF by chain position, a mark a cell, with the edits that each position rests on.

    Positions rest on different samples, so no line joins them.
    """
    if not study.positions:
        return None
    axes = varying_axes(study.cells)
    figure = blank(2.9 + 0.14 * (len(study.cells) // 4))
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
            for j, (x, estimate) in enumerate(found):
                label = None if j else shorten(cell_label(cell, axes), 30)
                _interval(ax, estimate, x, colour, marker, label, vertical=True)
        ax.set_title(METRICS[metric])
        ax.set_xticks(
            study.positions, [f"{k}\n{_scored(study, metric, k)}" for k in study.positions]
        )
        ax.set_xlim(min(study.positions) - 0.5, max(study.positions) + 0.5)
        ax.set_ylim(-0.02, 1.02)
        ax.set_xlabel("position k in the edit chain")
        ax.grid(axis="y")
    handles, labels = panels[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def _scored(study: Study, metric: str, position: int) -> str:
    """How many edits were scored at a position: ``n = 39 to 60`` over the cells."""
    found = [study.estimate(cell, metric, position=position) for cell in study.cells]
    counts = [estimate.n_interventions for estimate in found if estimate]
    low, high = min(counts, default=0), max(counts, default=0)
    return f"n = {low}" if low == high else f"n = {low} to {high}"


def funnel(steps: Sequence[FunnelStep]) -> "Figure":
    """From samples to scored edits: what came through each step, what was lost, and why."""
    figure = blank(0.7 + 0.36 * len(steps))
    ax = figure.subplots()
    most = max([1, *(step.entered for step in steps)])
    lost: Any = {
        "color": "white",
        "edgecolor": palette.VERMILLION,
        "hatch": "////",
        "linewidth": 0.6,
    }
    for y, step in enumerate(steps):
        colour = palette.BLUE if step.unit == "edits" else palette.SKY
        ax.barh(y, step.kept, height=0.62, color=colour)
        if step.lost:
            ax.barh(y, step.entered - step.kept, left=step.kept, height=0.62, **lost)
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
    ax.set_yticks(range(len(steps)), [step.name for step in steps])
    ax.set_ylim(len(steps) - 0.5, -0.5)
    ax.set_xlim(0, most * 1.75)
    ax.set_xticks([])
    ax.tick_params(axis="y", length=0)
    for side in ("bottom", "left"):
        ax.spines[side].set_visible(False)
    for colour, unit in ((palette.SKY, "samples"), (palette.BLUE, "edits")):
        ax.barh(-9, 0, color=colour, label=unit)
    ax.barh(-9, 0, label="lost at this step", **lost)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper left", ncols=3)
    return figure


def panels(items: Sequence[Verified], tau_in: float | None, tau_out: float | None) -> "Figure":
    """Verification, a row an attempt: original, edited, heat map of Δ, box and mask."""
    heads = ("before", "after", "Δ, changed pixels", "box and mask")
    gap, words_in, head_in = 0.06, 0.46, 0.22
    side = (WIDTH - 3 * gap) / 4
    drawn = [panel(item.attempt, item.pixels, width=320) for item in items]
    views = [(p.original, p.edited, p.change, p.target) for p in drawn]
    heights = [max(side * v.shape[0] / v.shape[1] for v in row if v is not None) for row in views]
    total = head_in + sum(heights) + words_in * len(items)
    figure = blank(total, layout=None)
    top = total - head_in
    for j, head in enumerate(heads):
        x = j * (side + gap) / WIDTH
        figure.text(x, 1 - 0.6 * head_in / total, head, va="center", fontsize=8)
    for item, row, height in zip(items, views, heights, strict=True):
        for j, pixels in enumerate(row):
            left = j * (side + gap) / WIDTH
            frame = (left, (top - height) / total, side / WIDTH, height / total)
            _picture(figure.add_axes(frame), pixels)
        a = item.attempt
        verdict = "accepted" if a.status == "ok" else f"rejected: {reason(a.status)}"
        said = f"{shorten(item.change, 128)}\n{measured(a.measurement, tau_in, tau_out)} {verdict}"
        y = (top - height - 0.04) / total
        figure.text(0, y, said, va="top", fontsize=6.8, linespacing=1.4)
        top -= height + words_in
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
    else:
        ax.imshow(pixels, interpolation="antialiased")


def example(case: Case) -> "Figure":
    """One chain as it went: a column a step, the image above, the words below."""
    columns = [_first_column(case), *(_step_column(step) for step in case.steps)]
    gap, line, head = 0.12, 0.125, 0.24
    side = (WIDTH - gap * (len(columns) - 1)) / len(columns)
    chars = int(side * 17.5)
    images = [fit(case.pixels(sha), width=360) if sha else None for sha, _ in columns]
    height = max(side * i.shape[0] / i.shape[1] for i in images if i is not None)
    written = [
        [(name, textwrap.wrap(shorten(said, chars * 6), chars) or ["–"]) for name, said in words]
        for _, words in columns
    ]
    longest = max(sum(len(lines) + 1.7 for _, lines in words) for words in written)
    total = head + height + 0.05 + line * longest
    figure = blank(total, layout=None)
    for j, (pixels, words) in enumerate(zip(images, written, strict=True)):
        x = j * (side + gap) / WIDTH
        title = "original" if j == 0 else f"after edit {j}"
        figure.text(x, 1 - 0.5 * head / total, title, va="center", weight="bold", fontsize=8)
        frame = (x, (total - head - height) / total, side / WIDTH, height / total)
        _picture(figure.add_axes(frame), pixels)
        y = total - head - height - 0.09
        for name, lines in words:
            figure.text(x, y / total, name, va="top", fontsize=6.2, color="#666666")
            y -= line
            said = "\n".join(lines)
            figure.text(x, y / total, said, va="top", fontsize=7, linespacing=1.25)
            y -= line * (len(lines) + 0.7)
    return figure


Words = list[tuple[str, str]]


def _first_column(case: Case) -> tuple[str | None, Words]:
    baseline = case.baseline
    return case.sample.image, [
        ("question", case.sample.question),
        ("answer", (baseline.answer if baseline else None) or "–"),
        ("explanation", (baseline.explanation if baseline else None) or "–"),
        ("cited concepts", "; ".join(concept.text for concept in case.concepts) or "–"),
    ]


def _step_column(step: Step) -> tuple[str | None, Words]:
    verdict = "–"
    if step.judgements and step.judgements[0].status == "ok":
        judged = step.judgements[0]
        grade = "no grade" if judged.grade is None else f"grade {judged.grade} of 5"
        verdict = f"AC {judged.answer_consistent}, EF {judged.explanation_faithful}, {grade}"
    return step.accepted.edited if step.accepted else None, [
        ("edit", step.instruction.change if step.instruction else "–"),
        ("new answer", (step.answer.answer if step.answer else None) or "–"),
        ("new explanation", (step.answer.explanation if step.answer else None) or "–"),
        ("verdict", verdict),
    ]
