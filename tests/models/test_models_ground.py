"""A search that finds nothing rests on calls too, and they cost."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from stages.imaging.settings import Settings
from stages.models.calls import Calls
from stages.models.picture import Picture
from stages.models.protocol import CallError, Detection, Detector, Segmentation, Segmenter
from stages.models.store import Store
from stages.models.verification import Gate
from stages.records.attempt import Box
from stages.records.base import Status
from stages.records.usage import Usage

PICTURE = Picture.of(np.zeros((8, 8, 3), np.uint8))
BOX = Box(x0=1.0, y0=1.0, x1=5.0, y1=5.0)
SETTINGS = Settings.from_section(
    yaml.safe_load((Path(__file__).parents[2] / "conf" / "verify.yaml").read_text())
)


class Finds(Detector):
    def __init__(self, *boxes: Box) -> None:
        self.boxes = boxes

    def identity(self) -> Mapping[str, Any]:
        return {"model": f"finds {len(self.boxes)}"}

    async def detect(self, picture: Picture, phrase: str) -> Detection:
        return Detection(self.boxes, Usage(cost_usd=0.25))


class CutsOut(Segmenter):
    def __init__(self, error: CallError | None = None) -> None:
        self.error = error

    def identity(self) -> Mapping[str, Any]:
        return {"model": "nothing"}

    async def segment(self, picture: Picture, boxes: tuple[Box, ...]) -> Segmentation:
        if self.error is not None:
            raise self.error
        return Segmentation(np.zeros(picture.pixels.shape[:2], np.bool_))


@pytest.mark.parametrize(
    ("detector", "segmenter", "status", "roles"),
    [
        (Finds(), CutsOut(), Status.TARGET_NOT_FOUND, ["detector"]),
        (Finds(BOX), CutsOut(), Status.TARGET_NOT_FOUND, ["detector", "segmenter"]),
        (Finds(BOX), CutsOut(CallError(Status.REFUSED, "no")), Status.REFUSED, ["detector"]),
    ],
    ids=["no box", "empty mask", "failed"],
)
def test_the_calls_of_a_vain_search_go_with_its_failure(
    tmp_path: Path, detector: Detector, segmenter: Segmenter, status: Status, roles: list[str]
) -> None:
    gate = Gate(Calls(Store(tmp_path)), detector, segmenter, SETTINGS, 0.1, 0.3)
    with pytest.raises(CallError) as caught:
        asyncio.run(gate.ground(PICTURE, "cup"))
    assert caught.value.status is status
    assert [note.role for note in caught.value.notes] == roles
    assert caught.value.notes[0].usage.cost_usd == 0.25
