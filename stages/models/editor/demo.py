"""The built-in editor: it edits pictures of the built-in world, and errs at stated rates.

It reads the instruction and looks at the pixels, like any editor. Which call errs how follows from
a digest of the request, so that runs repeat and a second attempt can fare better than the first.
"""

import asyncio
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from stages.imaging import codec
from stages.models.demo import retouch, shapes, sight
from stages.models.demo.changes import Change, requested
from stages.models.fingerprint import fingerprint
from stages.models.picture import Picture
from stages.models.protocol import EditedImage, Editor
from stages.records.errors import UserError
from stages.records.usage import Usage

Pixels = NDArray[np.uint8]

FAULTS = (
    "unchanged",
    "wrong_object",
    "background",
    "shift",
    "other_size",
    "other_aspect",
    "bystander",
)
"""What can go wrong: nothing is edited; another thing is edited; the edit is right but all around
is repainted, or the image is moved by a few pixels, or has another size, or other proportions, or
another thing has changed its colour as well."""
_SOURCES = (
    "changes",
    "inpaint",
    "outline",
    "paint",
    "retouch",
    "scenery",
    "shapes",
    "sight",
    "world",
)


class DemoEditor(Editor):
    """Edits the things that `stages.models.demo.sight` sees; all else comes back as it was.

    Parameters
    ----------
    name : str
        What the editor is called.
    faults : mapping of str to float
        Share of calls, in [0, 1], that end in each of `FAULTS`; those left out have 0. Together
        at most 1.
    """

    durable: ClassVar[bool] = False
    concurrency = os.cpu_count() or 1

    def __init__(self, name: str = "demo", faults: Mapping[str, float] | None = None) -> None:
        self.name = name
        self.faults = _checked(name, faults or {})

    def identity(self) -> Mapping[str, Any]:
        """Name, fault rates, and the digest of the code."""
        modules = (f"stages.models.demo.{module}" for module in _SOURCES)
        return {
            "provider": "demo",
            "model": self.name,
            "faults": self.faults,
            "code": fingerprint(__name__, *modules),
        }

    async def edit(
        self, picture: Picture, instruction: str, *, seed: int, attempt: int
    ) -> EditedImage:
        """Edit; what isn't understood, or asks for an object that isn't seen, changes nothing."""
        data = await asyncio.to_thread(self._edit, picture, instruction, seed, attempt)
        return EditedImage(data, Usage(served_model=self.name, provider="demo", images=1))

    def _edit(self, picture: Picture, instruction: str, seed: int, attempt: int) -> bytes:
        digest = hashlib.sha256(
            json.dumps([seed, attempt, instruction, picture.sha256]).encode()
        ).digest()
        rng = np.random.default_rng(int.from_bytes(digest[:16], "big"))
        fault = self._fault(int.from_bytes(digest[16:24], "big") / 2**64)
        return codec.encode_png(edit(picture.pixels, instruction, fault=fault, rng=rng))

    def _fault(self, draw: float) -> str | None:
        for fault, rate in self.faults.items():
            if draw < rate:
                return fault
            draw -= rate
        return None


def edit(
    pixels: Pixels, instruction: str, *, fault: str | None, rng: np.random.Generator
) -> Pixels:
    """Edit ``(H, W, 3)`` uint8 RGB with one of `FAULTS`, or None for a clean edit."""
    things = sight.see(pixels)
    change = requested(instruction)
    if fault == "unchanged":
        return _regrain(pixels, rng)
    if fault == "wrong_object":
        change = _mistaken(change, things, rng)
    edited = retouch.apply(pixels, change, things, rng) if change else None
    if edited is None:
        edited = pixels.copy()
    match fault:
        case "background":
            return _repaint(edited, rng)
        case "shift":
            return _shift(edited, rng)
        case "other_size":
            factor = float(rng.choice([0.75, 1.25, 1.5]))
            return _resize(edited, factor, factor)
        case "other_aspect":
            return _resize(edited, 1.0, float(rng.choice([0.9, 1.1])))
        case "bystander":
            return _recolour_another(edited, change, rng)
    return edited


