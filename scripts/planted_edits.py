"""Edits planted in photographs, whose verdict is known because they were made to order.

The photographs are those that scikit-image ships inside its wheel, so nothing is downloaded. A
planted pair is an edit of one boxed object, or a fault that the gate has to catch, and on top a
nuisance that an editor's pipeline brings along and that is no change.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Rect = tuple[int, int, int, int]


@dataclass(frozen=True)
class Case:
    """A pair of images whose verdict is known."""

    name: str
    origin: str
    """``planted`` or ``real``."""
    stratum: str
    """What the split is balanced over: the kind of edit, or the editor's repository."""
    group: str
    """The photograph: pairs of one group fall into the same part of the split."""
    source: Pixels
    edited: Pixels
    box: tuple[float, ...]
    """The target, XYXY in pixels of the image that ``frame`` names."""
    frame: str
    """``original`` or ``edited``."""
    valid: bool | None
    """The label; None where the labeller was unsure."""
    reason: str


@dataclass(frozen=True)
class Scene:
    """A photograph with objects and empty places, boxed by hand."""

    name: str
    pixels: Pixels
    objects: tuple[Rect, ...]
    places: tuple[Rect, ...]


def scenes() -> tuple[Scene, ...]:
    """Load the photographs from the installed scikit-image, without a network."""
    from skimage import data

    def colour(pixels: NDArray[np.uint8]) -> Pixels:
        return np.repeat(pixels[..., None], 3, axis=2) if pixels.ndim == 2 else pixels[..., :3]

    return (
        Scene(
            "astronaut",
            colour(data.astronaut()),
            ((130, 345, 210, 425), (155, 15, 300, 185), (275, 345, 500, 510), (365, 0, 470, 270)),
            ((285, 60, 355, 150), (60, 250, 110, 310)),
        ),
        Scene(
            "coffee",
            colour(data.coffee()),
            ((205, 90, 375, 200), (325, 225, 405, 330), (170, 15, 410, 240)),
            ((460, 30, 580, 130), (10, 150, 75, 250)),
        ),
        Scene(
            "chelsea",
            colour(data.chelsea()),
            ((135, 85, 210, 150), (295, 108, 350, 170), (228, 225, 305, 280)),
            ((375, 200, 445, 285), (0, 0, 40, 60)),
        ),
        Scene(
            "rocket",
            colour(data.rocket()),
            ((305, 128, 345, 410),),
            ((400, 60, 500, 140), (120, 40, 180, 100), (220, 220, 290, 330)),
        ),
        Scene(
            "motorcycle",
            colour(data.stereo_motorcycle()[0]),
            (
                (550, 120, 610, 185),
                (120, 235, 285, 400),
                (515, 280, 685, 450),
                (330, 235, 475, 370),
                (535, 180, 655, 255),
            ),
            ((30, 400, 110, 480), (180, 10, 300, 90)),
        ),
        Scene(
            "coins",
            colour(data.coins()),
            ((313, 155, 380, 220), (305, 12, 362, 72), (240, 95, 295, 145), (20, 230, 75, 285)),
            (),
        ),
        Scene(
            "camera",
            colour(data.camera()),
            ((155, 60, 270, 195), (255, 135, 330, 200), (405, 120, 435, 190)),
            ((350, 380, 450, 470), (350, 30, 450, 100)),
        ),
    )


