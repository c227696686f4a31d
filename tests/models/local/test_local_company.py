"""In company: batches of pictures, copies on several devices, and what fails among others."""

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from stages.imaging import codec
from stages.models.chat.transformers_vlm import TransformersVlm
from stages.models.local import batching
from stages.models.local.faults import OutOfMemory
from stages.models.local.placement import Placement
from stages.models.protocol import CallError, Conversation, Turn
from stages.records.attempt import Box
from tests.models.contract.sighted import (
    DETECTORS,
    EDITORS,
    PACKAGES,
    SEGMENTERS,
    Tiny,
    noise,
)

ALL = {**DETECTORS, **SEGMENTERS, **EDITORS}
PICTURES = [noise(61, 83, seed=n) for n in range(3)] + [noise(40, 72), noise(72, 40)]
PHRASES = ("red cup", "tree", "the red dog of the car", "cup", "a photo of the tree")
BOXES = tuple(
    Box(x0=x0, y0=y0, x1=x1, y1=y1)
    for x0, y0, x1, y1 in ((5, 6, 40.5, 38), (10, 2.25, 39, 24), (20, 20, 40, 40))
)
NAMES = [pytest.param(n, marks=pytest.mark.local(*PACKAGES.get(n, []))) for n in ALL]
BATCHED = [name for name in ALL if name != "flux2 klein"]
"""FLUX.2 takes several pictures as references of one edit."""
LIGHT = [name for name in BATCHED if name != "sam2 package"]
"""The package's own model sees a megapixel however small it is, which takes its time."""
FEW = [pytest.param(n, marks=pytest.mark.local(*PACKAGES.get(n, []))) for n in LIGHT]
TOGETHER = [pytest.param(n, marks=pytest.mark.local(*PACKAGES.get(n, []))) for n in BATCHED]


def made(name: str, tiny: Tiny, **values: Any) -> Any:
    low = {"threshold": 0.0, "top_k": 5} if name in DETECTORS else {}
    return ALL[name](tiny, **{**low, **values})


async def call(adapter: Any, name: str, number: int) -> Any:
    """The reply to one of five calls, as values that are equal where its bytes are."""
    picture = PICTURES[number]
    if name in DETECTORS:
        return (await adapter.detect(picture, PHRASES[number])).boxes
    if name in SEGMENTERS:  # pictures with one box, two and three
        boxes = BOXES[: 1 + number % 3]
        return (await adapter.segment(picture, boxes)).mask.tolist()
    return (await adapter.edit(picture, PHRASES[number], seed=0, attempt=number)).data


def numbers(name: str) -> list[int]:
    """The calls that are made of an adapter."""
    return list(range(2 if name == "sam2 package" else 5))


def replies(adapter: Any, name: str, order: Sequence[int] = ()) -> list[Any]:
    """Replies to calls that wait at the same time; errors as they are."""

    async def run() -> list[Any]:
        calls = (call(adapter, name, number) for number in order or numbers(name))
        return list(await asyncio.gather(*calls, return_exceptions=True))

    return asyncio.run(run())


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the rows of a batch go through together, as they do anywhere but on a CPU.

    A batch waits longer for its calls than it does in earnest, so that a busy machine splits none.
    """
    monkeypatch.setattr(Placement, "most", lambda self, number, size: size)
    monkeypatch.setattr(batching, "LINGER_S", 0.3)
    monkeypatch.setattr(batching, "LINGERS_S", 3.0)


def part(adapter: Any, number: int = 0) -> Any:
    """The module of a copy that sees the pictures of a batch first."""
    if hasattr(adapter, "eye"):
        model = adapter.eye.copy(number)[0]
        return getattr(model, "vision_encoder", model)
    if hasattr(adapter, "pipeline"):
        return adapter._pipeline(number).transformer
    return adapter._predictor(number).model.image_encoder


def first(given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The pictures, or what a transformer is given of them, in the arguments of a module."""
    return named["pixel_values"] if "pixel_values" in named else [*given, *named.values()][0]


@contextmanager
def watched(adapter: Any, copies: int = 1) -> Iterator[list[tuple[int, int]]]:
    """Which copy saw how many pictures, pass by pass."""
    seen: list[tuple[int, int]] = []
    handles = []
    for number in range(copies):

        def note(_: Any, given: Any, named: Any, number: int = number) -> None:
            seen.append((number, len(first(given, named))))

        handles.append(part(adapter, number).register_forward_pre_hook(note, with_kwargs=True))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


@pytest.mark.parametrize("name", NAMES)
def test_a_reply_depends_on_its_call_alone(name: str, tiny: Tiny) -> None:
    size = {} if name == "flux2 klein" else {"batch_size": 4}
    one = made(name, tiny)
    alone = [replies(one, name, [number])[0] for number in numbers(name)]
    assert not any(isinstance(reply, Exception) for reply in alone)
    assert len({str(reply) for reply in alone}) == len(alone)
    together = made(name, tiny, **size)
    assert replies(together, name) == alone
    assert replies(together, name, numbers(name)[::-1]) == alone[::-1]


@pytest.mark.parametrize("name", TOGETHER)
def test_calls_that_wait_go_through_in_one_pass(name: str, tiny: Tiny, as_on_a_gpu: None) -> None:
    alone = replies(made(name, tiny), name)
    several = made(name, tiny, batch_size=4)
    with watched(several) as seen:
        together = replies(several, name)
    sizes = [size for _, size in seen]
    if name in ("grounding dino", "flux kontext"):  # only what is of one size
        assert max(sizes) == 3
    else:
        assert max(sizes) == min(4, len(alone))
    for one, other in zip(alone, together, strict=True):
        assert near(name, one, other), (one, other)


