"""A copy of the repository, with a cache and a store of its own, in which DVC runs."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
IMAGES_A_SAMPLE = 6
"""Edited images, masks and change maps of a sample in one cell: two edits, one attempt each."""


class Workspace:
    """A copy of the repository.

    Parameters
    ----------
    root : Path
        Where it is.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, *command: str, **environment: str) -> float:
        """Run a command in it; seconds by the wall.

        Raises
        ------
        RuntimeError
            With what it printed, where it fails.
        """
        tools = str(Path(sys.executable).parent)
        kept = (name for name in os.environ if not name.startswith("EDCT_"))
        env = {name: os.environ[name] for name in kept if name != "PYTHONDONTWRITEBYTECODE"}
        env |= {"PATH": f"{tools}{os.pathsep}{env['PATH']}", "PYTHONPATH": "", **environment}
        began = time.perf_counter()
        done = subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True)
        took = time.perf_counter() - began
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return took

    def compose(self, *overrides: str) -> None:
        """Make its `params.yaml`."""
        self.run(sys.executable, "-m", "stages.workflow.compose", *overrides)


@contextmanager
def fresh(overrides: Sequence[str] = ()) -> Iterator[Workspace]:
    """What a clone would have, in a temporary folder, with nothing made yet."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    with TemporaryDirectory(prefix="edct-bench-") as folder:
        workspace = Workspace(Path(folder) / "edct")
        for name in listed.stdout.splitlines():
            source, copied = ROOT / name, workspace.root / name
            if source.is_file() and name != "dvc.lock" and not name.startswith("tests/"):
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, copied)
        workspace.run("git", "init", "-q")
        workspace.compose(*overrides)
        yield workspace


def pretend(workspace: Workspace, *, samples: int) -> int:
    """Have DVC take a study for done, whose models would have to be paid for; number of stages.

    Every output is made up: a row a sample where rows would be, and as many small files as there
    would be images. `dvc commit` then writes `dvc.lock` as a run would have.
    """
    from dvc.repo import Repo

    with Repo(str(workspace.root)) as repo:
        stages = len(repo.index.stages)
        outputs = [Path(output.fs_path) for output in repo.index.outs]
    for path in outputs:
        kind = path.relative_to(workspace.root).parts[1]
        if path.suffix or kind == "weights":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}\n", encoding="utf-8")
            continue
        images = {"prepare": 1, "edit": IMAGES_A_SAMPLE}.get(kind, 0) * samples
        (path / "images").mkdir(parents=True, exist_ok=True)
        (path / "samples.jsonl").write_text(f'"{path.name}"\n' * samples, encoding="utf-8")
        for number in range(images):
            name = hashlib.sha256(f"{path.name} {number}".encode()).hexdigest()
            (path / "images" / f"{name}.png").write_text(name, encoding="utf-8")
    for name, text in (("cells.json", "[]"), ("checked", "checked\n")):
        (workspace.root / "data" / "plan" / name).write_text(text, encoding="utf-8")
    workspace.run("dvc", "commit", "--force", "--quiet", "dvc.yaml")
    return stages
