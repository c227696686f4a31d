"""One set of colours for figures, pages and overlays: Okabe and Ito's, safe for colour-blind eyes.

M. Okabe and K. Ito, "Color Universal Design" (2008), https://jfly.uni-koeln.de/color/.
"""

BLACK = "#000000"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
BLUE = "#0072B2"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"
GREY = "#8A8A8A"

SERIES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

HEAT = ("#F0E442", "#E69F00", "#D55E00", "#6E1A00")
"""Few changed pixels → many: darker is more, so that it survives a grey print."""


def rgb(colour: str) -> tuple[int, int, int]:
    """``#RRGGBB`` as three numbers in [0, 255]."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
