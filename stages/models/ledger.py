"""The ledger: what every call that may be charged was expected to cost, and what it did cost.

One file beside the replies of the store, only ever added to, one JSON object a line, under a lock
of the operating system, so that stages, processes and queued experiments count together. A call is
written when it begins and when it ends; one that never ended, because its process was killed,
counts with what was put aside for it: it may have been charged. It is no output of any stage.
"""

import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from stages.records.charge import Charge
from stages.records.errors import UserError

NAME = "ledger.jsonl"
BEGUN = "begun"


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
    open_calls: int = 0
    """Calls that have begun and not ended: under way, or lost with their process."""
    open_usd: float = 0.0
    """What was put aside for them."""

    def add(self, ended: Charge) -> None:
        """Count a call that has ended."""
        self.calls += 1
        self.failed += ended.outcome != "ok"
        self.usd += ended.cost_usd or 0.0
        self.estimated_usd += ended.cost_usd or 0.0 if ended.told == "estimated" else 0.0
        self.unknown += ended.told == "unknown"

    @property
    def bound_usd(self) -> float:
        """What counts against a budget: spent, and put aside."""
        return self.usd + self.open_usd


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
        self._largest: dict[tuple[str, str], float] = {}
        self._failed: dict[tuple[str, str], list[Charge]] = {}

    def spent(self, study: str) -> Spent:
        """What a study has spent, as far as was read."""
        return self._spent.setdefault(study, Spent())

    def largest(self, role: str, model: str) -> float | None:
        """The largest known cost of a call of this kind; None where there was none yet."""
        return self._largest.get((role, model))

    def append(self, charge: Charge) -> None:
        """Add a line."""
        self.append_if(lambda: charge)

    def append_if(self, decide: Callable[[], Charge | None]) -> Charge | None:
        """Read what others have added, decide, and add the line, all under one lock."""
        with self._locked() as handle:
            self._catch_up(handle)
            charge = decide()
            if charge is not None:
                line = charge.model_dump_json().encode() + b"\n"
                self._write(handle, line if self._ends_whole(handle) else b"\n" + line)
                self._catch_up(handle)
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
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o644)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)

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

    def _ends_whole(self, handle: int) -> bool:
        size = os.fstat(handle).st_size
        return size == 0 or os.pread(handle, 1, size - 1) == b"\n"

    def _catch_up(self, handle: int) -> None:
        size = os.fstat(handle).st_size
        if size < self._offset:  # somebody began a new one
            self._forget()
        data = b""
        while self._offset + len(data) < size:
            part = os.pread(handle, size - self._offset - len(data), self._offset + len(data))
            if not part:
                break
            data += part
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            if (charge := _parsed(line)) is not None:
                self._count(charge)
            elif line.strip():
                print(f"ledger: a line of {self.path} is damaged; left out", file=sys.stderr)

    def _count(self, charge: Charge) -> None:
        spent = self.spent(charge.study)
        if charge.outcome == BEGUN:
            if charge.resumes:
                self._take_over(charge, spent)
            self._open[charge.id] = charge
            spent.open_calls += 1
            spent.open_usd += charge.expected_usd or 0.0
            return
        if (begun := self._open.pop(charge.id, None)) is not None:
            spent.open_calls -= 1
            spent.open_usd -= begun.expected_usd or 0.0
        spent.add(charge)
        if charge.outcome != "ok":
            self._failed.setdefault((charge.study, charge.key), []).append(charge)
        if charge.cost_usd is not None:
            key = (charge.role, charge.model)
            self._largest[key] = max(self._largest.get(key, 0.0), charge.cost_usd)

    def _take_over(self, charge: Charge, spent: Spent) -> None:
        """What earlier calls put aside or paid for the task that this one asks for is its own."""
        same = (charge.study, charge.key)
        for begun in [c for c in self._open.values() if (c.study, c.key) == same]:
            del self._open[begun.id]
            spent.open_calls -= 1
            spent.open_usd -= begun.expected_usd or 0.0
        for ended in self._failed.pop(same, []):
            spent.usd -= ended.cost_usd or 0.0
            spent.estimated_usd -= ended.cost_usd or 0.0 if ended.told == "estimated" else 0.0
            spent.unknown -= ended.told == "unknown"


def _parsed(line: bytes) -> Charge | None:
    try:
        return Charge.model_validate(json.loads(line))
    except (ValueError, RecursionError, ValidationError):
        return None
