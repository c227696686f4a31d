"""How many bytes of a reply are taken: counted as they arrive, so that no server fills the memory.

Replies are asked for uncompressed, since a few kilobytes can unpack to gigabytes; one that is
compressed all the same is not unpacked.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from stages.models.wire.fault import Fault, Kind

if TYPE_CHECKING:
    import httpx2

TEXT_BYTES = 16_000_000
"""Most of a reply of words, boxes or a list of models; the longest are about 1 MB."""
IMAGE_BYTES = 64_000_000
"""Most of a reply that holds an image: noise of 16 megapixels as PNG in base64."""
PLAIN = {"accept-encoding": "identity"}


def bounded(provider: str, most: int) -> "Callable[[httpx2.Response], Awaitable[None]]":
    """What an HTTP client is to do with each response before its body is read.

    Parameters
    ----------
    provider : str
        Who is named by the Fault that a larger reply raises.
    most : int
        Largest body in bytes.
    """
    import httpx2

    def too_large(size: str) -> Fault:
        return Fault(
            Kind.UNKNOWN, f"{provider}: the reply is larger than {most / 1e6:g} MB ({size})"
        )

    class Counted(httpx2.AsyncByteStream):
        """A body that ends in a Fault where it is too long, whatever length was declared."""

        def __init__(self, stream: httpx2.AsyncByteStream) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            taken = 0
            async for part in self._stream:
                taken += len(part)
                if taken > most:
                    raise too_large("it was not read to its end")
                yield part

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def bound(response: httpx2.Response) -> None:
        coding = response.headers.get("content-encoding", "identity").strip().lower()
        if coding not in ("", "identity"):
            what = "the reply is compressed, which was not asked for"
            raise Fault(Kind.UNKNOWN, f"{provider}: {what}")
        declared = response.headers.get("content-length", "")
        if declared.isdecimal() and len(declared) < 20 and int(declared) > most:
            raise too_large(f"{int(declared) / 1e6:.0f} MB by its header")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = Counted(response.stream)

    return bound
