"""An image as models exchange it: PNG bytes named by their content."""

import hashlib
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stages.imaging import codec
from stages.records.errors import UserError


@dataclass(frozen=True)
class Picture:
    """PNG bytes; equality and hash are those of the bytes."""

    png: bytes

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the PNG bytes: the picture's name in records and on disk."""
        return hashlib.sha256(self.png).hexdigest()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, by the header: nothing is decoded."""
        width, height = struct.unpack(">II", self.png[16:24])
        return width, height

    @cached_property
    def pixels(self) -> NDArray[np.uint8]:
        """The image as ``(H, W, 3)`` RGB; not to be written to."""
        pixels = codec.decode(self.png)
        pixels.flags.writeable = False
        return pixels

    @classmethod
    def read(cls, data: bytes) -> "Picture":
        """Make a picture of an image file; plain PNG stays as it is, all else is written anew."""
        return cls(data) if codec.is_plain_png(data) else cls.of(codec.decode(data))

    @classmethod
    def of(cls, pixels: NDArray[np.uint8]) -> "Picture":
        """Make a picture of ``(H, W, 3)`` RGB or ``(H, W)`` grey pixels."""
        picture = cls(codec.encode_png(pixels))
        rgb = pixels if pixels.ndim == 3 else np.repeat(pixels[..., None], 3, axis=2)
        seen = np.array(rgb, order="C")
        seen.flags.writeable = False
        vars(picture)["pixels"] = seen  # what decoding would bring, at a tenth of its time
        return picture

    @classmethod
    def load(cls, folder: Path, sha256: str) -> "Picture":
        """Read ``folder/<sha256>.png``; a file that is not what its name says is an error."""
        path = folder / f"{sha256}.png"
        try:
            picture = cls(path.read_bytes())
        except FileNotFoundError:
            raise UserError(
                str(path), "the image is missing", "Run `dvc checkout`, or `dvc repro` again."
            ) from None
        if picture.sha256 != sha256:
            raise UserError(
                str(path), "the content does not match its name", "Remove it; `dvc checkout`."
            )
        return picture

    def save(self, folder: Path) -> str:
        """Write ``folder/<sha256>.png`` unless it is there; return the name's hash."""
        path = folder / f"{self.sha256}.png"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.png)
        return self.sha256
