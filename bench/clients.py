"""Both sides of the race: a bare client, and a stage. Each function is run in a process of its own.

The bare one is the least that a Python program can do: the openai package and a semaphore. It keeps
no reply, counts no cost and meets no failure.
"""

import asyncio
import base64
import os
import time
from operator import sub
from pathlib import Path
from statistics import median
from typing import Any

from bench import study
from bench.loopback import MODEL
from bench.stand_ins import Talker
from stages import baseline, edit
from stages.models.calls import Calls
from stages.models.chat.openai_compatible import OpenAICompatible
from stages.models.protocol import Conversation, Turn
from stages.records import jsonl
from stages.records.sample import Sample
from stages.workflow import cast, executor
from stages.workflow.mapping import for_each

MAX_TOKENS = 4096
TICK_S = 0.002


def model(url: str, concurrency: int, **more: Any) -> dict[str, Any]:
    """The values of a chat model at the loopback server; with a key, as a paid one has."""
    return {
        "model": MODEL,
        "base_url": f"{url}/v1",
        "provider": "loopback",
        "api_key_env": "BENCH_KEY",
        "concurrency": concurrency,
        **more,
    }


def our_words(root: str, url: str, calls: int, concurrency: int) -> str:
    """Chat calls by way of `Calls`: stored, flushed to the disk, and in the ledger."""
    chat = OpenAICompatible(**model(url, concurrency))
    way = cast.calls_of(Path(root), study.params())

    async def one(number: int) -> None:
        conversation = Conversation((Turn("user", f"Question {number}?"),), MAX_TOKENS)
        await way.chat("target", chat, conversation, str)

    asyncio.run(for_each(range(calls), one, at_once=2 * concurrency, label="bench"))
    return way.summary()


def our_pictures(root: str, url: str, concurrency: int) -> None:
    """The stage `baseline`: a question about every image, and why."""
    target = {
        "_target_": "stages.models.chat.openai_compatible.OpenAICompatible",
        **model(url, concurrency),
    }
    baseline.run(Path(root), study.params(target=target), **study.TO_TARGET)


class Watch:
    """What a stage's `for_each` takes, and its event loop in it."""

    def __init__(self) -> None:
        self.seconds = self.cpu_s = self.loop_s = self.stretch_s = 0.0

    async def each(self, *work: Any, **options: Any) -> Any:
        """`for_each`, watched."""
        bell = asyncio.create_task(self._ring())
        began = time.perf_counter(), time.process_time(), time.thread_time()
        try:
            return await for_each(*work, **options)
        finally:
            bell.cancel()
            ended = time.perf_counter(), time.process_time(), time.thread_time()
            self.seconds, self.cpu_s, self.loop_s = map(sub, ended, began)

    async def _ring(self) -> None:
        """CPU time that the loop's thread used at a stretch: that of whoever else is at work on
        this machine is not in it."""
        stretches = []
        try:
            while True:
                before = time.thread_time()
                await asyncio.sleep(TICK_S)
                stretches.append(time.thread_time() - before)
        finally:
            self.stretch_s = sorted(stretches)[int(0.99 * len(stretches))]


def our_edits(root: str, url: str, concurrency: int) -> dict[str, float]:
    """The stage `edit`: what it took, its event loop, and the longest stretch but one in 100."""
    editor = {
        "_target_": "stages.models.editor.openai_images.OpenAIImages",
        **model(url, concurrency, size="auto"),
    }
    seen = {
        "detector": {"_target_": "bench.stand_ins.Spot"},
        "segmenter": {"_target_": "bench.stand_ins.Whole"},
    }
    watch = Watch()
    executor.for_each = watch.each  # type: ignore[attr-defined]
    given = study.params(target=editor, extractor=editor, judge=editor, editor=editor, **seen)
    edit.run(Path(root), given, **study.TO_EDIT)
    return vars(watch)


def our_cost(root: str, calls: int) -> dict[str, float]:
    """Milliseconds of CPU that a call costs here: made, and answered from the store.

    The model answers at once and is charged for; no disk is waited for.
    """
    chat, cost = Talker(concurrency=8), {}
    for name in ("made", "answered"):
        way = cast.calls_of(Path(root), study.params())

        async def one(number: int, way: Calls = way) -> None:
            conversation = Conversation((Turn("user", f"Question {number}?"),), MAX_TOKENS)
            await way.chat("target", chat, conversation, str)

        began = time.process_time()
        asyncio.run(for_each(range(calls), one, at_once=16, label="bench"))
        cost[name] = (time.process_time() - began) / calls * 1e3
    return cost


def flush(folder: str, times: int) -> float:
    """Milliseconds that writing a small file to the disk takes, flush and all; median."""
    took = []
    for number in range(times):
        began = time.perf_counter()
        with (Path(folder) / f"flushed-{number}").open("wb") as file:
            file.write(b"x" * 1500)
            file.flush()
            os.fsync(file.fileno())
        took.append(time.perf_counter() - began)
    return median(took) * 1e3


def bare_words(url: str, calls: int, concurrency: int) -> None:
    """The same questions by the openai package alone."""

    async def one(client: Any, places: asyncio.Semaphore, number: int) -> None:
        async with places:
            await _said(client, [{"role": "user", "content": f"Question {number}?"}])

    asyncio.run(_all(url, concurrency, one, range(calls)))


def bare_pictures(root: str, url: str, concurrency: int) -> None:
    """The same conversations about the same images by the openai package alone."""
    folder = Path(root) / "data" / "prepare"

    async def one(client: Any, places: asyncio.Semaphore, sample: Sample) -> None:
        async with places:
            data = (folder / "images" / f"{sample.image}.png").read_bytes()
            shown = "data:image/png;base64," + base64.b64encode(data).decode()
            image = {"type": "image_url", "image_url": {"url": shown}}
            asked = {"role": "user", "content": [image, {"type": "text", "text": sample.question}]}
            answer = await _said(client, [asked])
            said = {"role": "assistant", "content": answer}
            await _said(client, [asked, said, {"role": "user", "content": "Why?"}])

    samples = jsonl.read(folder / "samples.jsonl", Sample)
    asyncio.run(_all(url, concurrency, one, samples))


async def _said(client: Any, messages: list[dict[str, Any]]) -> Any:
    reply = await client.chat.completions.create(
        model=MODEL, messages=messages, max_tokens=MAX_TOKENS
    )
    return reply.choices[0].message.content


async def _all(url: str, concurrency: int, one: Any, items: Any) -> None:
    import openai

    address = f"{url}/v1"
    client = openai.AsyncOpenAI(api_key="bench", base_url=address, max_retries=0, timeout=300.0)
    places = asyncio.Semaphore(concurrency)
    await asyncio.gather(*(one(client, places, item) for item in items))
