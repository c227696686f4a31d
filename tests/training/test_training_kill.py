"""A training that is killed, as a machine kills: what goes on from it ends at the same bytes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stages.models.picture import Picture
from stages.records import jsonl
from stages.records.sample import Sample
from stages.training.examples import Example

pytestmark = pytest.mark.local("peft")
ROOT = Path(__file__).parents[2]
TRAIN = """
import sys
from pathlib import Path
from stages.models.picture import Picture
from stages.records import jsonl
from stages.records.sample import Sample
from stages.training import lora
from stages.training.base import Base
from stages.training.examples import Example
from stages.training.progress import Progress
from stages.training.prompting import Prompting

folder, states, out = map(Path, sys.argv[1:])
samples = jsonl.read(folder / "samples.jsonl", Sample)
examples = [Example(s, "original", 0, s.image, s.reference, None) for s in samples]
base = Base.load(folder, "weights")
recipe = lora.Recipe(4, 8, 0.1, r".*language_model.*v_proj", (0, 40), None, 2, 1, 0.05, 0)
model = lora.add_adapter(base.model, recipe)
prompting = Prompting(
    base.processor,
    lambda text: text,
    "It is {label}.",
    lambda example: Picture.load(folder / "images", example.image),
)
progress = Progress(states, {}, every=1)
lora.train(model, prompting, examples, recipe, progress, pad=base.pad)
lora.save(model, out)
"""


def command(folder: Path, states: Path, out: Path) -> list[str]:
    return [sys.executable, "-c", TRAIN, str(folder), str(states), str(out)]


@pytest.fixture
def folder(
    weights: Path, drawn: dict[str, Picture], examples: list[Example], tmp_path: Path
) -> Path:
    (tmp_path / "weights").symlink_to(weights)
    for picture in drawn.values():
        picture.save(tmp_path / "images")
    rows: list[Sample] = [example.sample for example in examples]
    jsonl.write(tmp_path / "samples.jsonl", rows)
    return tmp_path


def test_a_killed_training_goes_on_to_the_same_bytes(folder: Path) -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    whole = command(folder, folder / "a", folder / "whole")
    subprocess.run(whole, env=env, check=True, capture_output=True, timeout=300)

    broken = command(folder, folder / "b", folder / "resumed")
    started = subprocess.Popen(
        broken, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 300
    while not list((folder / "b").glob("*/step.pt")) and time.monotonic() < until:
        assert started.poll() is None
        time.sleep(0.02)
    started.send_signal(signal.SIGKILL)
    assert started.wait() == -signal.SIGKILL
    assert not (folder / "resumed").exists()

    done = subprocess.run(broken, env=env, check=True, capture_output=True, text=True, timeout=300)
    assert "goes on after epoch" in done.stdout
    for path in sorted((folder / "whole").iterdir()):
        assert (folder / "resumed" / path.name).read_bytes() == path.read_bytes(), path.name
