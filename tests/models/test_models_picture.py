"""A picture is its PNG bytes, wherever its pixels come from."""

import numpy as np
import pytest

from stages.imaging import codec
from stages.models.picture import Picture


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3)])
def test_pixels_at_hand_are_those_that_decoding_brings(shape: tuple[int, ...]) -> None:
    given = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    made = Picture.of(given[:, ::-1])
    read = Picture(made.png)
    assert made == read
    assert np.array_equal(made.pixels, read.pixels)
    assert np.array_equal(made.pixels, codec.decode(made.png))
    assert made.pixels.flags.c_contiguous
    assert not made.pixels.flags.writeable
    given[:] = 0  # whoever gave them may write to them
    assert np.array_equal(made.pixels, read.pixels)
