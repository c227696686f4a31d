"""How many pixels a model is shown: by its own image processor where that counts areas."""

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

from stages.models.picture import Picture
from stages.records.errors import UserError

if TYPE_CHECKING:
    from PIL.Image import Image

_AREA = 50_000
"""A processor whose ``longest_edge`` is above this means an area: no edge is so long."""


@dataclass(frozen=True)
class PixelBudget:
    """Bounds on the area of a picture as the model sees it, in pixels.

    Processors of Qwen's and GLM's kind scale to an area between two bounds: theirs are replaced.
    For all others a larger picture is scaled down to ``max_pixels`` before the processor sees it.
    """

    min_pixels: int | None = None
    max_pixels: int | None = None

    def __post_init__(self) -> None:
        low, high = self.min_pixels or 1, self.max_pixels
        if low < 1 or (high is not None and high < low):
            raise ValueError("1 ≤ min_pixels ≤ max_pixels is wanted")

    def set_on(self, image_processor: Any, where: str) -> "PixelBudget":
        """Hand the bounds to a processor that counts areas; return what is left to be done."""
        size = getattr(image_processor, "size", None)
        bounds = {name: _get(size, name) for name in ("shortest_edge", "longest_edge")}
        if None not in bounds.values() and bounds["longest_edge"] > _AREA:
            low = self.min_pixels or bounds["shortest_edge"]
            high = self.max_pixels or bounds["longest_edge"]
            if low > high:
                raise UserError(
                    where, f"min_pixels {low} is above max_pixels {high}", "Set both in its file."
                )
            image_processor.size = {"shortest_edge": low, "longest_edge": high}
            return PixelBudget()
        if self.min_pixels is not None:
            raise UserError(
                where,
                f"min_pixels: {type(image_processor).__name__} enlarges nothing",
                "Leave it out; max_pixels works with every model.",
            )
        return self

    def image(self, picture: Picture) -> "Image":
        """The picture as PIL image in RGB, scaled down (Lanczos) where it has too many pixels."""
        from PIL import Image

        image = Image.fromarray(picture.pixels)
        if self.max_pixels is None or image.width * image.height <= self.max_pixels:
            return image
        scale = sqrt(self.max_pixels / (image.width * image.height))
        size = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
        return image.resize(size, Image.Resampling.LANCZOS)


def _get(size: Any, name: str) -> Any:
    return size.get(name) if hasattr(size, "get") else getattr(size, name, None)
