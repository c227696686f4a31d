"""Large JSON files entry by entry: only one value of the outermost object or list is in memory."""

import codecs
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

from stages.records.errors import UserError

CHUNK = 1 << 20
MAX_VALUE = 128 << 20
LOOKAHEAD = 16
"""More signs than the longest literal or escape has."""
_BLANK = " \t\r\n"


class Repeated(dict[str, Any]):
    """An object in which a key stands twice: the first value counts, the keys are remembered."""

    repeated: tuple[str, ...] = ()


def entries(stream: BinaryIO, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the members of the outermost object, or the elements of the outermost list.

    Parameters
    ----------
    stream : binary file
        UTF-8, with or without a byte order mark.
    name : str
        The file's name for messages.

    Yields
    ------
    (str, value)
        A member's key, or an element's index from 0 in digits, and the parsed value.

    Raises
    ------
    UserError
        If the file is cut off, no JSON, no UTF-8, or one value is longer than 128 MiB.
    """
    return _Reader(stream, name).entries()


def load(stream: BinaryIO, name: str, limit: int = 256 << 20) -> Any:
    """Parse a whole JSON file of at most ``limit`` bytes; errors as in `entries`."""
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise UserError(name, f"is larger than {limit >> 20} MiB", "Check what file that is.")
    try:
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise UserError(name, f"not UTF-8 at byte {error.start}", "Get it again.") from None
    except (ValueError, RecursionError) as error:
        raise UserError(name, f"is no whole JSON ({error})", "Get it again.") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    first, repeated = Repeated(), []
    for key, value in pairs:
        if key in first:
            repeated.append(key)
        else:
            first[key] = value
    first.repeated = tuple(repeated)
    return first


class _Reader:
    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream, self._name = stream, name
        self._decode = codecs.getincrementaldecoder("utf-8-sig")()
        self._scan = json.JSONDecoder(object_pairs_hook=_object).raw_decode
        self._text, self._at, self._done, self._passed = "", 0, False, 0

    def entries(self) -> Iterator[tuple[str, Any]]:
        opening = self._sign()
        if opening not in ("{", "["):
            self._fail("does not begin with { or [")
        self._at += 1
        closing, index = ("}" if opening == "{" else "]"), 0
        while self._sign() != closing or index:
            key = str(index)
            if opening == "{":
                key = self._value()
                if not isinstance(key, str) or self._sign() != ":":
                    self._fail("a key is expected")
                self._at += 1
            yield key, self._value()
            index += 1
            if (sign := self._sign()) == closing:
                break
            if sign != ",":
                self._fail(f"a comma is expected after entry {index}")
            self._at += 1
        self._at += 1
        if self._sign():
            self._fail("goes on after its end")

    def _sign(self) -> str:
        """The next sign that is not blank; empty at the end of the file."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _BLANK:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                return ""

    def _value(self) -> Any:
        self._sign()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except json.JSONDecodeError as error:
                # An open string fails where it begins; all else fails within a few signs.
                ahead = len(self._text) - error.pos
                if ahead > LOOKAHEAD and not error.msg.startswith("Unterminated string"):
                    self._fail(f"is no JSON ({error.msg})", error.pos)
                if not self._more(double=True):
                    self._fail(f"is cut off or no JSON ({error.msg})", error.pos)
            except RecursionError:
                self._fail("is nested too deeply")
            except ValueError:
                self._fail("holds a number of thousands of digits")
            else:
                # A number may go on in the next chunk.
                if end < len(self._text) or self._done or not self._more():
                    self._at = end
                    return value

    def _more(self, double: bool = False) -> bool:
        if self._done:
            return False
        rest = len(self._text) - self._at
        if rest > MAX_VALUE:
            self._fail(f"one value is longer than {MAX_VALUE >> 20} MiB")
        data = self._stream.read(max(CHUNK, rest) if double else CHUNK)
        self._done = not data
        try:
            fresh = self._decode.decode(data, final=self._done)
        except UnicodeDecodeError as error:
            self._fail(f"is not UTF-8 ({error.reason})")
        self._passed += self._at
        self._text, self._at = self._text[self._at :] + fresh, 0
        return not self._done or bool(fresh)

    def _fail(self, what: str, at: int | None = None) -> NoReturn:
        place = self._passed + (self._at if at is None else at)
        raise UserError(self._name, f"{what}, near character {place}", "Get the file again.")
