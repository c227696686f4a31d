"""Work that waits for models: what the harness adds to it.

A provider on loopback answers after half a second. The least that the calls can take is then known
(`ideal`), and the openai package with a semaphore is what any Python program takes. All clients run
in turn, each in a process of its own; seconds are the provider's, from the first request to the
last answer.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench import apart, study
from bench.apart import Took
from bench.figure import Figure
from bench.loopback import Seen, Server, serving

TOPIC = "calls"
BOUND = 1.15
BARE = "AsyncOpenAI and a semaphore"
KEY = {"BENCH_KEY": "bench-key"}
"""It must not occur in base64: what holds a key is scrubbed."""


class Size(NamedTuple):
    """How much is measured."""

    latency_s: float
    concurrency: int
    calls: int
    pictures: int
    side: tuple[int, int]
    """Width and height of a picture."""
    repeats: int
    edits: int
    editors: int
    """Edits at once."""
    costed: int
    """Calls whose cost in the harness is measured."""


FULL = Size(0.5, 64, 1000, 160, (1152, 864), 3, 64, 8, 2000)
QUICK = Size(0.1, 16, 64, 16, (320, 240), 1, 8, 4, 100)


class Race(NamedTuple):
    """What each side took, in each repeat."""

    ours: list[tuple[Took, Seen]]
    bare: list[tuple[Took, Seen]]

    def figures(self, name: str, ideal_s: float) -> Iterator[Figure]:
        """Against the ideal, and against the bare client."""
        ours, bare = self._seconds(self.ours), self._seconds(self.bare)
        mean = median(seen.mean for _, seen in self.ours)
        yield _figure(
            name,
            ours,
            baseline="ideal",
            baseline_value=ideal_s,
            bound=BOUND,
            note=f"{mean:.0f} requests under way on average",
        )
        yield _figure(f"{name}, bare", ours, baseline=BARE, baseline_value=bare)
        yield _figure(
            f"{name}: CPU of the client",
            self._cpu(self.ours),
            baseline=BARE,
            baseline_value=self._cpu(self.bare),
        )

    @staticmethod
    def _seconds(runs: list[tuple[Took, Seen]]) -> float:
        return median(seen.seconds for _, seen in runs)

    @staticmethod
    def _cpu(runs: list[tuple[Took, Seen]]) -> float:
        return median(took.cpu_s for took, _ in runs)

    def peaks(self) -> tuple[float, float]:
        """Largest memory in MiB, ours and the bare client's."""
        ours, bare = (max(took.peak_mib for took, _ in side) for side in self)
        return ours, bare


def measure(*, quick: bool) -> Iterator[Figure]:
    """Calls of words, and conversations about pictures."""
    size = QUICK if quick else FULL
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        study.furnish(root)
        study.photographs(root, size.pictures, *size.side)
        with serving(size.latency_s) as server:
            yield from words(root, server, size)
            yield from pictures(root, server, size)
        yield from edits(root / "study", size)
        yield from costs(root, size)


def words(root: Path, server: Server, size: Size) -> Iterator[Figure]:
    """One turn of text a call."""
    given = {"url": server.url, "calls": size.calls, "concurrency": size.concurrency}
    race = _race(root / "words", server, size, "words", {"root": str(root), **given}, given)
    name = f"{size.calls:,} calls of {size.latency_s:g} s, {size.concurrency} at once"
    yield from race.figures(name, size.calls / size.concurrency * size.latency_s)


def pictures(root: Path, server: Server, size: Size) -> Iterator[Figure]:
    """Two turns about each picture, by the stage `baseline`."""
    given = {"root": str(root), "url": server.url, "concurrency": size.concurrency}
    race = _race(root / "pictures", server, size, "pictures", given, given)
    megapixels = size.side[0] * size.side[1] / 1e6
    calls = 2 * size.pictures
    name = f"{calls:,} calls with a picture of {megapixels:.1f} MP"
    yield from race.figures(name, calls / size.concurrency * size.latency_s)
    ours, bare = race.peaks()
    yield Figure(
        topic=TOPIC,
        name=f"{name}: memory",
        value=ours,
        unit="MiB",
        baseline=BARE,
        baseline_value=bare,
        note=f"{race.ours[0][1].megabytes / calls:.1f} MB a request",
    )


def edits(root: Path, size: Size) -> Iterator[Figure]:
    """Editing by a provider while this machine detects, segments and measures."""
    root.mkdir()
    study.furnish(root)
    returned = study.scene_with_edits(root, size.edits, *size.side)
    runs = []
    with serving(size.latency_s, returned) as server:
        given = {"root": str(root), "url": server.url, "concurrency": size.editors}
        for repeat in range(size.repeats):
            env = {**KEY, "EDCT_STORE": str(root / "store" / str(repeat))}
            found = apart.run("bench.clients:our_edits", env=env, **given).result
            runs.append({**found, "under_way": server.seen().mean})
    took = {name: median(run[name] for run in runs) for name in runs[0]}
    waves = size.edits / size.editors * size.latency_s
    work = took["cpu_s"] / (os.cpu_count() or 1)
    name = f"{size.edits} edits of {size.latency_s:g} s, {size.editors} at once"
    yield _figure(
        name,
        took["seconds"],
        baseline="the longer of editing, and of all work on all cores",
        baseline_value=max(waves, work),
        bound=BOUND,
        note=f"editing {waves:.1f} s, work {work:.1f} s on {os.cpu_count()} cores",
    )
    yield Figure(
        topic=TOPIC,
        name=f"{name}: edits under way on average",
        value=took["under_way"],
        unit="edits",
        bound=0.9 * size.editors,
        sense="least",
    )
    yield Figure(
        topic=TOPIC,
        name=f"{name}: CPU of the event loop an edit",
        value=took["loop_s"] / size.edits * 1e3,
        unit="ms",
        baseline="all CPU an edit",
        baseline_value=took["cpu_s"] / size.edits * 1e3,
        note=f"99 of 100 stretches below {took['stretch_s'] * 1e3:.0f} ms",
    )


def costs(root: Path, size: Size) -> Iterator[Figure]:
    """What a call costs in the harness itself, beside a flush of the disk that it waits for."""
    disk = apart.run("bench.clients:flush", folder=str(root), times=50).result
    runs = []
    for repeat in range(size.repeats):
        env = {"EDCT_STORE": str(root / "cost" / str(repeat))}
        given = {"root": str(apart.ROOT), "calls": size.costed}
        runs.append(apart.run("bench.clients:our_cost", env=env, **given).result)
    for name, words in (
        ("made", "made: key, claim, ledger, store"),
        ("answered", "from the store"),
    ):
        yield Figure(
            topic=TOPIC,
            name=f"CPU of the harness a call {words}",
            value=median(run[name] for run in runs),
            unit="ms",
            baseline="a flush to this disk",
            baseline_value=disk,
        )


def _race(
    stores: Path,
    server: Server,
    size: Size,
    what: str,
    ours: dict[str, Any],
    bare: dict[str, Any],
) -> Race:
    race = Race([], [])
    for repeat in range(size.repeats):
        env = {**KEY, "EDCT_STORE": str(stores / str(repeat))}
        took = apart.run(f"bench.clients:our_{what}", env=env, **ours)
        race.ours.append((took, server.seen()))
        took = apart.run(f"bench.clients:bare_{what}", env=env, **bare)
        race.bare.append((took, server.seen()))
    return race


def _figure(name: str, value: float, **rest: Any) -> Figure:
    return Figure(topic=TOPIC, name=name, value=value, unit="s", **rest)
