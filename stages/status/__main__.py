"""Where the study of params.yaml stands; no model is called.

python -m stages.status [--cells]
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stages.records.base import Status
from stages.records.errors import UserError
from stages.spending.__main__ import sums
from stages.status.look import Line, Standing, look
from stages.workflow import params as parameters

SCREEN = 28
"""Lines beyond which the cells of a stage that are alike share one."""
REASONS = 6
"""Reasons that are listed; the rest is counted."""
WIDTH = 140


def show(found: Standing, console: Console, *, cells: bool = False) -> None:
    """Print where a study stands: stages, what failed and why, what is left to pay."""
    table = Table(
        title=f"Study {found.study}", title_justify="left", box=SIMPLE_HEAD, pad_edge=False
    )
    for head in ("Stage", "Cell", "State", "Rows", "ok"):
        table.add_column(head, justify="right" if head in ("Rows", "ok") else "left", no_wrap=True)
    table.add_column("Other rows", overflow="fold")
    for group in _groups(found.lines, cells or len(found.lines) <= SCREEN):
        stage, state = group[0].node.stage, group[0].state
        cell = group[0].node.cell if len(group) == 1 else f"{len(group)} cells"
        rows = sum((Counter(line.rows) for line in group), Counter[str]())
        others = ", ".join(f"{n} {kind}" for kind, n in rows.most_common() if kind != Status.OK)
        total = str(rows.total()) if rows else ""
        ok = str(rows[Status.OK]) if rows else ""
        table.add_row(stage, cell, state, total, ok, others)
    console.print(table)
    for line in words(found):
        console.print(escape(line), highlight=False, soft_wrap=True)


def _groups(lines: Sequence[Line], apart: bool) -> Iterator[list[Line]]:
    """Lines alike in stage and state together, in order; each alone where they fit on a screen."""
    order = {stage: rank for rank, stage in enumerate(dict.fromkeys(x.node.stage for x in lines))}
    for line in lines if apart else ():
        yield [line]
    alike = sorted(lines, key=lambda x: (order[x.node.stage], x.state)) if not apart else []
    for _, group in groupby(alike, key=lambda x: (x.node.stage, x.state)):
        yield list(group)


def words(found: Standing) -> Iterator[str]:
    """What the table does not say: sums, failures, reasons, and what is left."""
    counts = Counter(line.state for line in found.lines)
    listed = ", ".join(f"{n} {state}" for state, n in counts.most_common())
    yield f"{len(found.lines)} stages in all cells: {listed}"
    if found.silence is not None:
        yield f"DVC does not say what would run again: {found.silence}."
    elif counts["done"] < len(found.lines):
        yield "`make run` runs what is not done, and what follows from it where that changes."
    yield from _failures(found.lines)
    changed = Counter(line.why for line in found.lines if line.state == "changed")
    yield from _listed(f"changed in {n}: {why}" for why, n in changed.most_common())
    if lost := found.reasons.total():
        yield f"Without a reply: {lost} rows; asked for again when their stage runs again"
        yield from _listed(
            f"{n} × {stage} {status}: {why}"
            for (stage, status, why), n in found.reasons.most_common()
        )
    if counts["done"] == len(found.lines):
        yield "Nothing would run again, and nothing is left to pay."
    elif isinstance(found.left, str):
        yield f"What is left to call can't be said: {found.left}"
    else:
        yield from sums(found.left)


def _failures(lines: Sequence[Line]) -> Iterator[str]:
    said: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        if line.state in ("failed", "killed"):
            said.setdefault((line.state, line.why), []).append(line.node.name)
    for (state, why), names in said.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{state}: {names[0]}{more}" + (
            f": {why}" if why else ": what it had called is stored; run again"
        )


def _listed(lines: Iterator[str]) -> Iterator[str]:
    every = list(lines)
    yield from (f"  {line}" for line in every[:REASONS])
    if len(every) > REASONS:
        yield f"  … and {len(every) - REASONS} more"


def main(arguments: list[str]) -> int:
    """Print where the study stands; an error is one line."""
    parser = argparse.ArgumentParser(prog="python -m stages.status", description=__doc__)
    parser.add_argument("--cells", action="store_true", help="a line for every cell")
    given = parser.parse_args(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    try:
        show(look(Path(), parameters.load(Path("params.yaml"))), console, cells=given.cells)
    except UserError as error:
        print(f"status: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        what = f"{error.filename or 'disk'}: {error.strerror or error}"
        print(f"status: {what}. Mend it and run again.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
