"""What was published: tables of `data/reference/`, each cell checked as it is read."""

import csv
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from stages.records.errors import UserError, quoted
from stages.reporting.capability import OtherScore, read_scores
from stages.reporting.study import Published, PublishedAgreement, PublishedRuns, Reference

_REMEDY = "Take the file from git."


class _Row(NamedTuple):
    """One row, and where it stands."""

    where: str
    cells: Mapping[str, str | None]

    def text(self, name: str) -> str:
        """A cell that must be there."""
        found = self.cells.get(name)
        if not found:
            raise UserError(self.where, f"has no {name}", _REMEDY)
        return found

    def number(self, name: str, low: float = -math.inf, high: float = math.inf) -> float:
        """A finite number within bounds, both included."""
        text = self.text(name)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and low <= value <= high):
            raise UserError(self.where, f"{name} is {quoted(text)}", _REMEDY)
        return value

    def count(self, name: str) -> int:
        """A whole number from 0."""
        value = self.number(name, 0, 1e9)
        if value != int(value):
            raise UserError(self.where, f"{name} is {quoted(self.text(name))}", _REMEDY)
        return int(value)

    def interval(self) -> Published:
        """A mean of scores in [0, 1] with the ends of its interval."""
        return Published(*(self.number(name, 0, 1) for name in ("mean", "ci_low", "ci_high")))

    def percent(self, name: str) -> float | None:
        """A percentage as a share; None where the cell is empty."""
        return self.number(name, 0, 100) / 100 if self.cells.get(name) else None


def read_published(folder: Path) -> dict[tuple[str, str | None, str, int | None], Published]:
    """Read Tables 1 and 3 as published, by target, domain, metric and position."""
    out = {}
    for name in ("table1.csv", "table3.csv"):
        for row in _rows(folder / name):
            k = row.count("k") if row.cells.get("k") else None
            key = row.text("target"), row.cells.get("domain"), row.text("metric"), k
            out[key] = row.interval()
    return out


def read_reference(folder: Path) -> Reference:
    """Read Tables 2, 4 and 5 and the fine-tuning study as published."""
    return Reference(
        pipelines={
            (
                row.text("target"),
                row.text("extractor_and_judge"),
                row.text("editor"),
                row.text("metric"),
            ): row.interval()
            for row in _rows(folder / "table2.csv")
        },
        agreement=tuple(
            PublishedAgreement(
                row.text("comparison"),
                row.text("what"),
                row.count("agree"),
                row.count("n"),
                row.percent("ci_low_pct"),
                row.percent("ci_high_pct"),
            )
            for row in _rows(folder / "table4.csv")
        ),
        runs={
            row.text("metric"): PublishedRuns(
                row.count("runs"), row.number("mean", 0, 1), row.number("sd", 0, 1)
            )
            for row in _rows(folder / "table5.csv")
        },
        tuning={
            row.text("quantity"): (row.number("original"), row.number("counterfactual"))
            for row in _rows(folder / "finetune.csv")
        },
    )


def read_capability(folder: Path) -> tuple[OtherScore, ...]:
    """Read what is known of targets from elsewhere."""
    path = folder / "capability.csv"
    return read_scores((row.cells for row in _rows(path)), str(path))


def _rows(path: Path) -> Iterator[_Row]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for number, row in enumerate(csv.DictReader(file), 2):
                yield _Row(f"{path} row {number}", row)
    except FileNotFoundError:
        raise UserError(str(path), "the file is missing", _REMEDY) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(str(path), f"is no CSV in UTF-8 ({error})", _REMEDY) from None
