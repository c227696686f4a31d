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


def measure(*, quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    if find_spec("ray") is None:
        return
    few, many = (4, 24) if quick else (8, 80)
    with fresh([*STUDY, f"benchmarks.demo.samples={many}"]) as workspace:
        took = _took(workspace, few, many, repeats=1 if quick else 3)
    each = {name: (at[many] - at[few]) / (many - few) for name, at in took.items()}
    start = {name: at[few] - few * each[name] for name, at in took.items()}
    for name in list(EXECUTORS)[1:]:
        yield Figure(
            topic=TOPIC,
            name=f"edit by {name} of Ray: a further sample",
            value=1000 * each[name],
            unit="ms",
            baseline="executor=local",
            baseline_value=1000 * each["local"],
            note=f"from {few} to {many} samples of the demo",
        )
    yield Figure(
        topic=TOPIC,
        name="edit by two workers of Ray: the start",
        value=start["two workers"],
        unit="s",
        baseline="executor=local",
        baseline_value=start["local"],
        note="a cluster of its own, and the workers' imports",
    )
    yield Figure(
        topic=TOPIC,
        name=f"edit by two workers of Ray: {many} samples in all",
        value=took["two workers"][many],
        unit="s",
        baseline="executor=local",
        baseline_value=took["local"][many],
        note="equal bytes",
    )


def _took(
    workspace: Workspace, few: int, many: int, *, repeats: int
) -> dict[str, dict[int, float]]:
    """Seconds of the stage by executor and number of samples, medians."""
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
    for size in (few, many):
        chains.write_bytes(b"".join(lines[:size]))
        rows = set()
        for repeat in range(repeats):
            for name, text in params.items():
                (workspace.root / "params.yaml").write_bytes(text)
                store = str(workspace.root / "stores" / f"{name}-{size}-{repeat}")
                command = (sys.executable, "-m", "stages.edit", *CELL, "--editor", "demo")
                spent[name, size].append(workspace.run(*command, EDCT_STORE=store))
                rows.add((workspace.root / FOLDER / "attempts.jsonl").read_bytes())
        if len(rows) != 1:
            raise RuntimeError("the executors differ in what they give")
    return {
        name: {size: statistics.median(spent[name, size]) for size in (few, many)}
        for name in EXECUTORS
    }
