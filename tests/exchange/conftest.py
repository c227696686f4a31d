"""A small study that ran for real, stage by stage in this process, and its export."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from stages import baseline, concepts, edit, instructions, judge, plan, prepare, requery, score
from stages.workflow.compose import compose

ROOT = Path(__file__).parents[2]
SMALL = ("target=[demo_mixture]", "benchmarks.demo.samples=6", "score.resamples=200")


@dataclass(frozen=True)
class Run:
    """A workspace in which the chain of stages ran."""

    root: Path
    params: dict[str, Any]

    def text(self, path: str) -> str:
        """A file of the workspace."""
        return (self.root / path).read_text(encoding="utf-8")


def fresh(root: Path) -> Path:
    """A workspace with configuration and prompts, and nothing else."""
    root.mkdir(parents=True)
    for name in ("conf", "prompts"):
        (root / name).symlink_to(ROOT / name)
    return root


def composed(root: Path, *overrides: str) -> Run:
    """Compose the parameters of a workspace."""
    text = compose(root, list(overrides))
    (root / "params.yaml").write_text(text, encoding="utf-8")
    return Run(root, yaml.safe_load(text))


def run(run: Run) -> Run:
    """Run all stages of the chain, as DVC would; leave a lock file as its report stage would."""
    root, params = run.root, run.params
    plan.run(root, params)
    prepare.run(root, params)
    # One name on each axis but the targets, and one seed, is enough here.
    (extractor,), (editor,) = params["extractor_names"], params["editor_names"]
    (judged,), (seed,) = params["judge_names"], map(str, params["seeds"])
    for target in params["target_names"]:
        cell = {"target": target, "seed": seed}
        baseline.run(root, params, **cell)
        cell["extractor"] = extractor
        concepts.run(root, params, **cell)
        instructions.run(root, params, **cell)
        cell["editor"] = editor
        edit.run(root, params, **cell)
        requery.run(root, params, **cell)
        judge.run(root, params, **cell, judge=judged)
    score.run(root, params)
    lock = {"stages": {"report": {"params": {"params.yaml": params}}}}
    (root / "dvc.lock").write_text(yaml.safe_dump(lock), encoding="utf-8")
    return run


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The small study, finished. Not to be changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("EDCT_STORE", raising=False)
        root = fresh(tmp_path_factory.mktemp("finished") / "edct")
        yield run(composed(root, *SMALL))


@pytest.fixture(scope="session")
def exported(finished: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its export. Not to be changed."""
    from stages.exchange.export import export

    folder = tmp_path_factory.mktemp("exported") / "edct_bench"
    export(finished.root, folder)
    return folder
