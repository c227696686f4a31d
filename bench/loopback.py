"""A provider on loopback, in a process of its own: it takes any request, waits, and answers.

It costs next to nothing itself: bodies are counted and not looked at, and replies are made once.
`GET /seen` gives what it saw since the last time: requests, seconds from the first request to the
last answer, the most requests at once, and the mean number of them.
"""

import asyncio
import base64
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

MODEL = "loopback"


class Seen(NamedTuple):
    """What the server saw."""

    requests: int
    seconds: float
    """From the end of the first request to the last answer."""
    peak: int
    """The most requests that waited for their answer at once."""
    mean: float
    """Their mean number over those seconds."""
    megabytes: float
    """Bodies received."""


class Tally:
    """Counts for `Seen`."""

    def __init__(self) -> None:
        self.first = self.last = self.since = 0.0
        self.requests = self.active = self.peak = self.bytes = 0
        self.area = 0.0

    def _pass(self) -> None:
        now = time.perf_counter()
        self.area += self.active * (now - self.since)
        self.since = self.last = now
        self.first = self.first or now

    def begin(self, size: int) -> None:
        if not self.first:
            self.since = time.perf_counter()
        self._pass()
        self.active += 1
        self.requests += 1
        self.bytes += size
        self.peak = max(self.peak, self.active)

    def end(self) -> None:
        self._pass()
        self.active -= 1

    def seen(self) -> Seen:
        span = self.last - self.first
        mean = self.area / span if span else 0.0
        return Seen(self.requests, span, self.peak, mean, self.bytes / 1e6)


class Provider(asyncio.BufferedProtocol):
    """One connection; a body is received into one buffer over and over."""

    tally = Tally()

    def __init__(self, latency_s: float, replies: list[bytes]) -> None:
        self.latency_s, self.replies = latency_s, replies
        self.buffer = bytearray(1 << 18)
        self.head = b""
        self.left = self.size = 0
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        if self.left:
            self.left -= nbytes
            if not self.left:
                self._whole()
            return
        self.head += bytes(self.buffer[:nbytes])
        head, end, body = self.head.partition(b"\r\n\r\n")
        if not end:
            return
        self.head = b""
        if head.startswith(b"GET"):
            self._send(json.dumps(Provider.tally.seen()).encode())
            Provider.tally = Tally()
            return
        lines = head.lower().split(b"\r\n")
        declared = next(line for line in lines if line.startswith(b"content-length:"))
        self.size = int(declared.partition(b":")[2])
        self.left = self.size - len(body)
        if not self.left:
            self._whole()

    def _whole(self) -> None:
        Provider.tally.begin(self.size)
        asyncio.get_running_loop().call_later(self.latency_s, self._answer)

    def _answer(self) -> None:
        if not self.transport.is_closing():
            self._send(self.replies[Provider.tally.requests % len(self.replies)])
        Provider.tally.end()

    def _send(self, body: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        self.transport.write(f"{head}\r\n\r\n".encode() + body)


class Server(NamedTuple):
    """A running server."""

    url: str

    def seen(self) -> Seen:
        """What came since the last time."""
        with urlopen(f"{self.url}/seen", timeout=60) as response:
            return Seen(*json.load(response))


@contextmanager
def serving(latency_s: float, images: Path | None = None) -> Iterator[Server]:
    """Run a server; it ends with the block.

    Parameters
    ----------
    latency_s : float
        Seconds from the end of a request to its answer.
    images : Path or None
        A folder of PNG files that the answers hold in turn; None: answers are words.
    """
    command = [sys.executable, "-m", "bench.loopback", str(latency_s), str(images or "")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stdout
    try:
        yield Server(f"http://127.0.0.1:{process.stdout.readline().strip()}")
    finally:
        process.stdin.close()
        process.wait(10)


def _words() -> bytes:
    message = {"role": "assistant", "content": "The car is red."}
    return _reply(choices=[{"index": 0, "finish_reason": "stop", "message": message}])


def _reply(**parts: object) -> bytes:
    usage = {"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920}
    return json.dumps({"id": "1", "created": 1, "model": MODEL, **parts, "usage": usage}).encode()


def _images(folder: Path) -> list[bytes]:
    files = [path.read_bytes() for path in sorted(folder.glob("*.png"))]
    return [_reply(data=[{"b64_json": base64.b64encode(data).decode()}]) for data in files]


async def _serve(latency_s: float, replies: list[bytes]) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Provider(latency_s, replies), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until who started it is done


if __name__ == "__main__":
    folder = Path(sys.argv[2]) if sys.argv[2] else None
    asyncio.run(_serve(float(sys.argv[1]), _images(folder) if folder else [_words()]))
