"""Figures: what a topic measured, kept as JSON, shown as a table."""

import json
import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

HEAD = "| | measured | against | ratio | bound | |"
BEGIN, END = "<!-- figures: begin (written by `make bench`) -->", "<!-- figures: end -->"


class Series(BaseModel):
    """How a cost grows: one value at each size, and the slope of their logarithms."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sizes: tuple[int, ...]
    """Samples, calls or whatever ``of`` says, ascending."""
    values: tuple[float, ...]
    """The cost at each size, in the unit of the figure."""
    of: str = "samples"
    """What is counted by ``sizes``."""
    slope: float | None = None
    """Exponent of growth over the upper decade: 1 is linear, 0 is flat. None where not asked."""


class Figure(BaseModel):
    """One measured number, and what it is held against."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: str
    """The module of `bench` that measured it."""
    name: str
    """What was measured, as a row of the table."""
    value: float
    """The median over repeats, in ``unit``."""
    unit: str
    """``s``, ``ms``, ``MiB``, ``×`` or another one."""
    baseline: str | None = None
    """What it is held against in the same run."""
    baseline_value: float | None = None
    """The baseline's median, in ``unit``."""
    bound: float | None = None
    """What the ratio keeps to, or the value where there is no baseline; None: for the record."""
    sense: Literal["most", "least"] = "most"
    """Whether the bound is the most or the least."""
    faster: bool = False
    """The ratio is baseline over value (how many times as fast), not value over baseline."""
    series: Series | None = None
    """Growth behind the figure."""
    note: str = ""
    """What a reader must know, in a few words."""

    @property
    def ratio(self) -> float | None:
        """Against the baseline; None where there is none."""
        if self.baseline_value is None:
            return None
        above, below = (self.baseline_value, self.value)
        return above / below if self.faster else below / above

    @property
    def met(self) -> bool | None:
        """Whether the bound is kept; None where there is none."""
        if self.bound is None:
            return None
        held = self.value if self.ratio is None else self.ratio
        return held <= self.bound if self.sense == "most" else held >= self.bound


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {"cores": os.cpu_count(), "cpu": model, "python": platform.python_version()}


def where() -> str:
    """The machine in a sentence."""
    of = machine()
    return f"Measured on {of['cores']} cores ({of['cpu']}), Python {of['python']}."


def load(path: Path) -> list[Figure]:
    """Figures of earlier runs; none where there was none."""
    if not path.exists():
        return []
    return [Figure.model_validate(row) for row in json.loads(path.read_text())["figures"]]


def merge(earlier: Iterable[Figure], fresh: Sequence[Figure]) -> list[Figure]:
    """Topics that were measured anew replace what they had; the others stay, in order of topic."""
    anew = {figure.topic for figure in fresh}
    kept = [figure for figure in earlier if figure.topic not in anew]
    return sorted([*kept, *fresh], key=lambda figure: figure.topic)  # stable within a topic


def save(path: Path, figures: Sequence[Figure]) -> None:
    """Write figures as JSON, with the machine that they are of."""
    rows = [figure.model_dump(exclude_defaults=True) for figure in figures]
    path.write_text(json.dumps({"machine": machine(), "figures": rows}, indent=1) + "\n")


def table(figures: Sequence[Figure]) -> str:
    """The figures as Markdown."""
    lines = [HEAD, "| --- | --- | --- | --- | --- | --- |"]
    for figure in figures:
        against = ""
        if figure.baseline is not None and figure.baseline_value is not None:
            against = f"{_number(figure.baseline_value, figure.unit)}: {figure.baseline}"
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
        bound = ""
        if figure.bound is not None:
            sign = "≤" if figure.sense == "most" else "≥"
            unit = "" if figure.ratio is not None else f" {figure.unit}"
            mark = "" if figure.met else " **missed**"
            bound = f"{sign} {figure.bound:g}{unit}{mark}"
        value = _number(figure.value, figure.unit)
        lines.append(f"| {figure.name} | {value} | {against} | {ratio} | {bound} | {figure.note} |")
    return "\n".join(lines)


def insert(page: Path, text: str) -> None:
    """Replace what stands between the marks of a page."""
    whole = page.read_text()
    before, begin, rest = whole.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} lacks the marks between which the figures go")
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def _number(value: float, unit: str) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}"
