"""Localized edit verification: time a core, all cores, memory, and how far from memory's floor.

The baseline is `bench/plain.py`, which reads Algorithm 1 straight. Time is CPU time of this
process with OpenCV held to one thread, so it is time a core. Ours and the baseline take turns.
"""

import asyncio
import ctypes
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import cv2
import numpy as np

from bench import edits, passes, plain
from bench.edits import Edit
from bench.figure import Figure
from stages.imaging import localization
from stages.imaging.settings import Settings
from stages.models.calls import Calls
from stages.models.picture import Picture
from stages.models.protocol import Detector, Segmenter
from stages.models.store import Store
from stages.models.verification import Gate, Grounding
from stages.workflow.mapping import for_each

TOPIC = "verification"
SHIPPED = Settings()
FULL = Settings(working_side_px=1 << 16)
TAUS = (0.10, 0.30)
MOVED = (7, -5)
_MIB = 1 << 20


def measure(*, quick: bool) -> Iterator[Figure]:
    """Speed against the plain reading, agreement with it, cores, memory, floor."""
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield from _against_plain(repeats=3 if quick else 7)
        yield from _agreement(most=5 if quick else None)
        yield from _floor(repeats=5 if quick else 15)
        yield from _large(repeats=3)
    finally:
        cv2.setNumThreads(threads)
    yield from _memory()
    yield from _cores(pairs=4 if quick else 24)


def _against_plain(*, repeats: int) -> Iterator[Figure]:
    for shift in (MOVED, (0, 0)):
        edit = edits.planted(1024, shift=shift)
        for name, ours, theirs, bound in (
            ("both at 512 px", SHIPPED, SHIPPED, 5.0),
            ("both at full size", FULL, FULL, 5.0),
            ("as shipped (512 px), baseline at full size", SHIPPED, FULL, 5.0),
        ):
            value, baseline = _turns(
                repeats,
                partial(localization.localize, *edit[1:], settings=ours),
                partial(plain.measure, *edit[1:], settings=theirs),
            )
            yield Figure(
                topic=TOPIC,
                name=f"Measure {edit.name}: {name}",
                value=value * 1e3,
                unit="ms",
                baseline="plain reading",
                baseline_value=baseline * 1e3,
                bound=bound,
                sense="least",
                faster=True,
                note="CPU time, one core",
            )


def _agreement(*, most: int | None) -> Iterator[Figure]:
    made = [
        edits.planted(side, shift=shift, seed=seed)
        for seed, (side, shift) in enumerate(
            (side, shift) for side in (512, 1024) for shift in ((0, 0), (3, 2), MOVED)
        )
    ]
    yield from _apart("planted pairs", made)
    if edits.samples().exists():
        yield from _apart("labelled pairs", list(edits.labelled(SHIPPED))[:most])
    else:
        yield Figure(
            topic=TOPIC,
            name="Labelled pairs compared",
            value=0,
            unit="pairs",
            note="samples absent",
        )


def _apart(kind: str, found: Sequence[Edit]) -> Iterator[Figure]:
    farthest, other = 0.0, 0
    for edit in found:
        ours = localization.localize(*edit[1:], settings=SHIPPED)
        theirs = plain.measure(*edit[1:], settings=SHIPPED)
        for a, b in ((ours.r_in, theirs.r_in), (ours.r_out, theirs.r_out)):
            farthest = max(
                farthest, 1.0 if (a is None) != (b is None) else abs((a or 0) - (b or 0))
            )
        other += _verdict(ours) != _verdict(theirs)
    yield Figure(
        topic=TOPIC,
        name=f"Farthest r_in or r_out from the plain reading, {kind}",
        value=100 * farthest,
        unit="%",
        bound=1.0,
        note=f"{len(found)} pairs, both at 512 px",
    )
    yield Figure(
        topic=TOPIC, name=f"Other verdicts than it, {kind}", value=other, unit="pairs", bound=0
    )


def _verdict(found: localization.Localization | plain.Measured) -> str:
    tau_in, tau_out = TAUS
    return localization.verdict(
        found.r_in,
        found.r_out,
        found.mask_share,
        tau_in=tau_in,
        tau_out=tau_out,
        max_mask_share=SHIPPED.max_mask_share,
    )


