"""Weights that are cut off, do not fit, change while they load, or are no numbers."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stages.models.chat.transformers_llm import TransformersLlm
from stages.models.local.checkpoint import Checkpoint
from stages.models.local.loading import pretrained
from stages.models.local.placement import Placement
from stages.models.protocol import CallError, Completion, Conversation, Turn
from stages.records.errors import UserError

pytestmark = pytest.mark.local


@pytest.fixture
def weights(tiny_causal_lm: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_causal_lm, tmp_path / "weights"))


def lora(weights: Path, folder: Path) -> Path:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    base = AutoModelForCausalLM.from_pretrained(weights)
    config = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    get_peft_model(base, config).save_pretrained(folder)
    return folder


def rewrite(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    from safetensors.torch import load_file, save_file

    save_file(change(load_file(path)), path, metadata={"format": "pt"})


def answer(model: TransformersLlm, text: str = "why ?") -> Completion:
    conversation = Conversation((Turn("user", text),), max_tokens=40)
    return asyncio.run(model.complete(conversation))


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_weights_that_are_cut_off_are_one_line(weights: Path, share: float) -> None:
    path = weights / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(UserError, match="Check that the checkpoint is whole"):
        TransformersLlm(str(weights), device="cpu").copies()


@pytest.mark.local("peft")
@pytest.mark.parametrize(
    ("damage", "said"),
    [("cut", "can't be loaded"), ("part", "lacks 11 weights"), ("names", "lacks 12 weights")],
)
def test_an_adapter_that_does_not_fit_or_is_not_whole_is_one_line(
    weights: Path, tmp_path: Path, damage: str, said: str
) -> None:
    adapter = lora(weights, tmp_path / "lora")
    made = TransformersLlm(str(weights), device="cpu", adapter=str(adapter))
    assert len(made.copies()) == 1
    path = adapter / "adapter_model.safetensors"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:200])
    elif damage == "part":
        rewrite(path, lambda held: dict(list(held.items())[:1]))
    else:
        rewrite(path, lambda held: {k.replace(".layers", ".blocks"): v for k, v in held.items()})
    with pytest.raises(UserError, match=said):
        TransformersLlm(str(weights), device="cpu", adapter=str(adapter)).copies()


@pytest.mark.local("peft")
def test_an_adapter_with_more_than_the_model_takes_is_one_line(
    weights: Path, tmp_path: Path
) -> None:
    adapter = lora(weights, tmp_path / "lora")
    path = adapter / "adapter_model.safetensors"
    rewrite(
        path,
        lambda held: {**held, **{k.replace("q_proj", "z_proj"): v + 1 for k, v in held.items()}},
    )
    with pytest.raises(UserError, match="has 6 weights"):
        TransformersLlm(str(weights), device="cpu", adapter=str(adapter)).copies()


@pytest.mark.local("peft")
@pytest.mark.parametrize("where", ["weights", "lora"])
def test_replies_are_never_stored_under_the_name_of_other_weights(
    weights: Path, tmp_path: Path, where: str
) -> None:
    adapter = lora(weights, tmp_path / "lora")
    model = TransformersLlm(str(weights), device="cpu", adapter=str(adapter))
    model.identity()
    for path in (tmp_path / where).glob("*.safetensors"):
        rewrite(path, lambda held: {name: value * 1.5 for name, value in held.items()})
    with pytest.raises(UserError, match="changed while it was loaded"):
        answer(model)


def test_weights_that_changed_are_refused_without_their_tokenizer(weights: Path) -> None:
    checkpoint = Checkpoint(str(weights))
    checkpoint.identity()
    rewrite(weights / "model.safetensors", lambda held: {name: w * 1.5 for name, w in held.items()})
    with pytest.raises(UserError, match="changed while it was loaded"):
        pretrained("AutoModelForCausalLM", checkpoint, Placement("cpu"))


def test_weights_in_memory_do_not_answer_for_what_the_folder_holds_now(weights: Path) -> None:
    before = TransformersLlm(str(weights), device="cpu")
    before.copies()
    path = weights / "model.safetensors"
    rewrite(path, lambda held: {name: value * 1.5 for name, value in held.items()})
    after = TransformersLlm(str(weights), device="cpu")
    assert after.identity() != before.identity()
    assert after.copies()[0].model is not before.copies()[0].model


@pytest.mark.parametrize("generation", [None, {"do_sample": True}])
def test_weights_that_are_no_numbers_are_said_to_be(
    weights: Path, generation: dict[str, Any] | None
) -> None:
    path = weights / "model.safetensors"
    rewrite(path, lambda held: {name: value * float("nan") for name, value in held.items()})
    with pytest.raises(CallError, match="api_error: the weights give no finite numbers"):
        answer(TransformersLlm(str(weights), device="cpu", generation=generation))


def test_what_is_no_number_after_a_reply_ended_is_no_fault_of_it() -> None:
    import torch

    from stages.models.local.sampling import Watched

    watched = Watched()
    good, nan, full = [0.0, -torch.inf], [0.0, torch.nan], [torch.inf, 0.0]
    for step in ([good, good, good], [good, nan, good], [good, good, full]):
        scores = torch.tensor(step)
        assert watched(None, scores) is scores
    assert watched.first() == [None, 1, 2]


def test_a_reply_that_ended_before_is_kept(tiny_causal_lm: Path) -> None:
    model = TransformersLlm(str(tiny_causal_lm), device="cpu")
    copy = model.copies()[0]
    tokens = copy.tokenizer("yes red !", add_special_tokens=False)["input_ids"]
    assert isinstance(model._completion(copy, tokens, 1, 3), Completion)
    assert isinstance(model._completion(copy, tokens, 1, 2), CallError)


def test_half_of_a_surrogate_pair_is_an_error_of_its_call(tiny_causal_lm: Path) -> None:
    with pytest.raises(CallError, match="api_error: the prompt is not valid Unicode"):
        answer(TransformersLlm(str(tiny_causal_lm), device="cpu"), "why \ud800 ?")
