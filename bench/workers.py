"""What workers of Ray cost beside one process: the stage `edit` of the demo, with either executor.

Two sizes tell the start (the cluster, the workers' imports) from the time of a sample. Where Ray is
not installed there is nothing to measure.
"""

import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec

from bench.figure import Figure
from bench.workspace import Workspace, fresh

TOPIC = "workers"
STUDY = ("target=[demo_looks]", "score.resamples=100")
CELL = ("--target", "demo_looks", "--extractor", "demo", "--seed", "0")
FOLDER = "data/edit/demo_looks-demo-demo-0"
EXECUTORS = {
    "local": (),
    "one worker": ("executor=ray", "executor.workers=1"),
    "two workers": ("executor=ray", "executor.workers=2"),
}
Took = dict[tuple[str, int], float]
"""Seconds of the stage by executor and number of samples."""


def measure(*, quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    if find_spec("ray") is None:
        print("workers: Ray is not installed: `make extras EXTRAS=ray`", file=sys.stderr)
        return
    few, many = (4, 16) if quick else (8, 40)
    with fresh([*STUDY, f"benchmarks.demo.samples={many}"]) as workspace:
        took = _took(workspace, few, many, repeats=1 if quick else 2)
    sizes = many - few
    each = {name: (took[name, many] - took[name, few]) / sizes for name in ("local", "one worker")}
    yield Figure(
        topic=TOPIC,
        name="edit by one worker of Ray: a further sample",
        value=1000 * each["one worker"],
        unit="ms",
        baseline="executor=local",
        baseline_value=1000 * each["local"],
        note=f"from {few} to {many} samples of the demo",
    )
    yield Figure(
        topic=TOPIC,
        name="edit by one worker of Ray: the start",
        value=took["one worker", few] - few * each["one worker"],
        unit="s",
        baseline="executor=local",
        baseline_value=took["local", few] - few * each["local"],
        note="imports; of Ray also a cluster of its own, and a worker's imports",
    )
    yield Figure(
        topic=TOPIC,
        name=f"edit by two workers of Ray: {many} samples in all",
        value=took["two workers", many],
        unit="s",
        baseline="executor=local",
        baseline_value=took["local", many],
        note="equal bytes; start included",
    )


def _took(workspace: Workspace, few: int, many: int, *, repeats: int) -> Took:
    """Medians."""
    for stage, axes in (
        ("plan", ()),
        ("prepare", ()),
        ("baseline", (*CELL[:2], *CELL[4:])),
        ("concepts", CELL),
        ("instructions", CELL),
    ):
        workspace.run(sys.executable, "-m", f"stages.{stage}", *axes)
    params = {}
    for name, overrides in EXECUTORS.items():
        workspace.compose(*STUDY, f"benchmarks.demo.samples={many}", *overrides)
        params[name] = (workspace.root / "params.yaml").read_bytes()
    chains = workspace.root / "data/instructions/demo_looks-demo-0/instructions.jsonl"
    lines = chains.read_bytes().splitlines(keepends=True)
    spent: dict[tuple[str, int], list[float]] = defaultdict(list)
    for size, names in ((few, ("local", "one worker")), (many, tuple(EXECUTORS))):
        chains.write_bytes(b"".join(lines[:size]))
        rows = set()
        for repeat in range(repeats):
            for name in names:
                (workspace.root / "params.yaml").write_bytes(params[name])
                store = str(workspace.root / "stores" / f"{name}-{size}-{repeat}")
                command = (sys.executable, "-m", "stages.edit", *CELL, "--editor", "demo")
                spent[name, size].append(workspace.run(*command, EDCT_STORE=store))
                rows.add((workspace.root / FOLDER / "attempts.jsonl").read_bytes())
        if len(rows) != 1:
            raise RuntimeError("the executors differ in what they give")
    return {key: statistics.median(seconds) for key, seconds in spent.items()}
