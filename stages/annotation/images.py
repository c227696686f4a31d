"""Images as forms hold them: lossless where they fit, else as well as they fit, all alike.

AVIF with full colour resolution (4:4:4) rather than JPEG or lossy WebP: at equal size it keeps the
edges of a recoloured thing, which colour at half resolution smears. Original and edited image are
coded alike, so that no difference between them comes from the coding.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from stages.models.picture import Picture
from stages.records.errors import UserError

Load = Callable[[], Picture]
_PILOT = 12


class Coding(NamedTuple):
    """A way to write an image."""

    name: str
    mime: str
    options: Mapping[str, Any]

    def encode(self, pixels: np.ndarray) -> bytes:
        """Write ``(H, W, 3)`` uint8 RGB; equal pixels give equal bytes."""
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, **self.options)
        return file.getvalue()


def _avif(quality: int) -> Coding:
    # One thread and no tiles by the number of cores: the same bytes on every machine.
    options = {"subsampling": "4:4:4", "speed": 7, "max_threads": 1, "autotiling": False}
    return Coding(
        f"AVIF 4:4:4 at quality {quality}",
        "image/avif",
        {"format": "AVIF", "quality": quality, **options},
    )


LADDER: Sequence[Coding] = (
    Coding(
        "lossless WebP",
        "image/webp",
        {"format": "WEBP", "lossless": True, "quality": 60, "method": 4},
    ),
    *map(_avif, (90, 80, 70, 60)),
)
"""From the best down; below the last an edit could hide."""


def encode_all(loads: Mapping[str, Load], max_bytes: float) -> tuple[Coding, dict[str, bytes]]:
    """Encode images at the first step of the ladder at which they fit together.

    Parameters
    ----------
    loads : mapping of str to callable
        Name → a function that gives the picture.
    max_bytes : float
        Largest sum of the files' sizes.

    Raises
    ------
    UserError
        If they do not fit at the last step either.
    """
    names = list(loads)
    pilot = names[:: max(1, len(names) // _PILOT)]
    smallest = 0.0
    for coding in LADDER:
        tried = {name: coding.encode(loads[name]().pixels) for name in pilot}
        smallest = sum(map(len, tried.values())) * len(names) / max(1, len(pilot))
        if smallest > 1.1 * max_bytes:
            continue
        files = {name: tried.get(name) or coding.encode(loads[name]().pixels) for name in names}
        smallest = sum(map(len, files.values()))
        if smallest <= max_bytes:
            return coding, files
    raise UserError(
        "params.yaml: annotation.max_mb",
        f"is too small: {len(names)} images take {smallest * 4 / 3e6:.0f} MB of a form",
        "Raise it, or lower annotation.size.",
    )
