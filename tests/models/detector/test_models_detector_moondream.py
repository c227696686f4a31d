"""Moondream in this process, against a stand-in with the package's documented surface.

The engine wants a GPU or Apple silicon, so it does not run here; what it takes and returns is
copied from moondream 2.6: `photon(model, **runtime)`, `detect(image, object, settings)` and
`types.Base64EncodedImage`.
"""

import asyncio
import base64
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from stages.models.detector import moondream_local
from stages.models.detector.moondream_local import MoondreamLocal
from stages.models.protocol import CallError
from stages.records.base import Status
from stages.records.errors import UserError
from tests.models.contract.sighted import noise

PICTURE = noise(50, 200)


@dataclass
class Base64EncodedImage:
    image_url: str


class Photon:
    """The stand-in's engine."""

    def __init__(self) -> None:
        self.started: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[tuple[Any, str, Any]] = []
        self.objects: Any = []
        self.fault: Exception | None = None

    def start(self, model: str, **runtime: Any) -> "Photon":
        if self.fault is not None:
            raise self.fault
        self.started.append((model, runtime))
        return self

    def detect(self, image: Any, object: str, settings: Any = None) -> Any:
        self.asked.append((image, object, settings))
        return {"objects": self.objects}


@pytest.fixture
def photon(monkeypatch: pytest.MonkeyPatch) -> Photon:
    engine = Photon()
    package, types = ModuleType("moondream"), ModuleType("moondream.types")
    package.photon = engine.start  # type: ignore[attr-defined]
    types.Base64EncodedImage = Base64EncodedImage  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "moondream", package)
    monkeypatch.setitem(sys.modules, "moondream.types", types)
    monkeypatch.setattr(moondream_local, "installed", lambda *names: None)
    monkeypatch.setattr(moondream_local, "release_of", lambda name: f"{name} 0.0")
    return engine


def detect(**values: Any) -> list[tuple[float, ...]]:
    found = asyncio.run(MoondreamLocal(**values).detect(PICTURE, "red cup"))
    return [(box.x0, box.y0, box.x1, box.y1) for box in found.boxes]


def corners(x0: float, y0: float, x1: float, y1: float) -> dict[str, float]:
    return {"x_min": x0, "y_min": y0, "x_max": x1, "y_max": y1}


def test_shares_of_the_sides_become_pixels(photon: Photon) -> None:
    photon.objects = [corners(0.1, 0.2, 0.5, 1.0), corners(0.6, 0.0, 0.7, 0.1)]
    assert detect() == [(20, 10, 100, 50), (120, 0, 140, 5)]


def test_the_engine_gets_the_exact_picture_and_starts_once(photon: Photon) -> None:
    detector = MoondreamLocal(max_objects=7, device="cuda:1", runtime={"max_batch_size": 8})
    assert photon.started == []

    async def thrice() -> None:
        await asyncio.gather(*(detector.detect(PICTURE, "red cup") for _ in range(3)))

    asyncio.run(thrice())
    assert photon.started == [("moondream3-preview", {"device": "cuda:1", "max_batch_size": 8})]
    image, phrase, settings = photon.asked[0]
    assert (phrase, settings) == ("red cup", {"max_objects": 7})
    head, _, data = image.image_url.partition(",")
    assert head == "data:image/png;base64"
    assert base64.b64decode(data) == PICTURE.png


def test_nothing_found_is_a_good_reply(photon: Photon) -> None:
    assert detect() == []


def test_an_overhang_is_cut_off_at_the_edge(photon: Photon) -> None:
    photon.objects = [corners(-0.05, 0.5, 0.5, 1.04)]
    assert detect(overhang=0.05) == [(0, 25, 100, 50)]
    with pytest.raises(CallError, match="reaches out of the image"):
        detect(overhang=0.0)


@pytest.mark.parametrize(
    "objects", [None, "no", [None], [{"x_min": 0.1}], [corners(0.5, 0.2, 0.1, 1.0)]]
)
def test_boxes_that_can_not_be_are_unparsed(photon: Photon, objects: Any) -> None:
    photon.objects = objects
    with pytest.raises(CallError) as caught:
        detect()
    assert caught.value.status is Status.UNPARSED


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (RuntimeError("Photon needs CUDA, but\n\nPyTorch could not initialize CUDA."), "CUDA"),
        (RuntimeError("CUDA out of memory."), "memory of the device"),
        (
            ModuleNotFoundError("No module named 'kestrel_kernels'", name="kestrel_kernels"),
            "kernel",
        ),
    ],
)
def test_an_engine_that_does_not_start_is_one_line(
    photon: Photon, fault: Exception, says: str
) -> None:
    photon.fault = fault
    with pytest.raises(UserError, match=says) as caught:
        detect()
    assert "\n" not in str(caught.value)


def test_what_shapes_the_boxes_is_in_the_identity(photon: Photon) -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"model": "moondream3.1-9B-A2B"},
        {"max_objects": 3},
        {"overhang": 0.0},
        {"runtime": {"max_batch_size": 8}},
    ]
    made = [str(MoondreamLocal(**values).identity()) for values in variants]
    assert len(set(made)) == len(variants)
    assert str(MoondreamLocal(device="mps", concurrency=9).identity()) == made[0]
