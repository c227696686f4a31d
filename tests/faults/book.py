"""What the fault suite tried and what came through, counted by the tests themselves.

`EDCT_BOOK=FILE` has the long form run and its counts written as a page: a run of some of the tests
replaces the cases that it tried and leaves the others. A run in which a test fails writes nothing.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SEED = int(os.environ.get("EDCT_FAULT_SEED", "20261130"))
"""Seed of every draw of the suite."""
LONG = "EDCT_BOOK" in os.environ
KILLS, INTERRUPTS, DISKS, SERVERS = "Kills", "Interrupts", "Disks, stores and clocks", "Servers"
PEERS, INPUT, SECURITY, REHEARSAL = "Other harnesses", "Bad input", "Security", "Rehearsal"
ABOUT = {
    KILLS: "SIGKILL, then the same again. Survived: the outputs equal those of an undisturbed run, "
    "byte for byte, and no reply that was stored was asked for again.",
    INTERRUPTS: "SIGINT. Survived: it ended within 2 s (times the load of a core), with a line and "
    "no trace, and the next run went on from it.",
    DISKS: "Survived: one line says what to do, what is stored stays, what is damaged goes aside.",
    SERVERS: "Survived: the call ended in time and within its bound on bytes, as a reply or with a "
    "reason, and showed no key.",
    PEERS: "The faults on which inspect_ai 0.3.285 and lmms-eval 0.7.3 lost calls or invented "
    "scores when measured (300 calls, 32 at once), and what happens here.",
    INPUT: "Survived: it was read, or refused in one line; nothing out of range came out.",
    SECURITY: "Survived: it was refused, bounded or escaped.",
    REHEARSAL: "`make soak-http`: a whole study, every role over HTTP on loopback by shipped YAML "
    "files, a tenth of all requests faulty, the account empty once.",
}  # fmt: skip

_tried: dict[tuple[str, str], Counter[str]] = {}
_remarks: dict[tuple[str, str], str] = {}
_beside: dict[str, tuple[str, str, str]] = {}
_figures: dict[str, Any] = {}


def note(section: str, case: str, tried: int, survived: int, remark: str = "") -> None:
    """Count a case: what was tried, and how often all that must hold did."""
    assert section in ABOUT
    count = _tried.setdefault((section, case), Counter())
    count["tried"] += tried
    count["survived"] += survived
    if remark:
        _remarks[section, case] = remark


def beside(case: str, inspect_ai: str, lmms_eval: str, here: str) -> None:
    """Set what a fault does here beside what it did to others."""
    _beside[case] = (inspect_ai, lmms_eval, here)


def rehearsed(figures: Mapping[str, Any]) -> None:
    """Take over the figures of the rehearsal."""
    _figures.update(figures)


def write() -> None:
    """Write what this run counted into the page of `EDCT_BOOK`, beside what others did."""
    path = Path(os.environ["EDCT_BOOK"])
    kept = dict(_parts(path.read_text(encoding="utf-8"))) if path.exists() else {}
    parts = {}
    for section, about in ABOUT.items():
        counts, lines = _counts(section, kept.get(section, "")), []
        if counts:
            lines += ["| case | tried | survived | |", "| --- | --: | --: | --- |"]
            lines += [
                f"| {case} | {n:,} | {m:,} | {said} |" for case, (n, m, said) in counts.items()
            ]
            tried, survived = (sum(count[place] for count in counts.values()) for place in (0, 1))
            lines += [f"| **all** | **{tried:,}** | **{survived:,}** | |"]
        for head, rows in (
            ("| fault | inspect_ai | lmms-eval | here |", _peers(section, kept.get(section, ""))),
            ("| | |", _rehearsal(section, kept.get(section, ""))),
        ):
            if rows:
                rule = "| --- " * (head.count("|") - 1) + "|"
                lines += [*([""] if lines else []), head, rule, *rows]
        if lines:
            parts[section] = "\n".join([f"## {section}", "", *_wrapped(about), "", *lines]) + "\n"
    head = "\n".join(_head(list(parts.values()))) + "\n"
    path.write_text("\n".join([head, *parts.values()]), encoding="utf-8")


def _parts(page: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^(?=## )", page, flags=re.MULTILINE):
        name = part.partition("\n")[0].removeprefix("## ")
        if name in ABOUT:
            yield name, part


_COUNT = re.compile(r"^\| ([^*\n].*?) \| ([\d,]+) \| ([\d,]+) \| (.*?) ?\|$", re.MULTILINE)


def _counts(section: str, kept: str) -> dict[str, tuple[int, int, str]]:
    """Cases of a section: this run's, and those that it did not try."""
    found: dict[str, tuple[int, int, str]] = {}
    if section in (PEERS, REHEARSAL):
        return found
    for case, tried, survived, said in _COUNT.findall(kept):
        found[case] = (int(tried.replace(",", "")), int(survived.replace(",", "")), said)
    for (part, case), count in _tried.items():
        if part == section:
            said = _remarks.get((section, case), "")
            found[case] = (count["tried"], count["survived"], said)
    return dict(sorted(found.items()))


def _peers(section: str, kept: str) -> list[str]:
    if section != PEERS:
        return []
    lines = [line.strip("| ").split(" | ") for line in kept.splitlines() if line.startswith("| ")]
    rows = {cells[0]: cells[1:] for cells in lines[2:] if len(cells) == 4}
    rows |= {case: list(said) for case, said in _beside.items()}
    return [f"| {case} | {' | '.join(said)} |" for case, said in rows.items()]


def _rehearsal(section: str, kept: str) -> list[str]:
    if section != REHEARSAL:
        return []
    if not _figures:
        return re.findall(r"^\| [a-z].*\|$", kept, re.MULTILINE)
    return [f"| {name} | {_said(value)} |" for name, value in _figures.items()]


def _head(parts: list[str]) -> Iterator[str]:
    yield "# What the fault suite tried"
    yield ""
    yield f"Written by the suite itself (`make soak soak-http`, seed {SEED}), and only by runs in"
    yield "which every test passed; each case has the counts of the last run that tried it. What"
    yield "must hold, the tests say; what is asked for again is in [faults.md](faults.md), what is"
    yield "trusted in [security.md](security.md)."
    yield ""
    yield "| | tried | survived |"
    yield "| --- | --: | --: |"
    for part in parts:
        if sums := re.search(r"^\| \*\*all\*\* \| \*\*(\S+)\*\* \| \*\*(\S+)\*\*", part, re.M):
            name = part.partition("\n")[0].removeprefix("## ")
            yield f"| {name} | {sums[1]} | {sums[2]} |"


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{_said(part)} × {name}" for name, part in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def _wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 110)
