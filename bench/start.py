"""Start-up: what a stage costs before it works, and what DVC costs around it."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.figure import Figure
from bench.workspace import ROOT, Workspace, fresh, pretend

TOPIC = "start"
FLOOR = "import numpy, cv2, pydantic"
HEAVY = ("pretrain", "finetune")
"""Stages that need torch, as soon as they work."""
TABLE_1 = 300
"""Samples of Table 1."""
Row = dict[str, Any]
"""What `bench.traced` writes about one process."""


def measure(*, quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    yield from _imports(repeats=2 if quick else 5)
    yield from _without_work(samples=30 if quick else TABLE_1, repeats=1 if quick else 3)
    yield from _demo(samples=6 if quick else 60)


def _imports(*, repeats: int) -> Iterator[Figure]:
    stages = sorted(
        path.stem for path in (ROOT / "stages").glob("[!_]*.py") if path.stem not in HEAVY
    )
    codes = {"nothing": "pass", "floor": FLOOR}
    codes |= {stage: f"import stages.{stage}" for stage in stages}
    spent: dict[str, list[float]] = {name: [] for name in codes}
    for repeat in range(repeats + 1):  # the first writes byte code, and does not count
        for name, code in codes.items():
            took = _process(code)
            if repeat:
                spent[name].append(took)
    medians = {name: statistics.median(times) for name, times in spent.items()}
    nothing, floor = medians.pop("nothing"), medians.pop("floor")
    slowest = max(medians, key=lambda name: medians[name])
    yield Figure(
        topic=TOPIC,
        name=f"start of a stage's process, the slowest of {len(medians)} ({slowest})",
        value=medians[slowest],
        unit="s",
        bound=1.0,
        note=f"until it works; `python -c pass` takes {nothing:.2f} s",
    )
    yield Figure(
        topic=TOPIC,
        name="start of a stage's process, the median stage",
        value=statistics.median(medians.values()),
        unit="s",
        baseline=f"`{FLOOR}`",
        baseline_value=floor,
        note=", ".join(f"{name} {took:.2f}" for name, took in medians.items()),
    )


def _process(code: str) -> float:
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, check=True)
    return time.perf_counter() - began


def _without_work(*, samples: int, repeats: int) -> Iterator[Figure]:
    with fresh(["study=table1"]) as workspace:
        stages = pretend(workspace, samples=samples)
        workspace.run("dvc", "repro")  # DVC notes what it has looked at
        commands: dict[str, Sequence[str]] = {
            "repro": ("dvc", "repro"),
            "status": ("dvc", "status"),
            "imports": (sys.executable, "-c", "import dvc.repo, dvc.cli, networkx"),
        }
        spent: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(repeats):
            for name, command in commands.items():
                spent[name].append(workspace.run(*command))
    took = {name: statistics.median(times) for name, times in spent.items()}
    made_up = f"{stages} stages, {samples} samples; outputs are made up, no model is called"
    yield Figure(
        topic=TOPIC,
        name="`dvc repro` of study=table1 where nothing is to do",
        value=took["repro"],
        unit="s",
        bound=5.0,
        note=f"{made_up}; {took['imports']:.2f} s are DVC's imports",
    )
    yield Figure(
        topic=TOPIC,
        name="`dvc status` of the same",
        value=took["status"],
        unit="s",
        bound=5.0,
    )


def _demo(*, samples: int) -> Iterator[Figure]:
    with fresh([f"benchmarks.demo.samples={samples}"]) as workspace:
        whole, rows = traced_run(workspace)
    imports = sum(row["imports_s"] for row in rows)
    work = sum(row["work_s"] for row in rows)
    stages = len(rows)
    note = f"of a run of {whole:.1f} s: {samples} samples, four targets, {stages} processes"
    yield Figure(
        topic=TOPIC,
        name="the demo from nothing: share of the time that stages work",
        value=100 * work / whole,
        unit="%",
        bound=50.0,
        sense="least",
        note=note,
    )
    yield Figure(
        topic=TOPIC,
        name="the demo: start of processes",
        value=imports,
        unit="s",
        note=f"{imports / stages:.2f} s each",
    )
    yield Figure(
        topic=TOPIC,
        name="the demo: DVC itself (hashing, links, dvc.lock)",
        value=whole - imports - work,
        unit="s",
    )
    for name, took in by_kind(rows):
        yield Figure(topic=TOPIC, name=f"the demo: CPU time of {name}", value=took, unit="s")


def traced_run(workspace: Workspace) -> tuple[float, list[Row]]:
    """Run `dvc repro` with every stage traced: seconds by the wall, and a row a process."""
    tools, traces = workspace.root.parent / "tools", workspace.root.parent / "traces"
    tools.mkdir()
    traces.mkdir()
    shim = tools / "python"
    shim.write_text(
        "#!/bin/sh\n"
        "BENCH_BEGAN=$(date +%s.%N) "
        f'exec "{sys.executable}" -m bench.traced "{traces}" "$@"\n',
        encoding="utf-8",
    )
    shim.chmod(0o755)
    path = os.pathsep.join((str(tools), str(Path(sys.executable).parent), os.environ["PATH"]))
    whole = workspace.run("dvc", "repro", PATH=path)
    return whole, [json.loads(file.read_text()) for file in sorted(traces.glob("*.json"))]


def by_kind(rows: Sequence[Row]) -> list[tuple[str, float]]:
    """CPU seconds of all stages by what was done, the most first."""
    kinds: dict[str, float] = defaultdict(float)
    for row in rows:
        for name, took in row["by"].items():
            kinds[name] += took
    rest = sum(row["work_cpu_s"] for row in rows) - sum(kinds.values())
    named = [*kinds.items(), ("the rest of the stages", rest)]
    return sorted(named, key=lambda kind: -kind[1])


def main() -> None:
    """`python -m bench.start [SAMPLES]`: the demo by stage, as a table in Markdown."""
    samples = int(sys.argv[1]) if sys.argv[1:] else 60
    with fresh([f"benchmarks.demo.samples={samples}"]) as workspace:
        whole, rows = traced_run(workspace)
    print(
        "| stage | processes | start | work | CPU | of it |\n| --- | --- | --- | --- | --- | --- |"
    )
    for stage in dict.fromkeys(row["stage"] for row in rows):
        mine: list[Row] = [row for row in rows if row["stage"] == stage]
        start, work, cpu = (
            sum(row[key] for row in mine) for key in ("imports_s", "work_s", "work_cpu_s")
        )
        kinds = ", ".join(f"{name} {took:.1f}" for name, took in by_kind(mine) if took >= 0.05)
        print(f"| {stage} | {len(mine)} | {start:.1f} | {work:.1f} | {cpu:.1f} | {kinds} |")
    stages = sum(row["imports_s"] + row["work_s"] for row in rows)
    print(f"| DVC | | | {whole - stages:.1f} | | |\n| all | {len(rows)} | | {whole:.1f} | | |")


if __name__ == "__main__":
    main()