def _checked(name: str, faults: Mapping[str, float]) -> dict[str, float]:
    where = f"editors.{name}.faults"
    for fault, rate in faults.items():
        if fault not in FAULTS:
            raise UserError(where, f"unknown fault {fault!r}", f"Use one of {', '.join(FAULTS)}.")
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
            raise UserError(f"{where}.{fault}", f"{rate!r} is no rate", "Give a share in [0, 1].")
    if sum(faults.values()) > 1 + 1e-9:
        raise UserError(where, f"the rates sum to {sum(faults.values()):g}", "Keep them within 1.")
    return {fault: float(faults.get(fault, 0.0)) for fault in FAULTS}


def _mistaken(
    change: Change | None, things: tuple[sight.Thing, ...], rng: np.random.Generator
) -> Change | None:
    """The same change to another thing; None where no other thing could have it."""
    if change is None or change.action in ("add", "repattern"):
        return None
    others = [
        thing.kind
        for thing in things
        if thing.kind not in (change.kind, change.new)
        and (change.action != "turn" or thing.facing is not None)
        and (change.action != "recolour" or thing.colour != change.new)
    ]
    if not others:
        return None
    mistaken = change._replace(kind=others[int(rng.integers(len(others)))])
    return mistaken._replace(new=None) if change.action == "turn" else mistaken


def _recolour_another(pixels: Pixels, change: Change | None, rng: np.random.Generator) -> Pixels:
    """Give another thing than the one that was meant another colour, if there is one."""
    things = sight.see(pixels)
    meant = (change.kind, change.new) if change else ()
    others = [thing for thing in things if thing.kind not in meant]
    if not others:
        return pixels
    other = others[int(rng.integers(len(others)))]
    palette = shapes.LIGHTS if other.kind == "traffic light" else tuple(shapes.PALETTE)
    colours = [colour for colour in palette if colour != other.colour]
    colour = colours[int(rng.integers(len(colours)))]
    also = Change("recolour", other.kind, other.colour, colour)
    recoloured = retouch.apply(pixels, also, things, rng)
    return pixels if recoloured is None else recoloured


def _regrain(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """The same picture, as if it had gone through an encoder."""
    noisy = pixels + rng.normal(0, 1.5, pixels.shape)
    return np.clip(noisy + 0.5, 0, 255).astype(np.uint8)


def _repaint(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Paint a mottled backdrop behind the things."""
    h, w = pixels.shape[:2]
    kept = np.zeros((h, w), np.uint8)
    for thing in sight.see(pixels):
        kept |= thing.mask.astype(np.uint8)
    kept = cv2.dilate(kept, np.ones((5, 5), np.uint8))
    coarse, fine = (
        cv2.resize(
            rng.normal(0, 1, (h // cell + 2, w // cell + 2)).astype(np.float32),
            (w, h),
            interpolation=cv2.INTER_CUBIC,
        )
        for cell in (48, 11)
    )
    tint = rng.uniform(-8, 8, 3)
    backdrop = np.clip(168 + 34 * coarse + 24 * fine, 78, 250)[..., None] + tint
    away = cv2.GaussianBlur(1 - kept.astype(np.float32), (3, 3), 0)[..., None]
    painted: Pixels = np.clip(pixels * (1 - away) + backdrop * away + 0.5, 0, 255).astype(np.uint8)
    return painted


def _shift(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Move the picture by 2 to 4 pixels each way and mirror it at the rim."""
    x, y = (int(rng.integers(2, 5)) * int(rng.choice([-1, 1])) for _ in range(2))
    move = np.array([[1, 0, x], [0, 1, y]], np.float32)
    size = (pixels.shape[1], pixels.shape[0])
    moved: Pixels = cv2.warpAffine(pixels, move, size, borderMode=cv2.BORDER_REFLECT)
    return moved


def _resize(pixels: Pixels, across: float, down: float) -> Pixels:
    size = (max(1, round(pixels.shape[1] * across)), max(1, round(pixels.shape[0] * down)))
    resized: Pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    return resized
