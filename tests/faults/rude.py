"""A server that speaks HTTP badly: bytes as told, as slowly as told, and for as long."""

import asyncio
import gzip
import threading
from collections.abc import AsyncIterator, Callable

Bytes = Callable[[], AsyncIterator[bytes]]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


class Rude:
    """Answers every connection with the bytes of one behaviour, and counts what it sent."""

    def __init__(self, behaviour: Bytes) -> None:
        self.behaviour, self.sent, self.connections = behaviour, 0, 0
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Rude":
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _leave(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await reader.readuntil(b"\r\n\r\n")
            async for part in self.behaviour():
                writer.write(part)
                await writer.drain()
                self.sent += len(part)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def hangs() -> AsyncIterator[bytes]:
    """Takes the request and says nothing."""
    await asyncio.sleep(60)
    yield b""


async def drips() -> AsyncIterator[bytes]:
    """A byte now and then, so that no timeout between bytes is ever met."""
    yield HEAD + b"content-length: 100000\r\n\r\n"
    while True:
        await asyncio.sleep(0.02)
        yield b" "


async def drips_its_head() -> AsyncIterator[bytes]:
    """The same within the headers."""
    yield HEAD
    number = 0
    while True:
        await asyncio.sleep(0.02)
        number += 1
        yield f"x-{number}: y\r\n".encode()


async def sends_50_mb() -> AsyncIterator[bytes]:
    """Fifty megabytes, announced."""
    yield HEAD + b"content-length: 50000000\r\n\r\n"
    for _ in range(50):
        yield b" " * 1_000_000


async def sends_without_end() -> AsyncIterator[bytes]:
    """Chunk after chunk, without a length."""
    yield HEAD + b"transfer-encoding: chunked\r\n\r\n"
    while True:
        yield b"f4240\r\n" + b" " * 1_000_000 + b"\r\n"


async def says_little_and_sends_much() -> AsyncIterator[bytes]:
    """A short length, then megabytes."""
    yield HEAD + b"content-length: 2\r\n\r\n{}"
    for _ in range(20):
        yield b" " * 1_000_000


async def unpacks_to_a_gigabyte() -> AsyncIterator[bytes]:
    """A megabyte of gzip that nobody asked for."""
    packed = gzip.compress(b" " * 1_000_000) * 1000
    yield HEAD + f"content-encoding: gzip\r\ncontent-length: {len(packed)}\r\n\r\n".encode()
    yield packed


async def endless_head() -> AsyncIterator[bytes]:
    """Headers without end."""
    yield HEAD
    while True:
        yield b"x: " + b"y" * 100_000 + b"\r\n"


async def no_http() -> AsyncIterator[bytes]:
    """Another protocol."""
    yield b"SSH-2.0-OpenSSH_9.6\r\n"


async def closes_in_the_middle() -> AsyncIterator[bytes]:
    """Half of what it announced, and it is gone."""
    yield HEAD + b"content-length: 1000\r\n\r\n" + b" " * 500


async def closes_in_the_middle_of_a_chunk() -> AsyncIterator[bytes]:
    """The same where no length was announced."""
    yield HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"100\r\n{}"


async def half_a_head() -> AsyncIterator[bytes]:
    """Closes within the headers."""
    yield HEAD[:30]


async def negative_length() -> AsyncIterator[bytes]:
    """A length that can't be."""
    yield HEAD + b"content-length: -5\r\n\r\n{}"


async def two_lengths() -> AsyncIterator[bytes]:
    """Two lengths that differ."""
    yield HEAD + b"content-length: 2\r\ncontent-length: 9\r\n\r\n{}"


async def bad_chunks() -> AsyncIterator[bytes]:
    """Chunks with a length that is none."""
    yield HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"


async def html() -> AsyncIterator[bytes]:
    """A web page with the status of success."""
    page = b"<html><body>Welcome to the hotel's network</body></html>"
    yield b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n"
    yield f"content-length: {len(page)}\r\n\r\n".encode() + page


async def deep_json() -> AsyncIterator[bytes]:
    """JSON that nests a hundred thousand times."""
    body = b"[" * 100_000
    yield HEAD + f"content-length: {len(body)}\r\n\r\n".encode() + body


async def redirects_for_ever() -> AsyncIterator[bytes]:
    """To itself."""
    yield b"HTTP/1.1 302 Found\r\nlocation: /v1/again\r\ncontent-length: 0\r\n\r\n"


BEHAVIOURS: tuple[Bytes, ...] = (
    hangs, drips, drips_its_head, sends_50_mb, sends_without_end, says_little_and_sends_much,
    unpacks_to_a_gigabyte, endless_head, no_http, half_a_head, closes_in_the_middle,
    closes_in_the_middle_of_a_chunk, negative_length, two_lengths,
    bad_chunks, html, deep_json, redirects_for_ever,
)  # fmt: skip
