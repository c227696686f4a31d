"""Localized edit verification (PROTOCOL section 5, Algorithm 1) with the models that it needs.

Where the target is, detector and segmenter say; how much changed inside and outside, `imaging`
measures; both through the store, so that a new threshold asks nobody again.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.imaging import codec, localization, mask, size, threads
from stages.imaging.settings import Settings
from stages.models.calls import Calls
from stages.models.fingerprint import fingerprint
from stages.models.picture import Picture
from stages.models.protocol import CallError, Detector, Segmenter
from stages.records.attempt import Box, Measurement
from stages.records.base import Status
from stages.records.usage import CallNote

_ROUNDING = 6


@dataclass(frozen=True)
class Grounding:
    """Where the target is."""

    boxes: tuple[Box, ...]
    mask: Picture
    """The dilated mask as a picture, 255 inside."""
    calls: tuple[CallNote, ...]


@dataclass(frozen=True)
class Verdict:
    """Whether an edit is accepted, and all that this rests on."""

    status: Status
    reason: str | None
    measurement: Measurement
    delta: Picture
    """The change map as a picture, 255 where changed."""


@dataclass(frozen=True)
class Gate:
    """The gate.

    Parameters
    ----------
    calls : Calls
        The way to models, and to measurements made before.
    detector, segmenter : Detector, Segmenter
        Phrase → boxes → mask.
    settings : Settings
        How change is measured.
    tau_in, tau_out : float
        Shares in [0, 1]: an edit is accepted iff r_in > tau_in and r_out < tau_out.
    """

    calls: Calls
    detector: Detector
    segmenter: Segmenter
    settings: Settings
    tau_in: float
    tau_out: float

    def __post_init__(self) -> None:
        threads.one_an_image()

    async def ground(self, picture: Picture, phrase: str, boxes: tuple[Box, ...] = ()) -> Grounding:
        """Find the target; raise CallError ``target_not_found`` where it is nowhere.

        Boxes that are known already (annotations) are taken as they are.
        """
        notes: tuple[CallNote, ...] = ()
        if not boxes:
            found = await self.calls.detect(self.detector, picture, phrase)
            boxes, notes = found.value, (found.note,)
        try:
            if not boxes:
                raise CallError(Status.TARGET_NOT_FOUND, f"the detector sees no {phrase!r}")
            segmented = await self.calls.segment(self.segmenter, picture, boxes)
            if not segmented.value.any():
                notes = (*notes, segmented.note)
                raise CallError(Status.TARGET_NOT_FOUND, f"the mask of {phrase!r} is empty")
        except CallError as error:
            error.notes = notes
            raise
        shown = await asyncio.to_thread(self._dilated, segmented.value)
        return Grounding(boxes, shown, (*notes, segmented.note))

    def _dilated(self, found: NDArray[np.bool_]) -> Picture:
        dilated = mask.dilate(found, radius_share=self.settings.dilation_share)
        return Picture.of(dilated.astype(np.uint8) * 255)

    def fit(self, returned: Picture, source: Picture) -> Picture | None:
        """What an editor returned, in the source's size; None where the aspect ratio differs."""
        if returned.size == source.size:
            return returned
        fitted = size.fit(
            returned.pixels, source.pixels.shape, aspect_tolerance=self.settings.aspect_tolerance
        )
        return None if fitted is None else Picture.of(fitted)

    async def judge(self, source: Picture, edited: Picture, grounding: Grounding) -> Verdict:
        """Measure the pair and hold it against the thresholds."""

        def compute() -> tuple[dict[str, Any], bytes]:
            inside = grounding.mask.pixels[..., 0] > 127
            found = localization.localize(
                source.pixels, edited.pixels, inside, settings=self.settings
            )
            numbers = {
                name: round(number, _ROUNDING) if isinstance(number, float) else number
                for name, number in found._asdict().items()
                if name != "delta"
            }
            return numbers, codec.encode_png(found.delta.astype(np.uint8) * 255)

        request = {
            "code": fingerprint("stages.imaging"),
            "settings": vars(self.settings),
            "source": source.sha256,
            "edited": edited.sha256,
            "mask": grounding.mask.sha256,
        }
        measured = await self.calls.measure(request, compute)
        numbers, delta_png = measured.value
        numbers.pop("usage")
        delta = Picture(delta_png)
        measurement = Measurement(**numbers, delta=delta.sha256)
        status = Status(
            localization.verdict(
                measurement.r_in,
                measurement.r_out,
                measurement.mask_share,
                tau_in=self.tau_in,
                tau_out=self.tau_out,
                max_mask_share=self.settings.max_mask_share,
            )
        )
        return Verdict(status, self._reason(status, measurement), measurement, delta)

    def _reason(self, status: Status, measured: Measurement) -> str | None:
        match status:
            case Status.INSIDE_UNCHANGED:
                return f"r_in {measured.r_in:.3f} is not above {self.tau_in:g}"
            case Status.OUTSIDE_CHANGED:
                return f"r_out {measured.r_out:.3f} is not below {self.tau_out:g}"
            case Status.MASK_TOO_LARGE:
                return f"the mask covers {measured.mask_share:.1%} of the image"
        return None