def soft_ellipse(
    shape: tuple[int, ...], box: Rect, *, feather_px: float = 1.5
) -> NDArray[np.float32]:
    """The ellipse in a box, ``(H, W)`` in [0, 1], with a soft rim."""
    alpha = np.zeros(shape[:2], dtype=np.float32)
    x0, y0, x1, y1 = box
    centre = ((x0 + x1) // 2, (y0 + y1) // 2)
    cv2.ellipse(alpha, centre, ((x1 - x0) // 2, (y1 - y0) // 2), 0, 0, 360, 1.0, -1)
    return np.asarray(cv2.GaussianBlur(alpha, (0, 0), feather_px), dtype=np.float32)


def blend(below: Pixels, above: Pixels, alpha: NDArray[np.float32]) -> Pixels:
    """Lay one image over another, ``alpha`` of it."""
    mixed = below + alpha[..., None] * (above.astype(np.float32) - below)
    return np.clip(np.rint(mixed), 0, 255).astype(np.uint8)


def recoloured(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Another hue at the same value; grey surfaces are tinted."""
    hsv = cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV).astype(np.int32)
    hsv[..., 0] = (hsv[..., 0] + int(rng.integers(20, 130))) % 180
    hsv[..., 1] = np.maximum(hsv[..., 1], int(rng.integers(60, 180)))
    hsv[..., 2] = np.maximum(hsv[..., 2], 60)
    return np.asarray(cv2.cvtColor(hsv.astype(np.uint8), cv2.COLOR_HSV2RGB), dtype=np.uint8)


def textured(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Stripes over the surface, its mean colour kept."""
    height, width = pixels.shape[:2]
    xs, ys = np.meshgrid(np.arange(width), np.arange(height))
    angle, period = rng.uniform(0, np.pi), rng.uniform(6, 14)
    wave = np.sin(2 * np.pi * (xs * np.cos(angle) + ys * np.sin(angle)) / period)
    smooth = cv2.GaussianBlur(pixels, (0, 0), 4).astype(np.float32)
    striped = smooth + rng.uniform(15, 45) * wave[..., None]
    return np.asarray(np.clip(striped, 0, 255), dtype=np.uint8)


def edit(
    kind: str, scene: Scene, box: Rect, others: tuple[Scene, ...], rng: np.random.Generator
) -> Pixels:
    """Carry out one edit in the ellipse of a box."""
    pixels = scene.pixels
    alpha = soft_ellipse(pixels.shape, box)
    if kind == "recolour":
        return blend(pixels, recoloured(pixels, rng), alpha)
    if kind == "texture":
        return blend(pixels, textured(pixels, rng), alpha)
    if kind == "remove":
        hole = (soft_ellipse(pixels.shape, box, feather_px=3) > 0.02).astype(np.uint8)
        return np.asarray(cv2.inpaint(pixels, hole, 5, cv2.INPAINT_TELEA), dtype=np.uint8)
    # "add" and "replace" paste an object of another photograph.
    donor = others[int(rng.integers(len(others)))]
    x0, y0, x1, y1 = donor.objects[int(rng.integers(len(donor.objects)))]
    patch = cv2.resize(donor.pixels[y0:y1, x0:x1], (box[2] - box[0], box[3] - box[1]))
    above = pixels.copy()
    above[box[1] : box[3], box[0] : box[2]] = patch
    return blend(pixels, above, alpha)


def jpeg(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Through a JPEG file of quality 75 to 95."""
    bgr = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    _, data = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(75, 96))])
    return np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR_RGB), dtype=np.uint8)


def noise(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Gaussian noise of standard deviation 2 to 6."""
    noisy = pixels + rng.normal(0, rng.uniform(2, 6), pixels.shape)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def moved(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Shifted by up to 1.5 % of the diagonal, turned by up to 1.5 degrees, scaled by up to 2 %."""
    height, width = pixels.shape[:2]
    matrix = cv2.getRotationMatrix2D(
        (width / 2, height / 2), rng.uniform(-1.5, 1.5), rng.uniform(0.98, 1.02)
    )
    reach = 0.015 * np.hypot(height, width) / np.sqrt(2)
    matrix[:, 2] += rng.uniform(-reach, reach, 2)
    return np.asarray(
        cv2.warpAffine(
            pixels, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT
        ),
        dtype=np.uint8,
    )


def resized(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Returned at 0.7 to 1.6 times the size."""
    factor = rng.uniform(0.7, 1.6)
    return np.asarray(
        cv2.resize(
            pixels,
            None,
            fx=factor,
            fy=factor,
            interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC,
        ),
        dtype=np.uint8,
    )


def toned(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """A little softer, brighter or darker, as generative editors return what they keep."""
    soft = cv2.GaussianBlur(pixels, (0, 0), rng.uniform(0.4, 0.8)).astype(np.float32)
    gain = rng.uniform(0.95, 1.05, 3)
    shaded = np.rint(soft * gain + rng.uniform(-4, 4, 3))
    return np.asarray(np.clip(shaded, 0, 255), dtype=np.uint8)


NUISANCES: dict[str, tuple[Callable[[Pixels, np.random.Generator], Pixels], ...]] = {
    "exact": (),
    "jpeg": (jpeg,),
    "noise": (noise,),
    "moved": (moved,),
    "resized": (resized,),
    "toned": (toned,),
    "moved+toned+jpeg": (moved, toned, jpeg),
}


def fault(
    kind: str, scene: Scene, box: Rect, others: tuple[Scene, ...], rng: np.random.Generator
) -> Pixels:
    """Make one of the faults that the gate has to catch."""
    pixels = scene.pixels
    if kind == "nothing":
        return pixels.copy()
    if kind == "elsewhere":
        apart = [rect for rect in scene.objects + scene.places if not _touch(rect, box)]
        return edit("replace", scene, apart[int(rng.integers(len(apart)))], others, rng)
    if kind == "style":
        styled = cv2.stylization(pixels, sigma_s=60, sigma_r=0.45)
        return recoloured(np.asarray(styled, dtype=np.uint8), rng)
    edited = edit("recolour", scene, box, others, rng)
    if kind == "backdrop":
        donor = others[int(rng.integers(len(others)))].pixels
        other = cv2.resize(donor, (pixels.shape[1], pixels.shape[0]))
        return blend(np.asarray(other, dtype=np.uint8), edited, soft_ellipse(pixels.shape, box))
    # "spill": the recolouring runs over two fifths to nine tenths of the picture beside the target.
    height, width = pixels.shape[:2]
    share = rng.uniform(0.4, 0.9)
    spilt = recoloured(pixels, rng)
    out = edited.copy()
    if rng.random() < 0.5:
        out[:, : round(share * width)] = spilt[:, : round(share * width)]
    else:
        out[round((1 - share) * height) :] = spilt[round((1 - share) * height) :]
    return out


def planted(*, seed: int) -> Iterator[Case]:
    """Plant every edit and every fault at every boxed place, each with a drawn nuisance."""
    everything = scenes()
    for number, scene in enumerate(everything):
        others = tuple(other for other in everything if other is not scene)
        plans = [
            (kind, box, True)
            for kind in ("recolour", "texture", "remove", "replace")
            for box in scene.objects
        ]
        plans += [("add", box, True) for box in scene.places]
        plans += [
            (kind, box, False)
            for kind in ("nothing", "elsewhere", "backdrop", "spill", "style")
            for box in scene.objects
            if kind != "elsewhere" or any(not _touch(r, box) for r in scene.objects + scene.places)
        ]
        for index, (kind, box, valid) in enumerate(plans):
            rng = np.random.default_rng((seed, number, index))
            make = edit if valid else fault
            edited = make(kind, scene, box, others, rng)
            nuisance = list(NUISANCES)[index % len(NUISANCES)]
            if kind == "nothing" and nuisance == "exact":
                nuisance = "noise"
            for disturb in NUISANCES[nuisance]:
                edited = disturb(edited, rng)
            yield Case(
                f"{scene.name}/{kind}/{index}/{nuisance}",
                "planted",
                kind,
                scene.name,
                scene.pixels,
                edited,
                tuple(map(float, box)),
                # An added object is looked for where it stands if nothing moved.
                "edited" if kind == "add" else "original",
                valid,
                f"{kind} + {nuisance}",
            )


def _touch(first: Rect, second: Rect, margin: int = 12) -> bool:
    return not (
        first[2] + margin <= second[0]
        or second[2] + margin <= first[0]
        or first[3] + margin <= second[1]
        or second[3] + margin <= first[1]
    )
