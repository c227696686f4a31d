"""Decoding whatever a camera or an editor wrote, within bounds."""

import io
import struct
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image

from stages.imaging import codec


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.fixture
def photo() -> np.ndarray:
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return cv2.resize(small, (40, 30), interpolation=cv2.INTER_CUBIC)


@pytest.mark.parametrize("shape", [(1, 1, 3), (8, 8, 3), (30, 40, 3), (1, 500, 3)])
def test_png_round_trip_is_exact_and_deterministic(shape):
    pixels = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    png = codec.encode_png(pixels)
    assert np.array_equal(codec.decode(png), pixels)
    assert codec.encode_png(pixels.copy()) == png


def test_grey_png_becomes_rgb():
    grey = np.arange(64, dtype=np.uint8).reshape(8, 8)
    decoded = codec.decode(codec.encode_png(grey))
    assert np.array_equal(decoded, np.repeat(grey[..., None], 3, axis=2))


def test_pngs_of_pillow_and_opencv_agree(photo):
    assert np.array_equal(codec.decode(saved(Image.fromarray(photo), "PNG")), photo)


@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
def test_lossy_formats_are_near(photo, kind):
    decoded = codec.decode(saved(Image.fromarray(photo), kind, quality=95))
    assert decoded.shape == photo.shape
    assert np.abs(decoded.astype(int) - photo).mean() < 6


def test_alpha_is_laid_on_white(photo):
    rgba = np.dstack([photo, np.zeros(photo.shape[:2], np.uint8)])
    rgba[:, :20, 3] = 255
    decoded = codec.decode(saved(Image.fromarray(rgba), "PNG"))
    assert np.array_equal(decoded[:, :20], photo[:, :20])
    assert (decoded[:, 20:] == 255).all()


def test_grey_with_alpha_is_laid_on_white():
    pair = np.dstack([np.full((4, 4), 10, np.uint8), np.full((4, 4), 0, np.uint8)])
    assert (codec.decode(saved(Image.fromarray(pair, "LA"), "PNG")) == 255).all()


def test_transparent_palette_entry_is_white():
    image = Image.new("P", (4, 4), 1)
    image.putpalette([255, 0, 0, 0, 0, 255])
    image.putpixel((0, 0), 0)
    decoded = codec.decode(saved(image, "PNG", transparency=0))
    assert decoded[0, 0].tolist() == [255, 255, 255]
    assert decoded[1, 1].tolist() == [0, 0, 255]


def test_transparent_colour_of_plain_png_is_white():
    image = Image.new("RGB", (3, 3), (1, 2, 3))
    image.putpixel((0, 0), (9, 9, 9))
    decoded = codec.decode(saved(image, "PNG", transparency=(9, 9, 9)))
    assert decoded[0, 0].tolist() == [255, 255, 255]
    assert decoded[1, 1].tolist() == [1, 2, 3]


def test_cmyk_is_converted():
    decoded = codec.decode(saved(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG", quality=95))
    red, green, blue = decoded.mean(axis=(0, 1))
    assert red > 200
    assert green < 60
    assert blue < 60


def test_sixteen_bits_are_scaled_and_not_clipped():
    ramp = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)
    decoded = codec.decode(saved(Image.fromarray(ramp), "PNG"))
    assert np.array_equal(decoded[..., 0].ravel(), np.arange(256))


def test_sixteen_bit_colour_is_scaled():
    deep = np.zeros((4, 4, 3), dtype=np.uint16)
    deep[..., 0], deep[..., 1] = 65535, 32896
    data = cv2.imencode(".png", deep[..., ::-1])[1].tobytes()
    assert codec.decode(data)[0, 0].tolist() == [255, 128, 0]


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_orientation_is_carried_out(kind):
    image = Image.new("RGB", (20, 10), (255, 255, 255))
    image.paste((0, 0, 0), (0, 0, 10, 10))  # dark left half
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise for display
    decoded = codec.decode(saved(image, kind, exif=exif))
    assert decoded.shape == (20, 10, 3)
    assert decoded[:8].mean() < 20
    assert decoded[12:].mean() > 235


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_first_frame_of_an_animation(kind):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ((255, 0, 0), (0, 0, 255))]
    options = {"lossless": True} if kind == "WEBP" else {}
    data = saved(frames[0], kind, save_all=True, append_images=frames[1:], **options)
    assert codec.decode(data)[4, 4].tolist() == [255, 0, 0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"I am sorry, I cannot edit this image.", "not an image"),
        (b"\x89PNG\r\n\x1a\n", "image"),
    ],
)
def test_what_is_no_image_is_named(data, message):
    with pytest.raises(codec.ImageError, match=message):
        codec.decode(data)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.95])
def test_cut_off_files_are_refused(kind, share):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    data = saved(Image.fromarray(noise), kind)
    with pytest.raises(codec.ImageError, match=r"damaged or cut off|not an image"):
        codec.decode(data[: int(len(data) * share)])


def test_damaged_pixels_are_refused():
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    data = bytearray(saved(Image.fromarray(noise), "PNG"))
    data[200:260] = bytes(60)
    with pytest.raises(codec.ImageError):
        codec.decode(bytes(data))


def bomb(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        crc = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", crc)

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize("side", [10_000, 60_000])
def test_bombs_are_refused_before_decoding(side):
    with pytest.raises(codec.ImageError, match="allowed"):
        codec.decode(bomb(side, side))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF"])
def test_max_pixels_is_the_bound(kind):
    data = saved(Image.new("RGB", (20, 10)), kind)
    assert codec.decode(data, max_pixels=200).shape == (10, 20, 3)
    with pytest.raises(codec.ImageError, match="20 x 10"):
        codec.decode(data, max_pixels=199)


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((0, 4, 3), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((4, 4, 3), np.float32),
        np.zeros(4, np.uint8),
    ],
)
def test_encoding_refuses_what_is_no_picture(pixels):
    with pytest.raises(codec.ImageError, match="cannot write"):
        codec.encode_png(pixels)
