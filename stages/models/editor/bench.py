"""The editor of an EDCT-Bench artefact: edits found by source, instruction and attempt."""

from collections.abc import Mapping
from typing import Any, ClassVar

from stages.models import recorded
from stages.models.artefact import lookup
from stages.models.artefact.layout import EDITS
from stages.models.artefact.reading import Artefact, Row
from stages.models.picture import Picture
from stages.models.protocol import CallError, EditedImage, Editor
from stages.records.base import Status


class BenchEditor(Editor):
    """Edited images of one exported editor; what failed fails again in the same way.

    Parameters
    ----------
    folder : str
        The artefact.
    editor : str or None
        Its name there; None: the only one.
    """

    durable: ClassVar[bool] = False
    concurrency = 2

    def __init__(self, folder: str, editor: str | None = None) -> None:
        self._artefact = Artefact.open(folder)
        self.name = lookup.chosen(self._artefact, "editor", editor)
        self._edits: dict[tuple[int, str, str, int], Row] = {}
        for row in self._artefact.rows(EDITS):
            attempt = row.record
            if row.axes["editor"] != self.name or attempt.source is None:
                continue
            source = lookup.pixels_of(self._artefact, row, attempt.source)
            wording = recorded.normal(attempt.instruction)
            key = row.axes["seed"], source, wording, attempt.attempt
            # Two targets may have asked for one edit: they got one image, or one got none.
            if key not in self._edits or self._has_picture(row):
                self._edits[key] = row
        self._digest = recorded.digest_of(
            {key: (row.record.edited, row.record.status) for key, row in self._edits.items()}
        )

    def _has_picture(self, row: Row) -> bool:
        everything = self._artefact.provenance.pictures == "all"
        return row.record.edited is not None and (everything or row.split == "accepted")

    def identity(self) -> Mapping[str, Any]:
        """The exported editor's name and the digest of all its edits."""
        return {"provider": "edct_bench", "model": self.name, "recorded": self._digest}

    async def edit(
        self, picture: Picture, instruction: str, *, seed: int, attempt: int
    ) -> EditedImage:
        """The recorded image; where it was rejected and left out, the recorded verdict."""
        source = recorded.pixel_digest(picture.pixels)
        row = self._edits.get((seed, source, recorded.normal(instruction), attempt))
        if row is None:
            raise CallError(Status.NOT_RECORDED, f"no edit of {self.name} for this request")
        if not self._has_picture(row):
            raise lookup.failure(row.record.status, row.record.reason)
        edited = self._artefact.picture(row, "edited_picture", row.record.edited)
        return EditedImage(edited.png, lookup.usage(row.record.calls, "editor"))
