"""What is killed, and how it stands afterwards: outputs, replies, and what ran in between."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from stages.models.store import Store
from tests.faults import book
from tests.pipeline.conftest import ROOT, Workspace
from tests.pipeline.test_pipeline_faults import STAGES, arguments

Seen = list[tuple[str, str]]


class Nursery:
    """A process that starts stages within milliseconds (`tests/faults/nursery.py`)."""

    def __init__(self, workspace: Workspace, store: Path, *modules: str) -> None:
        self.root, self.store = workspace.root, store
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.nursery", *modules],
            cwd=workspace.root,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": f"{workspace.root}{os.pathsep}{ROOT}",
                "EDCT_STORE": str(store),
                "OMP_NUM_THREADS": "1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        stage: str,
        given: list[str] | None = None,
        *,
        kill_after: float | None = None,
        seen: Seen | None = None,
    ) -> dict[str, Any]:
        """Run a stage, or `dvc`; kill it at a moment, or so long after a sight."""
        if given is None:
            given = arguments(STAGES[stage]) if stage in STAGES else []
        order = {"dvc": given} if stage == "dvc" else {"stage": stage, "arguments": given}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({**order, "kill_after": kill_after, "seen": seen})
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        said: dict[str, Any] = json.loads(self._process.stdout.readline())
        return said

    def close(self) -> None:
        """Let it go."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=20)

    def forget(self) -> None:
        """Empty the store."""
        shutil.rmtree(self.store, ignore_errors=True)

    def remove(self, outputs: tuple[str, ...]) -> None:
        """Remove outputs, as DVC does before it runs a stage."""
        for name in outputs:
            path = self.root / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def outputs(self, outputs: tuple[str, ...]) -> dict[str, bytes]:
        """Every file of these outputs."""
        found = {}
        for name in outputs:
            path = self.root / name
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if file.is_file():
                    found[str(file.relative_to(self.root))] = file.read_bytes()
        return found

    def last_written(self, outputs: tuple[str, ...]) -> Path:
        """The output that was written last."""
        files = [self.root / name for name in self.outputs(outputs)]
        return max(files, key=lambda path: path.stat().st_mtime_ns)

    def replies(self) -> dict[str, int]:
        """Every whole reply, with the file that holds it: a call that is made again makes another
        file."""
        return {path.name: path.stat().st_ino for path in self.store.glob("replies/*/*.json")}

    def sound(self) -> bool:
        """Whether every reply of the store can be read."""
        store = Store(self.store)
        return all(store.get(key) is not None for key in list(store.keys()))


@dataclass
class Chain:
    """Kills of one stage, in chains of one to three, each ended by a run that is let be."""

    nursery: Nursery
    stage: str
    outputs: tuple[str, ...]
    given: list[str] | None = None
    killed: int = 0
    repeats: int = 0
    """Replies that were stored and came again."""
    disk: Counter[str] = field(default_factory=Counter)
    """What of the outputs a kill left."""

    def undisturbed(self) -> None:
        """Run once from nothing: what all other runs must come to."""
        self.nursery.remove(self.outputs)
        self.nursery.forget()
        run = self.nursery.run(self.stage, self.given)
        assert run["code"] == 0, self.stage
        self.seconds = float(run["seconds"])
        self.whole = self.nursery.outputs(self.outputs)
        assert self.whole
        self.last = self.nursery.last_written(self.outputs)
        self.calls = len(self.nursery.replies())
        self.nursery.forget()
        self.finished: dict[str, int] = {}

    def kill(self, kills: int, seed: int) -> None:
        """Kill it so often: three of four spread over its run, the fourth as it writes outputs."""
        draw = np.random.default_rng([book.SEED, seed])
        slots = draw.permutation(kills)
        tries = 0
        while self.killed < kills:
            tries += 1
            assert tries < 20 * kills, f"{self.stage} is faster than its kills"
            at = (slots[self.killed] + float(draw.uniform())) / kills * self.seconds
            seen = None
            if self.killed % 4 == 3:
                first = (str(self.nursery.root / self.outputs[0]), "")
                last = (str(self.last.parent), self.last.name)
                seen, at = [(first, last)[self.killed % 8 // 4]], float(draw.uniform(0, 0.003))
            self.nursery.remove(self.outputs)
            run = self.nursery.run(self.stage, self.given, kill_after=at, seen=seen)
            self._compare()
            if run["code"] == -signal.SIGKILL:
                self.killed += 1
                self._look()
                if self.killed % 3 and self.killed < kills:  # sometimes one kill after the other
                    continue
            self._end()

    def _look(self) -> None:
        left = self.nursery.outputs(self.outputs)
        kind = "whole" if left == self.whole else "part" if left else "none"
        self.disk[kind] += 1

    def _compare(self) -> None:
        now = self.nursery.replies()
        self.repeats += sum(now[name] != file for name, file in self.finished.items())
        self.finished = now

    def _end(self) -> None:
        self.nursery.remove(self.outputs)
        run = self.nursery.run(self.stage, self.given)
        self._compare()
        said = f"{self.stage} after {self.killed} kills, seed {book.SEED}: {run}"
        assert run["code"] == 0, said
        assert self.nursery.outputs(self.outputs) == self.whole, said
        assert len(self.nursery.replies()) == self.calls, said
        assert self.nursery.sound(), said
        self.nursery.forget()
        self.finished = {}

    def note(self) -> None:
        """Write it into the book."""
        assert self.repeats == 0
        said = f"{self.calls} calls a run, stored ones made again: 0; " if self.calls else ""
        left = ", ".join(f"{kind} {self.disk[kind]}" for kind in ("none", "part", "whole"))
        said += f"outputs on disk at the kill: {left}"
        book.note(book.KILLS, f"`{self.stage}`", self.killed, self.killed, said)
