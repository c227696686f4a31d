"""What a study will cost, and what it has cost; no model is called.

python -m stages.spending estimate [--live]
python -m stages.spending spent [--study NAME]
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from stages.models.ledger import BEGUN, NAME, Ledger, Spent
from stages.models.store import Store
from stages.records.charge import Charge
from stages.records.errors import UserError
from stages.records.usage import total
from stages.spending.estimate import Estimate, estimate
from stages.spending.made import ledger_totals
from stages.workflow import params as parameters

UNKNOWN = "unknown"
NAMES = {"estimate": "dry-run", "spent": "spending"}
"""What make calls the commands."""
WIDTH = 160
"""Columns of the output where it goes into no terminal."""


def show_estimate(found: Estimate, console: Console) -> None:
    """Print the dry run: a row a stage, role and model, then the total."""
    heads = ("Stage", "Role", "Model", "Calls", "to make", "Tokens in", "Tokens out", "Images", "$")
    table = _table(
        f"{found.n_samples} samples: calls, and those that the store can't answer", heads
    )
    for line in found.lines:
        post = line.need.post
        table.add_row(
            post.stage,
            post.role,
            f"{post.name} {line.model}".strip(),
            f"{'≤ ' if line.need.basis == 'at most' else ''}{line.need.calls:,}",
            f"{line.to_make:,}",
            _count(line.input_tokens, line.assumed),
            _count(line.output_tokens, line.assumed),
            _count(line.images, False),
            UNKNOWN if line.cost_usd is None else f"{line.cost_usd:,.2f}",
        )
    console.print(table)
    for said in sums(found):
        console.print(said, highlight=False, soft_wrap=True)


def sums(found: Estimate) -> list[str]:
    """The total in words: calls, tokens, images, and the cost or a lower bound of it."""
    lines = found.lines
    calls = sum(line.to_make for line in lines)
    tokens = [_known(line.input_tokens for line in lines), _known(x.output_tokens for x in lines)]
    images = _known(line.images for line in lines)
    bound = "at least " if found.unknown else ""
    said = [
        f"Total: {calls:,} calls to make; tokens {tokens[0]:,} in, {tokens[1]:,} out; {images:,} "
        f"images; {bound}${found.known_usd:,.2f}"
    ]
    if found.unknown:
        said.append(
            f"A lower bound: the price of {', '.join(found.unknown)} is unknown (conf/prices.yaml)."
        )
    if any(line.need.basis == "at most" for line in lines):
        said.append("≤: the most that the parameters allow, since nothing like it was called yet.")
    if any(line.assumed for line in lines):
        said.append("~: tokens as assumed in conf/prices.yaml, since none were measured yet.")
    return [*said, *found.notes]


def show_spent(charges: list[Charge], study: str | None, console: Console) -> None:
    """Print what was spent, by study, stage, role and model."""
    heads = ("Stage", "Role", "Model", "Calls", "failed", "Tokens in", "Tokens out", "Images", "$")
    if not any(study in (None, charge.study) for charge in charges):
        console.print("No charged calls yet." if study is None else f"No charged calls of {study}.")
        return
    for name in sorted({charge.study for charge in charges} if study is None else {study}):
        table = _table(f"Study {name or '-'}", (*heads, "estimated", "unknown"))
        spent = Spent()
        for (stage, role, model), group in ledger_totals([c for c in charges if c.study == name]):
            ended = [charge for charge in group if charge.outcome != BEGUN]
            part = Spent()
            for charge in ended:
                part.add(charge)
                spent.add(charge)
            used = total(usage for charge in ended for usage in charge.usage)
            table.add_row(
                stage or "-",
                role,
                model,
                f"{part.calls:,}",
                f"{part.failed:,}",
                _count(used.input_tokens, False),
                _count(used.output_tokens, False),
                _count(used.images, False),
                f"{part.usd:,.4f}",
                f"{part.estimated_usd:,.4f}",
                f"{part.unknown:,}",
            )
        console.print(table)
        lost = [charge for charge in charges if (charge.study, charge.outcome) == (name, BEGUN)]
        aside = sum(charge.expected_usd or 0.0 for charge in lost)
        console.print(
            f"{name or '-'}: ${spent.usd:,.4f} in {spent.calls:,} calls, {spent.failed:,} of them "
            f"failed; ${spent.estimated_usd:,.4f} estimated; {spent.unknown:,} calls of unknown "
            f"cost (${spent.held_usd:,.4f} put aside); {len(lost):,} under way or lost with their "
            f"process (${aside:,.4f} put aside)",
            highlight=False,
            soft_wrap=True,
        )


def _table(title: str, heads: Iterable[str]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        left = head in ("Stage", "Role", "Model")
        table.add_column(head, justify="left" if left else "right", no_wrap=True)
    return table


def _count(number: int | None, assumed: bool) -> str:
    return "–" if number is None else f"{'~ ' if assumed else ''}{number:,}"


def _known(numbers: Iterable[int | None]) -> int:
    return sum(number or 0 for number in numbers)


def main(arguments: list[str]) -> int:
    """Run a command; an error is one line."""
    parser = argparse.ArgumentParser(prog="python -m stages.spending", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    estimating = commands.add_parser("estimate", help="calls, tokens, images and cost to come")
    estimating.add_argument("--live", action="store_true", help="ask providers for their prices")
    telling = commands.add_parser("spent", help="what the ledger says was spent")
    telling.add_argument("--study", help="of this study alone")
    given = parser.parse_args(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    try:
        if given.command == "estimate":
            params = parameters.load(Path("params.yaml"))
            show_estimate(estimate(Path(), params, live=given.live), console)
        else:
            ledger = Ledger(Store.open().root / NAME)
            show_spent(list(ledger.charges()), given.study, console)
    except UserError as error:
        print(f"{NAMES[given.command]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
