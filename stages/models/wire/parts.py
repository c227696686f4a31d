"""Pictures as parts of a request, encoded once for each picture, and bytes out of replies.

What is made of a picture is kept no longer than the picture. Base64 is not kept at all: a megapixel
of it takes a millisecond to make and two megabytes to hold, for every sample under way.
"""

import base64
import binascii
import io
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

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
        """The file that is sent; the same one as long as the picture lives."""
        if self.format == "png" and self.size(picture) == picture.size:
            return picture.png
        made = _ENCODED.setdefault(picture, {})
        if self not in made:
            made[self] = self._encode(picture)
        return made[self]

    def _encode(self, picture: Picture) -> bytes:
        image = Image.fromarray(picture.pixels)
        if self.size(picture) != picture.size:
            image = image.resize(self.size(picture), Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        if self.format == "png":
            image.save(buffer, "PNG")
        else:
            image.save(buffer, "JPEG", quality=JPEG_QUALITY, subsampling=0)
        return buffer.getvalue()

    def size(self, picture: Picture) -> tuple[int, int]:
        """Width and height of what is sent."""
        width, height = picture.size
        if self.max_side is None or max(width, height) <= self.max_side:
            return width, height
        scale = self.max_side / max(width, height)
        return max(1, round(width * scale)), max(1, round(height * scale))


_ENCODED: WeakKeyDictionary[Picture, dict[Encoding, bytes]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Shown:
    """A picture in the body of a request, in the place of the ``data:`` URL that `written` puts
    there."""

    picture: Picture
    encoding: Encoding

    def url(self) -> bytes:
        """The ``data:`` URL."""
        file = binascii.b2a_base64(self.encoding.encode(self.picture), newline=False)
        return b"data:%s;base64,%s" % (self.encoding.media_type.encode(), file)


def written(body: Mapping[str, Any]) -> bytes:
    """A body as JSON. Pictures are set in as they are: base64 holds nothing to be escaped."""
    shown: list[Shown] = []
    place = secrets.token_hex(16)  # no text of a model can hold it

    def leave_a_place(value: object) -> str:
        if not isinstance(value, Shown):
            raise TypeError(f"{type(value).__name__} is no JSON")
        shown.append(value)
        return place

    text = json.dumps(
        body, default=leave_a_place, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    first, *rest = text.encode().split(place.encode())
    parts = [first]
    for picture, after in zip(shown, rest, strict=True):
        parts += [picture.url(), after]
    return b"".join(parts)


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
