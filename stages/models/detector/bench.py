"""The detector of an EDCT-Bench artefact: recorded boxes, found by image and phrase."""

from collections.abc import Mapping
from typing import Any, ClassVar

from stages.models import recorded
from stages.models.artefact import lookup
from stages.models.artefact.layout import EDITS
from stages.models.artefact.reading import Artefact, Row
from stages.models.picture import Picture
from stages.models.protocol import CallError, Detection, Detector
from stages.records.base import Status


class BenchDetector(Detector):
    """Boxes of the exported run; what was not found is not found again, for the same reason.

    Parameters
    ----------
    folder : str
        The artefact.
    """

    durable: ClassVar[bool] = False
    concurrency = 2

    def __init__(self, folder: str) -> None:
        artefact = Artefact.open(folder)
        self._found: dict[tuple[str, str], Row] = {}
        for row in artefact.rows(EDITS):
            attempt = row.record
            searched = attempt.edited if attempt.edit_type == "add" else attempt.source
            if searched is None:
                continue
            image = lookup.pixels_of(artefact, row, searched)
            key = image, recorded.normal(attempt.target_object)
            if key not in self._found or attempt.mask is not None:
                self._found[key] = row
        self._digest = recorded.digest_of(
            {
                key: (row.record.boxes, row.record.mask or row.record.status)
                for key, row in self._found.items()
            }
        )

    def identity(self) -> Mapping[str, Any]:
        """The digest of all boxes."""
        return {"provider": "edct_bench", "recorded": self._digest}

    async def detect(self, picture: Picture, phrase: str) -> Detection:
        """The recorded boxes, or what became of the search."""
        image = recorded.pixel_digest(picture.pixels)
        row = self._found.get((image, recorded.normal(phrase)))
        if row is None:
            raise CallError(Status.NOT_RECORDED, f"no search for {phrase!r} in this image")
        if row.record.mask is None:
            raise lookup.failure(row.record.status, row.record.reason)
        return Detection(row.record.boxes, lookup.usage(row.record.calls, "detector"))
