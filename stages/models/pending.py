"""What was paid for and has not come yet: the ticket of a submitted task, beside the store.

An editor that takes a task and gives the image later is paid at the submission. Its ticket is
written before anything else is done, so that a run that was killed in between is followed by one
that asks for the same task instead of paying for another. A ticket is no reply: it is in no key, no
export and no output, and it goes when the reply is stored or the task is known to be lost.
"""

import asyncio
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple


class Ticket(NamedTuple):
    """A task that was submitted, as the adapter described it."""

    task: Mapping[str, Any]
    """What the adapter needs to ask for the task; no secret."""
    age_s: float
    """Seconds since the submission, by the machine's clock; never negative."""


class Pending:
    """The place of one request's ticket.

    Parameters
    ----------
    path : Path or None
        The file. None keeps the ticket in memory, for a caller without a store.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path

    def read(self) -> Ticket | None:
        """The ticket that an earlier run left; None where there is none that can be read."""
        if self.path is None:
            return None
        try:
            held = json.loads(self.path.read_bytes())
            age = max(0.0, time.time() - float(held["submitted_at"]))
            return Ticket(dict(held["task"]), age)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    async def write(self, task: Mapping[str, Any]) -> None:
        """Keep a ticket; it is on the disk, flushed and whole, before this returns.

        On a disk that takes none the call goes on without: its image is paid for, and where that
        can't be written either, the store says so.
        """
        if self.path is not None:
            # Shielded: a task that is paid for gets its ticket whatever becomes of the caller.
            await asyncio.shield(asyncio.to_thread(self._write, self.path, task))

    def clear(self) -> None:
        """Forget the ticket: the reply is stored, or the task is lost."""
        if self.path is not None:
            with suppress(NotADirectoryError):
                self.path.unlink(missing_ok=True)

    @staticmethod
    def _write(path: Path, task: Mapping[str, Any]) -> None:
        held = {"submitted_at": time.time(), "task": dict(task)}
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("w", encoding="utf-8") as file:
                json.dump(held, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except OSError:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
