"""An editor whose images were made elsewhere.

Index: JSONL or a JSON list, a row per edit:

    {"original": "a.jpg", "edited": "a_edited.png", "instruction": "…", "attempt": 1}

``instruction`` is the whole text that the editor is given, or a part of it such as "remove the
lamp". ``instruction`` and ``attempt`` may be absent: such a row answers any instruction or attempt
for that original. The original is found by its pixels; that of a second edit is the image after
the first.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from stages.models import recorded
from stages.models.picture import Picture
from stages.models.protocol import CallError, EditedImage, Editor
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.usage import Usage


class RecordedEditor(Editor):
    """Edited images from a folder; what is not in it has the status ``not_recorded``.

    Parameters
    ----------
    index : str
        The index file, relative to the workspace.
    name : str
        What the recorded editor is called, shown as the served model.
    """

    durable: ClassVar[bool] = False
    concurrency = 2

    def __init__(self, index: str, name: str) -> None:
        self.name = name
        self._edits: dict[tuple[str, str | None, int | None], Path] = {}
        file = Path(index)
        for where, row in recorded.rows(file):
            original = recorded.pixel_digest(recorded.image_field(where, row, "original", file))
            instruction = recorded.optional_text(where, row, "instruction")
            attempt = row.get("attempt")
            if attempt is not None and (type(attempt) is not int or attempt < 1):
                raise UserError(where, f"attempt is {attempt!r}", "Give 1, 2 …, or leave it out.")
            edited = file.parent / recorded.text_field(where, row, "edited")
            if not edited.is_file():
                raise UserError(where, f"the image {edited} is missing", "Put it there.")
            wording = None if instruction is None else recorded.normal(instruction)
            recorded.put(self._edits, (original, wording, attempt), edited, where)
        self._digest = recorded.digest_of(
            {
                key: recorded.pixel_digest(recorded.read_image(path, str(file)))
                for key, path in self._edits.items()
            }
        )

    def identity(self) -> Mapping[str, Any]:
        """The recorded editor's name and the digest of all that was recorded."""
        return {"provider": "recorded", "model": self.name, "recorded": self._digest}

    async def edit(
        self, picture: Picture, instruction: str, *, seed: int, attempt: int
    ) -> EditedImage:
        """The recorded image; rows that name instruction and attempt go before others."""
        image = recorded.pixel_digest(picture.pixels)
        wordings = [w for known, w, _ in self._edits if known == image and w is not None]
        wording = recorded.longest_within(wordings, instruction)
        for key in (
            (image, wording, attempt),
            (image, wording, None),
            (image, None, attempt),
            (image, None, None),
        ):
            if (path := self._edits.get(key)) is not None:
                return EditedImage(path.read_bytes(), Usage(served_model=self.name, images=1))
        raise CallError(Status.NOT_RECORDED, "no recorded edit of this image and instruction")