def _floor(*, repeats: int) -> Iterator[Figure]:
    bandwidth = passes.bandwidth()
    yield Figure(
        topic=TOPIC,
        name="Bandwidth of a copy, read and written",
        value=bandwidth / 1e9,
        unit="GB/s",
        note="one core",
    )
    edit = edits.planted(1024, shift=MOVED)
    steps = passes.steps(*edit[1:], settings=SHIPPED)
    for step, seconds in zip(steps, _turns(repeats, *(step.run for step in steps)), strict=True):
        yield Figure(
            topic=TOPIC,
            name=f"Steps of {edit.name}, as shipped: {step.name}",
            value=seconds * 1e3,
            unit="ms",
            baseline=f"{step.moved / 1e6:.0f} MB at that bandwidth",
            baseline_value=step.moved / bandwidth * 1e3,
            note="CPU time, one core",
        )


def _large(*, repeats: int) -> Iterator[Figure]:
    for name, settings in (("as shipped", SHIPPED), ("at full size", FULL)):
        edit = edits.planted(2048, shift=MOVED)
        seconds = _cpu(repeats, partial(localization.localize, *edit[1:], settings=settings))
        yield Figure(
            topic=TOPIC,
            name=f"Measure {edit.name}, {name}",
            value=seconds * 1e3,
            unit="ms",
            note="CPU time, one core",
        )


def _memory() -> Iterator[Figure]:
    """In a process of its own for each, since what was freed before would serve again."""
    for side in (1024, 2048):
        for name, settings, bound in (("as shipped", SHIPPED, 32.0), ("at full size", FULL, None)):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                peak = pool.apply(peak_memory, (side, settings))
            yield Figure(
                topic=TOPIC,
                name=f"Memory beside the pair itself, {side}×{side}, {name}",
                value=peak / _MIB,
                unit="MiB",
                bound=bound,
                note="peak, resident",
            )


def peak_memory(side_px: int, settings: Settings) -> int:
    """Bytes by which a measurement raises this process's resident memory at its peak."""
    cv2.setNumThreads(1)
    localization.localize(*edits.planted(64)[1:], settings=settings)  # what is loaded only once
    edit = edits.planted(side_px, shift=MOVED)
    ctypes.CDLL(None).malloc_trim(0)  # what was freed would serve again, unseen
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _status("VmRSS")
    localization.localize(*edit[1:], settings=settings)
    return _status("VmHWM") - before


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    (found,) = (line for line in lines if line.startswith(f"{field}:"))
    return int(found.split()[1]) * 1024


def _cores(*, pairs: int) -> Iterator[Figure]:
    """Through the gate and its store, pictures decoded too: one pair at a time, then many."""
    cores = len(os.sched_getaffinity(0))
    made = [edits.planted(1024, shift=MOVED, seed=seed) for seed in range(pairs)]
    sent = [
        tuple(Picture.of(x).png for x in (e.source, e.edited, e.mask.astype(np.uint8) * 255))
        for e in made
    ]
    _through_the_gate(sent[:2], 1)
    walls: dict[int, list[float]] = {1: [], cores: []}
    for _ in range(3):
        for at_once, seconds in walls.items():
            seconds.append(_through_the_gate(sent, at_once))
    alone, together = (pairs / statistics.median(seconds) for seconds in walls.values())
    yield Figure(
        topic=TOPIC,
        name=f"Pairs through the gate, {cores} at once",
        value=together,
        unit="pairs/s",
        baseline="one at a time",
        baseline_value=alone,
        bound=0.8 * cores,
        sense="least",
        note=f"{cores} cores, 1024×1024, PNG decoded, store written",
    )


def _through_the_gate(sent: Sequence[tuple[bytes, ...]], at_once: int) -> float:
    """Seconds of the wall clock."""
    nobody = cast(Detector, None), cast(Segmenter, None)  # the masks are there already
    with tempfile.TemporaryDirectory() as folder:
        gate = Gate(Calls(Store(Path(folder))), *nobody, SHIPPED, *TAUS)

        async def judge(pngs: tuple[bytes, ...]) -> str:
            source, edited, mask = map(Picture, pngs)
            return (await gate.judge(source, edited, Grounding((), mask, ()))).status

        begun = time.perf_counter()
        asyncio.run(for_each(sent, judge, at_once=at_once, label="verification"))
        return time.perf_counter() - begun


def _turns(repeats: int, *runs: Callable[[], object]) -> list[float]:
    """Median CPU seconds of each, which take turns; the first turn does not count."""
    seconds = [[_once(run) for run in runs] for _ in range(repeats + 1)][1:]
    return [statistics.median(column) for column in zip(*seconds, strict=True)]


def _cpu(repeats: int, run: Callable[[], object]) -> float:
    return _turns(repeats, run)[0]


def _once(run: Callable[[], object]) -> float:
    begun = time.process_time()
    run()
    return time.process_time() - begun
