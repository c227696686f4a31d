"""`transformers serve` in a process of its own: a server that speaks the protocol as others do."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

START_S = 180


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of a server that loads whatever folder a request names as its model."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("served") / "log"
    command = [str(Path(sys.executable).parent / "transformers"), "serve"]
    options = ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    offline = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, *options], env={**os.environ, **offline}, stdout=out, stderr=out
        )
    try:
        _wait(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            if process.poll() is not None:
                break
            time.sleep(0.3)
    pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")
