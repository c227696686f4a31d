"""Devices, precisions, generation, templates and pixels: what YAML may say, and what it means."""

from typing import Any

import numpy as np
import pytest

from stages.models.local.images import PixelBudget
from stages.models.local.placement import Placement
from stages.models.local.sampling import Generation
from stages.models.local.templates import Form, checked_variables, form_of
from stages.models.picture import Picture
from stages.models.protocol import Turn
from stages.records.errors import UserError


@pytest.mark.parametrize(
    "values",
    [
        {"dtype": "fp8"},
        {"device": "gpu"},
        {"device": "cuda:x"},
        {"device": []},
        {"device": ["cpu", "tpu"]},
        {"device": ["all"]},
        {"device": ["auto", "cpu"]},
        {"device": "cpu:"},
        {"device": "cpu:0"},
        {"device": "auto:"},
        {"device": "cuda:"},
        {"device": "cuda:0\n"},
        {"device": 0},
        {"device": [0]},
        {"device": {"cpu": 1}},
        {"device": None},
        {"device": [["cpu"]]},
        {"device_map": "balanced"},
        {"device_map": "auto", "device": "cuda:0"},
    ],
)
def test_a_place_that_is_none_is_an_error_before_anything_loads(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"device|dtype"):
        Placement(**values)


def test_a_list_of_devices_is_a_copy_each() -> None:
    assert Placement(["cuda:0", "cuda:1"]).named == ("cuda:0", "cuda:1")
    assert Placement("cuda:3").named == ("cuda:3",)


@pytest.mark.parametrize(
    "given",
    [
        {"temperature": 0.7},
        {"do_sample": True, "temperature": 0},
        {"do_sample": True, "top_p": 0},
        {"do_sample": True, "top_k": -1},
        {"do_sample": True, "min_p": 2},
        {"repetition_penalty": 0},
        {"num_beams": 4},
    ],
)
def test_generation_that_makes_no_sense_is_an_error(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="generation"):
        Generation.of(given)


def test_generation_is_greedy_unless_told() -> None:
    assert Generation.of(None) == Generation(do_sample=False)
    assert Generation.of({"do_sample": True, "top_p": 0.9}).top_p == 0.9


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def parts_alone(messages: list[dict[str, Any]]) -> str:
    """As LLaVA's template: what is no list of parts is lost."""
    return " ".join(text_of(m["content"]) for m in messages if isinstance(m["content"], list))


def strings_alone(messages: list[dict[str, Any]]) -> str:
    return " ".join(m["content"] + "</s>" for m in messages)


def user_parts(messages: list[dict[str, Any]]) -> str:
    """As Pixtral's: parts for the user, strings for the others, and the system's turn last."""
    told = [m["content"] + "</s>" for m in messages if m["role"] == "system"]
    said = [
        text_of(m["content"]) if m["role"] == "user" else m["content"] + "</s>"
        for m in messages
        if m["role"] != "system"
    ]
    return " ".join((*said[:-1], *told, *said[-1:]))


def no_system(messages: list[dict[str, Any]]) -> str:
    if messages[0]["role"] == "system":
        raise RuntimeError("no system role")
    return parts_alone(messages)


@pytest.mark.parametrize(
    ("render", "pictures", "form"),
    [
        (parts_alone, True, Form("parts", True)),
        (user_parts, True, Form("pictured", True)),
        (no_system, True, Form("parts", False)),
        (strings_alone, False, Form("strings", True)),
        (parts_alone, False, Form("parts", True)),
    ],
)
def test_the_form_of_a_template_is_found_out(render: Any, pictures: bool, form: Form) -> None:
    assert form_of("m", render, pictures=pictures) == form


def test_a_template_that_loses_turns_is_an_error() -> None:
    with pytest.raises(UserError, match="shows no dialogue"):
        form_of("m", lambda messages: "hello", pictures=True)


def test_turns_become_messages_with_their_pictures() -> None:
    picture = Picture.of(np.zeros((4, 4, 3), np.uint8))
    turns = (Turn("system", "s"), Turn("user", "u", (picture, picture)), Turn("assistant", "a"))
    images = ["one", "two"]
    first = Form("parts", True).messages(turns, images)
    assert [part.get("image") for part in first[1]["content"]] == ["one", "two", None]
    last = Form("parts", True, images_first=False).messages(turns, images)
    assert [part.get("image") for part in last[1]["content"]] == [None, "one", "two"]
    folded = Form("pictured", False).messages(turns, images)
    assert [m["role"] for m in folded] == ["user", "assistant"]
    assert folded[0]["content"][-1] == {"type": "text", "text": "s\n\nu"}
    assert folded[1]["content"] == "a"


def test_variables_of_a_template_can_not_be_arguments_of_the_call() -> None:
    assert checked_variables({"enable_thinking": False}) == {"enable_thinking": False}
    with pytest.raises(ValueError, match="tokenize"):
        checked_variables({"tokenize": False})


class Processor:
    """An image processor, of which only its size counts."""

    def __init__(self, **size: int) -> None:
        self.size = size


def test_bounds_go_to_a_processor_that_counts_areas() -> None:
    processor = Processor(shortest_edge=65_536, longest_edge=16_777_216)
    left = PixelBudget(max_pixels=1_000_000).set_on(processor, "m")
    assert processor.size == {"shortest_edge": 65_536, "longest_edge": 1_000_000}
    assert left == PixelBudget()
    with pytest.raises(UserError, match="above max_pixels"):
        PixelBudget(max_pixels=1_000).set_on(processor, "m")


@pytest.mark.parametrize(
    "size", [{"shortest_edge": 336}, {"longest_edge": 1024, "shortest_edge": 1}, {"height": 896}]
)
def test_for_all_others_pictures_are_made_smaller_beforehand(size: dict[str, int]) -> None:
    processor = Processor(**size)
    left = PixelBudget(max_pixels=1_200).set_on(processor, "m")
    assert processor.size == size
    picture = Picture.of(np.zeros((60, 80, 3), np.uint8))
    assert left.image(picture).size == (40, 30)
    assert PixelBudget().image(picture).size == (80, 60)
    with pytest.raises(UserError, match="min_pixels"):
        PixelBudget(min_pixels=10).set_on(processor, "m")


def test_a_budget_has_its_bounds_in_order() -> None:
    with pytest.raises(ValueError, match="max_pixels"):
        PixelBudget(min_pixels=10, max_pixels=9)
