"""Many pairs at once: each on one thread, and the same results as one after the other."""

import asyncio
from pathlib import Path
from typing import cast

import cv2
import numpy as np
import pytest

from stages.imaging.settings import Settings
from stages.models import places
from stages.models.calls import Calls
from stages.models.picture import Picture
from stages.models.protocol import Detector, Segmenter
from stages.models.store import Store
from stages.models.verification import Gate, Grounding
from stages.workflow.mapping import for_each


def gate(folder: Path) -> Gate:
    nobody = cast(Detector, None), cast(Segmenter, None)
    return Gate(Calls(Store(folder)), *nobody, Settings(), 0.1, 0.3)


def test_verdicts_do_not_depend_on_how_many_are_measured_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    source = cv2.resize(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8), (200, 160))
    pairs = []
    for step in range(6):
        edited = np.roll(source, step, axis=1)
        edited[40:90, 50 : 80 + step] = (20 * step, 200, 90)
        inside = np.zeros((160, 200), np.uint8)
        inside[38:92, 48:90] = 255
        pairs.append(tuple(Picture.of(x).png for x in (source, edited, inside)))

    def measured(folder: Path, at_once: int) -> list[object]:
        monkeypatch.setattr(places, "MEASUREMENTS", at_once)
        judging = gate(folder)

        async def judge(pngs: tuple[bytes, ...]) -> object:
            before, after, mask = map(Picture, pngs)
            return await judging.judge(before, after, Grounding((), mask, ()))

        return list(asyncio.run(for_each(pairs, judge, at_once=at_once, label="pairs")))

    alone = measured(tmp_path / "alone", 1)
    assert measured(tmp_path / "together", 4) == alone
    assert len(set(map(str, alone))) == len(pairs)


def test_opencv_leaves_the_cores_to_other_pairs(tmp_path: Path) -> None:
    before = cv2.getNumThreads()
    try:
        cv2.setNumThreads(3)
        gate(tmp_path)
        assert cv2.getNumThreads() == 1
    finally:
        cv2.setNumThreads(before)
