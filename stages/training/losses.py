"""Loss and exactness of answers, example by example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stages.training.examples import Example
from stages.training.prompting import IGNORED, Prompting, collate

if TYPE_CHECKING:
    from torch import Tensor


def by_example(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Loss and exactness of each row.

    Parameters
    ----------
    logits : (B, L, V)
        Output at each place.
    labels : (B, L)
        The token at each place where it is taught, -100 elsewhere.

    Returns
    -------
    (B,) tensor
        Mean negative log-likelihood of the taught tokens, in nats.
    (B,) bool tensor
        Whether each taught token was the likeliest, which is what greedy decoding gives.
    """
    from torch.nn import functional

    ahead, wanted = logits[:, :-1].float(), labels[:, 1:]
    taught = wanted != IGNORED
    losses = functional.cross_entropy(
        ahead.transpose(1, 2), wanted, ignore_index=IGNORED, reduction="none"
    )
    exact = (ahead.argmax(-1) == wanted) | ~taught
    return losses.sum(1) / taught.sum(1), exact.all(1)


def read(
    model: Any, prompting: Prompting, examples: Sequence[Example], *, batch: int, pad: int
) -> list[tuple[float, bool]]:
    """Loss and exactness of examples as a model stands."""
    import torch

    found: list[tuple[float, bool]] = []
    model.eval()
    for start in range(0, len(examples), batch):
        encoded = [prompting.encode(e) for e in examples[start : start + batch]]
        inputs = collate(encoded, pad, model.device)
        labels = inputs.pop("labels")
        with torch.inference_mode():
            losses, exact = by_example(model(**inputs).logits, labels)
        found += zip(losses.tolist(), exact.tolist(), strict=True)
    return found
