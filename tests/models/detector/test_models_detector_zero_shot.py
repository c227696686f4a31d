"""Zero-shot detectors against the library's own pipeline, and what they do with faults."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stages.models.detector.zero_shot import ZeroShot
from stages.models.local.placement import Placement
from stages.models.picture import Picture
from stages.models.protocol import CallError, Detector
from stages.records.base import Status
from stages.records.errors import UserError
from stages.workflow import adapters
from tests.models.contract.sighted import Tiny, noise

pytestmark = pytest.mark.local
PICTURE = noise(61, 83)


def boxes(folder: str, phrase: str = "red cup", picture: Picture = PICTURE, **values: Any) -> Any:
    detector = ZeroShot(folder, device="cpu", **values)
    return asyncio.run(detector.detect(picture, phrase)).boxes


@pytest.mark.parametrize(
    ("name", "template", "label"),
    [
        ("owlv2", "a photo of a {phrase}", "a photo of a red cup"),
        ("owlvit", "{phrase}", "red cup"),
        ("grounding_dino", "{phrase}", "red cup."),
    ],
)
def test_boxes_are_those_of_the_librarys_pipeline(
    tiny: Tiny, name: str, template: str, label: str
) -> None:
    from PIL import Image
    from transformers import pipeline

    folder = tiny(name)
    reference = pipeline("zero-shot-object-detection", model=folder, device="cpu")
    found = reference(Image.fromarray(PICTURE.pixels), candidate_labels=[label], threshold=0.4)
    inside = [
        (*(max(each["box"][side], 0) for side in ("xmin", "ymin")), each["score"])
        for each in found
        if each["box"]["xmin"] < 83 and each["box"]["ymin"] < 61
    ]
    ours = boxes(folder, template=template, threshold=0.4)
    assert len(ours) == len(inside) > 2
    for box, (x0, y0, score) in zip(ours, inside, strict=True):
        assert (int(box.x0), int(box.y0)) == (x0, y0)
        assert box.score == pytest.approx(score, abs=1e-4)


def test_pictures_of_one_size_go_through_together(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny("grounding_dino")
    pictures = [noise(61, 83, seed=n) for n in range(3)] + [noise(40, 40)]
    alone = [boxes(folder, f"red {word}", p) for p, word in zip(pictures, "abcd", strict=True)]
    detector = ZeroShot(folder, device="cpu", batch_size=3)
    monkeypatch.setattr(Placement, "most", lambda *_: 3)  # as on a GPU
    model, _ = detector.eye.copy(0)
    seen: list[int] = []
    forward = model.forward

    def counted(**inputs: Any) -> Any:
        seen.append(len(inputs["pixel_values"]))
        return forward(**inputs)

    monkeypatch.setattr(model, "forward", counted)

    async def together() -> list[Any]:
        calls = (
            detector.detect(p, f"red {word}") for p, word in zip(pictures, "abcd", strict=True)
        )
        return [each.boxes for each in await asyncio.gather(*calls)]

    found = asyncio.run(together())
    assert sorted(seen) == [1, 3]
    for first, second in zip(found, alone, strict=True):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert one.x0 == pytest.approx(other.x0, abs=0.02)
            assert one.score == pytest.approx(other.score, abs=1e-3)


def test_half_precision_is_near_and_another_detector(tiny: Tiny) -> None:
    folder = tiny("owlv2")
    full, half = (boxes(folder, threshold=0.0, dtype=name) for name in ("float32", "bfloat16"))
    assert len(full) == len(half)
    best = max(full, key=lambda each: each.score)
    assert any(abs(best.x0 - each.x0) < 1 and abs(best.score - each.score) < 0.02 for each in half)
    identities = [ZeroShot(folder, dtype=name).identity() for name in ("float32", "bfloat16")]
    assert identities[0] != identities[1]


def test_what_is_no_number_is_no_reply(tiny: Tiny) -> None:
    import torch

    detector = ZeroShot(tiny("owlv2"), device="cpu")
    model, _ = detector.eye.copy(0)
    weight = model.box_head.dense2.bias
    before = weight.data.clone()
    try:
        weight.data.fill_(torch.nan)
        with pytest.raises(CallError, match="no number") as caught:
            asyncio.run(detector.detect(PICTURE, "cup"))
    finally:
        weight.data.copy_(before)
    assert caught.value.status is Status.API_ERROR


def test_a_lack_of_memory_ends_the_run_in_one_line(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    detector = ZeroShot(tiny("owlv2"), device="cpu")

    def full(**_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nMore.")

    monkeypatch.setattr(detector.eye.copy(0)[0], "forward", full)
    with pytest.raises(UserError, match="memory of the device") as caught:
        asyncio.run(detector.detect(PICTURE, "cup"))
    assert "\n" not in str(caught.value)


def test_weights_that_are_not_whole_or_of_another_kind_are_one_line(
    tiny: Tiny, tmp_path: Path
) -> None:
    from safetensors.numpy import load_file, save_file

    folder = Path(tiny("owlv2"))
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    weights.pop("class_head.dense0.weight")
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    for wrong, says in (
        (str(tmp_path), "lacks 1 of the weights"),
        (tiny("sam2"), "can't be loaded"),
    ):
        with pytest.raises(UserError, match=says) as caught:
            boxes(wrong)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"template": "cup"}, "phrase"),
        ({"template": "{phrase}."}, "full stop"),
        ({"threshold": 1.5}, "threshold"),
        ({"nms_iou": -1}, "nms_iou"),
        ({"top_k": 0}, "top_k"),
        ({"dtype": "int8"}, "dtype"),
        ({"batch_size": 0}, "batch_size"),
        ({"device": "tpu"}, "device"),
        ({"size": 3}, "size"),
    ],
)
def test_bad_values_name_themselves(tiny: Tiny, values: Any, says: str) -> None:
    config = {"_target_": "stages.models.detector.zero_shot.ZeroShot", "model": tiny("owlv2")}
    with pytest.raises(UserError, match=says):
        adapters.build({"detector": {**config, **values}}, "detector", Detector)


def test_all_that_shapes_the_boxes_is_in_the_identity(tiny: Tiny) -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"template": "a {phrase}"},
        {"threshold": 0.1},
        {"nms_iou": 0.5},
        {"top_k": 3},
        {"dtype": "bfloat16"},
        {"model": tiny("owlvit")},
    ]
    made = [json.dumps(ZeroShot(**{"model": tiny("owlv2"), **v}).identity()) for v in variants]
    assert len(set(made)) == len(variants)
    assert json.dumps(ZeroShot(tiny("owlv2"), device="cpu", batch_size=4).identity()) == made[0]


def test_a_dark_picture_is_no_fault(tiny: Tiny) -> None:
    dark = Picture.of(np.zeros((61, 83, 3), np.uint8))
    for name in ("grounding_dino", "owlv2"):
        assert boxes(tiny(name), picture=dark, threshold=1.0) == ()
