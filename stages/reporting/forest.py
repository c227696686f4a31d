"""Small forest plots as inline SVG, coloured by the page's style sheet."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH, MARGIN = 220, 9
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Mark:
    """One mark of a row: ``binary``, ``graded``, ``planted`` or ``published`` gives its shape."""

    kind: str
    mean: float | None
    low: float | None = None
    high: float | None = None


def _x(value: float) -> float:
    return round(MARGIN + value * (WIDTH - 2 * MARGIN), 1)


def _shape(kind: str, x: float, y: float) -> str:
    match kind:
        case "binary":
            return f'<circle class="m binary" cx="{x}" cy="{y}" r="4.5"/>'
        case "graded":
            return f'<rect class="m graded" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
        case "planted":
            return f'<path class="m planted" d="M{x} {y - 6.5}l6 6.5l-6 6.5l-6 -6.5z"/>'
        case _:
            return f'<path class="m published" d="M{x} {y - 7}v14"/>'


def row(marks: Sequence[Mark], *, description: str, close: bool = False) -> Markup:
    """One row: reference lines at quarters, and a line of marks for binary and for graded.

    A planted or published value stands on the line of the binary CCS. `close` sets the lines
    nearer, for a table of many rows.
    """
    lines = [kind for kind in ("binary", "graded") if any(m.kind == kind for m in marks)]
    gap, top = (11, 8.0) if close else (16, 13.0)
    height = 2 * int(top) + gap * (max(1, len(lines)) - 1)
    parts = [
        f'<path class="grid{" half" if tick == 0.5 else ""}" d="M{_x(tick)} 0V{height}"/>'
        for tick in TICKS
    ]
    for mark in marks:
        if mark.mean is None:
            continue
        y = top + gap * (lines.index(mark.kind) if mark.kind in lines else 0)
        if mark.low is not None and mark.high is not None:
            parts.append(f'<path class="ci {mark.kind}" d="M{_x(mark.low)} {y}H{_x(mark.high)}"/>')
        parts.append(_shape(mark.kind, _x(mark.mean), y))
    return _svg("".join(parts), height, description)


def axis() -> Markup:
    """The scale above the rows, from 0 to 1."""
    labels = "".join(
        f'<text x="{_x(tick)}" y="11" text-anchor="middle">{tick:g}</text>' for tick in TICKS
    )
    return _svg(labels, 14, "Scale from 0 to 1")


def legend(kind: str) -> Markup:
    """A mark alone, for the key."""
    return Markup(
        '<svg class="key" viewBox="0 0 18 18" width="18" height="18" aria-hidden="true">'
        f"{_shape(kind, 9.0, 9.0)}</svg>"
    )


def _svg(content: str, height: int, description: str) -> Markup:
    return Markup(
        f'<svg class="forest" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(description)}">{content}</svg>'
    )
