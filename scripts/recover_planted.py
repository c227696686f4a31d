"""Does the number mean what it says? Run the demo study over many seeds and count how often the
interval holds the CCS that was planted.

    python -m scripts.recover_planted [--seeds 20] [--first 0]

The stages run in this process on a temporary folder, without DVC, exactly as `dvc repro` runs them.
Edits, faults and the mixture's choice all change with the seed; the scenes do not.
"""

import argparse
import contextlib
import io
import json
import os
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

from stages import baseline, concepts, edit, instructions, judge, plan, prepare, requery, score
from stages.models.chat.demo_target import DemoTarget
from stages.records import jsonl
from stages.records.score import Estimate
from stages.workflow import adapters
from stages.workflow.compose import compose


def main() -> int:
    """Print a row for each seed and target, then how many intervals hold the planted value."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("overrides", nargs="*", help="as for Hydra, e.g. benchmarks.demo.samples=9")
    chosen = parser.parse_args()
    repository = Path(__file__).resolve().parents[1]
    held: dict[str, list[bool]] = defaultdict(list)
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        text = compose(repository, [f"seeds=[{seed}]", *chosen.overrides])
        params = yaml.safe_load(text)
        for found in run_study(repository, params):
            planted = planted_ccs(params, found.cell.target)
            inside = _holds(found, planted)
            held[found.cell.target].append(inside)
            print(
                f"seed {seed:2d}  {found.cell.target:14s} planted {planted:.2f}  recovered "
                f"{_digits(found.mean)} [{_digits(found.low)}, {_digits(found.high)}]  "
                f"{found.n_samples} samples, {found.n_interventions} edits"
                f"{'' if inside else '  outside'}",
                flush=True,
            )
    for target, inside_of_seeds in held.items():
        print(f"{target}: {sum(inside_of_seeds)} of {len(inside_of_seeds)} intervals hold it")
    return 0


def run_study(repository: Path, params: dict[str, Any]) -> list[Estimate]:
    """Run all stages and return each target's estimate of binary CCS."""
    (seed,) = params["seeds"]
    axes = {"seed": str(seed)}
    (axes["extractor"],) = params["extractor_names"]
    (axes["editor"],) = params["editor_names"]
    (axes["judge"],) = params["judge_names"]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        root = Path(folder)
        (root / "prompts").symlink_to(repository / "prompts")
        os.environ["EDCT_STORE"] = str(root / "store")
        plan.run(root, params)
        prepare.run(root, params)
        for target in params["target_names"]:
            of = {name: axes[name] for name in ("seed",)} | {"target": target}
            baseline.run(root, params, **of)
            of["extractor"] = axes["extractor"]
            concepts.run(root, params, **of)
            instructions.run(root, params, **of)
            of["editor"] = axes["editor"]
            edit.run(root, params, **of)
            requery.run(root, params, **of)
            judge.run(root, params, **of, judge=axes["judge"])
        score.run(root, params)
        rows = jsonl.read(root / "data" / "score" / "estimates.jsonl", Estimate)
    return [
        row
        for row in rows
        if row.metric == "ccs_binary"
        and row.estimand == "sample_mean"
        and row.domain is None
        and row.position is None
    ]


def planted_ccs(params: dict[str, Any], target: str) -> float:
    """The CCS that a built-in target is made to have."""
    planted = adapters.build(params, f"targets.{target}", DemoTarget).planted_ccs
    return float(planted)


def _holds(found: Estimate, planted: float) -> bool:
    return found.low is not None and found.high is not None and found.low <= planted <= found.high


def _digits(value: float | None) -> str:
    return json.dumps(value) if value is None else f"{value:.3f}"


if __name__ == "__main__":
    raise SystemExit(main())
