"""The ledger: what every call that may be charged was expected to cost, and what it did cost.

One file beside the replies of the store, only ever added to, one JSON object a line, under a lock
of the operating system, so that stages, processes and queued experiments count together. A call is
written when it begins and when it ends; one that never ended, because its process was killed,
counts with what was put aside for it: it may have been charged. So does one of unknown outcome. It
is no output of any stage.
"""

import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from stages.records.charge import Charge
from stages.records.errors import UserError

NAME = "ledger.jsonl"
BEGUN = "begun"
_PART = 1 << 20
"""Bytes that are read at a time; no line is as long, unless it is damaged."""


class Kind(NamedTuple):
    """What makes calls alike in what they cost; so the small probes of preflight are none of it."""

    study: str
    stage: str
    role: str
    model: str
    max_tokens: int | None

    @classmethod
    def of(cls, charge: Charge) -> "Kind":
        """The kind of a call."""
        return cls(*(getattr(charge, name) for name in cls._fields))


@dataclass
class Spent:
    """What one study has spent."""

    calls: int = 0
    """Calls that have ended, the failed ones included."""
    failed: int = 0
    """Those of them that gave no reply."""
    usd: float = 0.0
    """Their cost as far as it is known."""
    estimated_usd: float = 0.0
    """How much of it rests on calls whose provider did not tell all."""
    unknown: int = 0
    """Calls whose cost is not known, or not wholly."""
    held_usd: float = 0.0
    """What stays put aside for these."""
    open_calls: int = 0
    """Calls that have begun and not ended: under way, or lost with their process."""
    open_usd: float = 0.0
    """What was put aside for them."""

    def add(self, ended: Charge) -> None:
        """Count a call that has ended."""
        self.calls += 1
        self.failed += ended.outcome != "ok"
        self._charge(ended, 1)

    def take_over(self, ended: Charge) -> None:
        """What a failed call was charged is counted with the one that asks for its task."""
        self._charge(ended, -1)

    def _charge(self, ended: Charge, sign: int) -> None:
        usd = sign * (ended.cost_usd or 0.0)
        self.usd += usd
        self.estimated_usd += usd if ended.told == "estimated" else 0.0
        self.unknown += sign * (ended.told == "unknown")
        self.held_usd += sign * ended.held_usd

    @property
    def bound_usd(self) -> float:
        """What counts against a budget: spent, and put aside."""
        return self.usd + self.open_usd + self.held_usd

    def said(self) -> list[str]:
        """The cost in a few words; empty where nothing was charged."""
        if not (self.usd or self.unknown):
            return []
        said = f"cost ${self.usd:.4f}"
        if self.estimated_usd:
            said += f", ${self.estimated_usd:.4f} of it estimated"
        if self.unknown:
            said += f", {self.unknown} calls of unknown cost"
        return [said]


