"""The words and digits of the report: names of rows, metrics and reasons, and how numbers read."""

import unicodedata
from collections.abc import Sequence

from stages.records.base import Status
from stages.records.score import Cell

AXES = ("target", "extractor", "editor", "judge", "seed")
NOT_ESTIMABLE = "not estimable"
DASH = "–"

METRICS = {
    "ac": "Answer consistency",
    "ef": "Explanation faithfulness",
    "ccs_binary": "CCS, binary",
    "ccs_graded": "CCS, graded",
}

REASONS = {
    Status.OK: "kept",
    Status.REFUSED: "the model declined",
    Status.TRUNCATED: "reply cut off at the token limit",
    Status.API_ERROR: "the call failed",
    Status.UNPARSED: "reply could not be read",
    Status.NOT_RECORDED: "no recorded reply",
    Status.NO_CONCEPTS: "explanation names nothing that could be edited",
    Status.TARGET_NOT_FOUND: "detector did not find the object",
    Status.INSIDE_UNCHANGED: "nothing changed where the edit was asked for",
    Status.OUTSIDE_CHANGED: "too much changed elsewhere",
    Status.SIZE_MISMATCH: "edited image has another aspect ratio",
    Status.CHANGE_ABSENT: "verifier does not see the change",
    Status.REST_CHANGED: "verifier sees another change besides",
    Status.UNVERIFIED: "verifier gave no usable reply",
    Status.MASK_TOO_LARGE: "mask leaves no outside",
    Status.TIED: "judges are divided",
    Status.NOT_REACHED: "an earlier step failed",
}


def varying_axes(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Axes that tell the cells apart, in the order of `AXES`; the target alone where none does."""
    varying = tuple(axis for axis in AXES if len({getattr(cell, axis) for cell in cells}) > 1)
    return varying or ("target",)


def cell_label(cell: Cell, axes: Sequence[str]) -> str:
    """Name a cell by some of its axes, e.g. ``"gemma · flux · seed 3"``."""
    return " · ".join(f"seed {cell.seed}" if a == "seed" else getattr(cell, a) for a in axes)


def cell_key(cell: Cell, axes: Sequence[str]) -> str:
    """Name a cell where only a plain word will do (keys of metrics); the target always leads."""
    rest = [axis for axis in axes if axis != "target"]
    return "-".join(
        [cell.target, *(f"seed{cell.seed}" if a == "seed" else getattr(cell, a) for a in rest)]
    )


def reason(status: Status) -> str:
    """Say in words what a status means; an unknown one reads as it is written."""
    return REASONS.get(status, str(status).replace("_", " "))


def plain(text: str) -> str:
    """Text without characters that steer a terminal, a typesetter or the reading direction.

    Control characters and bidirectional overrides become a visible ``\N{REPLACEMENT CHARACTER}``;
    line breaks and tabs become spaces.
    """
    steering = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C}
    out = []
    for char in text:
        if char.isspace():
            out.append(" ")
        elif not char.isprintable() or ord(char) in steering:
            out.append("\N{REPLACEMENT CHARACTER}")
        else:
            out.append(char)
    return "".join(out)


def shown(text: str) -> str:
    """Text as a model wrote it, with whatever could not be seen made visible.

    Line breaks and tabs stay. A control character becomes its picture (``␛``), a character
    without shape that steers what is around it its code (``⟨U+202E⟩``). Joiners that scripts and
    emoji need stay.
    """
    return "".join(map(_shown, text.replace("\r\n", "\n")))


def _shown(char: str) -> str:
    code = ord(char)
    if char in "\n\t\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}\N{SOFT HYPHEN}":
        return char
    if code < 0x20:
        return chr(0x2400 + code)
    if char in "\u2028\u2029":
        return "\n"
    match unicodedata.category(char):
        case "Cs":
            return "\N{REPLACEMENT CHARACTER}"
        case "Cc" | "Cf":
            return f"⟨U+{code:04X}⟩"
        case _:
            return char


def shorten(text: str, limit: int) -> str:
    """Plain text of at most `limit` characters; what is cut off ends in an ellipsis."""
    text = " ".join(plain(text).split())
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def share(part: int, whole: int) -> str:
    """A share as a whole percentage, e.g. ``"38 %"``; a dash where the whole is empty."""
    return f"{100 * part / whole:.0f} %" if whole else DASH


def percent(value: float | None, digits: int = 1) -> str:
    """A share in [0, 1] as a percentage; a dash where there is none."""
    return DASH if value is None else f"{100 * value:.{digits}f} %"
