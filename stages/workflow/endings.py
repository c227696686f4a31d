"""How the last run of each stage ended, for `make status`: notes beside DVC's own, no output.

A note is written when a stage begins and taken away when it ends well. What remains says that the
stage is under way, was killed, or failed, and with which line.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(".dvc") / "tmp" / "edct"
"""Git and DVC ignore it, and each queued experiment has its own."""


class Ending(NamedTuple):
    """The note of one stage that did not end well, or not yet."""

    state: str
    """``under way``, ``killed`` or ``failed``."""
    line: str
    """What it said last; empty unless it failed."""


def begin(root: Path, name: str) -> None:
    """Note that a stage, such as ``judge@demo-0``, begins in this process."""
    _write(root, name, "")


def fail(root: Path, name: str, line: str) -> None:
    """Note how it failed."""
    _write(root, name, line)


def succeed(root: Path, name: str) -> None:
    """Take the note away."""
    if Path(name).name == name:
        with contextlib.suppress(OSError):
            (root / FOLDER / f"{name}.json").unlink(missing_ok=True)


_NONE = (OSError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError)
"""What a note that is none raises; ArithmeticError: its process is no number of one."""


def read(root: Path) -> Mapping[str, Ending]:
    """All notes by the name of their stage; one that can't be read is passed over."""
    found = {}
    for path in sorted((root / FOLDER).glob("*.json")):
        with contextlib.suppress(*_NONE):
            note = json.loads(path.read_bytes())
            line, process = str(note["line"]), int(note["process"])
            if process <= 0:
                continue  # to the system that is a group of processes
            state = "failed" if line else "under way" if _lives(process) else "killed"
            found[path.stem] = Ending(state, line)
    return found


def _write(root: Path, name: str, line: str) -> None:
    folder = root / FOLDER
    if not (root / ".dvc").is_dir() or Path(name).name != name:
        return
    with contextlib.suppress(OSError):  # a full disk is the stage's to report
        folder.mkdir(parents=True, exist_ok=True)
        note = json.dumps({"process": os.getpid(), "line": line})
        partial = folder / f".{name}.{os.getpid()}.partial"
        partial.write_text(note, encoding="utf-8")
        os.replace(partial, folder / f"{name}.json")


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
