"""A loopback server for every test, and keys in the environment."""

from collections.abc import Iterator

import pytest

from tests.models.wire.loopback import KEY, Server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv("EDCT_REPLAY", raising=False)
    for name in ("OPENROUTER_API_KEY", "BFL_API_KEY", "OPENAI_API_KEY", "MOONDREAM_API_KEY"):
        monkeypatch.setenv(name, KEY)
    with Server() as running:
        yield running
