"""The built-in detector: what a phrase is about, and where that is."""

import asyncio

import numpy as np
import pytest

from stages.models.demo import paint, scenery
from stages.models.detector.demo import DemoDetector, kind_of
from stages.models.picture import Picture

PHRASES = {
    "ball": "ball",
    "the orange ball": "ball",
    "The Balls": "ball",
    "the lined ball on the chest": "ball",
    "a red traffic light": "traffic light",
    "traffic-light": "traffic light",
    "two benches": "bench",
    "buses": "bus",
    "colour of the car": "car",
    "left-facing car": "car",
    "car left of the truck": "car",
    "arrow sign": "arrow sign",
    "the person": "pedestrian",
    "cat": "cat",
    "cathedral": None,
    "carpet": None,
    "": None,
    "giraffe": None,
}


@pytest.mark.parametrize(("phrase", "kind"), PHRASES.items())
def test_kind_of_a_phrase(phrase, kind):
    assert kind_of(phrase) == kind


def scene() -> Picture:
    rng = np.random.default_rng(2)
    pixels = scenery.room(640, 480, rng).pixels
    for look, box in (
        (paint.Look("ball", "orange", "lined"), (60, 320, 160, 420)),
        (paint.Look("chest", "green"), (400, 340, 525, 436)),
        (paint.Look("ball", "blue"), (220, 320, 320, 420)),
    ):
        pixels = paint.stamp(pixels, look, box)
    return Picture.of(scenery.develop(pixels, rng))


def detect(phrase):
    found = asyncio.run(DemoDetector().detect(scene(), phrase))
    return [(box.x0, box.y0, box.x1, box.y1) for box in found.boxes]


def test_boxes_lie_on_the_things_and_the_best_comes_first():
    assert np.abs(np.subtract(detect("the chest"), (400, 340, 525, 436))).max() <= 4
    assert np.abs(np.subtract(detect("blue ball")[0], (220, 320, 320, 420))).max() <= 4
    assert len(detect("blue ball")) == 2
    assert detect("blue ball") == detect("orange balls")[::-1]


@pytest.mark.parametrize("phrase", ["the fish", "", "giraffe", "the room"])
def test_what_is_not_there_has_no_box(phrase):
    assert detect(phrase) == []


def test_a_picture_without_things_has_no_box():
    blank = Picture.of(np.full((1, 1, 3), 7, np.uint8))
    assert asyncio.run(DemoDetector().detect(blank, "ball")).boxes == ()


def test_identity_names_the_code():
    assert DemoDetector().identity() == DemoDetector().identity()
    assert len(DemoDetector().identity()["code"]) == 64
