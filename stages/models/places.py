"""How many calls of a model are under way at once: as many as its adapter allows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stages.imaging import threads
from stages.models.protocol import Adapter

MEASUREMENTS = threads.cores()
"""Measurements under way at once, which belong to no model: each keeps a core busy."""


class Place:
    """A place among the calls under way; it is left once."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places: asyncio.Semaphore | None = places

    def leave(self) -> None:
        """Let the next call begin."""
        if self._places is not None:
            self._places.release()
            self._places = None


class Places:
    """The places of all models of a stage."""

    def __init__(self) -> None:
        self._of: dict[int, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def of(self, model: Adapter | None) -> AsyncIterator[Place]:
        """Wait for a place with a model, and hold it until it is left; None: measurements."""
        limit = model.concurrency if model is not None else MEASUREMENTS
        places = self._of.setdefault(id(model), asyncio.Semaphore(limit))
        await places.acquire()
        place = Place(places)
        try:
            yield place
        finally:
            place.leave()
