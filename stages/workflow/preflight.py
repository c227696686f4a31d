"""Preflight: would the study's models answer? Found out before anything is spent.

Keys, packages and values; the model in its server's list, until when and for what; and one small
call a role, which is paid for and goes into the ledger, not into the store.

    python -m stages.workflow.preflight [--no-calls]
"""

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stages.models import charges, probes
from stages.models.account import Account, on_behalf_of
from stages.models.calls import IMAGE_TOKENS
from stages.models.protocol import Adapter, Chat, Detector, Editor, Finding, Segmenter
from stages.records.errors import UserError
from stages.records.usage import Usage
from stages.workflow import adapters, cast
from stages.workflow import params as parameters
from stages.workflow.cells import trained

LISTS: Mapping[str, type[Adapter]] = {
    "target": Chat,
    "extractor": Chat,
    "editor": Editor,
    "judge": Chat,
}
SINGLE: Mapping[str, type[Adapter]] = {
    "detector": Detector,
    "segmenter": Segmenter,
    "verifier": Chat,
}


class Part(NamedTuple):
    """A model of the study in one of its roles."""

    role: str
    name: str
    key: str
    """Where it is in the parameters."""
    kind: type[Adapter]


class Row(NamedTuple):
    """A line of the preflight."""

    part: Part
    finding: Finding


def parts(params: Mapping[str, Any]) -> Iterator[Part]:
    """All models of a study, by role; in a study of pairs those that it can call."""
    for role, kind in LISTS.items():
        if role == "extractor" or params.get("target_names"):
            for name in params.get(f"{role}_names") or []:
                yield Part(role, name, f"{role}s.{name}", kind)
    for role, kind in SINGLE.items():
        if params.get(role) is not None:
            yield Part(role, "", role, kind)


def built(params: Mapping[str, Any], part: Part) -> Adapter | Finding:
    """The model, or why it can't be made: a key, a package or a value."""
    if part.role == "target" and part.name in trained(params):
        return Finding("ok", "is trained by this study")
    try:
        if adapters.check(adapters.lookup(params, part.key), part.key, part.kind).heavy:
            return Finding("ok", "is made when it is used")
        return adapters.build(params, part.key, part.kind)
    except UserError as error:
        return Finding("wrong", error.what, error.remedy)


async def look(params: Mapping[str, Any], account: Account | None = None) -> list[Row]:
    """Look at every model of a study.

    Parameters
    ----------
    params : mapping
        The study.
    account : Account or None
        Who pays for one small call a model; None: no call is made.
    """
    rows: list[Row] = []
    made = [(part, built(params, part)) for part in parts(params)]
    asked = [
        (part, model, asyncio.ensure_future(model.preflight(_as(part, params))))
        for part, model in made
        if isinstance(model, Adapter)
    ]
    rows += [Row(part, found) for part, found in made if isinstance(found, Finding)]
    for part, model, answer in asked:
        try:
            findings = list(await answer)
        except UserError as error:
            findings = [Finding("wrong", f"{error.where}: {error.what}", error.remedy)]
        if not findings and model.billing is None:
            findings = [Finding("ok", "runs in this process")]
        wrong = any(finding.state == "wrong" for finding in findings)
        if account is not None and model.billing is not None and not wrong:
            findings.append(await _probed(account, part, _as(part, params), model))
        rows += [Row(part, finding) for finding in findings]
    order = {part: rank for rank, (part, _) in enumerate(made)}
    return sorted(rows, key=lambda row: order[row.part])


def _as(part: Part, params: Mapping[str, Any]) -> str:
    """The role that a model has to fill: a judge that is shown images must see as a verifier."""
    settings = params.get("judge")
    sees = isinstance(settings, Mapping) and settings.get("sees_images") is True
    return "verifier" if part.role == "judge" and sees else part.role


async def _probed(account: Account, part: Part, role: str, model: Adapter) -> Finding:
    """One call, paid for within the budget."""
    billing = model.billing
    assert billing is not None
    most = Usage(input_tokens=2 * IMAGE_TOKENS, output_tokens=probes.MAX_TOKENS)
    if part.role == "editor":
        most = Usage(images=1)
    with on_behalf_of("preflight"), charges.gathered() as used:
        try:
            begun = await account.begin(part.role, billing, "preflight", most)
        except UserError as error:
            return Finding("wrong", error.what, error.remedy)
        outcome = "stopped"
        try:
            finding, outcome = await probes.probe(role, model)
        finally:
            account.end(begun, billing, outcome, used)
    return finding


def dot_env(root: Path) -> Finding | None:
    """A file of keys must be one that git ignores; None where there is none."""
    if not (root / ".env").exists():
        return None
    asked = ["git", "-C", str(root), "check-ignore", "--quiet", ".env"]
    try:
        ignored = subprocess.run(asked, capture_output=True, check=False).returncode == 0
    except OSError:
        ignored = False
    if ignored:
        return Finding("ok", "git ignores it")
    return Finding("wrong", "git does not ignore it", "Add .env to .gitignore; keys stay private.")


def purse(account: Account) -> Finding | None:
    """What is left of the budget; None where there is none."""
    budget = account.budget
    if budget.usd is None:
        return None
    account.ledger.read()
    spent = account.ledger.spent(account.study).bound_usd
    said = f"${spent:,.2f} of ${budget.usd:,.2f} are spent or put aside"
    if spent >= budget.usd:
        return Finding("wrong", said, "Raise limits.budget_usd, or set EDCT_BUDGET_USD.")
    return Finding("ok", said, "`make dry-run` says whether the rest is enough")


def check(params: Mapping[str, Any]) -> None:
    """Raise UserError for the first model that would not answer; for free, and not in replay."""
    if os.environ.get("EDCT_REPLAY", "0") == "1":
        return
    for part, finding in asyncio.run(look(params)):
        if finding.state == "wrong":
            raise UserError(f"params.yaml: {part.key}", finding.what, finding.remedy)


def written(rows: Sequence[Row]) -> str:
    """A line a finding: state, role, name, what, and what to do."""
    lines = []
    for part, finding in rows:
        remedy = f". {finding.remedy}" if finding.remedy else ""
        lines.append(
            f"{finding.state:<6} {part.role:<10} {part.name or '-':<22} {finding.what}{remedy}"
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Print what was found; the exit status is 1 where calls would fail."""
    parser = argparse.ArgumentParser(prog="python -m stages.workflow.preflight")
    parser.add_argument("--no-calls", action="store_true", help="make no call that is charged")
    chosen = parser.parse_args(arguments)
    try:
        params = parameters.load(Path("params.yaml"))
        paying = cast.calls_of(Path(), params).account
        account = None if chosen.no_calls else paying
        rows = asyncio.run(look(params, account))
        money = purse(paying)
    except UserError as error:
        print(f"preflight: {error}", file=sys.stderr)
        return 1
    if (keys := dot_env(Path())) is not None:
        rows.insert(0, Row(Part("keys", ".env", ".env", Adapter), keys))
    if money is not None:
        rows.append(Row(Part("budget", "", "limits.budget_usd", Adapter), money))
    print(written(rows))
    wrong = sum(row.finding.state == "wrong" for row in rows)
    said = "; ".join(account.summary()) if account else ""
    print(f"preflight: {len(rows)} looked at, {wrong} wrong{f'; {said}' if said else ''}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
