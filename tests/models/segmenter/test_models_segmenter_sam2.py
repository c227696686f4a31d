"""SAM 2 by both packages: against each other, against their own way of use, and with faults."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from stages.models.picture import Picture
from stages.models.protocol import CallError, Segmenter
from stages.models.segmenter.sam2 import Sam2
from stages.models.segmenter.sam2_package import Sam2Package
from stages.records.attempt import Box
from stages.records.errors import UserError
from stages.workflow import adapters
from tests.models.contract.sighted import Tiny, noise

pytestmark = pytest.mark.local("sam2")
CORNERS = [[30.0, 40.0, 90.0, 100.0], [100.0, 10.0, 150.5, 60.0]]
BOXES = tuple(Box(x0=x0, y0=y0, x1=x1, y1=y1) for x0, y0, x1, y1 in CORNERS)


@pytest.fixture(scope="module")
def smooth() -> Picture:
    """A soft picture, so that how it is scaled makes no difference."""
    blurred = cv2.GaussianBlur(noise(120, 160).pixels, (0, 0), 8)
    return Picture.of(cv2.normalize(blurred, np.empty(0), 0, 255, cv2.NORM_MINMAX))


def mask(segmenter: Segmenter, picture: Picture, boxes: tuple[Box, ...] = BOXES) -> np.ndarray:
    return asyncio.run(segmenter.segment(picture, boxes)).mask


@pytest.fixture(scope="module")
def package(tiny: Tiny) -> Sam2Package:
    folder = tiny("sam2_package")
    return Sam2Package(folder, "tiny.pt", f"{folder}/tiny.yaml", device="cpu")


def test_both_packages_give_the_same_masks_from_the_same_weights(
    package: Sam2Package, tiny: Tiny, tmp_path: Path, smooth: Picture
) -> None:
    from tests.models.local.tiny_sam2 import as_transformers

    folder = as_transformers(Path(tiny("sam2_package")) / "tiny.pt", tmp_path / "same")
    ours = Sam2(str(folder), device="cpu")
    for boxes in (BOXES, BOXES[:1], BOXES[1:]):
        first, second = mask(package, smooth, boxes), mask(ours, smooth, boxes)
        assert 0.1 < first.mean() < 0.9
        assert (first == second).mean() > 0.99


def test_masks_are_those_of_the_processors_own_reading(tiny: Tiny, smooth: Picture) -> None:
    import torch
    from PIL import Image
    from transformers import Sam2Model, Sam2Processor

    folder = tiny("sam2")
    model, processor = Sam2Model.from_pretrained(folder), Sam2Processor.from_pretrained(folder)
    inputs = processor(Image.fromarray(smooth.pixels), input_boxes=[CORNERS], return_tensors="pt")
    for multimask in (False, True):
        with torch.no_grad():
            outputs = model(**inputs, multimask_output=multimask)
        read = processor.post_process_masks(outputs.pred_masks, inputs["original_sizes"])[0]
        best = outputs.iou_scores[0].argmax(-1)
        expected = read[torch.arange(2), best].any(0).numpy()
        found = mask(Sam2(folder, multimask=multimask, device="cpu"), smooth)
        assert np.array_equal(found, expected)


def test_three_masks_are_proposed_and_the_best_is_taken(tiny: Tiny, smooth: Picture) -> None:
    folder = tiny("sam2_package")
    several = Sam2Package(folder, "tiny.pt", f"{folder}/tiny.yaml", multimask=True, device="cpu")
    predictor = several._predictor(0)
    predictor.set_image(smooth.pixels.copy())
    proposed, quality, _ = predictor.predict(box=np.array(CORNERS[0]), multimask_output=True)
    assert len(proposed) == 3
    assert np.array_equal(mask(several, smooth, BOXES[:1]), proposed[quality.argmax()] > 0)


@pytest.fixture
def empty_path() -> Iterator[Any]:
    from hydra.core.global_hydra import GlobalHydra

    state = GlobalHydra.instance()
    before, state.hydra = state.hydra, None
    yield state
    state.hydra = before


def test_hydras_search_path_is_left_as_it_was(tiny: Tiny, empty_path: Any, tmp_path: Path) -> None:
    from hydra import compose, initialize_config_dir

    folder = tiny("sam2_package")
    made = Sam2Package(folder, "tiny.pt", f"{folder}/tiny.yaml", device="cpu")
    made._build("cpu")
    assert not empty_path.is_initialized()
    (tmp_path / "own.yaml").write_text("k: 2\n")
    with initialize_config_dir(str(tmp_path), version_base=None):
        made._build("cpu")
        assert compose("own").k == 2


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"file": "none.pt"}, "holds no none.pt"),
        ({"config": "none.yaml"}, "neither a file nor known"),
        ({"file": "tiny.yaml"}, "can't be loaded"),
        ({"config": "configs/sam2.1/sam2.1_hiera_t.yaml"}, "can't be loaded"),
        ({"model": "no/such/folder"}, "neither a folder nor a model id"),
    ],
)
def test_what_can_not_be_loaded_is_one_line(
    tiny: Tiny, values: Any, says: str, smooth: Picture
) -> None:
    folder = tiny("sam2_package")
    config = {"model": folder, "file": "tiny.pt", "config": f"{folder}/tiny.yaml", **values}
    config["_target_"] = "stages.models.segmenter.sam2_package.Sam2Package"
    with pytest.raises(UserError, match=says) as caught:
        mask(adapters.build({"segmenter": config}, "segmenter", Segmenter), smooth)
    assert "\n" not in str(caught.value)


def test_what_is_no_number_is_no_mask(tiny: Tiny, smooth: Picture) -> None:
    import torch

    segmenter = Sam2(tiny("sam2"), device="cpu")
    weight = segmenter.eye.copy(0)[0].mask_decoder.upscale_conv2.bias
    before = weight.data.clone()
    try:
        weight.data.fill_(torch.nan)
        with pytest.raises(CallError, match="no number"):
            mask(segmenter, smooth)
    finally:
        weight.data.copy_(before)


@pytest.mark.parametrize("kind", ["sam2", "sam3_tracker", "sam2_package"])
def test_boxes_are_read_in_full_whatever_the_precision(
    kind: str, tiny: Tiny, smooth: Picture
) -> None:
    """Corners a tenth of a pixel apart are one number in bfloat16."""

    def read(dtype: str) -> Any:
        folder, seen = tiny(kind), []
        if kind == "sam2_package":
            made: Any = Sam2Package(
                folder, "tiny.pt", f"{folder}/tiny.yaml", device="cpu", dtype=dtype
            )
            encoder = made._predictor(0).model.sam_prompt_encoder
        else:
            made = Sam2(folder, kind=kind, device="cpu", dtype=dtype)
            encoder = made.eye.copy(0)[0].prompt_encoder

        def look(_: Any, given: Any, named: Any, said: Any) -> None:
            asked = named["points"][0] if kind == "sam2_package" else named["input_boxes"]
            seen.append((asked, said[0]))

        handle = encoder.register_forward_hook(look, with_kwargs=True)
        near = (Box(x0=30.0, y0=40.0, x1=90.0, y1=100.0), Box(x0=30.1, y0=40, x1=90, y1=100))
        try:
            for box in near:
                mask(made, smooth, (box,))
        finally:
            handle.remove()
        return seen

    full, half = read("float32"), read("bfloat16")
    for (asked, _), (again, said) in zip(full, half, strict=True):
        assert asked.equal(again)
        assert str(said.dtype) == "torch.float32"
    assert not half[0][1].equal(half[1][1])
    assert not full[0][0].equal(full[0][0].bfloat16().float())


def test_an_unknown_kind_names_the_known_ones(tiny: Tiny) -> None:
    with pytest.raises(ValueError, match="sam2, sam3_tracker"):
        Sam2(tiny("sam2"), kind="sam1")
