"""From candidates to boxes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stages.models.detector.ranking import overlap, ranked


def chosen(corners, scores, **values):
    given = {"width": 100, "height": 50, "threshold": 0.0, **values}
    boxes = ranked(np.array(corners, float), np.array(scores, float), **given)
    return [((box.x0, box.y0, box.x1, box.y1), box.score) for box in boxes]


ONE, SAME, OTHER = (10, 10, 30, 30), (11, 10, 31, 30), (60, 10, 90, 40)


def test_the_best_come_first_and_equal_ones_in_the_order_of_the_model():
    assert chosen([ONE, OTHER, SAME], [0.5, 0.9, 0.5]) == [(OTHER, 0.9), (ONE, 0.5), (SAME, 0.5)]


def test_the_threshold_is_exclusive():
    assert chosen([ONE, OTHER], [0.5, 0.6], threshold=0.5) == [(OTHER, 0.6)]
    assert chosen([ONE], [0.2], threshold=0.5) == []
    assert chosen(np.zeros((0, 4)), []) == []


def test_of_two_that_overlap_the_better_is_kept():
    assert overlap(np.array(ONE), np.array(SAME)) == pytest.approx(19 / 21)
    assert chosen([ONE, SAME, OTHER], [0.5, 0.8, 0.6], nms_iou=0.9) == [(SAME, 0.8), (OTHER, 0.6)]
    assert len(chosen([ONE, SAME, OTHER], [0.5, 0.8, 0.6], nms_iou=0.91)) == 3


def test_what_is_suppressed_takes_no_place():
    assert chosen([ONE, SAME, OTHER], [0.8, 0.7, 0.6], nms_iou=0.5, top_k=2) == [
        (ONE, 0.8),
        (OTHER, 0.6),
    ]


def test_boxes_are_cut_at_the_edge_and_left_out_beyond_it():
    assert chosen([(-5, 40, 20, 60)], [0.5]) == [((0, 40, 20, 50), 0.5)]
    beyond = [(0, 55, 20, 80), (-9, 0, 0, 10), (30, 10, 30, 20), (30, 20, 40, 10)]
    assert chosen(beyond, [0.9] * 4) == []


@pytest.mark.local
def test_suppression_is_that_of_torchvision():
    import torch
    from torchvision.ops import nms

    rng = np.random.default_rng(0)
    for _ in range(20):
        start = rng.uniform(0, 40, (30, 2))
        corners = np.hstack([start, start + rng.uniform(2, 30, (30, 2))])
        corners[:, [1, 3]] /= 2
        corners, scores = corners.round(2), rng.uniform(size=30)
        kept = nms(torch.tensor(corners), torch.tensor(scores), 0.4).tolist()
        found = [score for _, score in chosen(corners, scores, nms_iou=0.4)]
        assert found == [round(scores[number], 4) for number in kept]


@given(
    arrays(np.float64, (6, 4), elements=st.floats(-200, 200)),
    arrays(np.float64, 6, elements=st.floats(0, 1)),
)
def test_whatever_comes_boxes_lie_in_the_picture(corners, scores):
    boxes = ranked(corners, scores, width=100, height=50, threshold=0.1, nms_iou=0.5, top_k=3)
    assert len(boxes) <= 3
    for box in boxes:
        assert 0 <= box.x0 < box.x1 <= 100
        assert 0 <= box.y0 < box.y1 <= 50
        assert box.score is not None
        assert box.score >= 0.1
    assert [box.score for box in boxes] == sorted((box.score for box in boxes), reverse=True)
