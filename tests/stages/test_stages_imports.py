"""What a stage imports before it works: a run starts a process for every stage and cell."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STAGES = sorted(path.stem for path in (ROOT / "stages").glob("[!_]*.py"))
HEAVY = (
    "PIL",  # for files that are no plain PNG
    "accelerate",
    "diffusers",
    "dvc",
    "httpx2",
    "hydra",
    "jinja2",
    "matplotlib",
    "omegaconf",
    "openai",
    "pandas",
    "peft",
    "pyarrow",
    "ray",
    "rich",
    "sam2",
    "scipy",
    "skimage",
    "torch",
    "torchvision",
    "transformers",
)


@pytest.fixture(scope="module")
def brought() -> dict[str, list[str]]:
    """What each stage brings into a process that has imported those before it."""
    code = f"""
import importlib, json, sys
brought = {{}}
for stage in {STAGES}:
    before = set(sys.modules)
    importlib.import_module(f"stages.{{stage}}")
    brought[stage] = sorted({{name.partition(".")[0] for name in set(sys.modules) - before}})
print(json.dumps(brought))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    assert "numpy" in found[STAGES[0]]
    return found


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_imports_nothing_heavy_before_it_works(
    stage: str, brought: dict[str, list[str]]
) -> None:
    assert not set(brought[stage]) & set(HEAVY)
