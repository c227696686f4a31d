"""The main table in the terminal, and where the report lies.

python -m stages.reporting.summary [reports]
"""

import csv
import json
import sys
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from stages.records.errors import UserError
from stages.reporting.words import AXES, DASH, NOT_ESTIMABLE, plain

_HEADS = {"ccs_binary": "CCS\nbinary", "ccs_graded": "CCS\ngraded"}


def main_table(reports: Path, console: Console) -> Table | None:
    """Table 1 for a terminal: one row a cell; None where the study has no cells.

    Where the width asks for it AC and EF stand without their intervals, then not at all: names
    are broken only where even that is too wide.
    """
    rows = _read(reports / "tables" / "table1.csv")
    if not rows:
        return None
    unbounded = console.options.update_width(10_000)
    for detail in ("full", "brief", "none"):
        table = _table(rows, detail, no_wrap=True)
        if Measurement.get(console, unbounded, table).maximum <= console.width:
            return table
    return _table(rows, "none", no_wrap=False)


def _table(rows: list[dict[str, str]], detail: str, *, no_wrap: bool) -> Table:
    keys = list(rows[0])
    quantities = [key for key in keys if f"{key}_low" in keys and not key.endswith("_per_edit")]
    if detail == "none":
        quantities = [key for key in quantities if key in _HEADS]
    table = Table(
        title="Counterfactual consistency (CCS)",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    axes = [key for key in keys if key in AXES]
    for axis in axes:
        table.add_column(axis.capitalize(), overflow="fold", no_wrap=no_wrap)
    for key in quantities:
        head = _HEADS.get(key, key.upper().replace("_", "\nk="))
        table.add_column(head, justify="right", no_wrap=True)
    planted = "planted_ccs" in keys
    if planted:
        table.add_column("planted", justify="right", no_wrap=True)
    table.add_column("edits\nscored", justify="right", no_wrap=True)
    for row in rows:
        values = [Text(plain(row[axis])) for axis in axes]
        for key in quantities:
            step = key not in _HEADS
            shown = _quantity(row, key, brief=step and detail == "brief")
            n = f"\nn={row[f'n_{key[3:]}']}" if step else ""
            values.append(Text(shown + n))
        if planted:
            values.append(Text(_planted(row)))
        scored = f"{row['n_interventions']}\nof {row['n_planned'] or DASH}"
        if row["n_graded"] != row["n_interventions"]:
            scored += f"\n{row['n_graded']} graded"
        values.append(Text(scored))
        table.add_row(*values)
    return table


def pairs_line(reports: Path) -> list[str]:
    """One line for each study of pairs, from the metrics."""
    path = reports / "metrics.json"
    metrics = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return [
        f"{plain(name)}: {_pairs(values)}"
        for name, values in metrics.get("pairs", {}).items()
        if "agreement" in values
    ]


def _pairs(values: dict[str, float]) -> str:
    said = f"the gate agrees with {100 * values['agreement']:.1f} % of {values['n']} labelled pairs"
    if "low" in values:
        said += f" (95 % interval {100 * values['low']:.1f} to {100 * values['high']:.1f} %)"
    for do in ("accepting", "rejecting"):
        if f"{do}_all" in values:
            said += f"; {do} every pair would with {100 * values[f'{do}_all']:.1f} %"
    return said


def _read(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError:
        raise UserError(str(path), "the file is missing", "Run `dvc repro` first.") from None


def _quantity(row: dict[str, str], key: str, *, brief: bool) -> str:
    if not row[key]:
        return DASH if brief else NOT_ESTIMABLE
    if brief or not row[f"{key}_low"]:
        return f"{float(row[key]):.2f}"
    low, high = float(row[f"{key}_low"]), float(row[f"{key}_high"])
    return f"{float(row[key]):.2f}\n{low:.2f}–{high:.2f}"


def _planted(row: dict[str, str]) -> str:
    if not row["planted_ccs"]:
        return DASH
    inside = {"yes": "inside", "no": "outside"}.get(row["planted_inside"], "")
    return f"{float(row['planted_ccs']):.2f}\n{inside}"


def show(reports: Path, console: Console) -> None:
    """Print the main table, the agreement on pairs, and the path of the report."""
    table = main_table(reports, console)
    if table is not None:
        console.print(table)
    for line in pairs_line(reports):
        console.print(Text(line))
    console.print(Text(f"Report: {(reports / 'index.html').resolve()}"), soft_wrap=True)


if __name__ == "__main__":
    try:
        show(Path(sys.argv[1] if len(sys.argv) > 1 else "reports"), Console())
    except UserError as error:
        print(f"summary: {error}", file=sys.stderr)
        sys.exit(1)
