"""The executor `ray`: items go to workers, rows come back; a worker that dies is replaced.

The calls of a dead worker that had ended are in the store, so that only its unfinished items are
begun again. An item under which a worker died twice goes alone, so that the culprit is known; dies
a worker under it once more, the stage ends. As in this process, the first fault ends the stage
after what was under way.
"""

import asyncio
import fcntl
import os
import sys
import uuid
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from stages.models.account import on_whose_behalf
from stages.models.counts import Counts
from stages.models.store import Store
from stages.records.errors import UserError
from stages.records.held import Held
from stages.workflow.executor import Done, Recipe
from stages.workflow.executor_cluster import connected, left, on_interrupt
from stages.workflow.executor_worker import ENVIRONMENT, Plan, Reply, Worker, kinds, named
from stages.workflow.mapping import Progress
from stages.workflow.sections import Ray

I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")
TOGETHER = 2
"""Deaths after which an item goes alone."""


def over(
    items: Sequence[I],
    recipe: Recipe[I, R],
    root: Path,
    params: Mapping[str, Any],
    settings: Ray,
    *,
    label: str,
    axes: Mapping[str, str],
) -> Done[R]:
    """Work on every item in workers; see `executor.over`."""
    item_kind, row_kind = kinds(recipe)
    sent = [item_kind.dump_json(item).decode() for item in items]
    workers = min(settings.workers, len(items))
    with _probes(root) as probes, connected(settings, workers) as ray:
        plan = Plan(
            recipe=named(recipe),
            workspace=str(Path.cwd()),
            root=str(root),
            params=dict(params),
            axes=dict(axes),
            stage=on_whose_behalf(),
            workers=workers,
            environment={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
            probes=probes,
        )
        shift = Shift(ray, settings, plan.model_dump_json(), sent, row_kind, label)
        rows = asyncio.run(shift.work(workers))
    return Done(rows, shift.counts.summary())


@contextmanager
def _probes(root: Path) -> Iterator[tuple[str, ...]]:
    """Files in the workspace and in the store, locked, that a worker must see so."""
    inside = root / ".dvc" / "tmp" if (root / ".dvc").is_dir() else root
    made: list[tuple[Path, int]] = []

    def unlink() -> None:
        for path, _ in made:
            path.unlink(missing_ok=True)

    try:
        with on_interrupt(unlink):
            for folder in (inside, Store.open(root).root):
                made.append(_probe(folder.resolve()))  # noqa: PERF401 - each counts at once
            yield tuple(str(path) for path, _ in made)
    finally:
        unlink()
        for _, handle in made:
            os.close(handle)


def _probe(folder: Path) -> tuple[Path, int]:
    """A new file, locked; those of stages that were killed are taken away."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(".executor-*"):
        with suppress(OSError), left(old, os.O_RDWR):  # NFS locks only what may be written
            old.unlink(missing_ok=True)
    name = uuid.uuid4().hex
    new, path = folder / f".new-executor-{name}", folder / f".executor-{name}"
    handle = os.open(new, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        new.rename(path)  # only now does another stage see it: not before it is locked
    except BaseException:
        os.close(handle)
        new.unlink(missing_ok=True)
        raise
    return path, handle


class Shift:
    """The work on all items: which wait, which are under way, what came of them.

    Parameters
    ----------
    ray : module
        Ray, connected.
    settings : Ray
        How many workers, of what size.
    plan : str
        What each is told.
    items : sequence of str
        JSON of the items.
    kind : TypeAdapter
        Reads a row.
    label : str
        What messages begin with.
    """

    def __init__(
        self,
        ray: Any,
        settings: Ray,
        plan: str,
        items: Sequence[str],
        kind: TypeAdapter[Any],
        label: str,
    ) -> None:
        self._ray, self._settings, self._plan = ray, settings, plan
        self._items, self._kind, self._label = items, kind, label
        self._waiting = deque(range(len(items)))
        self._suspects: deque[int] = deque()
        self._deaths: Counter[int] = Counter()
        self._rows: dict[int, bytes] = {}
        self._fault: Exception | None = None
        self._placed = False
        self._in_vain = 0
        """Workers that died since the last row."""
        self._over = asyncio.Event()
        self._changed = asyncio.Event()
        self._progress = Progress(label, len(items))
        self.counts = Counts()

    async def work(self, workers: int) -> Held[Any]:
        """All rows, in the order of the items."""
        await asyncio.gather(*(self._place() for _ in range(workers)))
        self._progress.clear()
        if self._fault is not None:
            raise self._fault
        rows = [self._rows[index] for index in range(len(self._items))]
        return Held(rows, self._kind.validate_json)

    async def _place(self) -> None:
        """One worker's place: a new worker whenever one has died, until all is done."""
        options = {"num_cpus": self._settings.cpus, "num_gpus": self._settings.gpus}
        hired = self._ray.remote(Worker).options(**options, max_restarts=0)
        while not self._over.is_set():
            worker = hired.remote()
            try:
                at_once = await self._opened(worker)
                hands = _Hands(worker)
                lost = await asyncio.gather(*(self._slot(hands) for _ in range(at_once)))
                if any(error is not None for error in lost):
                    self._died(next(filter(None, lost)), sum(e is not None for e in lost))
            except self._ray.exceptions.RayError as error:
                self._died(error, 0)
            finally:
                with suppress(Exception):
                    self._ray.kill(worker)

    async def _opened(self, worker: Any) -> int:
        """Wait until a worker is somewhere and has its models; 0 where all is done before."""
        looking = _task(worker.look.remote(self._plan))
        if not await self._first(looking, self._settings.start_s) and not self._over.is_set():
            if not self._placed:
                there = self._ray.cluster_resources()
                has = f"{there.get('CPU', 0):g} CPUs and {there.get('GPU', 0):g} GPUs"
                self._end(
                    UserError(
                        "params.yaml: executor.start_s",
                        f"no worker has a place after {self._settings.start_s:g} s; "
                        f"the cluster has {has}",
                        "Lower `executor.cpus` or `gpus`, or wait for others to end.",
                    )
                )
            await self._first(looking, None)
        if self._over.is_set() or self._read(await looking) is None:
            return 0
        self._placed = True
        opening = _task(worker.open.remote(self._plan))
        if not await self._first(opening, None):
            return 0
        return int(self._read(await opening) or 0)

    async def _first(self, task: "asyncio.Future[Any]", timeout: float | None) -> bool:
        """Wait for a worker's word; False where all ended, or the time, before it came."""
        over = asyncio.ensure_future(self._over.wait())
        await asyncio.wait({task, over}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        if self._over.is_set() and not task.done():
            task.cancel()
        return task.done()

    async def _slot(self, hands: "_Hands") -> Exception | None:
        """Give a worker item after item; its death, where it died."""
        while (index := await self._next(hands)) is not None:
            try:
                reply = await hands.worker.work.remote(self._items[index])
            except self._ray.exceptions.RayError as error:
                hands.dead = True
                self._give_back(index)
                return error  # type: ignore[no-any-return]
            finally:
                hands.active -= 1
            row = self._read(reply)
            if row is not None:
                self._kind.validate_json(row)
                self._rows[index] = row.encode()
                self._in_vain = 0
                self._progress.show(len(self._rows))
            if len(self._rows) == len(self._items):
                self._over.set()
            if self._over.is_set() or self._suspects or hands.alone:
                self._wake()
        return None

    async def _next(self, hands: "_Hands") -> int | None:
        """The next item for a worker, as soon as there is one; None where all is done."""
        while not (self._over.is_set() or hands.dead):
            hands.alone = hands.alone and hands.active > 0
            if self._waiting and not hands.alone:
                hands.active += 1
                return self._waiting.popleft()
            if self._suspects and hands.active == 0:
                hands.alone, hands.active = True, 1
                return self._suspects.popleft()
            await self._changed.wait()
        return None

    def _read(self, text: str) -> Any:
        """A reply's value; where it tells of a fault, None, and nothing further is begun."""
        reply = Reply.model_validate_json(text)
        if reply.counts is not None:
            self.counts.add(Counts.of_json(reply.counts))
        if reply.fault is not None:
            self._end(reply.fault.error())
        return reply.value

    def _give_back(self, index: int) -> None:
        """A worker died under an item: another takes it, or the stage ends."""
        self._deaths[index] += 1
        if self._deaths[index] >= self._settings.deaths:
            self._end(self._given_up(f"{self._deaths[index]} workers died under item {index + 1}"))
        (self._waiting if self._deaths[index] < TOGETHER else self._suspects).appendleft(index)
        self._wake()

    def _died(self, error: Exception | None, unfinished: int) -> None:
        if self._over.is_set():
            return
        if "failed to import" in (told := str(error)):
            missing = told.strip().splitlines()[-1]
            self._end(
                UserError(
                    self._label,
                    f"a worker lacks a package ({missing})",
                    "All machines need the stage's Python packages (docs/ray.md).",
                )
            )
            return
        self._in_vain += 1
        why = type(error).__name__
        said = f"a worker died ({why}); its {unfinished} unfinished items go to another"
        print(f"{self._label}: {said}", file=sys.stderr)
        if self._in_vain >= self._settings.deaths:
            self._end(self._given_up(f"{self._in_vain} workers died in a row ({why})"))

    def _given_up(self, what: str) -> UserError:
        return UserError(
            self._label,
            f"{what}, of {len(self._items)} items",
            "Memory, mostly: lower a batch_size or `executor.workers`. What was answered is in the "
            "store.",
        )

    def _end(self, fault: Exception) -> None:
        self._fault = self._fault or fault
        self._over.set()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class _Hands:
    """What one worker has in hand."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.active = 0
        """Items under way."""
        self.alone = False
        """Whether one of them must have the worker to itself."""
        self.dead = False


def _task(reference: Any) -> "asyncio.Future[Any]":
    async def waiting() -> Any:
        return await reference

    return asyncio.ensure_future(waiting())
