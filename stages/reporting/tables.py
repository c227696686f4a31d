"""Tables as values, and their three written forms: CSV for machines, Markdown, LaTeX (booktabs).

A table holds numbers, not strings, until it is written. What could not be estimated is empty in
CSV and says so in words elsewhere; it is never NaN.
"""

import csv
import io
import re
import unicodedata
from dataclasses import dataclass, replace
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
    """Whether its numbers are differences and carry their sign."""
    least: float | None = None
    """Smaller floats read as ``< least`` where people read (p-values)."""
    data_only: bool = False
    """Whether it is written to CSV alone."""
    wrap: bool = False
    """Whether it holds running text that may break over lines."""


@dataclass(frozen=True)
class Table:
    """A table before it is written."""

    name: str
    """Name of its files."""
    caption: str
    """What it shows, in a sentence or two."""
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    note: str = ""
    """What stands under it; empty: nothing."""

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
    return _with_columns(table, keep)


def text(value: Value, column: Column) -> str:
    """A value as people read it: ``0.47 [0.41, 0.53]``, ``+0.03``, ``not estimable``, ``–``."""
    match value:
        case Quantity(mean=None):
            return NOT_ESTIMABLE
        case Quantity(mean=mean, low=low, high=high):
            form = f"{'+' if column.signed else ''}.{column.digits}f"
            if low is None or high is None:
                return f"{mean:{form}} (no interval)"
            return f"{mean:{form}} [{low:{form}}, {high:{form}}]"
        case None:
            return DASH
        case float() if column.least is not None and value < column.least:
            return f"< {column.least:g}"
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
        small = 0 < abs(round(value, 12)) < 0.001
        return f"{value:.3g}" if small else f"{value:.4f}"
    return plain(value) if isinstance(value, str) else int(value)  # type: ignore[arg-type]


def readable(table: Table) -> Table:
    """The table without the columns that are for machines."""
    keep = [i for i, column in enumerate(table.columns) if not column.data_only]
    return _with_columns(table, keep)


def _with_columns(table: Table, keep: list[int]) -> Table:
    return replace(
        table,
        columns=tuple(table.columns[i] for i in keep),
        rows=tuple(tuple(row[i] for i in keep) for row in table.rows),
    )


def to_markdown(table: Table) -> str:
    """A pipe table under its caption, over its note."""
    table = readable(table)
    lines = [
        "| " + " | ".join(_escape_markdown(column.head) for column in table.columns) + " |",
        "| " + " | ".join("---" if is_text(table, i) else "---:" for i in _indices(table)) + " |",
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
    note = f"\n{_escape_markdown(table.note)}\n" if table.note else ""
    return f"{_escape_markdown(table.caption)}\n\n" + "\n".join(lines) + "\n" + note


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
    '"': r"\char34{}",
    "·": r"$\cdot$",
    "τ": r"$\tau$",
    "Δ": r"$\Delta$",
    "α": r"$\alpha$",
    "κ": r"$\kappa$",
    "λ": r"$\lambda$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "±": r"$\pm$",
    "−": r"$-$",
    "–": "--",
    "…": r"\ldots{}",
    "→": r"$\to$",
}
_ACCENTS = frozenset("\u0300\u0301\u0302\u0303\u0308\u030a\u0327")
_LETTERS = frozenset("ßæÆøØœŒ")


def escape_latex(value: str) -> str:
    """Text that every LaTeX sets as it reads, whatever a model wrote.

    A character beyond Latin letters is written as its code point: pdfLaTeX stops at it.
    """
    return "".join(_LATEX.get(char) or _latin(char) for char in plain(value))


def _latin(char: str) -> str:
    if char.isascii() or char in _LETTERS:
        return char
    parts = unicodedata.normalize("NFD", char)
    if len(parts) == 2 and parts[0].isascii() and parts[0].isalpha() and parts[1] in _ACCENTS:
        return char
    return f"[U+{ord(char):04X}]"


LONG = 40
"""A table of more rows than this breaks over pages."""


def to_latex(table: Table) -> str:
    r"""A ``table`` with ``booktabs`` rules that shrinks to the width of the text; a long one is a
    ``longtable``. Needs ``\usepackage{booktabs,graphicx,longtable}``."""
    table = readable(table)
    align = "".join(
        "p{4.5cm}" if column.wrap else "l" if is_text(table, index) else "r"
        for index, column in enumerate(table.columns)
    )
    head = " & ".join(escape_latex(column.head) for column in table.columns) + r" \\"
    body = [
        " & ".join(
            _latex_value(value, column) for value, column in zip(row, table.columns, strict=True)
        )
        + r" \\"
        for row in table.rows
    ]
    caption = rf"\caption{{{escape_latex(table.caption)}}}"
    label = rf"\label{{tab:{table.name}}}"
    needs = r"% needs \usepackage{booktabs,graphicx,longtable}"
    if len(table.rows) > LONG:
        lines = [
            needs,
            r"{\tiny\setlength{\tabcolsep}{3pt}",
            rf"\begin{{longtable}}{{{align}}}",
            rf"{caption}{label} \\",
            r"\toprule",
            head,
            r"\midrule",
            r"\endfirsthead",
            r"\toprule",
            head,
            r"\midrule",
            r"\endhead",
            r"\bottomrule",
            r"\endlastfoot",
            *body,
            r"\end{longtable}}",
            *([rf"{{\footnotesize {escape_latex(table.note)}\par}}"] if table.note else []),
        ]
    else:
        lines = [
            needs,
            r"\begin{table}",
            r"\centering",
            caption,
            label,
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{{align}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            *([rf"\par\smallskip\footnotesize {escape_latex(table.note)}"] if table.note else []),
            r"\end{table}",
        ]
    return "\n".join([*lines, ""])


def _latex_value(value: Value, column: Column) -> str:
    shown = text(value, column)
    if isinstance(value, Quantity) and value.low is not None and "[" in shown:
        mean, interval = (_minus(part) for part in shown.split(" ", 1))
        return rf"{mean} {{\scriptsize {interval}}}"
    if isinstance(value, float | int | Quantity):
        return _minus(shown)
    return escape_latex(shown)


def _minus(number: str) -> str:
    """A number as LaTeX sets it: with a sign, not a hyphen."""
    return escape_latex(number).replace("-", "$-$")


def _indices(table: Table) -> range:
    return range(len(table.columns))


def is_text(table: Table, index: int) -> bool:
    """Whether a column holds words in any row, and is set from the left."""
    return any(isinstance(row[index], str) for row in table.rows)