class Ledger:
    """A ledger file and what has been read of it.

    Parameters
    ----------
    path : Path
        The file; made with the first line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._forget()

    def _forget(self) -> None:
        self._offset = 0
        self._open: dict[str, Charge] = {}
        self._spent: dict[str, Spent] = {}
        self._largest: dict[Kind, float] = {}
        self._last: dict[tuple[str, str], Charge] = {}

    def spent(self, study: str) -> Spent:
        """What a study has spent, as far as was read."""
        return self._spent.setdefault(study, Spent())

    def largest(self, kind: Kind) -> float | None:
        """The largest known cost of a call of this kind; None where there was none yet."""
        return self._largest.get(kind)

    def append(self, charge: Charge) -> None:
        """Add a line."""
        self.append_if(lambda: charge)

    def append_if(self, decide: Callable[[], Charge | None]) -> Charge | None:
        """Read what others have added, decide, and add the line, all under one lock."""
        with self._locked() as handle:
            self._catch_up(handle)
            charge = decide()
            if charge is not None:
                self._add(handle, charge)
            return charge

    def read(self) -> None:
        """Catch up with the file; a missing one is empty."""
        if self.path.exists():
            with self._locked() as handle:
                self._catch_up(handle)

    def charges(self) -> Iterator[Charge]:
        """Every call once: as it ended, or as it began where it has not."""
        self.read()
        ended: dict[str, Charge] = {}
        if self.path.exists():
            for line in self.path.read_bytes().splitlines():
                if (charge := _parsed(line)) is not None:
                    ended[charge.id] = charge
        yield from ended.values()

    @contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            handle = self._opened()
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)

    def _opened(self) -> int:
        flags = os.O_CREAT | os.O_RDWR | os.O_APPEND
        try:
            return os.open(self.path, flags, 0o644)
        except FileNotFoundError:  # its folder comes with the first line
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self.path, flags, 0o644)

    def _add(self, handle: int, charge: Charge) -> None:
        line = charge.model_dump_json().encode() + b"\n"
        if self._offset == os.fstat(handle).st_size:  # read to the end, and that is a whole line
            self._write(handle, line)
            self._count(charge)
            self._offset += len(line)
        else:
            self._write(handle, b"\n" + line)
            self._catch_up(handle)

    def _write(self, handle: int, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(handle, data) :]
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> UserError:
        return UserError(
            str(self.path),
            f"the ledger can't be written ({error.strerror})",
            "Make room or make it writable, and run again: what is stored stays.",
        )

    def _catch_up(self, handle: int) -> None:
        size = os.fstat(handle).st_size
        if size < self._offset:  # somebody began a new one
            self._forget()
        while self._offset < size:
            part = os.pread(handle, min(_PART, size - self._offset), self._offset)
            whole = part[: part.rfind(b"\n") + 1]
            if not whole:
                if (end := self._end_of_line(handle, size)) is None:
                    break  # its writer did not end it
                self._damaged()
                self._offset = end
                continue
            self._offset += len(whole)
            for line in whole.splitlines():
                if (charge := _parsed(line)) is not None:
                    self._count(charge)
                elif line.strip():
                    self._damaged()

    def _end_of_line(self, handle: int, size: int) -> int | None:
        """Where the line that begins at the offset ends, newline included; None where it does not.

        It is looked for part by part: a line may be as long as a disk's fault makes it.
        """
        at = self._offset
        while at < size and (part := os.pread(handle, min(_PART, size - at), at)):
            if newline := part.find(b"\n") + 1:
                return at + newline
            at += len(part)
        return None

    def _damaged(self) -> None:
        print(f"ledger: a line of {self.path} is damaged; left out", file=sys.stderr)

    def _count(self, charge: Charge) -> None:
        spent = self.spent(charge.study)
        if charge.outcome == BEGUN:
            if charge.resumes:
                self._take_over(charge, spent)
            self._open[charge.id] = self._last[charge.study, charge.key] = charge
            spent.open_calls += 1
            spent.open_usd += charge.expected_usd or 0.0
            return
        self._close(charge.id, spent)
        spent.add(charge)
        if charge.outcome == "ok":  # nobody takes it over: a ledger of many calls is not held whole
            self._last.pop((charge.study, charge.key), None)
        else:
            self._last[charge.study, charge.key] = charge
        if charge.cost_usd is not None:
            kind = Kind.of(charge)
            self._largest[kind] = max(self._largest.get(kind, 0.0), charge.cost_usd)

    def _close(self, call: str, spent: Spent) -> None:
        if (begun := self._open.pop(call, None)) is not None:
            spent.open_calls -= 1
            spent.open_usd -= begun.expected_usd or 0.0

    def _take_over(self, charge: Charge, spent: Spent) -> None:
        """What the last call put aside or paid for the task that this one asks for is its own.

        Not what those before it did: their tasks were others, that gave no image.
        """
        last = self._last.get((charge.study, charge.key))
        if last is not None and last.outcome == BEGUN:
            self._close(last.id, spent)
        elif last is not None and last.outcome != "ok":
            spent.take_over(last)


def _parsed(line: bytes) -> Charge | None:
    try:
        return Charge.model_validate(json.loads(line))
    except (ValueError, RecursionError, ValidationError):
        return None
