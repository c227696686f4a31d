"""Recorded masks: eroded, so that the dilation of verification gives the recorded mask again."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.imaging import mask as masks
from stages.models.segmenter.bench import erode


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    height=st.integers(1, 60),
    width=st.integers(1, 60),
    share=st.sampled_from([0.0, 0.01, 0.03, 0.08, 0.3]),
    density=st.sampled_from([0.0, 0.002, 0.02, 0.3, 0.9, 1.0]),
)
def test_dilating_what_was_eroded_gives_the_dilated_mask(
    seed: int, height: int, width: int, share: float, density: float
) -> None:
    segmented = np.random.default_rng(seed).random((height, width)) < density
    dilated = masks.dilate(segmented, radius_share=share)
    eroded = erode(dilated, radius_share=share)
    assert np.array_equal(masks.dilate(eroded, radius_share=share), dilated)
    assert (eroded >= segmented).all()
    assert eroded.any() == dilated.any()


@pytest.mark.parametrize("corner", [(0, 0), (0, 99), (79, 0), (79, 99)])
def test_a_mask_at_the_border_keeps_its_corner(corner: tuple[int, int]) -> None:
    segmented = np.zeros((80, 100), bool)
    segmented[corner] = True
    dilated = masks.dilate(segmented, radius_share=0.05)
    assert erode(dilated, radius_share=0.05)[corner]
    assert erode(dilated, radius_share=0.05).sum() < dilated.sum()
