"""Image files to RGB arrays and back, within bounds, for whatever a camera or an editor wrote."""

import io
import struct
import warnings
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # imported where it is used: most files are plain PNG
    from PIL import Image

MAX_PIXELS = 64_000_000
"""Default bound on width times height: 8000 x 8000."""

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_WHITE = (255, 255, 255, 255)


class ImageError(ValueError):
    """The bytes are no image that can be used; the message says why."""


def decode(data: bytes, *, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8]:
    """Decode an image file of any common format.

    Grey becomes RGB, CMYK is converted, 16 bits are scaled to 8, what is transparent is laid on
    white, an orientation in the metadata is carried out, and of an animation the first frame is
    taken. The size is checked before any pixel is decoded.

    Parameters
    ----------
    data : bytes
        The file.
    max_pixels : int
        Largest width times height.

    Returns
    -------
    (H, W, 3) uint8 array
        RGB, upright.

    Raises
    ------
    ImageError
        For what is no image, is damaged or cut off, or is larger than ``max_pixels``.
    """
    if not data:
        raise ImageError("the file is empty")
    if is_plain_png(data):
        width, height = struct.unpack(">II", data[16:24])
        _check_size(width, height, max_pixels)
        if data.endswith(_PNG_END):
            pixels = _decode_plain_png(data)
            if pixels is not None:
                return pixels
    return _decode_any(data, max_pixels)


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """Encode ``(H, W, 3)`` RGB or ``(H, W)`` grey uint8 as PNG; equal pixels give equal bytes.

    Raises
    ------
    ImageError
        For another shape or type, or an array without pixels.
    """
    grey = pixels.ndim == 2
    if pixels.dtype != np.uint8 or not pixels.size or not (grey or pixels.shape[2:] == (3,)):
        raise ImageError(f"cannot write {pixels.dtype} {pixels.shape} as PNG")
    if not grey:
        pixels = np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), dtype=np.uint8)
    # Every option that shapes the bytes is named, so that no default of a version decides.
    options = [
        cv2.IMWRITE_PNG_COMPRESSION,
        3,
        cv2.IMWRITE_PNG_STRATEGY,
        cv2.IMWRITE_PNG_STRATEGY_RLE,
        cv2.IMWRITE_PNG_FILTER,
        cv2.IMWRITE_PNG_FILTER_SUB,
    ]
    written, buffer = cv2.imencode(".png", np.ascontiguousarray(pixels), options)
    if not written:
        raise ImageError(f"could not write {pixels.shape} as PNG")
    return bytes(buffer.tobytes())


_PNG_END = b"\x00\x00\x00\x00IEND\xaeB`\x82"


def is_plain_png(data: bytes) -> bool:
    """PNG, 8 bits, grey or RGB, and nothing but pixels in it."""
    if not (data.startswith(_PNG_SIGNATURE) and data[12:16] == b"IHDR" and len(data) > 29):
        return False
    depth, colour = data[24], data[25]
    if depth != 8 or colour not in (0, 2):
        return False
    # To the last chunk: an orientation may stand behind the pixels.
    at = 33
    while at + 8 <= len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        # Any other chunk changes what is seen, or carries words (an editor's prompt, say) that
        # would go to a model along with the pixels.
        if kind not in (b"IHDR", b"IDAT", b"IEND"):
            return False
        if kind == b"IEND":
            return True
        at += 12 + length
    return False


def _decode_plain_png(data: bytes) -> NDArray[np.uint8] | None:
    try:
        pixels = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), cv2.IMREAD_COLOR_RGB)
    except cv2.error:
        return None
    return None if pixels is None else np.asarray(pixels, dtype=np.uint8)


def _check_size(width: int, height: int, max_pixels: int) -> None:
    if width < 1 or height < 1:
        raise ImageError(f"the image has no pixels ({width} x {height})")
    if width * height > max_pixels:
        raise ImageError(f"{width} x {height} pixels are more than the {max_pixels} allowed")


def _decode_any(data: bytes, max_pixels: int) -> NDArray[np.uint8]:
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            # The bound here is max_pixels, checked below before anything is decoded.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data)) as image:
                _check_size(*image.size, max_pixels)
                image.load()
                return _to_rgb(ImageOps.exif_transpose(image))
    except ImageError:
        raise
    except UnidentifiedImageError:
        raise ImageError("not an image, or of a format that is not supported") from None
    except Image.DecompressionBombError:
        raise ImageError(f"the image has more than the {max_pixels} pixels allowed") from None
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, MemoryError) as error:
        raise ImageError(f"the image is damaged or cut off: {error}") from None


def _to_rgb(image: "Image.Image") -> NDArray[np.uint8]:
    from PIL import Image

    if image.mode.startswith("I") or image.mode == "F":
        return _scale(np.asarray(image))
    if image.has_transparency_data or image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, _WHITE), layer)
    return np.array(image.convert("RGB"), dtype=np.uint8)


def _scale(values: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Scale 16-bit grey, or floats in [0, 1] or [0, 255], to 8-bit RGB."""
    floats = np.nan_to_num(np.asarray(values, dtype=np.float64))
    if np.issubdtype(values.dtype, np.integer):
        floats = floats / 257
    elif floats.max(initial=0.0) <= 1.0:
        floats = floats * 255
    grey = np.clip(np.rint(floats), 0, 255).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=2)
