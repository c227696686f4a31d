"""Keys: read from the environment, or from a file `.env` that git ignores, and shown nowhere."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from stages.models.store import main_workspace
from stages.records.errors import UserError

MASK = "[key]"
SHORTEST = 8
"""Characters of a key, at least. What is shorter is a word that a server without keys is given
(``none``, ``test``, ``EMPTY``), and stands in replies by chance."""
_HALF = re.compile(r"[\ud800-\udfff]")
_NOT_NEEDED: ContextVar[bool] = ContextVar("keys_not_needed", default=False)


def looked_up(variable: str) -> str:
    """The value of a variable: the environment's, else the one in `.env`, else empty."""
    if given := os.environ.get(variable, "").strip():
        return given
    try:
        text = (main_workspace(Path()) / ".env").read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""
    found = ""
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and name.strip() == variable:
            value = value.strip()
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            found = value[1:-1] if quoted else value
    return found


@contextmanager
def not_needed() -> Iterator[None]:
    """Make adapters without their keys, to look at them and not to call them."""
    token = _NOT_NEEDED.set(True)
    try:
        yield
    finally:
        _NOT_NEEDED.reset(token)


class Secret:
    """The key of a provider, by the name of its environment variable.

    Parameters
    ----------
    variable : str or None
        The variable; None for a server that asks for no key.
    provider : str
        Whose key it is, for the error.

    Raises
    ------
    UserError
        If the variable is unset or empty or holds what no header can carry, except where nothing
        is sent: in replay, and within `not_needed`.
    """

    def __init__(self, variable: str | None, provider: str) -> None:
        self.variable, self.provider = variable, provider
        self._value = looked_up(variable) if variable else ""
        escaped = "".join(map(_written, self._value))
        self._escaped = re.compile(escaped) if len(self._value) >= SHORTEST else None
        if os.environ.get("EDCT_REPLAY", "0") == "1" or _NOT_NEEDED.get():
            return  # nothing is sent
        if variable and not (self._value.isascii() and self._value.isprintable()):
            raise UserError(
                f"environment variable {variable}",
                f"holds a line break or a character that no key of {provider} has",
                "Copy the key once more: plain letters, digits and signs on one line.",
            )
        if variable and not self._value:
            raise UserError(
                f"environment variable {variable}",
                f"is not set, and {provider} needs a key",
                f"`export {variable}=…` or put {variable}=… into `.env`, or answer from the store "
                "alone with EDCT_REPLAY=1.",
            )

    @property
    def value(self) -> str | None:
        """The key itself, for a header and for nothing else."""
        return self._value or None

    def scrub(self, text: str) -> str:
        """A text without the key, for whatever a provider echoes; escaped as in JSON, too.

        What is shorter than `SHORTEST` is no key, and stays. Half of a surrogate pair, which JSON
        can write and no file can hold, becomes U+FFFD, as in any text damaged on its way.
        """
        if not text.isascii():
            text = _HALF.sub("\N{REPLACEMENT CHARACTER}", text)
        if self._escaped is None:
            return text
        text = text.replace(self._value, MASK)
        return self._escaped.sub(MASK, text) if "\\" in text else text

    def scrubbed(self, body: Any) -> Any:
        """JSON without the key: a provider may echo it in a good reply as well as in a bad."""
        if isinstance(body, str):
            return self.scrub(body)
        if isinstance(body, list):
            return [self.scrubbed(part) for part in body]
        if isinstance(body, Mapping):
            return {self.scrub(name): self.scrubbed(part) for name, part in body.items()}
        return body

    def __repr__(self) -> str:
        return f"Secret({self.variable!r})"


def _written(sign: str) -> str:
    """A pattern for a character of a key, plain or escaped as in JSON, also more than once."""
    return rf"\\{{0,8}}(?:{re.escape(sign)}|(?<=\\)u(?i:{ord(sign):04x}))"