def near(name: str, one: Any, other: Any) -> bool:
    """Equal but for rounding: kernels add up in another order where a batch has another shape."""
    if name in DETECTORS:
        return len(one) == len(other) and all(
            abs(getattr(a, side) - getattr(b, side)) <= 0.02
            for a, b in zip(one, other, strict=True)
            for side in ("x0", "y0", "x1", "y1", "score")
        )
    if name in SEGMENTERS:
        return bool((np.array(one) == np.array(other)).mean() > 0.999)
    pixels = [codec.decode(data).astype(int) for data in (one, other)]
    return bool(abs(pixels[0] - pixels[1]).max() <= 1)


@pytest.mark.parametrize("name", NAMES)
def test_two_copies_give_what_one_gives_and_both_work(name: str, tiny: Tiny) -> None:
    expected = replies(made(name, tiny), name)
    two = made(name, tiny, device=["cpu", "cpu"])
    parts = [part(two, number) for number in (0, 1)]
    assert parts[0] is not parts[1]
    both, waited = threading.Barrier(2, timeout=30), set()

    def meet(module: Any, _: Any) -> None:
        if module not in waited:  # at its first picture each waits for the other
            waited.add(module)
            both.wait()

    handles = [each.register_forward_pre_hook(meet) for each in parts]
    try:
        assert replies(two, name) == expected
    finally:
        for handle in handles:
            handle.remove()
    assert waited == set(parts)


@pytest.mark.parametrize("name", NAMES)
def test_where_and_in_what_company_is_no_part_of_the_identity(name: str, tiny: Tiny) -> None:
    plain = json.dumps(made(name, tiny).identity())
    size = {} if name == "flux2 klein" else {"batch_size": 4}
    for device in ("auto", "all", ["cpu", "cpu"], ["cuda:0", "cuda:1"]):
        assert json.dumps(made(name, tiny, device=device, **size).identity()) == plain


@pytest.mark.parametrize("name", FEW)
def test_a_batch_that_memory_does_not_hold_goes_in_halves(
    name: str, tiny: Tiny, as_on_a_gpu: None
) -> None:
    import torch

    expected = replies(made(name, tiny), name, [0, 1, 2])
    several = made(name, tiny, batch_size=4)
    tried: list[int] = []
    room = 1

    def full(_: Any, given: Any, named: Any) -> None:
        tried.append(len(first(given, named)))
        if tried[-1] > room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nMore.")

    handle = part(several).register_forward_pre_hook(full, with_kwargs=True)
    try:
        found = replies(several, name, [0, 1, 2])
        assert tried[:2] == [3, 1]
        assert set(tried[1:]) == {1}
        assert all(near(name, a, b) for a, b in zip(expected, found, strict=True))
        room = 0
        lost = replies(several, name, [0])
    finally:
        handle.remove()
    assert isinstance(lost[0], OutOfMemory)
    assert "\n" not in str(lost[0])


@pytest.mark.parametrize("name", FEW)
def test_a_picture_that_breaks_the_model_is_lost_alone(
    name: str, tiny: Tiny, as_on_a_gpu: None
) -> None:
    import torch

    expected = replies(made(name, tiny), name, [0, 2])
    several = made(name, tiny, batch_size=4)
    marker: list[Any] = []

    def spoil(_: Any, given: Any, named: Any) -> Any:
        """The picture of call 1 becomes what is no number, wherever it stands in a batch."""
        values = first(given, named)
        if not marker:
            marker.append(values[0].clone())
            return None
        rows = [row.shape == marker[0].shape and torch.equal(row, marker[0]) for row in values]
        if any(rows):
            spoilt = values.clone()
            spoilt[rows] = torch.nan
            given = tuple(spoilt if each is values else each for each in given)
            return given, {n: spoilt if each is values else each for n, each in named.items()}
        return None

    handle = part(several).register_forward_pre_hook(spoil, with_kwargs=True)
    try:
        replies(several, name, [1])  # to see what the model sees of it
        found = replies(several, name, [0, 1, 2])
    finally:
        handle.remove()
    assert isinstance(found[1], CallError)
    assert "no number" in found[1].reason
    assert near(name, expected[0], found[0])
    assert near(name, expected[1], found[2])


@pytest.mark.local
def test_two_copies_of_a_target_both_answer(tiny_qwen3_vl: Any) -> None:
    def conversation(number: int) -> Conversation:
        turn = Turn("user", "what is it ?", (PICTURES[number],))
        return Conversation((turn,), max_tokens=8)

    def answers(model: TransformersVlm) -> list[str]:
        async def run() -> Any:
            calls = (model.complete(conversation(number)) for number in range(5))
            return await asyncio.gather(*calls, return_exceptions=True)

        return [str(each) for each in asyncio.run(run())]

    values: dict[str, Any] = {"model": str(tiny_qwen3_vl), "batch_size": 1}
    two = TransformersVlm(device=["cpu", "cpu"], **values)
    models = [copy.model for copy in two.copies()]
    assert models[0] is not models[1]
    both, seen = threading.Barrier(2, timeout=30), set()

    def meet(module: Any, _: Any) -> None:
        if module not in seen:
            seen.add(module)
            both.wait()

    handles = [model.get_input_embeddings().register_forward_pre_hook(meet) for model in models]
    try:
        assert answers(two) == answers(TransformersVlm(device="cpu", **values))
    finally:
        for handle in handles:
            handle.remove()
    assert len(seen) == 2
    assert two.identity() == TransformersVlm(device="all", **values).identity()


@pytest.mark.local("diffusers")
def test_an_editor_that_wants_one_picture_at_a_time_says_so(tiny: Tiny) -> None:
    with pytest.raises(ValueError, match="one picture at a time"):
        made("flux2 klein", tiny, batch_size=2)
