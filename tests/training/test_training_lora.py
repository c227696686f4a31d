"""Adapters: they learn, they go on after a kill to the same end, and they hold no path."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stages.models.picture import Picture
from stages.records.errors import UserError
from stages.training import lora, losses
from stages.training.base import Base
from stages.training.examples import Example
from stages.training.progress import Progress
from stages.training.prompting import IGNORED, Prompting, collate

pytestmark = pytest.mark.local("peft")
MODULES = r".*language_model.*\.(q_proj|v_proj)"


def recipe(**changes: Any) -> lora.Recipe:
    values = {
        "rank": 4,
        "alpha": 8,
        "dropout": 0.1,
        "modules": MODULES,
        "epochs": (0, 2, 4),
        "examples_per_epoch": None,
        "batch": 2,
        "accumulate": 1,
        "rate": 0.05,
        "seed": 0,
    }
    return lora.Recipe(**{**values, **changes})


class Bench:
    """A model, its adapter and its prompts."""

    def __init__(self, weights: Path, drawn: dict[str, Picture], made: lora.Recipe) -> None:
        self.base = Base.load(weights.parent, weights.name)
        self.recipe = made
        self.model = lora.add_adapter(self.base.model, made)
        self.prompting = Prompting(
            self.base.processor, lambda text: text, "It is {label}.", lambda e: drawn[e.image]
        )

    def train(self, examples: list[Example], progress: Progress) -> Any:
        return lora.train(
            self.model,
            self.prompting,
            examples,
            self.recipe,
            progress,
            pad=self.base.pad,
            told=lambda _: None,
        )


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_an_untrained_adapter_changes_nothing(
    weights: Path, drawn: dict[str, Picture], examples: list[Example]
) -> None:
    import torch

    bench = Bench(weights, drawn, recipe())
    inputs = collate([bench.prompting.encode(e) for e in examples], bench.base.pad, "cpu")
    inputs.pop("labels")
    bench.model.eval()
    with torch.inference_mode():
        tuned = bench.model(**inputs).logits
        with bench.model.disable_adapter():
            plain = bench.model(**inputs).logits
    assert torch.equal(tuned, plain)


def test_training_lowers_the_loss_of_what_is_taught_and_touches_the_adapter_alone(
    weights: Path, drawn: dict[str, Picture], examples: list[Example], tmp_path: Path
) -> None:
    import torch

    bench = Bench(weights, drawn, recipe())
    before = {n: w.clone() for n, w in bench.model.named_parameters() if "lora_" not in n}
    states, curve = bench.train(examples, Progress(tmp_path, {}, every=1))
    assert sorted(states) == [0, 2, 4]
    assert [epoch for epoch, *_ in curve] == [1, 2, 3, 4]
    assert curve[-1][1] < curve[0][1] - 0.2
    for name, weight in bench.model.named_parameters():
        if "lora_" not in name:
            assert torch.equal(weight, before[name]), name
    assert any((states[0][name] != states[4][name]).any() for name in states[0])


def test_killed_in_the_middle_it_goes_on_to_the_same_bytes(
    weights: Path, drawn: dict[str, Picture], examples: list[Example], tmp_path: Path
) -> None:
    whole = Bench(weights, drawn, recipe())
    _, curve = whole.train(examples, Progress(tmp_path / "a", {}, every=1))
    lora.save(whole.model, tmp_path / "whole")

    class KilledError(BaseException):
        """No code under test catches it."""

    class Killed(Progress):
        def reached(self, step: int, *args: Any, **more: Any) -> None:
            super().reached(step, *args, **more)
            if step == 3:
                raise KilledError

    first = Bench(weights, drawn, recipe())
    with pytest.raises(KilledError):
        first.train(examples, Killed(tmp_path / "b", {}, every=1))
    second = Bench(weights, drawn, recipe())
    states, went_on = second.train(examples, Progress(tmp_path / "b", {}, every=1))
    lora.save(second.model, tmp_path / "resumed")
    assert bytes_of(tmp_path / "whole") == bytes_of(tmp_path / "resumed")
    assert went_on == curve
    assert sorted(states) == [0, 2, 4]


def test_the_seed_counts(
    weights: Path, drawn: dict[str, Picture], examples: list[Example], tmp_path: Path
) -> None:
    ends = []
    for seed in (0, 1):
        bench = Bench(weights, drawn, recipe(seed=seed, epochs=(0, 1)))
        bench.train(examples, Progress(tmp_path / str(seed), {}, every=1))
        ends.append(lora.state_of(bench.model))
    assert any((ends[0][name] != ends[1][name]).any() for name in ends[0])


def test_what_is_saved_loads_on_the_base_and_names_no_folder(
    weights: Path, drawn: dict[str, Picture], examples: list[Example], tmp_path: Path
) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForImageTextToText

    bench = Bench(weights, drawn, recipe(epochs=(0, 1)))
    bench.train(examples, Progress(tmp_path / "p", {}, every=1))
    lora.save(bench.model, tmp_path / "adapter")
    for path in (tmp_path / "adapter").iterdir():
        assert str(weights.parent).encode() not in path.read_bytes(), path.name
    base = AutoModelForImageTextToText.from_pretrained(weights, attn_implementation="eager")
    loaded = PeftModel.from_pretrained(base, tmp_path / "adapter").eval()
    inputs = collate([bench.prompting.encode(examples[0])], bench.base.pad, "cpu")
    inputs.pop("labels")
    bench.model.eval()
    with torch.inference_mode():
        assert torch.equal(loaded(**inputs).logits, bench.model(**inputs).logits)


def test_the_base_in_four_bits_is_trained_too(
    weights: Path, drawn: dict[str, Picture], examples: list[Example], tmp_path: Path
) -> None:
    pytest.importorskip("bitsandbytes")
    bench = Bench(weights, drawn, recipe(epochs=(0, 2)))
    four = {
        "load_in_4bit": True,
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": True,
        "llm_int8_skip_modules": ["model.visual", "lm_head"],
    }
    bench.base = Base.load(weights.parent, weights.name, quantization=four)
    bench.model = lora.add_adapter(bench.base.model, bench.recipe)
    _, curve = bench.train(examples, Progress(tmp_path, {}, every=1))
    assert curve[-1][1] < curve[0][1]


def test_modules_that_are_not_there_are_one_line(weights: Path, drawn: dict[str, Picture]) -> None:
    with pytest.raises(UserError, match="modules"):
        Bench(weights, drawn, recipe(modules="nowhere"))


def test_a_batch_gives_the_losses_of_its_examples_alone(
    weights: Path, drawn: dict[str, Picture], examples: list[Example]
) -> None:
    bench = Bench(weights, drawn, recipe())
    together = losses.read(bench.model, bench.prompting, examples, batch=6, pad=bench.base.pad)
    alone = losses.read(bench.model, bench.prompting, examples, batch=1, pad=bench.base.pad)
    assert np.array([loss for loss, _ in together]) == pytest.approx(
        np.array([loss for loss, _ in alone]), rel=1e-4
    )


def test_losses_are_those_of_the_taught_tokens() -> None:
    import torch

    logits = torch.zeros(1, 4, 3)
    logits[0, 1, 2] = 50.0  # the third token is sure to be 2
    labels = torch.tensor([[IGNORED, IGNORED, 2, 1]])
    loss, exact = losses.by_example(logits, labels)
    assert loss.item() == pytest.approx(np.log(3) / 2, rel=1e-4)
    assert exact.tolist() == [False]
    logits[0, 2, 1] = 50.0
    loss, exact = losses.by_example(logits, labels)
    assert loss.item() == pytest.approx(0, abs=1e-6)
    assert exact.tolist() == [True]


def test_the_query_is_before_the_label(
    weights: Path, drawn: dict[str, Picture], examples: list[Example]
) -> None:
    bench = Bench(weights, drawn, recipe())
    encoded = bench.prompting.encode(examples[0])
    words = bench.base.processor.tokenizer
    assert words.decode(encoded.ids[encoded.query]) == "is"
    assert words.decode(encoded.ids[encoded.query + 1]) == examples[0].label
    assert int(encoded.types.sum()) == 12
    assert words.decode(encoded.ids[encoded.prompt - 1]) == "assistant"


def test_an_epoch_draws_every_example_before_any_twice() -> None:
    order = lora.draw_order(5, recipe(examples_per_epoch=13), 3)
    assert len(order) == 13
    assert sorted(order[:5]) == sorted(order[5:10]) == [0, 1, 2, 3, 4]
    assert order != lora.draw_order(5, recipe(examples_per_epoch=13), 4)
    assert sorted(lora.draw_order(5, recipe(), 0)) == [0, 1, 2, 3, 4]
