"""Image files to RGB arrays and back, within bounds, for whatever a camera or an editor wrote."""

import io

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

MAX_PIXELS = 64_000_000


class ImageError(ValueError):
    """The bytes are no image that can be used; the message says why."""


def decode(data: bytes, *, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8]:
    """Decode to ``(H, W, 3)`` uint8 RGB, upright. (provisional: to be completed)"""
    image = Image.open(io.BytesIO(data))
    return np.array(ImageOps.exif_transpose(image).convert("RGB"))


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """Encode ``(H, W, 3)`` RGB or ``(H, W)`` grey as PNG; equal pixels give equal bytes."""
    if pixels.ndim == 3:
        pixels = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    ok, buffer = cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 3])
    return buffer.tobytes()
