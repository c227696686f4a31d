"""The readers of replies under a fuzzer that is led by coverage: minutes of it in `make soak`."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import book
from tests.faults.said import SAID, fenced
from tests.models.attacks import ATTACKS
from tests.models.contract.cases import BOXES

ROOT = Path(__file__).parents[2]
SAMPLES = Path(os.environ.get("EDCT_SAMPLES") or ROOT.parent / "shared/samples")
RUNS = int(os.environ.get("EDCT_GUIDED", "10000"))
"""Replies for each reader."""
READERS = [*SAID, "boxes"]


def seeds(name: str) -> list[bytes]:
    """Good replies, attacks, and real ones where this machine has them."""
    good = BOXES.encode() if name == "boxes" else fenced(name)
    real = [
        line.encode()[:4000]
        for path in sorted((SAMPLES / "judge_replies").rglob("*.json*"))
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()[:5]
    ]
    quoted = [json.dumps({"reason": attack, "grade": 1}).encode() for attack in ATTACKS[:20]]
    return [good, *(attack.encode() for attack in ATTACKS), *quoted, *real]


@pytest.mark.skipif(not book.LONG, reason="part of `make soak`")
@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None,
    reason="atheris is not installed (requirements/fuzz.txt)",
)
@pytest.mark.parametrize("name", READERS)
def test_no_reply_that_a_guided_fuzzer_finds_breaks_a_reader(name: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(seeds(name)):
        (corpus / f"{number:03}").write_bytes(seed)
    options = [f"-runs={RUNS}", f"-seed={book.SEED}", "-max_len=4096"]
    options += ["-print_final_stats=1", f"-artifact_prefix={tmp_path}/", "-timeout=10"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.guided", name, str(corpus), *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=3000,
    )
    crashes = [path.read_bytes()[:500] for path in tmp_path.glob("crash-*")]
    assert done.returncode == 0, (crashes, done.stdout[-2000:], done.stderr[-4000:])
    tried = int(re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)[1])  # type: ignore[index]
    assert tried >= RUNS
    book.note(book.INPUT, f"replies: {name}, led by coverage", tried, tried)
