"""Calibration: does a reported CCS mean what it says? Simulated studies with a planted CCS.

Draws records of whole studies (`analysis/simulation`), scores them with the code that scores real
ones, and counts how often the interval holds what was planted: with an exact judge, with a judge
that errs, with and without correction by human labels, and with loss that goes with the score.
Writes `coverage.jsonl`; nothing where `calibration.replications` is 0. It reads no data and calls
no model; the same question on real pixels is what `study=calibration` runs the other stages for.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stages.analysis.coverage import study
from stages.analysis.measures import Resampling
from stages.analysis.simulation import Design
from stages.records import jsonl
from stages.records.finding import CoverageRow
from stages.workflow import params as parameters
from stages.workflow import sections
from stages.workflow.folders import Folders
from stages.workflow.runner import main


def simulate(settings: sections.Calibration) -> Iterator[CoverageRow]:
    """All experiments: coverage of the interval, judge error, and loss that is not random."""
    resampling = Resampling(settings.resamples, settings.confidence, settings.seed)

    def design(
        n: int, k: int, planted: float, judge_error: float = 0.0, loss_slope: float = 0.0
    ) -> Design:
        return Design(
            n_samples=n,
            k=k,
            planted=planted,
            icc=settings.icc,
            accept=settings.accept,
            max_attempts=settings.max_attempts,
            no_concepts=settings.no_concepts,
            judge_error=judge_error,
            loss_slope=loss_slope,
        )

    sizes = [(n, k) for n in settings.n_samples for k in settings.k]
    inner = [planted for planted in settings.planted if 0 < planted < 1]
    largest = max(sizes, default=(0, 0))
    experiments = {
        "coverage": [design(n, k, p) for n, k in sizes for p in settings.planted],
        "judge": [
            design(*largest, p, judge_error=error) for error in settings.judge_error for p in inner
        ],
        "loss": [
            design(*largest, p, loss_slope=slope) for slope in settings.loss_slope for p in inner
        ],
    }
    for name, designs in experiments.items():
        yield from study(name, designs, settings.replications, settings.labelled, resampling)


def run(root: Path, params: Mapping[str, Any]) -> None:
    """Simulate studies with a planted CCS, and count how often their intervals hold it."""
    settings = parameters.section(params, "calibration", sections.Calibration)
    rows = list(simulate(settings)) if settings.replications else []
    jsonl.write(Folders(root).calibration / "coverage.jsonl", rows)
    print(f"calibration: {len(rows)} rows, {settings.replications} studies of each design")


if __name__ == "__main__":
    main("calibration", run)
