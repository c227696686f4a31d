"""What the fault suite tried and what came through, counted by the tests themselves.

`EDCT_BOOK=FILE` has the counts written as a page (`make soak`); otherwise they are only kept.
"""

import atexit
import os
from collections import Counter
from pathlib import Path

SEED = int(os.environ.get("EDCT_FAULT_SEED", "20261130"))
"""Seed of every draw of the suite."""
LONG = "EDCT_BOOK" in os.environ
SECTIONS = ("Faults", "Bad input", "Security")

_tried: dict[tuple[str, str], Counter[str]] = {}
_remarks: dict[tuple[str, str], str] = {}


def note(section: str, case: str, tried: int, survived: int, remark: str = "") -> None:
    """Count a case: what was tried, and how often all that must hold did."""
    assert section in SECTIONS
    count = _tried.setdefault((section, case), Counter())
    count["tried"] += tried
    count["survived"] += survived
    if remark:
        _remarks[section, case] = remark


def page() -> str:
    """The counts as Markdown."""
    lines = [
        "# What the fault suite tried",
        "",
        f"Written by `make soak` (seed {SEED}); counts of that run. What must hold, the tests say",
        "(`tests/faults/`, `tests/pipeline/test_pipeline_kills.py`); what is asked for again,",
        "[faults.md](faults.md).",
    ]
    for section in SECTIONS:
        cases = [case for part, case in _tried if part == section]
        if not cases:
            continue
        lines += [
            "",
            f"## {section}",
            "",
            "| case | tried | survived | |",
            "| --- | --: | --: | --- |",
        ]
        for case in cases:
            count = _tried[section, case]
            remark = _remarks.get((section, case), "")
            lines.append(f"| {case} | {count['tried']:,} | {count['survived']:,} | {remark} |")
        sums = [sum(_tried[section, case][key] for case in cases) for key in ("tried", "survived")]
        lines.append(f"| **all** | **{sums[0]:,}** | **{sums[1]:,}** | |")
    return "\n".join(lines) + "\n"


def _write() -> None:
    if _tried:
        Path(os.environ["EDCT_BOOK"]).write_text(page(), encoding="utf-8")


if LONG:
    atexit.register(_write)
