"""Detectors over HTTP: boxes to pixels, checked and never moved."""

import asyncio
import json
from typing import Any

import numpy as np
import pytest

from stages.models.detector.boxes import Frame, read_boxes
from stages.models.detector.chat_boxes import ChatBoxes
from stages.models.detector.moondream_http import MoondreamHttp
from stages.models.picture import Picture
from stages.models.protocol import CallError, Detector
from stages.records.base import Status
from tests.models.contract.cases import MODEL, SOURCE
from tests.models.wire.loopback import KEY, QUICK, Act, Server, chat_reply

WIDE = Picture.of(np.zeros((50, 200, 3), np.uint8))


def corners(detector: Detector, picture: Picture = WIDE) -> list[tuple[float, ...]]:
    found = asyncio.run(detector.detect(picture, "the  red\ncup"))
    return [(box.x0, box.y0, box.x1, box.y1) for box in found.boxes]


def test_moondream_is_asked_as_its_api_wants(server: Server) -> None:
    objects = [
        {"x_min": 0.1, "y_min": 0.2, "x_max": 0.5, "y_max": 1.0},
        {"x_min": 0.6, "y_min": 0.0, "x_max": 0.7, "y_max": 0.1},
    ]
    server.route = lambda seen: Act({"request_id": "r", "objects": objects})
    detector = MoondreamHttp(
        f"{server.url}/v1", model="moondream3-preview", settings={"max_objects": 5}, patience=QUICK
    )
    assert np.allclose(corners(detector), [(20, 10, 100, 50), (120, 0, 140, 5)])
    seen = server.seen[0]
    assert (seen.path, seen.headers["x-moondream-auth"]) == ("/v1/detect", KEY)
    body = seen.json
    assert body.pop("image_url").startswith("data:image/png;base64,")
    assert body == {
        "object": "the  red\ncup",
        "model": "moondream3-preview",
        "settings": {"max_objects": 5},
    }


def test_a_station_gets_no_key(server: Server) -> None:
    server.route = lambda seen: Act({"objects": []})
    assert corners(MoondreamHttp(server.url, None, patience=QUICK)) == []
    assert "x-moondream-auth" not in server.seen[0].headers
    assert set(server.seen[0].json) == {"image_url", "object"}


def test_a_station_can_fail_with_200(server: Server) -> None:
    server.route = lambda seen: Act({"error": "Model not loaded"})
    with pytest.raises(CallError, match="Model not loaded") as caught:
        corners(MoondreamHttp(server.url, None, patience=QUICK))
    assert caught.value.status is Status.API_ERROR


@pytest.mark.parametrize(
    "reply",
    [
        {"objects": None},
        {"objects": [None]},
        {"objects": [{"x_min": 0.1}]},
        {"objects": [{"x_min": 0.1, "y_min": 0.2, "x_max": "0.5", "y_max": 1.0}]},
        {"objects": [{"x_min": 0.5, "y_min": 0.2, "x_max": 0.1, "y_max": 1.0}]},
        {"objects": [{"x_min": 0.1, "y_min": 0.2, "x_max": 0.1, "y_max": 1.0}]},
        {"objects": [{"x_min": 0.1, "y_min": 0.2, "x_max": 1.2, "y_max": 1.0}]},
        {"objects": [{"x_min": 20, "y_min": 10, "x_max": 100, "y_max": 50}]},
        {"objects": [{"x_min": -0.05, "y_min": 0.0, "x_max": -0.01, "y_max": 1.0}]},
        {"found": []},
    ],
)
def test_boxes_that_can_not_be_are_unparsed(server: Server, reply: Any) -> None:
    server.route = lambda seen: Act(reply)
    with pytest.raises(CallError) as caught:
        corners(MoondreamHttp(server.url, None, patience=QUICK))
    assert caught.value.status is Status.UNPARSED
    assert len(server.seen) == 1


