"""Low-rank adapters (LoRA, doi:10.48550/arXiv.2106.09685) on any vision-language model of
Transformers, with the base in full precision or in four bits (Q-LoRA, arXiv:2305.14314).

The adapter is on the language model; the encoder of images stays as it is. What an epoch draws
hangs on seed and epoch alone, so that a training which was killed goes on to the same end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stages.models.fingerprint import fingerprint
from stages.models.local.faults import release_of
from stages.records.errors import UserError
from stages.training.examples import Example
from stages.training.losses import by_example
from stages.training.progress import Progress
from stages.training.prompting import Prompting, collate

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Recipe:
    """How an adapter is trained."""

    rank: int
    """Rank of the adapter."""
    alpha: int
    """Its scale is alpha / rank."""
    dropout: float
    """Share of its inputs that are dropped in training, in [0, 1)."""
    modules: str
    """Regular expression over names of modules: those that get an adapter."""
    epochs: tuple[int, ...]
    """Epochs at which the adapter is kept and looked at, from 0 on; the last one ends."""
    examples_per_epoch: int | None
    """Examples drawn in an epoch; None: each once."""
    batch: int
    """Examples that go through the model together."""
    accumulate: int
    """Such batches to a step of the optimiser."""
    rate: float
    """Largest learning rate; 5 % of the steps warm up, a cosine brings it to 0."""
    seed: int
    """Of the adapter's weights, of the order, and of dropout."""


State = Mapping[str, "Tensor"]


def made_by(*, quantized: bool) -> dict[str, Any]:
    """Digest of the code and releases of the libraries that train an adapter."""
    parts = ("base", "losses", "lora", "progress", "prompting")
    code = (*(f"stages.training.{part}" for part in parts), "stages.models.local.images")
    names = ("torch", "torchvision", "transformers", "peft", *(["bitsandbytes"] * quantized))
    return {"code": fingerprint(*code), "libraries": [release_of(name) for name in names]}


def add_adapter(model: Any, recipe: Recipe) -> Any:
    """Put a new adapter on a model; it changes nothing until it is trained."""
    import torch
    from peft import LoraConfig, get_peft_model

    quantized = getattr(model, "is_loaded_in_4bit", False)
    if quantized:
        from peft import prepare_model_for_kbit_training

        model = prepare_model_for_kbit_training(model)
    torch.manual_seed(recipe.seed)
    config = LoraConfig(
        r=recipe.rank,
        lora_alpha=recipe.alpha,
        lora_dropout=recipe.dropout,
        target_modules=recipe.modules,
        task_type="CAUSAL_LM",
    )
    try:
        return get_peft_model(model, config)
    except ValueError as error:
        what = " ".join(str(error).split())[:200]
        raise UserError("finetune: modules", what, "Name modules of this model.") from None


def state_of(tuned: Any) -> dict[str, Tensor]:
    """The adapter's weights, a copy on the CPU."""
    from peft import get_peft_model_state_dict

    held = get_peft_model_state_dict(tuned)
    return {name: weight.detach().cpu().clone() for name, weight in held.items()}


def put_state(tuned: Any, state: State) -> None:
    """Give the adapter other weights."""
    from peft import set_peft_model_state_dict

    set_peft_model_state_dict(tuned, dict(state))


def save(tuned: Any, folder: Path) -> None:
    """Write the adapter as PEFT loads it, without its card and without a path."""
    folder.mkdir(parents=True, exist_ok=True)
    tuned.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_config.json"
    held = json.loads(path.read_text(encoding="utf-8"))
    held["base_model_name_or_path"] = None  # where the base lies on this machine
    path.write_text(json.dumps(held, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def train(
    tuned: Any,
    prompting: Prompting,
    examples: Sequence[Example],
    recipe: Recipe,
    progress: Progress,
    *,
    pad: int,
    told: Callable[[str], None] = print,
) -> tuple[dict[int, State], list[tuple[int, float, float]]]:
    """Train an adapter, going on from the last state where there is one.

    Returns
    -------
    dict
        Epoch → the adapter's weights, for each of ``recipe.epochs``.
    list of (int, float, float)
        Epoch, mean loss and share of exact answers, of the examples as they were trained on.
    """
    import torch

    weights = [weight for weight in tuned.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=recipe.rate, weight_decay=0.0)
    start, notes = progress.resume(tuned, optimiser, wanted=recipe.epochs)
    curve = [(int(e), float(loss), float(exact)) for e, loss, exact in notes.get("curve", [])]
    if start:
        told(f"goes on after epoch {start}")
    else:
        progress.keep(0, state_of(tuned))
    for epoch in range(start, recipe.epochs[-1]):
        curve.append(
            (epoch + 1, *_epoch(tuned, prompting, examples, recipe, optimiser, epoch, pad))
        )
        if epoch + 1 in recipe.epochs:
            progress.keep(epoch + 1, state_of(tuned))
        last = epoch + 1 == recipe.epochs[-1]
        progress.reached(epoch + 1, tuned, optimiser, {"curve": curve}, now=last)
    return {epoch: progress.kept(epoch) for epoch in recipe.epochs}, curve


def _epoch(
    tuned: Any,
    prompting: Prompting,
    examples: Sequence[Example],
    recipe: Recipe,
    optimiser: Any,
    epoch: int,
    pad: int,
) -> tuple[float, float]:
    """Train for one epoch; mean loss and share of exact answers."""
    import torch

    torch.manual_seed(int(np.random.default_rng([recipe.seed, epoch]).integers(2**31)))
    order = draw_order(len(examples), recipe, epoch)
    step = recipe.batch * recipe.accumulate
    steps = -(-len(order) // step)
    losses: list[float] = []
    exacts: list[bool] = []
    tuned.train()
    for number in range(steps):
        drawn = order[number * step : (number + 1) * step]
        done = epoch * steps + number
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate * rate_at(done, steps * recipe.epochs[-1])
        optimiser.zero_grad(set_to_none=True)
        for start in range(0, len(drawn), recipe.batch):
            part = drawn[start : start + recipe.batch]
            inputs = collate([prompting.encode(examples[i]) for i in part], pad, tuned.device)
            labels = inputs.pop("labels")
            loss, exact = by_example(tuned(**inputs, use_cache=False).logits, labels)
            (loss.sum() / len(drawn)).backward()
            losses += loss.tolist()
            exacts += exact.tolist()
        torch.nn.utils.clip_grad_norm_([w for w in tuned.parameters() if w.requires_grad], 1.0)
        optimiser.step()
    return float(np.mean(losses)), float(np.mean(exacts))


def draw_order(count: int, recipe: Recipe, epoch: int) -> list[int]:
    """Indices of the examples of an epoch, in order: whole rounds first, then part of one."""
    rng = np.random.default_rng([recipe.seed, epoch, 1])
    wanted = recipe.examples_per_epoch or count
    rounds = [rng.permutation(count) for _ in range(-(-wanted // count))]
    return [int(i) for i in np.concatenate(rounds)[:wanted]]


def rate_at(step: int, steps: int) -> float:
    """Share of the largest learning rate at a step."""
    warm = max(1, round(0.05 * steps))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + float(np.cos(np.pi * (step - warm) / max(1, steps - warm))))
