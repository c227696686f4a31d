"""Half precision for what looks, and float32 for what reads boxes.

Of a coordinate between -1 and 1 bfloat16 keeps eight bits, some pixels of a photograph. So the
encoder of prompts stays in float32, and what it says is rounded where the next part takes it up.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def reading_boxes_in_full(model: Any, *, reads: Sequence[str], takes: Sequence[str]) -> Any:
    """Give a model in half precision parts in float32, and return it.

    Parameters
    ----------
    model : torch.nn.Module
        The model; in float32 it stays as it is.
    reads : sequence of str
        Its parts that read boxes.
    takes : sequence of str
        Its parts that take up what those say: floating tensors are rounded to their precision.
    """
    import torch

    for name in takes:
        part = getattr(model, name)
        dtype = next(part.parameters()).dtype
        if dtype == torch.float32:
            return model
        part.register_forward_pre_hook(_rounding(dtype), with_kwargs=True)
    for name in reads:
        getattr(model, name).float()
    return model


def _rounding(dtype: Any) -> Any:
    import torch

    def rounded(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(rounded(each) for each in value)
        floats = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.to(dtype) if floats else value

    def enter(_: Any, given: Any, named: Mapping[str, Any]) -> Any:
        return rounded(given), {name: rounded(value) for name, value in named.items()}

    return enter
