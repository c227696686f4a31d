"""Answers of two annotators that give every count of the published Table 4 at once.

The published counts fit one another if 112 of the 128 edits were accepted and 16 rejected: the
first annotator agrees with the gate on 100 and 15 of these, the second on 112 and 10, and the CCS
counts (100 and 112) are those of the accepted edits that they called valid.
"""

import csv
import json

from stages.workflow.folders import Folders
from tests.annotation.conftest import ROOT, TARGETS, Written, cell


def published_rows() -> list[dict[str, str]]:
    """The published table."""
    path = ROOT / "data" / "reference" / "table4.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def answers_with_the_published_counts(made: Written) -> dict[str, dict[str, dict[str, str]]]:
    """Annotator → opaque name → `valid`, `ac` and `ef`."""
    judge = {}
    for target in TARGETS:
        path = Folders(made.root).judge(cell(target)) / "judgements.jsonl"
        for line in path.read_text().splitlines():
            row = json.loads(line)
            judge[target, row["sample_id"], row["position"]] = row["ccs_binary"]
    accepted = [item for item in made.key.items if made.accepted[item.id]]
    rejected = [item for item in made.key.items if not made.accepted[item.id]]
    assert (len(accepted), len(rejected)) == (112, 16)
    first: dict[str, dict[str, str]] = {}
    second: dict[str, dict[str, str]] = {}
    for i, item in enumerate(accepted):
        automatic = judge[item.target, item.sample_id, item.position]
        agrees = i < 83 or 88 <= i < 91
        first[item.id] = _valid(automatic if agrees else 1 - automatic) if i < 100 else _NO
        agrees = i < 83 or 91 <= i < 107
        second[item.id] = _valid(automatic if agrees else 1 - automatic)
    for j, item in enumerate(rejected):
        first[item.id] = {"valid": "yes"} if j == 10 else _NO
        second[item.id] = _NO if j < 10 else {"valid": "yes"}
    return {"annotator_1": first, "annotator_2": second}


_NO = {"valid": "no"}


def _valid(ccs: int) -> dict[str, str]:
    return {"valid": "yes", "ac": "1", "ef": str(ccs)}
