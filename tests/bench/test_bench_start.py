"""Where a stage's time goes: nothing is counted twice, and a traced stage writes the same."""

import asyncio
import json
import sys
import time

import pytest

from bench.start import by_kind
from bench.traced import Clock
from bench.workspace import fresh


class Watch:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def busy(self, seconds: float) -> None:
        self.seconds += seconds


def test_what_is_timed_within_another_counts_once() -> None:
    watch = Watch()
    clock = Clock(lambda: watch.seconds)
    inner = clock.timed("inner", watch.busy)

    def both() -> None:
        watch.busy(2)
        inner(5)
        inner(6)

    clock.timed("outer", both)()
    assert clock.spent == {"inner": 11, "outer": 2}


def test_a_model_is_not_timed_while_it_waits_and_its_errors_pass() -> None:
    watch = Watch()
    clock = Clock(lambda: watch.seconds)

    async def waits() -> str:
        watch.busy(2)
        await asyncio.sleep(0)
        watch.busy(3)
        return "answer"

    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("gone")

    async def both() -> str:
        calls = (clock.awaited("target", waits)() for _ in range(2))
        first, second = await asyncio.gather(*calls)
        with pytest.raises(KeyError):
            await clock.awaited("target", fails)()
        return first + second

    assert asyncio.run(both()) == "answeranswer"
    assert clock.spent == {"target": 10}


def test_a_traced_stage_writes_the_same_and_says_what_it_did() -> None:
    with fresh(["benchmarks.demo.samples=1", "target=[demo_looks]"]) as workspace:
        traces = workspace.root.parent
        workspace.run(sys.executable, "-m", "stages.prepare")
        stage = ("-m", "stages.baseline", "--target", "demo_looks", "--seed", "0")
        workspace.run(sys.executable, *stage)
        answers = workspace.root / "data" / "baseline" / "demo_looks-0" / "answers.jsonl"
        plain = answers.read_bytes()
        (workspace.root / ".store").rename(workspace.root / "aside")
        began = {"BENCH_BEGAN": str(time.time())}
        workspace.run(sys.executable, "-m", "bench.traced", str(traces), *stage, **began)
        assert answers.read_bytes() == plain
        row = json.loads(next(traces.glob("*.json")).read_text())
    assert row["stage"] == "baseline"
    kinds = dict(by_kind([row]))
    assert {"target", "PNG", "store", "records"} <= {name for name, took in kinds.items() if took}
    assert sum(kinds.values()) == pytest.approx(row["work_cpu_s"])
    assert 0 < row["imports_s"] < 60
