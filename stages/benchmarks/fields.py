"""Fields of rows as they come: checked for type and length, empty ones told from texts."""

import math
import re
from collections.abc import Mapping
from typing import Any

MAX_TEXT = 20_000
MAX_ID = 200
_DAMAGED = re.compile("[\ud800-\udfff\ufffd]")


class RowError(ValueError):
    """A row can't be used; the message says why."""


def text(row: Mapping[str, Any], name: str) -> str | None:
    """A field that holds text; None where it is absent, null, NaN or blank.

    Raises
    ------
    RowError
        If it holds something else, or more than 20,000 characters.
    """
    value = row.get(name)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if not isinstance(value, str):
        raise RowError(f"{name} is {type(value).__name__}, not text")
    if len(value) > MAX_TEXT:
        raise RowError(f"{name} has {len(value)} characters, more than {MAX_TEXT}")
    if _DAMAGED.search(value):
        raise RowError(f"{name} holds damaged characters")
    return value.strip() or None


def required(row: Mapping[str, Any], name: str) -> str:
    """A field that must hold text; errors as in `text`."""
    value = text(row, name)
    if value is None:
        raise RowError(f"{name} is empty")
    return value


def whole(row: Mapping[str, Any], name: str) -> int:
    """A field that must hold a whole number from 0."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**15:
        raise RowError(f"{name} is {str(value)[:40]!r}, not a whole number")
    return value


def identifier(row: Mapping[str, Any], name: str) -> str:
    """A field that must hold an id: text or a whole number, short and on one line."""
    value = row.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    found = required(row, name)
    if len(found) > MAX_ID or not found.isprintable():
        raise RowError(f"{name} is no id (longer than {MAX_ID} signs, or not printable)")
    return found
