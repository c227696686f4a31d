"""Pictures as parts of a request, encoded once for each picture, and bytes out of replies."""

import base64
import binascii
import io
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from PIL import Image

from stages.models.picture import Picture
from stages.models.protocol import CallError
from stages.records.base import Status

JPEG_QUALITY = 95


@dataclass(frozen=True)
class Encoding:
    """How pictures are sent. In YAML: ``images: {format: png, max_side: 1024}``."""

    format: Literal["png", "jpeg"] = "png"
    """PNG is exact; JPEG (quality 95, all colour samples) is smaller."""
    max_side: int | None = None
    """Longest side in pixels, to which larger pictures are reduced; None sends them as they are."""

    def __post_init__(self) -> None:
        if self.format not in ("png", "jpeg"):
            raise ValueError(f"images.format is {self.format!r}; it must be png or jpeg")
        if self.max_side is not None and self.max_side < 16:
            raise ValueError(f"images.max_side is {self.max_side}; it must be 16 or more")

    @property
    def media_type(self) -> str:
        return f"image/{self.format}"

    def encode(self, picture: Picture) -> bytes:
        """The file that is sent."""
        width, height = self.size(picture)
        source_height, source_width = picture.pixels.shape[:2]
        same_size = (width, height) == (source_width, source_height)
        if same_size and self.format == "png":
            return picture.png
        image = Image.fromarray(picture.pixels)
        if not same_size:
            image = image.resize((width, height), Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        if self.format == "png":
            image.save(buffer, "PNG")
        else:
            image.save(buffer, "JPEG", quality=JPEG_QUALITY, subsampling=0)
        return buffer.getvalue()

    def size(self, picture: Picture) -> tuple[int, int]:
        """Width and height of what is sent."""
        height, width = picture.pixels.shape[:2]
        if self.max_side is None or max(width, height) <= self.max_side:
            return width, height
        scale = self.max_side / max(width, height)
        return max(1, round(width * scale)), max(1, round(height * scale))


@lru_cache(maxsize=64)
def base64_of(picture: Picture, encoding: Encoding) -> str:
    """A picture as base64, without a prefix."""
    return base64.b64encode(encoding.encode(picture)).decode("ascii")


def data_url(picture: Picture, encoding: Encoding) -> str:
    """A picture as a ``data:`` URL."""
    return f"data:{encoding.media_type};base64,{base64_of(picture, encoding)}"


def bytes_of(text: str) -> bytes:
    """The bytes of a ``data:`` URL or of bare base64; a CallError for what is neither."""
    if text.startswith("data:"):
        head, _, text = text.partition(",")
        if not head.endswith(";base64"):
            raise CallError(Status.API_ERROR, "the returned image is a data URL without base64")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise CallError(Status.API_ERROR, "the returned image is no base64") from None