def test_a_stated_overhang_is_cut_off_at_the_edge(server: Server) -> None:
    box = {"x_min": -0.05, "y_min": 0.5, "x_max": 0.5, "y_max": 1.04}
    server.route = lambda seen: Act({"objects": [box]})
    assert corners(MoondreamHttp(server.url, None, overhang=0.05)) == [(0, 25, 100, 50)]
    with pytest.raises(CallError, match="reaches out of the image"):
        corners(MoondreamHttp(server.url, None, overhang=0.0))


def chat_boxes(server: Server, **values: Any) -> ChatBoxes:
    chat = {"model": MODEL, "base_url": server.url, "patience": QUICK, **values.pop("chat", {})}
    return ChatBoxes(chat, "Find {phrase}, as {not a slot}.", **values)


@pytest.mark.parametrize(
    ("values", "numbers", "expected"),
    [
        ({}, [100, 200, 500, 1000], (20, 10, 100, 50)),
        ({"coordinates": "pixels"}, [20, 10, 100, 50], (20, 10, 100, 50)),
        (
            {"coordinates": "pixels", "chat": {"images": {"max_side": 100}}},
            [10, 5, 50, 25],
            (20, 10, 100, 50),
        ),
        ({"order": "yxyx"}, [200, 100, 1000, 500], (20, 10, 100, 50)),
    ],
)
def test_coordinates_are_read_as_yaml_says(
    server: Server, values: Any, numbers: list[int], expected: Any
) -> None:
    text = json.dumps({"objects": [{"bbox_2d": numbers, "label": "cup"}]})
    server.route = lambda seen: Act(chat_reply(text))
    assert np.allclose(corners(chat_boxes(server, **values)), [expected])
    content = server.seen[0].json["messages"][0]["content"]
    assert content[1]["text"] == "Find the red cup, as {not a slot}."


def test_thousandths_beyond_the_edge_are_unparsed(server: Server) -> None:
    server.route = lambda seen: Act(chat_reply('[{"bbox_2d": [0, 0, 1001, 1000]}]'))
    with pytest.raises(CallError, match="reaches out of the image: 1001 of 1000") as caught:
        corners(chat_boxes(server))
    assert caught.value.status is Status.UNPARSED


@pytest.mark.parametrize(
    ("text", "boxes"),
    [
        ("[]", []),
        ('{"objects": []}', []),
        ('```json\n[{"bbox_2d": [1, 2, 3, 4], "label": "a"}]\n```', [[1, 2, 3, 4]]),
        (
            'Draft [{"bbox": [9, 9, 9, 9]}]. So:\n[{"bbox": [1, 2, 3, 4]}] [see above]',
            [[1, 2, 3, 4]],
        ),
        ('{"box_2d": [1, 2, 3, 4]}', [[1, 2, 3, 4]]),
    ],
)
def test_the_last_list_of_boxes_counts(text: str, boxes: Any) -> None:
    assert read_boxes(text) == boxes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I see no cup.",
        "[1, 2, 3, 4]",
        '[{"label": "cup"}]',
        '[{"bbox_2d": [1, 2, 3, 4]}, {"bbox_2d": [1, 2',
        '[{"bbox_2d": [1, 2, 3, 4]}, {"label": "x"}]',
        "{" * 3000,
        "[" * 100_000,
    ],
)
def test_what_is_no_list_of_boxes_is_unparsed(text: str) -> None:
    with pytest.raises(CallError) as caught:
        read_boxes(text)
    assert caught.value.status is Status.UNPARSED


@pytest.mark.parametrize(
    "numbers",
    [[1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 3, None], [True, 0, 3, 4], [0, 0, 3, float("nan")]],
)
def test_a_box_has_four_numbers(numbers: Any) -> None:
    with pytest.raises(CallError) as caught:
        Frame(10, 10, 10.0, 10.0).box(numbers)
    assert caught.value.status is Status.UNPARSED


def test_the_prompt_must_name_the_object(server: Server) -> None:
    with pytest.raises(ValueError, match="phrase"):
        ChatBoxes({"model": MODEL, "base_url": server.url}, "Find it.")
    assert SOURCE.pixels.shape == (48, 64, 3)
