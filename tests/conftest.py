"""What only some machines have: a test that needs it is skipped elsewhere, and fails in CI.

`EDCT_TESTS=all` says that this machine has everything, so that nothing is skipped unseen.
"""

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

from tests.models.local.checkpoints import (  # noqa: F401 - fixtures, for whoever asks for them
    tiny_causal_lm,
    tiny_llava,
    tiny_qwen3_vl,
)
from tests.models.local.tiny import tiny  # noqa: F401

EVERYTHING = os.environ.get("EDCT_TESTS") == "all"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# A test marked so needs these packages; further ones are named by the mark: `local("diffusers")`.
PACKAGES = {"local": ("torch", "torchvision", "transformers"), "browser": ("playwright",)}


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


def _missing(what: str) -> None:
    if EVERYTHING:
        pytest.fail(f"{what}, and EDCT_TESTS=all forbids to skip")
    pytest.skip(what)
