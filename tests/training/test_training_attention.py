"""Attention of a model: read where it was put."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stages.models.picture import Picture
from stages.records.errors import UserError
from stages.training.attention import attend, attention_map
from stages.training.base import Base
from stages.training.examples import Example
from stages.training.prompting import Encoded, Prompting

pytestmark = pytest.mark.local("peft")


@pytest.fixture
def model(weights: Path) -> Any:
    return Base.load(weights.parent, weights.name)


@pytest.fixture
def encoded(model: Any, drawn: dict[str, Picture], examples: list[Example]) -> Encoded:
    prompting = Prompting(
        model.processor, lambda text: text, "It is {label}.", lambda e: drawn[e.image]
    )
    return prompting.encode(examples[0])


def plant(base: Any, encoded: Encoded, layer: int, token: int, strength: float = 40.0) -> None:
    """Let the first head of a layer look at one image token from the place that is asked: what it
    would give is raised there before the softmax, in the library's own eager attention."""
    from transformers.models.qwen3_vl import modeling_qwen3_vl as source

    attention = base.model.model.language_model.layers[layer - 1].self_attn
    column = int(np.flatnonzero(encoded.types.numpy() == 1)[token])
    plain = source.eager_attention_forward

    def raised(
        module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **more: Any
    ) -> Any:
        if module is attention:
            attention_mask = attention_mask.expand(-1, query.shape[1], -1, -1).clone()
            attention_mask[:, 0, encoded.query, column] += strength
        return plain(module, query, key, value, attention_mask, **more)

    source.eager_attention_forward = raised


@pytest.fixture(autouse=True)
def _restored() -> Any:
    from transformers.models.qwen3_vl import modeling_qwen3_vl as source

    plain = source.eager_attention_forward
    yield
    source.eager_attention_forward = plain


@pytest.mark.parametrize("token", [0, 6, 11])
def test_attention_that_was_put_on_a_token_is_found_there(
    model: Any, encoded: Encoded, token: int
) -> None:
    plant(model, encoded, 2, token)
    found = attention_map(model.model, encoded, [2], sink_ratio=None, drop=25)
    assert found.values.shape == (3, 4)
    assert found.values.argmax() == token
    assert found.values.ravel()[token] > 0.9


def test_other_layers_are_not_looked_at(model: Any, encoded: Encoded) -> None:
    plant(model, encoded, 1, 6)
    there = attend(model.model, encoded, [1]).query
    elsewhere = attend(model.model, encoded, [2]).query
    assert there[0, 0].argmax() == 6
    assert there[0, 0, 6] > 0.99
    assert elsewhere[0, 0, 6] < 0.5


def test_rows_are_shares_and_tokens_are_those_of_the_image(model: Any, encoded: Encoded) -> None:
    found = attend(model.model, encoded, [1, 2])
    assert found.query.shape == (2, 4, 12)
    assert found.grid == (3, 4)
    assert (found.query >= 0).all()
    assert (found.query.sum(axis=2) < 1).all()
    assert found.background.shape == (2, 12)


def test_no_eager_attention_is_an_error(model: Any, encoded: Encoded) -> None:
    model.model.set_attn_implementation("sdpa")
    with pytest.raises(UserError, match="eager"):
        attend(model.model, encoded, [1])


@pytest.mark.parametrize("layers", [[0], [3], []])
def test_a_layer_that_is_not_there_is_an_error(
    model: Any, encoded: Encoded, layers: list[int]
) -> None:
    with pytest.raises(UserError, match="layers"):
        attend(model.model, encoded, layers)
