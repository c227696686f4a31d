"""Tables as values, and their three written forms: CSV for machines, Markdown, LaTeX (booktabs).

A table holds numbers, not strings, until it is written. What could not be estimated is empty in
CSV and says so in words elsewhere; it is never NaN.
"""

import csv
import io
import re
from dataclasses import dataclass
from typing import NamedTuple

from stages.reporting.words import DASH, NOT_ESTIMABLE, plain


class Quantity(NamedTuple):
    """An estimate with its interval. No mean: not estimable. No bounds: no interval."""

    mean: float | None
    low: float | None = None
    high: float | None = None


Value = str | int | float | Quantity | None


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    key: str
    """Its name in CSV; a quantity adds ``<key>_low`` and ``<key>_high``."""
    head: str
    """Its heading where people read."""
    digits: int = 2
    """Decimals of its floats where people read; CSV has four."""
    quantity: bool = False
    """Whether its values are quantities."""
    signed: bool = False
    """Whether its floats are differences and carry their sign."""


@dataclass(frozen=True)
class Table:
    """A table before it is written."""

    name: str
    """Name of its files."""
    caption: str
    """What it shows, in a sentence or two."""
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]

    def column(self, key: str) -> int:
        """Index of a column; KeyError where there is none."""
        for index, column in enumerate(self.columns):
            if column.key == key:
                return index
        raise KeyError(key)


def without_empty_columns(table: Table, optional: frozenset[str]) -> Table:
    """Drop those optional columns that hold nothing in any row."""
    keep = [
        index
        for index, column in enumerate(table.columns)
        if column.key not in optional or any(row[index] is not None for row in table.rows)
    ]
    return Table(
        table.name,
        table.caption,
        tuple(table.columns[index] for index in keep),
        tuple(tuple(row[index] for index in keep) for row in table.rows),
    )


def text(value: Value, column: Column) -> str:
    """A value as people read it: ``0.47 [0.41, 0.53]``, ``+0.03``, ``not estimable``, ``–``."""
    match value:
        case Quantity(mean=None):
            return NOT_ESTIMABLE
        case Quantity(mean=mean, low=low, high=high):
            number = f"{mean:.{column.digits}f}"
            if low is None or high is None:
                return f"{number} (no interval)"
            return f"{number} [{low:.{column.digits}f}, {high:.{column.digits}f}]"
        case None:
            return DASH
        case float():
            return f"{value:{'+' if column.signed else ''}.{column.digits}f}"
        case _:
            return plain(str(value))


def to_csv(table: Table) -> str:
    """Comma-separated values with a header; quantities take three columns; missing is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        name
        for column in table.columns
        for name in (
            (column.key, f"{column.key}_low", f"{column.key}_high")
            if column.quantity
            else (column.key,)
        )
    )
    for row in table.rows:
        cells: list[Value] = []
        for value, column in zip(row, table.columns, strict=True):
            if column.quantity:
                cells += value if isinstance(value, Quantity) else (None, None, None)
            else:
                cells.append(value)
        writer.writerow(_csv_cell(cell) for cell in cells)
    return out.getvalue()


def _csv_cell(value: Value) -> str | int:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}"
    return plain(value) if isinstance(value, str) else int(value)  # type: ignore[arg-type]


def to_markdown(table: Table) -> str:
    """A pipe table under its caption."""
    lines = [
        "| " + " | ".join(_escape_markdown(column.head) for column in table.columns) + " |",
        "| " + " | ".join("---" if _is_text(table, i) else "---:" for i in _indices(table)) + " |",
    ]
    lines += [
        "| "
        + " | ".join(
            _escape_markdown(text(value, column))
            for value, column in zip(row, table.columns, strict=True)
        )
        + " |"
        for row in table.rows
    ]
    return f"{_escape_markdown(table.caption)}\n\n" + "\n".join(lines) + "\n"


def _escape_markdown(value: str) -> str:
    value = value.replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_|\[\]#])", r"\\\1", value)


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "·": r"$\cdot$",
    "τ": r"$\tau$",
    "Δ": r"$\Delta$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "±": r"$\pm$",
    "−": r"$-$",
    "–": "--",
    "…": r"\ldots{}",
}


def escape_latex(value: str) -> str:
    """Text that LaTeX sets as it reads, whatever a model wrote."""
    return "".join(_LATEX.get(char, char) for char in plain(value))


def to_latex(table: Table) -> str:
    r"""A ``table`` with ``booktabs`` rules; needs ``\usepackage{booktabs}``."""
    align = "".join("l" if _is_text(table, index) else "r" for index in _indices(table))
    head = " & ".join(escape_latex(column.head) for column in table.columns)
    body = [
        " & ".join(
            _latex_value(value, column) for value, column in zip(row, table.columns, strict=True)
        )
        + r" \\"
        for row in table.rows
    ]
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escape_latex(table.caption)}}}",
            rf"\label{{tab:{table.name}}}",
            rf"\begin{{tabular}}{{{align}}}",
            r"\toprule",
            head + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _latex_value(value: Value, column: Column) -> str:
    shown = text(value, column)
    if isinstance(value, Quantity) and value.low is not None and "[" in shown:
        mean, interval = shown.split(" ", 1)
        return rf"{mean} {{\scriptsize {interval}}}"
    if column.signed and shown.startswith("-"):
        return f"$-${shown[1:]}"
    return escape_latex(shown)


def _indices(table: Table) -> range:
    return range(len(table.columns))


def _is_text(table: Table, index: int) -> bool:
    return any(isinstance(row[index], str) for row in table.rows)
