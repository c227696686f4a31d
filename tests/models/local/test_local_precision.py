"""Half precision: what YAML asks for is what the weights have, and replies are as ever."""

import asyncio
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stages.imaging import codec
from stages.models.chat.transformers_llm import TransformersLlm
from stages.models.chat.transformers_vlm import TransformersVlm
from stages.models.local import placement
from stages.models.local.placement import Placement
from stages.models.protocol import Completion, Conversation, Turn
from stages.records.attempt import Box
from tests.models.contract.sighted import DETECTORS, EDITORS, PACKAGES, SEGMENTERS, Tiny, noise

ALL = {**DETECTORS, **SEGMENTERS, **EDITORS}
NAMES = [pytest.param(n, marks=pytest.mark.local(*PACKAGES.get(n, []))) for n in ALL]
PICTURE = noise(61, 83)


def weights(adapter: Any) -> list[Any]:
    """Every floating parameter that an adapter holds."""
    if hasattr(adapter, "eye"):
        parts = [adapter.eye.copy(0)[0]]
    elif hasattr(adapter, "pipeline"):
        pipeline = adapter._pipeline(0)
        parts = [p for p in pipeline.components.values() if hasattr(p, "parameters")]
    elif hasattr(adapter, "copies"):
        parts = [copy.model for copy in adapter.copies()]
    else:
        parts = [adapter._predictor(0).model]
    found = [named for part in parts for named in part.named_parameters()]
    return [weight for name, weight in found if weight.is_floating_point() and not fine(name)]


def fine(name: str) -> bool:
    """Whether a weight of SAM 2 is of what reads boxes, which stays in float32."""
    return name.startswith(("prompt_encoder.", "shared_image_embedding.", "sam_prompt_encoder."))


async def call(adapter: Any, name: str) -> None:
    """One call, whose reply is of the types that it always is."""
    if name in DETECTORS:
        boxes = (await adapter.detect(PICTURE, "red cup")).boxes
        assert all(type(getattr(box, side)) is float for box in boxes for side in ("x0", "score"))
    elif name in SEGMENTERS:
        mask = (await adapter.segment(PICTURE, (Box(x0=5, y0=6, x1=40.5, y1=50),))).mask
        assert (mask.dtype, mask.shape) == (np.bool_, (61, 83))
    else:
        made = codec.decode((await adapter.edit(PICTURE, "red", seed=0, attempt=1)).data)
        assert made.dtype == np.uint8
        assert made.std() > 0


@pytest.mark.parametrize("name", NAMES)
def test_sixteen_bits_are_what_the_weights_have(name: str, tiny: Tiny) -> None:
    adapter = ALL[name](tiny, dtype="bfloat16")
    asyncio.run(call(adapter, name))
    assert {str(weight.dtype) for weight in weights(adapter)} == {"torch.bfloat16"}
    full = ALL[name](tiny, dtype="float32")
    assert json.dumps(adapter.identity()) != json.dumps(full.identity())


@pytest.mark.parametrize("name", NAMES)
def test_auto_is_float32_without_a_gpu(name: str, tiny: Tiny) -> None:
    adapter = ALL[name](tiny, dtype="auto")
    assert {str(weight.dtype) for weight in weights(adapter)} == {"torch.float32"}


@pytest.mark.local
@pytest.mark.parametrize(("dtype", "held"), [("bfloat16", "bfloat16"), ("auto", "float32")])
@pytest.mark.parametrize("kind", ["vlm", "llm"])
def test_chat_models_have_it_too(
    kind: str, dtype: str, held: str, tiny_qwen3_vl: Path, tiny_causal_lm: Path
) -> None:
    made: Any = TransformersVlm if kind == "vlm" else TransformersLlm
    folder = tiny_qwen3_vl if kind == "vlm" else tiny_causal_lm
    model = made(str(folder), device="cpu", dtype=dtype)
    shown = (PICTURE,) if kind == "vlm" else ()
    asked = Conversation((Turn("user", "what is it ?", shown),), max_tokens=64)

    async def ask() -> list[Any]:
        return await asyncio.gather(model.complete(asked), return_exceptions=True)

    (reply,) = asyncio.run(ask())
    assert isinstance(reply, Completion) or "limit" in str(reply)
    assert {str(weight.dtype) for weight in weights(model)} == {f"torch.{held}"}


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Two GPUs that are not there, of which one may be too old for bfloat16."""
    import torch

    able = {"cuda:0": True, "cuda:1": True}
    now = ["cuda:0"]

    def at(device: str) -> Any:
        now[0] = device
        return nullcontext()

    monkeypatch.setattr(placement, "_gpus", lambda: 2)
    monkeypatch.setattr(torch.cuda, "device", at)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: able[now[0]])
    return able


@pytest.mark.local
def test_auto_is_bfloat16_where_every_gpu_calculates_in_it(gpus: dict[str, bool]) -> None:
    both = ["cuda:0", "cuda:1"]
    spread = Placement("auto", "auto", "auto")
    assert Placement(both, "auto").settled == spread.settled == "bfloat16"
    assert Placement(["cuda:0", "cpu"], "auto").settled == "float32"
    gpus["cuda:1"] = False
    assert Placement("cuda:0", "auto").settled == "bfloat16"
    assert Placement(both, "auto").settled == spread.settled == "float32"
    assert Placement(both, "float16").settled == "float16"
    assert Placement(both, "checkpoint").settled == "auto"


@pytest.mark.local
def test_all_is_a_copy_on_every_gpu(gpus: dict[str, bool]) -> None:
    assert Placement("all").devices() == ("cuda:0", "cuda:1")
    assert [Placement("all").place(n) for n in (0, 1)] == [("cuda:0", 0), ("cuda:1", 0)]
    twice = Placement(["cuda:1", "cpu", "cuda:1"])
    assert [twice.place(n) for n in range(3)] == [("cuda:1", 0), ("cpu", 0), ("cuda:1", 1)]
    assert [twice.most(n, 4) for n in range(3)] == [4, 1, 4]


def test_what_auto_means_does_not_name_a_model() -> None:
    """A run from a GPU is found again without one; `checkpoint` has the name that it had."""
    named = [Placement("cpu", dtype).precision for dtype in ("auto", "checkpoint", "bfloat16")]
    assert named == ["bfloat16 or float32", "auto", "bfloat16"]
