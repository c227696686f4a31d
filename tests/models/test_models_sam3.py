"""SAM 3 as detector and as segmenter: against its processor's own reading."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stages.models.sam3 import Sam3
from stages.records.attempt import Box
from tests.models.contract.sighted import Tiny, noise

pytestmark = pytest.mark.local
PICTURE = noise(61, 83)
BOX = Box(x0=20.0, y0=5.0, x1=80.0, y1=50.0)


def made(tiny: Tiny, **values: Any) -> Sam3:
    return Sam3(tiny("sam3"), **{"threshold": 0.2, "device": "cpu", **values})


def reference(tiny: Tiny, **prompt: Any) -> Any:
    """Instances as the documentation reads them."""
    import torch
    from PIL import Image
    from transformers import Sam3Model, Sam3Processor

    model = Sam3Model.from_pretrained(tiny("sam3"))
    processor = Sam3Processor.from_pretrained(tiny("sam3"))
    inputs = processor(images=Image.fromarray(PICTURE.pixels), return_tensors="pt", **prompt)
    with torch.no_grad():
        outputs = model(**inputs)
    return processor.post_process_instance_segmentation(
        outputs, threshold=0.2, target_sizes=inputs["original_sizes"].tolist()
    )[0]


def test_boxes_are_those_of_the_processors_own_reading(tiny: Tiny) -> None:
    found = asyncio.run(made(tiny).detect(PICTURE, "Red cup")).boxes
    expected = reference(tiny, text="red cup")
    assert len(found) == len(expected["scores"]) > 1
    order = expected["scores"].argsort(descending=True)
    for box, score, corners in zip(
        found, expected["scores"][order], expected["boxes"][order], strict=True
    ):
        assert box.score == pytest.approx(float(score), abs=1e-4)
        cut = np.clip(corners.numpy(), 0, [83, 61, 83, 61])
        assert [box.x0, box.y0, box.x1, box.y1] == pytest.approx(list(cut), abs=0.01)


def test_of_the_instances_the_one_that_covers_the_box_is_the_mask(tiny: Tiny) -> None:
    import torch
    from torchvision.ops import box_iou

    corners = [BOX.x0, BOX.y0, BOX.x1, BOX.y1]
    expected = reference(tiny, input_boxes=[[corners]])
    shares = box_iou(torch.tensor([corners]), expected["boxes"])[0]
    best = int(shares.argmax())
    assert 0.1 < shares[best] < 0.9
    segmented = asyncio.run(made(tiny, min_iou=0.1).segment(PICTURE, (BOX,))).mask
    assert np.array_equal(segmented, expected["masks"][best].bool().numpy())
    assert segmented.any()
    nothing = asyncio.run(made(tiny, min_iou=0.9).segment(PICTURE, (BOX,))).mask
    assert not nothing.any()


def test_detector_and_segmenter_share_the_weights(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stages.models.local import looking

    loads: list[str] = []
    load = looking.pretrained

    def counted(name: str, *rest: Any, **more: Any) -> Any:
        loads.append(name)
        return load(name, *rest, **more)

    monkeypatch.setattr(looking, "pretrained", counted)
    # A copy, so that no other test holds these weights already.
    folder = str(shutil.copytree(tiny("sam3"), tmp_path / "sam3"))
    detector = Sam3(folder, threshold=0.1, device="cpu")
    segmenter = Sam3(folder, min_iou=0.0, device="cpu")
    found = asyncio.run(detector.detect(PICTURE, "cup")).boxes
    asyncio.run(segmenter.segment(PICTURE, found))
    assert loads == ["Sam3Model"]
    assert detector.identity() != segmenter.identity()


@pytest.mark.parametrize("name", ["threshold", "min_iou", "mask_threshold"])
def test_shares_lie_between_0_and_1(tiny: Tiny, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        made(tiny, **{name: 1.1})
