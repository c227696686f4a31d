"""Simulated annotators of the demo, to try Table 4 and the correction without people.

    dvc repro && python -m scripts.simulate_annotators && dvc repro

Writes `data/annotations/simulated.csv`: two annotators who see a random part of the study's
edits, err at a given rate and now and then can't tell. Their truth is the verdict of the judge
named, so with an exact judge the labels are right but for their errors. They are no people: remove
the file before any real study.
"""

import argparse
import csv
import sys
from pathlib import Path

from stages.analysis.simulation import annotate
from stages.records import jsonl
from stages.records.annotation import Annotation
from stages.records.score import Intervention


def main() -> int:
    """Write the labels."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--judge", default="demo", help="the judge whose verdict is the truth")
    parser.add_argument("--share", type=float, default=0.3, help="share of samples that are seen")
    parser.add_argument("--error", type=float, default=0.05, help="error rate of each answer")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    rows = jsonl.read(Path("data/score/interventions.jsonl"), Intervention)
    mine = [row for row in rows if row.cell.judge == chosen.judge]
    labels = [
        label
        for annotator in ("simulated_1", "simulated_2")
        for label in annotate(
            mine, annotator, share=chosen.share, error=chosen.error, seed=chosen.seed
        )
    ]
    path = Path("data/annotations/simulated.csv")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(Annotation.model_fields), lineterminator="\n")
        writer.writeheader()
        writer.writerows(label.model_dump() for label in labels)
    print(f"{path}: {len(labels)} labels")
    return 0


if __name__ == "__main__":
    sys.exit(main())
