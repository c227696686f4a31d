"""Prompt files: text with declared variables, and a way to set data apart from instructions.

A file is a header line ``variables: a, b``, a line ``---``, and the text. ``{{a}}`` puts a value
in as it is. ``{{block a}}`` puts it between ``<a>`` and ``</a>`` on lines of their own and escapes
``&``, ``<`` and ``>``, so that no value can close its block or open another. A prompt is one
message; there is no split into system and user, because several models behind one interface have
no system role, and the target's belongs to the benchmark.
"""

import hashlib
import html
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from stages.records.errors import UserError

_HEADER = re.compile(r"variables:[ \t]*([^\n]*)\n---[ \t]*(?:\n|$)")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SLOT = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_BLOCK = re.compile(r"^<([a-z][a-z0-9_]*)>\n(.*?)\n</\1>$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Prompt:
    """A prompt: its text with slots, and the variables that it declares."""

    text: str
    variables: tuple[str, ...]
    sha256: str
    """SHA-256 of the file's bytes."""
    name: str = "prompt"
    """The file, as errors name it."""

    @classmethod
    def load(cls, path: Path) -> "Prompt":
        """Read a prompt file.

        Raises
        ------
        UserError
            If the file is missing, is not UTF-8 or has no header, if a slot can't be read, or if
            the declared and the used variables differ; names the file and the variable.
        """
        name = str(path)
        try:
            data = path.read_bytes()
        except OSError:
            raise UserError(
                name, "the prompt file is missing", "Restore it, or choose another set of prompts."
            ) from None
        try:
            content = data.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            raise UserError(name, f"not UTF-8 at byte {error.start}", "Save it as UTF-8.") from None
        header = _HEADER.match(content)
        if header is None:
            raise UserError(
                name,
                "the header is missing",
                "Begin with a line `variables: a, b` (or none after the colon) and a line `---`.",
            )
        variables = tuple(part.strip() for part in header[1].split(",") if part.strip())
        prompt = cls(
            content[header.end() :].strip(), variables, hashlib.sha256(data).hexdigest(), name
        )
        prompt._check()
        return prompt

    def _check(self) -> None:
        used = {self._variable(slot) for slot in _SLOT.findall(self.text)}
        for variable in self.variables:
            if not _NAME.fullmatch(variable):
                self._fail(f"{variable!r} is no name of a variable", "Use a-z, 0-9 and _.")
            if self.variables.count(variable) > 1:
                self._fail(f"variable {variable!r} is declared twice", "Declare it once.")
            if variable not in used:
                self._fail(
                    f"variable {variable!r} is declared but never used",
                    f"Use {{{{{variable}}}}} in the text, or take it out of the header.",
                )
        for variable in sorted(used - set(self.variables)):
            self._fail(
                f"variable {variable!r} is used but not declared", "Add it to the header line."
            )

    def _variable(self, slot: str) -> str:
        name = slot.strip().removeprefix("block ").strip()
        if not _NAME.fullmatch(name):
            self._fail(f"can't read {{{{{slot}}}}}", "Write {{name}} or {{block name}}.")
        return name

    def render(self, **values: str | int) -> str:
        """Put values into the slots; values are never searched for slots themselves.

        Raises
        ------
        UserError
            If a variable is missing or unknown; names the file and the variable.
        """
        for name in self.variables:
            if name not in values:
                self._fail(f"variable {name!r} gets no value", "Give one, or take it out.")
        for name in values:
            if name not in self.variables:
                self._fail(
                    f"variable {name!r} is not in this prompt",
                    f"It knows {', '.join(self.variables) or 'none'}: declare and use it.",
                )

        def fill(slot: re.Match[str]) -> str:
            name = self._variable(slot[1])
            value = str(values[name])
            return block(name, value) if slot[1].strip() != name else value

        return _SLOT.sub(fill, self.text)

    def _fail(self, what: str, remedy: str) -> NoReturn:
        raise UserError(self.name, what, remedy)


def block(name: str, value: str) -> str:
    """Set data apart: the value between tags on lines of their own, escaped."""
    return f"<{name}>\n{html.escape(value, quote=False)}\n</{name}>"


def blocks(text: str) -> dict[str, str]:
    """Read the blocks of a rendered prompt back, by name, unescaped."""
    return {name: _unescape(value) for name, value in _BLOCK.findall(text)}


def outside_blocks(text: str) -> str:
    """The rendered prompt without its blocks: what its author says, and no data."""
    return _BLOCK.sub("", text)


def _unescape(value: str) -> str:
    return value.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
