"""The main table in the terminal, and where the report lies.

python -m stages.reporting.summary [reports]
"""

import csv
import json
import sys
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stages.records.errors import UserError
from stages.reporting.words import AXES, DASH, NOT_ESTIMABLE, plain

_HEADS = {"ccs_binary": "CCS\nbinary", "ccs_graded": "CCS\ngraded"}


def main_table(reports: Path, *, width: int) -> Table | None:
    """Table 1 for a terminal: one row a cell; None where the study has no cells.

    Below 100 columns AC and EF stand without their intervals.
    """
    rows = _read(reports / "tables" / "table1.csv")
    if not rows:
        return None
    keys = list(rows[0])
    quantities = [key for key in keys if f"{key}_low" in keys and not key.endswith("_per_edit")]
    table = Table(
        title="Counterfactual consistency (CCS)",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    axes = [key for key in keys if key in AXES]
    for axis in axes:
        table.add_column(axis.capitalize(), overflow="fold")
    for key in quantities:
        head = _HEADS.get(key, key.upper().replace("_", "\nk="))
        table.add_column(head, justify="right", no_wrap=True)
    planted = "planted_ccs" in keys
    if planted:
        table.add_column("planted", justify="right", no_wrap=True)
    table.add_column("edits\nscored", justify="right", no_wrap=True)
    for row in rows:
        values = [Text(plain(row[axis])) for axis in axes]
        values += [
            Text(_quantity(row, key, brief=width < 100 and key not in _HEADS)) for key in quantities
        ]
        if planted:
            values.append(Text(_planted(row)))
        values.append(Text(f"{row['n_interventions']}\nof {row['n_planned'] or DASH}"))
        table.add_row(*values)
    return table


def pairs_line(reports: Path) -> list[str]:
    """One line for each study of pairs, from the metrics."""
    path = reports / "metrics.json"
    metrics = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return [
        f"{plain(name)}: the gate agrees with {100 * values['agreement']:.1f} % of "
        f"{values['n']} labelled pairs"
        for name, values in metrics.get("pairs", {}).items()
        if "agreement" in values
    ]


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
    table = main_table(reports, width=console.width)
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
