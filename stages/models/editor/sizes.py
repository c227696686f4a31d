"""Sizes that editors take, as near to a picture's own as they allow."""

import math
from fractions import Fraction

STEP = 16


def in_steps(
    width: int, height: int, *, max_pixels: int, min_pixels: int = 0, min_side: int = 64
) -> tuple[int, int]:
    """Width and height in multiples of 16 that keep a picture's proportions best.

    Parameters
    ----------
    width, height : int
        The picture's.
    max_pixels, min_pixels : int
        Bounds on width times height; a picture beyond them is scaled.
    min_side : int
        Shortest side allowed.

    Returns
    -------
    (int, int)
        Width and height. Proportions count most, then the size: verification rejects what comes
        back with other proportions, and scales what comes back in another size.
    """
    area = width * height
    scale = math.sqrt(min(max(area, min_pixels), max_pixels) / area)
    scale = max(scale, min_side / min(width, height))
    wanted = height * scale

    def cost(size: tuple[int, int]) -> float:
        stretch = abs(math.log(size[0] * height / (size[1] * width)))
        return stretch + 0.05 * abs(math.log(size[1] / wanted))

    rows = range(max(min_side, _step(0.85 * wanted)), _step(1.15 * wanted) + 6 * STEP, STEP)
    sizes = [
        (columns, row)
        for row in rows
        for columns in {_step(row * width / height), _step(row * width / height) + STEP}
        if columns >= min_side and min_pixels <= columns * row <= max_pixels
    ]
    return min(sizes, key=cost, default=(_step(width * scale), _step(wanted)))


def ratio(width: int, height: int) -> str:
    """Proportions as small whole numbers: ``640, 427`` gives ``3:2``."""
    share = Fraction(width, height).limit_denominator(32)
    return f"{share.numerator}:{share.denominator}"


def _step(length: float) -> int:
    return max(STEP, int(length // STEP) * STEP)
