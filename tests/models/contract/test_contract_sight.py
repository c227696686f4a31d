"""What holds of every detector, segmenter and editor that holds its weights itself."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from stages.imaging import codec
from stages.models.detector.zero_shot import ZeroShot
from stages.models.editor.diffusion import Diffusion
from stages.models.local import faults, looking
from stages.models.picture import Picture
from stages.models.protocol import Detector, Editor, Segmenter
from stages.models.sam3 import Sam3
from stages.models.segmenter.sam2 import Sam2
from stages.models.segmenter.sam2_package import Sam2Package
from stages.records.attempt import Box
from stages.records.errors import UserError
from stages.workflow import adapters
from tests.models.contract.sighted import (
    BUILT_IN,
    DETECTORS,
    EDITORS,
    PACKAGES,
    SEGMENTERS,
    Make,
    Tiny,
    noise,
)

PICTURE = noise(61, 83)
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHAPES = [(1, 1), (2, 90), (33, 57)]


def cases(*tables: dict[str, Make]) -> Any:
    return [
        pytest.param(
            make,
            id=name,
            marks=[] if name in BUILT_IN else pytest.mark.local(*PACKAGES.get(name, [])),
        )
        for table in tables
        for name, make in table.items()
    ]


def built_in(name: str) -> dict[str, Make]:
    return {name: BUILT_IN[name]}


of_detectors = pytest.mark.parametrize("make", cases(DETECTORS, built_in("demo detector")))
of_segmenters = pytest.mark.parametrize("make", cases(SEGMENTERS, built_in("grabcut")))
of_editors = pytest.mark.parametrize("make", cases(EDITORS))
of_all = pytest.mark.parametrize("make", cases(DETECTORS, SEGMENTERS, EDITORS, BUILT_IN))


def box(x0: float, y0: float, x1: float, y1: float) -> Box:
    return Box(x0=x0, y0=y0, x1=x1, y1=y1)


BOXES = (box(5, 6, 40.5, 50), box(30, 2.25, 80, 44), box(60, 40, 83, 61))


def detect(detector: Any, picture: Picture = PICTURE, phrase: str = "red cup") -> tuple[Box, ...]:
    return asyncio.run(detector.detect(picture, phrase)).boxes


def segment(segmenter: Any, *boxes: Box, picture: Picture = PICTURE) -> np.ndarray:
    return asyncio.run(segmenter.segment(picture, boxes)).mask


def edit(editor: Any, picture: Picture = PICTURE, **values: Any) -> bytes:
    asked = {"instruction": "Make the cup red.", "seed": 0, "attempt": 1, **values}
    return asyncio.run(editor.edit(picture, asked.pop("instruction"), **asked)).data


@of_all
def test_an_identity_is_json_without_a_path_and_the_same_for_the_same(
    make: Make, tiny: Tiny
) -> None:
    written = json.dumps(make(tiny).identity())
    assert written == json.dumps(make(tiny).identity())
    assert "/tmp" not in written
    assert "tiny" not in written


@pytest.mark.parametrize("make", cases(DETECTORS, SEGMENTERS, EDITORS))
def test_a_preflight_finds_the_weights_and_loads_none(
    make: Make, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("weights were loaded")

    monkeypatch.setattr(looking, "pretrained", never)
    monkeypatch.setattr(Diffusion, "_load", never)
    monkeypatch.setattr(Sam2Package, "_build", never)
    states = [found.state for found in asyncio.run(make(tiny).preflight("any"))]
    assert states
    assert set(states) == {"ok"}


@pytest.mark.local("sam2", "diffusers")
@pytest.mark.parametrize(
    "adapter",
    [
        lambda: ZeroShot("maker/none", COMMIT),
        lambda: Sam2("maker/none", COMMIT),
        lambda: Sam3("maker/none", COMMIT),
        lambda: Sam2Package("maker/none", "a.pt", "configs/sam2.1/sam2.1_hiera_l.yaml", COMMIT),
        lambda: Sam2Package("maker/none", "a.pt", "configs/none.yaml", COMMIT),
        lambda: Diffusion("maker/none", "Flux2KleinPipeline", COMMIT),
        lambda: Diffusion("maker/none", "NoPipeline", COMMIT),
    ],
)
def test_a_preflight_says_what_would_fail(adapter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (found,) = asyncio.run(adapter().preflight("any"))
    assert found.state == "wrong"
    assert found.what
    assert found.remedy


# --- detectors -----------------------------------------------------------------------------------


@of_detectors
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_boxes_lie_in_the_picture_best_first(make: Make, tiny: Tiny, shape: Any) -> None:
    height, width = shape
    boxes = detect(make(tiny), noise(*shape))
    for each in boxes:
        assert 0 <= each.x0 < each.x1 <= width
        assert 0 <= each.y0 < each.y1 <= height
    scores = [each.score for each in boxes if each.score is not None]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


@pytest.mark.parametrize("make", cases(DETECTORS))
def test_a_detector_finds_something_and_the_phrase_matters(make: Make, tiny: Tiny) -> None:
    detector = make(tiny)
    found = detect(detector)
    assert found
    assert all(each.score is not None for each in found)
    assert found != detect(detector, phrase="tree")
    assert found != detect(detector, noise(61, 83, seed=1))


@pytest.mark.parametrize("make", cases(DETECTORS))
def test_nothing_found_is_a_good_reply(make: Make, tiny: Tiny) -> None:
    assert detect(make(tiny, threshold=1.0)) == ()


@of_detectors
def test_equal_calls_give_equal_boxes_alone_or_together(make: Make, tiny: Tiny) -> None:
    detector = make(tiny)
    alone = [detect(detector, noise(61, 83, seed=n)) for n in range(3)]

    async def together() -> list[Any]:
        calls = (detector.detect(noise(61, 83, seed=n), "red cup") for n in range(3))
        return [each.boxes for each in await asyncio.gather(*calls)]

    assert asyncio.run(together()) == alone
    assert detect(make(tiny), noise(61, 83)) == alone[0]


@pytest.mark.parametrize("make", cases(DETECTORS))
@pytest.mark.parametrize(
    "phrase", ["cup", "the red cup " * 60, "a" * 3000, "Cup. Tree. Dog.", "чашка ☕", "{phrase}"]
)
def test_any_phrase_is_taken(make: Make, tiny: Tiny, phrase: str) -> None:
    detect(make(tiny), phrase=phrase)


@pytest.mark.parametrize("make", cases(DETECTORS))
def test_options_choose_among_the_boxes_and_are_another_detector(make: Make, tiny: Tiny) -> None:
    plain = make(tiny)
    found = detect(plain)
    best = make(tiny, top_k=1)
    assert detect(best) == found[:1]
    half = found[len(found) // 2]
    higher = make(tiny, threshold=half.score - 0.00005)
    assert detect(higher) == tuple(each for each in found if each.score >= half.score)
    identities = [json.dumps(each.identity()) for each in (plain, best, higher)]
    assert len(set(identities)) == 3


# --- segmenters ----------------------------------------------------------------------------------


@of_segmenters
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_mask_is_as_large_as_the_picture(make: Make, tiny: Tiny, shape: Any) -> None:
    height, width = shape
    mask = segment(make(tiny), box(0, 0, width, height), picture=noise(*shape))
    assert mask.dtype == np.bool_
    assert mask.shape == shape


@of_segmenters
def test_the_mask_is_the_union_over_the_boxes(make: Make, tiny: Tiny) -> None:
    segmenter = make(tiny)
    each = [segment(segmenter, one) for one in BOXES]
    assert np.array_equal(segment(segmenter, *BOXES), np.logical_or.reduce(each))
    assert any(not np.array_equal(each[0], other) for other in each[1:])


@of_segmenters
def test_boxes_beyond_the_picture_add_nothing(make: Make, tiny: Tiny) -> None:
    segmenter = make(tiny)
    outside = box(200, 10, 300, 90), box(-90, -90, -1, -1)
    assert not segment(segmenter).any()
    assert not segment(segmenter, *outside).any()
    assert np.array_equal(segment(segmenter, BOXES[0], *outside), segment(segmenter, BOXES[0]))
    over, cut = box(40, 30, 200, 90), box(40, 30, 83, 61)
    assert np.array_equal(segment(segmenter, over), segment(segmenter, cut))


@of_segmenters
def test_equal_calls_give_equal_masks_alone_or_together(make: Make, tiny: Tiny) -> None:
    segmenter = make(tiny)
    alone = [segment(segmenter, one) for one in BOXES]

    async def together() -> list[Any]:
        calls = (segmenter.segment(PICTURE, (one,)) for one in BOXES)
        return [each.mask for each in await asyncio.gather(*calls)]

    for first, second in zip(alone, asyncio.run(together()), strict=True):
        assert np.array_equal(first, second)
    assert np.array_equal(segment(make(tiny), BOXES[0]), alone[0])


@pytest.mark.parametrize("make", cases(SEGMENTERS))
def test_a_mask_comes_from_weights_and_picture(make: Make, tiny: Tiny) -> None:
    segmenter = make(tiny)
    masks = [segment(segmenter, *BOXES, picture=noise(61, 83, seed=n)) for n in range(2)]
    assert all(0 < mask.mean() < 1 for mask in masks)
    assert not np.array_equal(*masks)
    lower = make(tiny, mask_threshold=segmenter.mask_threshold - 0.1)
    assert (masks[0] <= segment(lower, *BOXES, picture=noise(61, 83))).all()
    assert lower.identity() != segmenter.identity()


# --- editors -------------------------------------------------------------------------------------


@of_editors
def test_an_edit_is_a_png_of_the_pictures_proportions(make: Make, tiny: Tiny) -> None:
    editor = make(tiny)
    for height, width in ((61, 83), (240, 320), (90, 66), (427, 640)):
        data = edit(editor, noise(height, width))
        rows, columns = codec.decode(data).shape[:2]
        assert data.startswith(b"\x89PNG")
        assert rows % 16 == columns % 16 == 0
        assert abs(columns / rows / (width / height) - 1) < (0.05 if height < 100 else 0.02)


@of_editors
def test_seed_and_attempt_make_the_edit(make: Make, tiny: Tiny) -> None:
    editor = make(tiny)
    made = {
        (seed, attempt): edit(editor, seed=seed, attempt=attempt)
        for seed in (0, 1)
        for attempt in (1, 2)
    }
    assert len(set(made.values())) == 4
    assert edit(editor) == made[0, 1]
    assert edit(make(tiny)) == made[0, 1]


@of_editors
def test_picture_and_instruction_make_the_edit(make: Make, tiny: Tiny) -> None:
    editor = make(tiny)
    plain = edit(editor)
    assert edit(editor, instruction="Remove the tree.") != plain
    assert edit(editor, noise(61, 83, seed=1)) != plain


@of_editors
def test_edits_under_way_at_once_do_not_disturb_each_other(make: Make, tiny: Tiny) -> None:
    editor = make(tiny)
    alone = [edit(editor, attempt=attempt) for attempt in (1, 2, 3)]

    async def together() -> list[bytes]:
        calls = (editor.edit(PICTURE, "Make the cup red.", seed=0, attempt=n) for n in (1, 2, 3))
        return [each.data for each in await asyncio.gather(*calls)]

    assert asyncio.run(together()) == alone


# --- the files that are shipped ------------------------------------------------------------------

CONF = Path(__file__).parents[3] / "conf"
ROLES: dict[str, Any] = {"detector": Detector, "segmenter": Segmenter}
FILES = sorted(
    path
    for role in ROLES
    for path in (CONF / role).glob("*.yaml")
    if any(name in path.read_text() for name in ("zero_shot", "sam2", "sam3", "moondream_local"))
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_fits_its_class_and_says_what_its_weights_cost(path: Path) -> None:
    text, role = path.read_text(), path.parent.name
    assert text.startswith(f"# @package {role}\n")
    assert "GB" in text
    assert "revision" not in text or "revision: main  # pin it" in text
    adapters.check(adapters.lookup({role: yaml.safe_load(text)}, role), role, ROLES[role])


@pytest.mark.local("sam2")
@pytest.mark.parametrize(
    "path", [path for path in FILES if "moondream" not in path.stem], ids=lambda path: path.stem
)
def test_a_file_makes_its_adapter_without_weights(path: Path) -> None:
    role = path.parent.name
    adapters.build({role: yaml.safe_load(path.read_text())}, role, ROLES[role])


@pytest.mark.parametrize(
    ("file", "missing", "extra"),
    [
        ("detector/owlv2_local", "torch", "local"),
        ("segmenter/sam2", "transformers", "local"),
        ("segmenter/sam3_local", "torchvision", "local"),
        ("segmenter/sam2_package", "sam2", "sam2"),
        ("detector/moondream_local", "moondream", "moondream"),
        ("editor/flux_2_dev_local", "diffusers", "diffusers"),
    ],
)
def test_a_missing_package_is_one_line_with_its_extra(
    file: str, missing: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> Any:
        return None if name == missing else object()

    monkeypatch.setattr(faults.importlib.util, "find_spec", find)
    role = file.partition("/")[0]
    values = yaml.safe_load((CONF / f"{file}.yaml").read_text())
    kind = {**ROLES, "editor": Editor}[role]
    with pytest.raises(UserError, match=f"EXTRAS={extra}`") as caught:
        adapters.build({role: values}, role, kind)
    assert f"({missing})" in str(caught.value)
    assert "\n" not in str(caught.value)


# --- pictures ------------------------------------------------------------------------------------


def _file(image: Image.Image) -> Picture:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return Picture.read(buffer.getvalue())


@pytest.mark.parametrize(
    "picture",
    [
        _file(Image.fromarray(PICTURE.pixels).convert("L")),
        _file(Image.fromarray(PICTURE.pixels).convert("RGBA")),
        _file(Image.fromarray(PICTURE.pixels).convert("P")),
        _file(Image.fromarray(PICTURE.pixels[..., 0].astype(np.uint16) * 257)),
    ],
    ids=["grey", "alpha", "palette", "16 bits"],
)
@pytest.mark.parametrize("make", cases(DETECTORS, SEGMENTERS))
def test_files_of_every_kind_are_looked_at(make: Make, tiny: Tiny, picture: Picture) -> None:
    adapter = make(tiny)
    if hasattr(adapter, "detect"):
        detect(adapter, picture)
    if hasattr(adapter, "segment"):
        assert segment(adapter, BOXES[0], picture=picture).shape == (61, 83)
