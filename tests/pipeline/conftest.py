"""A copy of the repository in which the pipeline runs for real, on a small study."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = (
    "target=[demo_looks,demo_mixture]",
    "benchmarks.demo.samples=8",
    "score.resamples=500",
    "report.gallery=2",
    "report.panels=1",
    "report.examples=1",
)


@dataclass(frozen=True)
class Outcome:
    """What a command printed, and what that says."""

    status: int
    text: str

    @property
    def ran(self) -> list[str]:
        """Stages that ran, in order."""
        return re.findall(r"Running stage '([^']+)'", self.text)

    @property
    def stages(self) -> set[str]:
        """Names of the stages that ran, without their cells."""
        return {name.split("@")[0] for name in self.ran}

    @property
    def made(self) -> Counter[str]:
        """Calls made, by role."""
        return _counts(self.text, r"calls made \d+ \(([^)]*)\)")

    @property
    def answered(self) -> Counter[str]:
        """Calls answered from the store, by role."""
        return _counts(self.text, r"answered from the store \d+ \(([^)]*)\)")


def _counts(text: str, pattern: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for listing in re.findall(pattern, text):
        for role, number in re.findall(r"(\w+) (\d+)", listing):
            counts[role] += int(number)
    return counts


class Workspace:
    """A copy of the repository, with its own DVC cache and store."""

    def __init__(self, root: Path, timeout_s: float = 600) -> None:
        self.root, self.timeout_s = root, timeout_s

    def run(self, *command: str, fails: bool = False, **environment: str) -> Outcome:
        """Run a command in the workspace; an unexpected exit status fails the test."""
        env = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": "",
            **environment,
        }
        env.pop("EDCT_STORE", None) if "EDCT_STORE" not in environment else None
        done = subprocess.run(
            command,
            cwd=self.root,
            env=env,
            capture_output=True,
            text=True,
            timeout=self.timeout_s,
        )
        text = done.stdout + done.stderr
        assert (done.returncode != 0) == fails, f"{command} ended with {done.returncode}:\n{text}"
        return Outcome(done.returncode, text)

    def compose(self, *overrides: str) -> None:
        """Make `params.yaml` of the small study with further overrides."""
        self.run(sys.executable, "-m", "stages.workflow.compose", *SMALL, *overrides)

    def repro(self, *options: str, fails: bool = False, **environment: str) -> Outcome:
        """Run `dvc repro`."""
        return self.run("dvc", "repro", *options, fails=fails, **environment)

    def commit(self) -> None:
        """Commit what changed, as a user would before the next experiment."""
        self.run("git", "add", "-A")
        self.run("git", "commit", "-qm", "state", "--allow-empty")

    @property
    def lock(self) -> bytes:
        """`dvc.lock` as it is."""
        return (self.root / "dvc.lock").read_bytes()

    def copy(self, target: Path) -> "Workspace":
        """A copy of everything, the cache and the store included."""
        shutil.copytree(self.root, target, symlinks=True)
        return Workspace(target)


def fresh(target: Path) -> Workspace:
    """A copy of the repository's own files, as a clone would have them."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in listed:
        source, copied = ROOT / name, target / name
        if source.is_file() and name != "dvc.lock" and not name.startswith("tests/"):
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copied)
    workspace = Workspace(target)
    workspace.run("git", "init", "-q")
    workspace.run("git", "config", "user.email", "tests@edct.invalid")
    workspace.run("git", "config", "user.name", "tests")
    workspace.compose()
    workspace.commit()
    return workspace


def clone_of(workspace: Workspace, target: Path) -> Workspace:
    """A clone: what is in git and nothing else, without cache, store or outputs."""
    target.parent.mkdir(parents=True, exist_ok=True)
    workspace.run("git", "clone", "-q", str(workspace.root), str(target))
    return Workspace(target)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Outcome]:
    """A workspace in which the small study has run from nothing, and what that printed.

    Tests take a copy of it before they change anything.
    """
    workspace = fresh(tmp_path_factory.mktemp("finished") / "edct")
    outcome = workspace.repro()
    workspace.commit()
    return workspace, outcome


@pytest.fixture
def workspace(finished: tuple[Workspace, Outcome], tmp_path: Path) -> Workspace:
    """A copy of the finished workspace that the test may change."""
    return finished[0].copy(tmp_path / "edct")
