"""What only some machines have: a test that needs it is skipped elsewhere, and fails in CI.

`EDCT_TESTS=all` says that this machine has everything, so that nothing is skipped unseen.
"""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import book
from tests.models.local.checkpoints import (  # noqa: F401 - fixtures, for whoever asks for them
    tiny_causal_lm,
    tiny_llava,
    tiny_qwen3_vl,
)
from tests.models.local.tiny import tiny  # noqa: F401
from tests.workflow.crews import KEY, SECRET, ray_settings

EVERYTHING = os.environ.get("EDCT_TESTS") == "all"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# A test marked so needs these packages; further ones are named by the mark: `local("diffusers")`.
PACKAGES = {
    "local": ("torch", "torchvision", "transformers"),
    "browser": ("playwright",),
    "ray": ("ray",),
}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose packages are missing, unless everything has to be there."""
    for name, always in PACKAGES.items():
        for mark in item.iter_markers(name):
            for package in (*always, *mark.args):
                if importlib.util.find_spec(package) is None:
                    _missing(f"{package} is not installed")


@pytest.fixture(scope="session")
def chromium_path() -> Path:
    """The system's own Chromium; playwright's download is not needed."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        _missing("no Chromium on this machine")
    assert found is not None
    return Path(found)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Path]:
    """A cluster of this process's own, with room for two workers; its folder of logs and sockets.

    Whatever runs with `executor=ray` meanwhile uses it.
    """
    from stages.workflow.executor_cluster import connected

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY, SECRET)
        with connected(ray_settings(), 2) as ray:
            yield Path(ray._private.worker.global_worker.node.get_session_dir_path())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the page of the fault suite, if its long form ran and every test passed."""
    if not book.LONG:
        return
    if session.testsfailed:
        print(f"\n{session.testsfailed} tests failed: EDCT_BOOK is left as it was")
    else:
        book.write()


def _missing(what: str) -> None:
    if EVERYTHING:
        pytest.fail(f"{what}, and EDCT_TESTS=all forbids to skip")
    pytest.skip(what)
