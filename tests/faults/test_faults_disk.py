"""Disks that are full, closed, damaged or busy: nothing finished is lost, what is bad is said."""

import asyncio
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from stages.models.calls import Calls
from stages.models.protocol import Chat, Completion, Conversation, Turn
from stages.models.store import Store, Stored, request_key
from stages.records.errors import UserError
from tests.faults import book

ROOT = Path(__file__).parents[2]


def put(store: Store, number: int, size: int = 2000) -> str:
    request = {"q": number}
    key = request_key(request)
    data = np.random.default_rng(number).bytes(size)
    store.put(key, request, Stored({"text": f"answer {number}"}, {"image": data}))
    return key


def sound(store: Store, keys: list[str]) -> int:
    return sum(store.get(key) is not None for key in keys)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this machine mounts no tmpfs for us")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_one_line_and_keeps_what_was_stored(small_disk: Path) -> None:
    store, keys = Store(small_disk / "store"), []

    def fill() -> None:
        for number in range(10_000):
            keys.append(put(store, number))  # noqa: PERF401 - the last one fails

    with pytest.raises(UserError, match="No space left") as caught:
        fill()
    assert "\n" not in str(caught.value)
    assert "what is stored stays" in str(caught.value)
    assert sound(store, keys) == len(keys) > 50
    assert not list(small_disk.rglob("*.partial"))
    for path in list((small_disk / "store" / "blobs").glob("*/*"))[:20]:
        path.unlink()  # room again; these count as missing
    lost = [key for key in keys if store.get(key) is None]
    assert put(store, 20_000)
    assert sound(store, keys) == len(keys) - len(lost) > 0
    book.note(book.DISKS, "disk full in the middle of a run", 1, 1, f"{len(keys)} replies kept")


