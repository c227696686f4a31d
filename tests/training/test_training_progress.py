"""States of a training: which one counts, which is read no more, and what is set aside."""

from pathlib import Path
from typing import Any

import pytest

from stages import finetune
from stages.models.local import faults
from stages.records.errors import UserError
from stages.training import lora
from stages.training.base import Base
from stages.training.examples import Example
from stages.training.progress import Progress
from stages.workflow import sections

pytestmark = pytest.mark.local("peft")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
STUDY = sections.Tuning(
    base="b",
    model="weights",
    revision="main",
    cell="c",
    train=["a"],
    held_out=["b"],
    say="It is {label}.",
    device="cpu",
    dtype="float32",
    max_pixels=None,
)
MADE = sections.Finetune(
    teach="edits",
    labels=None,
    rank=4,
    alpha=8,
    dropout=0.0,
    modules="q_proj",
    quantization=None,
    epochs=[0, 1],
    examples_per_epoch=None,
    batch=1,
    accumulate=1,
    rate=0.1,
    seed=0,
    layers=[1],
    sink_ratio=None,
    drop=0.0,
)


class Line:
    """A weight that counts its steps."""

    def __init__(self) -> None:
        import torch

        self.model = torch.nn.Linear(1, 1)
        self.optimiser = torch.optim.AdamW(self.model.parameters())

    def resume(self, root: Path, **values: Any) -> tuple[int, float]:
        step, _ = Progress(root, {}, every=1).resume(self.model, self.optimiser, **values)
        return step, self.model.bias.item()


def run(root: Path, steps: int) -> Path:
    """Steps of a training whose weight is its step; one is kept for good."""
    import torch

    line, progress = Line(), Progress(root, {}, every=1)
    for step in range(1, steps + 1):
        with torch.no_grad():
            line.model.bias.fill_(step)
        if step == 2:
            progress.keep(step, line.model.state_dict())
        progress.reached(step, line.model, line.optimiser, {})
    return progress.folder


@pytest.mark.parametrize("size", [0, 100, 1000])
def test_a_state_that_can_not_be_read_is_set_aside(tmp_path: Path, size: int) -> None:
    folder = run(tmp_path, 3)
    assert Line().resume(tmp_path) == (3, 3.0)
    state = folder / "step.pt"
    state.write_bytes(state.read_bytes()[:size])
    assert Line().resume(tmp_path) == (2, 2.0)
    assert (folder / "step.broken").stat().st_size == size
    (folder / "step-before.pt").write_bytes(b"x" * size)
    line = Line()
    bias = line.model.bias.item()
    assert line.resume(tmp_path) == (0, bias)


def test_a_state_whose_kept_steps_are_lost_does_not_count(tmp_path: Path) -> None:
    folder = run(tmp_path, 3)
    assert Line().resume(tmp_path, wanted=(2, 5))[0] == 3
    (folder / "kept-2.pt").write_bytes(b"")
    assert Line().resume(tmp_path, wanted=(2, 5))[0] == 0


def test_a_state_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    done: list[str] = []
    real = os.replace
    monkeypatch.setattr(os, "fsync", lambda _: done.append("fsync"))
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("replace"), real(a, b)))
    run(tmp_path, 1)
    assert done == ["fsync", "replace"]


@pytest.mark.parametrize(
    "change", ["dtype", "say", "code", "library", "base", "system", "quantized"]
)
def test_a_training_that_differs_goes_on_from_no_state(
    change: str, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    study, made, base, taught = STUDY, MADE, {"model": "m", "revision": COMMIT}, examples[:1]
    before = finetune.key(study, made, base, "prompt", taught)
    assert before == finetune.key(study, made, base, "prompt", taught)
    if change in ("dtype", "say"):
        study = study.model_copy(update={change: "bfloat16"})
    elif change == "code":
        monkeypatch.setattr(lora, "fingerprint", lambda *names: "other")
    elif change == "library":
        monkeypatch.setattr(faults.importlib.metadata, "version", lambda name: "0.1.2")
    elif change == "base":
        base = {"model": "m", "revision": COMMIT[::-1]}
    elif change == "quantized":
        made = made.model_copy(update={"quantization": {"load_in_4bit": True}})
    else:
        told = taught[0].sample.model_copy(update={"system_prompt": "Be brief."})
        taught = [taught[0]._replace(sample=told)]
    assert finetune.key(study, made, base, "prompt", taught) != before


def test_a_base_of_the_hub_is_its_commit(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--maker--name"
    shutil.copytree(weights, repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    assert Base.load(tmp_path, "maker/name").identity == {"model": "maker/name", "revision": COMMIT}


def test_a_base_on_a_gpu_that_is_not_there_is_one_line(weights: Path) -> None:
    with pytest.raises(UserError, match="device cuda:64: there is none"):
        Base.load(weights.parent, weights.name, device="cuda:64")
