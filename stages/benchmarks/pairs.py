"""Pairs of photographs and edits made elsewhere, for a study of verification alone.

A folder with an index (JSON list or JSONL), a row per pair, paths relative to the index:

    {"id": "…", "original": "a.jpg", "edited": "b.png", "instruction": "…",
     "crop_both": [x0, y0, x1, y1]}

``crop_both`` (optional) cuts both images, for figures that show several results side by side. An
optional file of labels says what an annotator saw:

    {"id": "…", "edit_type": "replace", "target": "zebra", "frame": "original",
     "box": [x0, y0, x1, y1], "valid": "yes", "reason": "…"}

``frame`` is the image in which the box was drawn. Labels whose edit type is ``global`` ask for a
change of the whole picture, which no local edit can be: they count as ``modify``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from stages.models import recorded
from stages.models.detector.recorded import read_boxes
from stages.records.attempt import Box
from stages.records.errors import UserError
from stages.records.instruction import EditType

Valid = Literal["yes", "no", "unsure"]


@dataclass(frozen=True)
class Pair:
    """An image, its edit, and what is known of it."""

    id: str
    original: NDArray[np.uint8]
    """``(H, W, 3)`` RGB."""
    edited: NDArray[np.uint8]
    """``(H', W', 3)`` RGB, in the size in which it came."""
    instruction: str
    edit_type: EditType | None = None
    target: str | None = None
    boxes: tuple[Box, ...] = ()
    """Annotated boxes in the frame that verification searches; empty: the detector is asked."""
    valid: Valid | None = None
    """Whether an annotator holds the edit to be as instructed and nowhere else."""
    label_reason: str | None = None


class PairFolder:
    """A folder of pairs.

    Parameters
    ----------
    folder : str
        The folder, relative to the workspace.
    index : str
        Name of the index file in it.
    labels : str or None
        Name of the file of labels in it; None, or absent: pairs without labels.
    """

    def __init__(self, folder: str, index: str = "pairs.json", labels: str | None = None) -> None:
        self._index = Path(folder) / index
        self._labels = Path(folder) / labels if labels else None

    def load(self) -> list[Pair]:
        """Read the labelled pairs, or all pairs where there are no labels, in index order."""
        labels = self._read_labels()
        pairs: dict[str, Pair] = {}
        for where, row in recorded.rows(self._index):
            name = recorded.text_field(where, row, "id")
            if self._labels is None or name in labels:
                if name in pairs:
                    raise UserError(where, f"{name!r} is the id of two pairs", "Make ids unique.")
                pairs[name] = self._pair(where, name, row, labels.get(name))
        if not pairs:
            raise UserError(str(self._index), "holds no pair", "Add rows, or name other files.")
        return list(pairs.values())

    def _read_labels(self) -> dict[str, tuple[str, Mapping[str, Any]]]:
        if self._labels is None:
            return {}
        labels: dict[str, tuple[str, Mapping[str, Any]]] = {}
        for where, row in recorded.rows(self._labels):
            name = recorded.text_field(where, row, "id")
            if name in labels:
                raise UserError(where, f"{name!r} has two labels", "Keep one of the two.")
            labels[name] = where, row
        return labels

    def _pair(
        self, where: str, name: str, row: Mapping[str, Any], label: tuple[str, Any] | None
    ) -> Pair:
        original = recorded.image_field(where, row, "original", self._index)
        edited = recorded.image_field(where, row, "edited", self._index)
        if (crop := row.get("crop_both")) is not None:
            original, edited = _crop(where, original, crop), _crop(where, edited, crop)
        instruction = recorded.text_field(where, row, "instruction")
        if label is None:
            return Pair(name, original, edited, instruction)
        at, said = label
        edit_type = "modify" if said.get("edit_type") == "global" else said.get("edit_type")
        if edit_type not in get_args(EditType):
            raise UserError(at, f"edit_type is {edit_type!r}", f"Use {get_args(EditType)}.")
        searched = "edited" if edit_type == "add" else "original"
        if said.get("frame", searched) != searched:
            raise UserError(
                at,
                f"frame is {said['frame']!r}",
                f"To {edit_type}, draw the box in the {searched} image, which is searched.",
            )
        valid = said.get("valid")
        if valid not in get_args(Valid):
            raise UserError(at, f"valid is {valid!r}", f"Use {get_args(Valid)}.")
        return Pair(
            name,
            original,
            edited,
            instruction,
            edit_type=cast(EditType, edit_type),
            target=recorded.text_field(at, said, "target"),
            boxes=read_boxes(
                at,
                [said["box"]] if "box" in said else [],
                (edited if searched == "edited" else original).shape,
            ),
            valid=cast(Valid, valid),
            label_reason=said.get("reason"),
        )


def _crop(where: str, image: NDArray[np.uint8], box: object) -> NDArray[np.uint8]:
    (found,) = read_boxes(where, [box], image.shape)
    cut = image[int(found.y0) : int(found.y1), int(found.x0) : int(found.x1)]
    if cut.size == 0:
        raise UserError(where, "crop_both lies outside the image", "Mend the box.")
    return cut
