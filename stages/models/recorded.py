"""Replies made elsewhere, on disk: rows of an index file, found again by what was asked.

An image in an index is known by its pixels, not by its file: a JPEG and the PNG made from it are
the same picture. Paths in an index are relative to the index itself.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stages.imaging import codec
from stages.records.errors import UserError

K = TypeVar("K")
V = TypeVar("V")


def rows(index: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """Rows of a JSONL file or of a JSON list, each with the ``file:row`` that names it.

    Raises
    ------
    UserError
        If the file is missing, no UTF-8, or a row is no JSON object.
    """
    try:
        text = index.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UserError(
            str(index), "the file is missing", "Put it there or name another."
        ) from None
    except OSError as error:
        raise UserError(
            str(index), f"can't be read ({error.strerror})", "Name a file of rows."
        ) from None
    except UnicodeDecodeError as error:
        raise UserError(
            str(index), f"not UTF-8 at byte {error.start}", "Save it as UTF-8."
        ) from None
    if text.lstrip().startswith("["):
        parsed = list(enumerate(_parse(str(index), text), 1))
    else:
        lines = enumerate(text.split("\n"), 1)
        parsed = [(row, _parse(f"{index}:{row}", line)) for row, line in lines if line.strip()]
    for row, entry in parsed:
        if not isinstance(entry, dict):
            raise UserError(f"{index}:{row}", "is no JSON object", "Mend or remove that row.")
    return [(f"{index}:{row}", entry) for row, entry in parsed]


def text_field(where: str, row: Mapping[str, Any], name: str) -> str:
    """A field that must be text."""
    text = row.get(name)
    if not isinstance(text, str) or not text.strip():
        raise UserError(where, f"has no text under {name!r}", "Add it, or remove that row.")
    return text


def optional_text(where: str, row: Mapping[str, Any], name: str) -> str | None:
    """A field that may be absent or null, and is text otherwise."""
    return None if row.get(name) is None else text_field(where, row, name)


def put(table: dict[K, V], key: K, value: V, where: str) -> None:
    """Enter a row into a look-up table; a second row that says otherwise is an error."""
    if table.setdefault(key, value) != value:
        raise UserError(where, "says something else than an earlier row", "Keep one of the two.")


def image_field(where: str, row: Mapping[str, Any], name: str, index: Path) -> NDArray[np.uint8]:
    """The image that a field names, ``(H, W, 3)`` RGB."""
    return read_image(index.parent / text_field(where, row, name), where)


def read_image(path: Path, where: str) -> NDArray[np.uint8]:
    """Read an image file; an error names the row that asked for it."""
    try:
        return codec.decode(path.read_bytes())
    except codec.ImageError as error:
        raise UserError(where, f"{path} is no usable image ({error})", "Replace it.") from None
    except (OSError, ValueError):  # ValueError: a path with a zero byte
        raise UserError(where, f"the image {path} is missing", "Put it there.") from None


def pixel_digest(pixels: NDArray[np.uint8]) -> str:
    """SHA-256 of an image's shape and RGB pixels."""
    shape = f"{pixels.shape}".encode()
    return hashlib.sha256(shape + np.ascontiguousarray(pixels).tobytes()).hexdigest()


def normal(text: str) -> str:
    """Text without differences of case and white space."""
    return " ".join(text.split()).casefold()


def longest_within(known: Iterable[str], text: str) -> str | None:
    """The longest of some normal texts that stands in a text, as whole words; None: none does."""
    asked = normal(text)
    within = [c for c in known if re.search(rf"(?<!\w){re.escape(c)}(?!\w)", asked)]
    return max(within, key=len, default=None)


def digest_of(keys: Mapping[Any, Any]) -> str:
    """SHA-256 of a look-up table: the identity of what was recorded."""
    listing = json.dumps(sorted([str(k), str(v)] for k, v in keys.items()), ensure_ascii=False)
    return hashlib.sha256(listing.encode()).hexdigest()


def _parse(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(
            where, f"broken JSON ({error.msg}, column {error.colno})", "Mend or remove that row."
        ) from None
    except (RecursionError, ValueError):  # nested without end, or a number of thousands of digits
        raise UserError(where, "JSON that can't be read", "Mend or remove that row.") from None
