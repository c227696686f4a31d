"""Editors by diffusers: what a pipeline is given, and what becomes of what it returns."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from stages.imaging import codec
from stages.models.editor.diffusion import Diffusion
from stages.models.picture import Picture
from stages.models.protocol import CallError, Editor
from stages.models.wire.seeds import edit_seed
from stages.records.base import Status
from stages.records.errors import UserError
from stages.workflow import adapters
from tests.models.contract.sighted import EDITORS, Tiny, noise

pytestmark = pytest.mark.local("diffusers")
CONF = Path(__file__).parents[3] / "conf" / "editor"
PHOTOGRAPH = noise(427, 640)


def edit(editor: Editor, picture: Picture = PHOTOGRAPH, attempt: int = 1) -> Any:
    made = asyncio.run(editor.edit(picture, "Make the cup red.", seed=0, attempt=attempt))
    return codec.decode(made.data)


class Spy:
    """Stands in for a loaded pipeline and returns what it is told to."""

    def __init__(self, returned: Any) -> None:
        self.returned, self.asked = returned, []

    def __call__(self, image: Any = None, max_area: int = 0, **arguments: Any) -> Any:
        self.asked.append({"image": image, "max_area": max_area, **arguments})
        if isinstance(self.returned, Exception):
            raise self.returned
        return type("Output", (), {"images": [self.returned]})


def spied(tiny: Tiny, returned: Any, **values: Any) -> tuple[Diffusion, Spy]:
    editor, spy = EDITORS["flux kontext"](tiny, **values), Spy(returned)
    editor._copies[0] = spy
    return editor, spy


GREY = np.full((416, 624, 3), 0.5, np.float32)


def test_the_picture_goes_in_at_the_size_that_comes_out(tiny: Tiny) -> None:
    editor, spy = spied(tiny, GREY)
    assert (edit(editor) == 128).all()
    (asked,) = spy.asked
    assert asked["image"].size == (asked["width"], asked["height"])
    assert asked["max_area"] == asked["width"] * asked["height"]
    assert asked["width"] % 16 == asked["height"] % 16 == 0
    assert abs(asked["width"] / asked["height"] / (640 / 427) - 1) < 0.01
    small, spied_small = spied(tiny, GREY, max_pixels=40_000)
    edit(small)
    assert spied_small.asked[0]["image"].size[0] < 260
    large, spied_large = spied(tiny, GREY, min_pixels=900_000)
    edit(large)
    width, height = spied_large.asked[0]["image"].size
    assert 900_000 <= width * height <= 1_048_576


def test_a_picture_of_fitting_size_is_not_touched(tiny: Tiny) -> None:
    editor, spy = spied(tiny, GREY)
    picture = noise(48, 64)
    edit(editor, picture)
    assert spy.asked[0]["image"].size != (64, 48)  # below the smallest side of 64
    picture = noise(64, 96)
    edit(editor, picture)
    assert np.array_equal(np.asarray(spy.asked[1]["image"]), picture.pixels)


def test_size_may_be_left_to_the_pipeline(tiny: Tiny) -> None:
    editor, spy = spied(tiny, GREY, max_pixels=None)
    edit(editor)
    assert spy.asked[0]["image"].size == (640, 427)
    assert not {"width", "height"} & set(spy.asked[0])


def test_the_call_is_as_yaml_says_and_the_noise_is_drawn_on_the_cpu(tiny: Tiny) -> None:
    call = {"num_inference_steps": 7, "true_cfg_scale": 4.0, "negative_prompt": " "}
    editor, spy = spied(tiny, GREY, call=call)
    edit(editor)
    edit(editor, attempt=2)
    first, second = spy.asked
    assert {name: first[name] for name in call} == call
    assert first["prompt"] == "Make the cup red."
    assert first["generator"].device.type == "cpu"
    assert first["generator"].initial_seed() == edit_seed(0, 1)
    assert second["generator"].initial_seed() == edit_seed(0, 2)


def test_flux_2_would_cut_off_the_edges_of_a_picture_that_is_left_to_it(tiny: Tiny) -> None:
    """Why sizes are chosen here: 427 rows become the middle 416."""
    left, ours = EDITORS["flux2 klein"](tiny, max_pixels=None), EDITORS["flux2 klein"](tiny)
    assert edit(left).shape == (416, 640, 3)
    assert abs(640 / 416 / (640 / 427) - 1) > 0.02
    rows, columns, _ = edit(ours).shape
    assert abs(columns / rows / (640 / 427) - 1) < 0.01


def test_what_is_no_number_is_no_edit(tiny: Tiny) -> None:
    editor, _ = spied(tiny, np.full((16, 16, 3), np.nan, np.float32))
    with pytest.raises(CallError, match="no number") as caught:
        edit(editor)
    assert caught.value.status is Status.API_ERROR


def test_a_picture_that_the_pipeline_does_not_take_is_on_its_row(tiny: Tiny) -> None:
    with pytest.raises(CallError, match="Aspect ratio too extreme") as caught:
        edit(EDITORS["flux2 klein"](tiny), noise(64, 1600))
    assert caught.value.status is Status.API_ERROR
    assert "\n" not in caught.value.reason


def test_a_lack_of_memory_ends_the_run_in_one_line(tiny: Tiny) -> None:
    import torch

    editor, _ = spied(tiny, torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate"))
    with pytest.raises(UserError, match="memory of the device") as caught:
        edit(editor)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"pipeline": "Flux2KleinPipelin"}, "Name one such as Flux2KleinPipeline"),
        ({"pipeline": "AutoencoderKL"}, "is none of diffusers'"),
        ({"call": {"steps": 4}}, "takes no 'steps'"),
        ({"pipeline": "FluxKontextPipeline"}, "can't be loaded"),
    ],
)
def test_what_can_not_be_loaded_is_one_line(tiny: Tiny, values: Any, says: str) -> None:
    editor = Diffusion(
        **{
            "model": tiny("flux2_klein"),
            "pipeline": "Flux2KleinPipeline",
            "device": "cpu",
            "dtype": "float32",
            **values,
        }
    )
    with pytest.raises(UserError, match=says) as caught:
        edit(editor)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"offload": "disk"}, "offload"),
        ({"dtype": "checkpoint"}, "dtype"),
        ({"batch_size": 2}, "one picture at a time"),
        ({"call": {"prompt": "x"}}, "prompt"),
        ({"call": {"generator": 1}}, "generator"),
        ({"max_pixels": None, "min_pixels": 5}, "max_pixels"),
        ({"steps": 4}, "steps"),
    ],
)
def test_bad_values_name_themselves(tiny: Tiny, values: Any, says: str) -> None:
    config = {
        "_target_": "stages.models.editor.diffusion.Diffusion",
        "model": tiny("flux2_klein"),
        "pipeline": "Flux2KleinPipeline",
    }
    with pytest.raises(UserError, match=says):
        adapters.build({"editors": {"own": {**config, **values}}}, "editors.own", Editor)


def test_all_that_shapes_an_edit_is_in_the_identity(tiny: Tiny) -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"call": {"num_inference_steps": 3}},
        {"max_pixels": 500_000},
        {"min_pixels": 100_000},
        {"dtype": "bfloat16"},
        {"quantization": {"quant_backend": "bitsandbytes_4bit"}},
        {"model": tiny("flux_kontext")},
        {"pipeline": "Flux2Pipeline"},
    ]
    base = {"model": tiny("flux2_klein"), "pipeline": "Flux2KleinPipeline", "dtype": "float32"}
    made = [json.dumps(Diffusion(**{**base, **values}).identity()) for values in variants]
    assert len(set(made)) == len(variants)
    where = Diffusion(**base, device=["cuda:0", "cuda:1"], offload="model").identity()
    assert json.dumps(where) == made[0]


def test_qwen_image_edit_is_such_a_pipeline(tiny: Tiny) -> None:
    editor = Diffusion(
        tiny("qwen_image_edit_plus"),
        "QwenImageEditPlusPipeline",
        call={"num_inference_steps": 1, "true_cfg_scale": 4.0, "negative_prompt": " "},
        max_pixels=10_000,
        device="cpu",
        dtype="float32",
        offload="model",
    )
    made = edit(editor, noise(64, 96))
    assert made.shape == (64, 96, 3)
    assert made.std() > 0


LOCAL = sorted(
    path for path in CONF.glob("*_local.yaml") if "diffusion.Diffusion" in path.read_text()
)


@pytest.mark.parametrize("path", LOCAL, ids=lambda path: path.stem)
def test_a_file_names_a_pipeline_and_arguments_that_it_takes(path: Path) -> None:
    import inspect

    import diffusers

    text, values = path.read_text(), yaml.safe_load(path.read_text())
    assert text.startswith(f"# @package editors.{path.stem}\n")
    assert "icence" in text
    assert "GB" in text
    made = adapters.build({"editors": {"own": values}}, "editors.own", Editor)
    assert isinstance(made, Diffusion)
    known = inspect.signature(getattr(diffusers, made.pipeline).__call__).parameters
    assert set(made.call) <= set(known)
    assert "caption_upsample_temperature" not in made.call


def test_the_editors_that_were_asked_for_have_a_file_each() -> None:
    assert {path.stem for path in LOCAL} >= {
        "flux_2_klein_4b_local",
        "flux_2_dev_local",
        "flux_kontext_dev_local",
        "qwen_image_edit_2511_local",
    }