def _limited(root: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = Store(Path(root))
    put(store, 1)
    try:
        put(store, 2, size=50_000)
    except UserError as error:
        sys.exit(7 if "File too large" in str(error) else 8)


def test_a_file_that_may_not_grow_leaves_no_half(tmp_path: Path) -> None:
    child = multiprocessing.get_context("spawn").Process(target=_limited, args=(str(tmp_path),))
    child.start()
    child.join(60)
    assert child.exitcode == 7
    store = Store(tmp_path)
    assert sound(store, list(store.keys())) == 1
    assert not list(tmp_path.rglob("*.partial"))
    book.note(book.DISKS, "a limit on the size of files", 1, 1)


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A store that can be read and not written, for root as well where that can be had."""
    put(Store(tmp_path / "store"), 1)
    folder = tmp_path / "store"
    if os.getuid() == 0:
        bind = ["mount", "--bind", str(folder), str(folder)]
        again = ["mount", "-o", "remount,ro,bind", str(folder)]
        if shutil.which("mount") is None or subprocess.run(bind, capture_output=True).returncode:
            pytest.skip("this machine mounts nothing for us")
        subprocess.run(again, check=True)
        yield folder
        subprocess.run(["umount", "-l", str(folder)], check=True)
    else:
        for path in folder.rglob("*"):
            path.chmod(0o500 if path.is_dir() else 0o400)
        folder.chmod(0o500)
        yield folder
        folder.chmod(0o700)


def test_a_read_only_store_answers_and_says_that_it_can_not_keep(closed: Path) -> None:
    store = Store(closed)
    assert sound(store, [request_key({"q": 1})]) == 1
    with pytest.raises(UserError, match="could not be written") as caught:
        put(store, 2)
    assert "\n" not in str(caught.value)
    book.note(book.DISKS, "a read-only store", 1, 1)


def test_flipped_bytes_are_found_set_aside_and_the_rest_is_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    number = 3000 if book.LONG else 150
    store, draw = Store(tmp_path), np.random.default_rng(book.SEED)
    keys = {put(store, n, size=300): n for n in range(number)}
    files = [p for kind in ("replies", "blobs") for p in sorted((tmp_path / kind).rglob("*"))]
    files = [path for path in files if path.is_file()]
    hurt = draw.choice(len(files), size=number // 5, replace=False)
    for index in hurt:
        data = bytearray(files[index].read_bytes())
        data[int(draw.integers(len(data) - 1))] ^= int(draw.integers(1, 256))
        files[index].write_bytes(data)
    missing = [key for key in keys if store.get(key) is None]
    changed = {files[index].name.removesuffix(".json") for index in hurt}
    own = {key for key in keys if key in changed}
    assert own <= set(missing)
    assert len(missing) <= len(hurt)
    for key, n in keys.items():
        found = store.get(key)
        if found is not None:
            assert found.reply == {"text": f"answer {n}"}
            assert found.blobs["image"] == np.random.default_rng(n).bytes(300)
    for key in missing:
        put(store, keys[key], size=300)
    assert sound(store, list(keys)) == number
    capfd.readouterr()
    book.note(book.DISKS, "a byte flipped in a stored reply or image", len(hurt), len(hurt))


class Counting(Chat):
    """A model that notes every call in a file that all processes share."""

    concurrency = 4

    def __init__(self, log: Path) -> None:
        self.log = log

    def identity(self) -> dict[str, str]:
        return {"provider": "counting", "model": "c"}

    async def complete(self, conversation: Conversation) -> Completion:
        with self.log.open("a") as file:
            file.write(f"{conversation.turns[0].text}\n")
        await asyncio.sleep(0.002)
        return Completion(f"to {conversation.turns[0].text}")


def _experiment(folder: str, questions: int, offset: int) -> None:
    model = Counting(Path(folder) / "log")
    calls = Calls(Store(Path(folder) / "store"))

    async def ask() -> None:
        order = [(offset + n) % questions for n in range(questions)]
        asked = [Conversation((Turn("user", f"q{n}"),), max_tokens=16) for n in order]
        said = await asyncio.gather(
            *(calls.chat("target", model, one, read=lambda text: text) for one in asked)
        )
        assert [one.value.value for one in said] == [f"to q{n}" for n in order]

    asyncio.run(ask())


@pytest.mark.parametrize("writers", [2, 4, 8] if book.LONG else [3])
def test_experiments_at_once_make_every_call_once(tmp_path: Path, writers: int) -> None:
    questions = 200 if book.LONG else 40
    context = multiprocessing.get_context("spawn")
    children = [
        context.Process(target=_experiment, args=(str(tmp_path), questions, n * 7))
        for n in range(writers)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
    assert [child.exitcode for child in children] == [0] * writers
    made = (tmp_path / "log").read_text().split()
    assert len(made) == len(set(made)) == questions
    said = f"{questions} equal calls each: every one made once"
    book.note(book.DISKS, f"{writers} experiments writing one store", writers, writers, said)


def test_a_claim_of_a_dead_process_holds_nobody_up(tmp_path: Path) -> None:
    key = "k" * 64
    hold = (
        "import asyncio, os, signal, sys; from pathlib import Path\n"
        "from stages.models.store import Store\n"
        "async def hold():\n"
        f"    async with Store(Path(sys.argv[1])).claim({key!r}): os.kill(os.getpid(), 9)\n"
        "asyncio.run(hold())"
    )
    subprocess.run([sys.executable, "-c", hold, str(tmp_path)], cwd=ROOT, check=False)
    assert (tmp_path / "claims" / key).exists()

    async def claim() -> None:
        async with asyncio.timeout(5):
            async with Store(tmp_path).claim(key):
                pass

    asyncio.run(claim())
    assert not (tmp_path / "claims" / key).exists()
    book.note(book.DISKS, "a store locked by a process that was killed", 1, 1)


@pytest.mark.parametrize("hours", [-48, 48])
def test_a_clock_that_jumps_changes_no_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    (tmp_path / "log").touch()
    model, now = Counting(tmp_path / "log"), time.time
    asked = [Conversation((Turn("user", f"q{n}"),), max_tokens=16) for n in range(12)]

    async def ask(store: Path) -> list[str]:
        calls = Calls(Store(store))
        said = []
        for n, one in enumerate(asked):
            if n == 6:
                monkeypatch.setattr(time, "time", lambda: now() + 3600 * hours)
            said.append((await calls.chat("target", model, one, read=lambda text: text)).value.text)
        monkeypatch.setattr(time, "time", now)
        return said

    assert asyncio.run(ask(tmp_path / "a")) == asyncio.run(ask(tmp_path / "a"))
    assert len((tmp_path / "log").read_text().split()) == len(asked)
    book.note(book.DISKS, "the clock jumps by two days in mid-run", 1, 1)
