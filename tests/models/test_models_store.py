"""The response store: whole or not at all, checked when read, shared by many writers."""

import asyncio
import io
import json
import multiprocessing
import os
import signal
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.models.store import Store, Stored, canonical, default_root, request_key
from stages.records.errors import UserError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def put(store: Store, request: dict, **blobs: bytes) -> str:
    key = request_key(request)
    store.put(key, request, Stored({"text": request.get("q")}, blobs))
    return key


def test_a_reply_comes_back_as_it_was_put(tmp_path: Path) -> None:
    store = Store(tmp_path)
    key = put(store, {"q": "what? \u2028 é"}, image=b"\x00png")
    found = Store(tmp_path).get(key)
    assert found == Stored({"text": "what? \u2028 é"}, {"image": b"\x00png"})


def test_an_unknown_key_is_missing(tmp_path: Path) -> None:
    assert Store(tmp_path / "nowhere").get("0" * 64) is None


@given(request=st.dictionaries(st.text(), JSON, max_size=4))
def test_the_order_of_keys_does_not_matter(request: dict) -> None:
    turned = dict(reversed(list(request.items())))
    assert request_key(request) == request_key(turned)
    assert json.loads(canonical(request)) == request


def test_any_difference_is_another_key() -> None:
    base = {"model": "a", "image": "0" * 64, "seed": 0, "attempt": 1}
    keys = {request_key(base)} | {
        request_key({**base, name: value})
        for name, value in [("model", "b"), ("image", "1" * 64), ("seed", 1), ("attempt", 2)]
    }
    assert len(keys) == 5


@pytest.mark.parametrize("damage", [b"", b"{", b"null", b'{"reply": {}}', None])
def test_a_damaged_reply_is_set_aside_and_asked_for_again(
    tmp_path: Path, damage: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path)
    key, other = put(store, {"q": "one"}), put(store, {"q": "two"})
    path = next(tmp_path.glob(f"replies/*/{key}.json"))
    path.write_bytes(path.read_bytes().replace(b"one", b"0ne") if damage is None else damage)
    assert store.get(key) is None
    assert "damaged" in capsys.readouterr().err
    assert (tmp_path / "damaged" / path.name).exists()
    assert store.get(other) is not None
    put(store, {"q": "one"})
    assert store.get(key) is not None


def test_a_damaged_or_missing_blob_makes_the_reply_missing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first, second = put(store, {"q": 1}, image=b"one"), put(store, {"q": 2}, image=b"two")
    blobs = {path.read_bytes(): path for path in tmp_path.glob("blobs/*/*")}
    blobs[b"one"].write_bytes(b"0ne")
    blobs[b"two"].unlink()
    assert store.get(first) is None
    assert store.get(second) is None


def test_a_reply_whose_blob_is_damaged_as_well_is_whole_once_it_is_put_again(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    key = put(store, {"q": 1}, image=b"one")
    for path in (*tmp_path.glob("replies/*/*"), *tmp_path.glob("blobs/*/*")):
        path.write_bytes(b"x" + path.read_bytes()[1:])
    assert store.get(key) is None
    put(store, {"q": 1}, image=b"one")
    assert store.get(key) == Stored({"text": 1}, {"image": b"one"})


def test_export_and_import_carry_everything_and_equal_stores_give_equal_bytes(
    tmp_path: Path,
) -> None:
    one, two = Store(tmp_path / "one"), Store(tmp_path / "two")
    requests = [{"q": str(i)} for i in range(20)]
    for request in requests:
        put(one, request, image=request["q"].encode())
    for request in reversed(requests):
        put(two, request, image=request["q"].encode())
    assert one.export_to(tmp_path / "one.tar") == 20
    two.export_to(tmp_path / "two.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    fresh = Store(tmp_path / "fresh")
    assert fresh.import_from(tmp_path / "one.tar") == 20
    assert fresh.import_from(tmp_path / "one.tar") == 0
    for request in requests:
        assert fresh.get(request_key(request)) == one.get(request_key(request))


@pytest.mark.parametrize("name", ["../escape.json", "replies/aa/short.json", "/etc/passwd", "x/y"])
def test_an_archive_that_is_no_export_writes_nothing(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / "bad.tar", "w") as tar:
        info = tarfile.TarInfo(name)
        info.size = 2
        tar.addfile(info, io.BytesIO(b"{}"))
    with pytest.raises(UserError, match="none of a store's"):
        Store(tmp_path / "store").import_from(tmp_path / "bad.tar")
    assert not (tmp_path / "store").exists()
    assert not (tmp_path / "escape.json").exists()


def test_a_reply_under_a_foreign_key_answers_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    key, foreign = put(store, {"q": "mine"}), request_key({"q": "yours"})
    path = tmp_path / "replies" / foreign[:2] / f"{foreign}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(next(tmp_path.glob(f"replies/*/{key}.json")).read_bytes())
    assert store.get(foreign) is None
    assert store.get(key) is not None


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE])
def test_an_archive_of_links_is_refused(tmp_path: Path, kind: bytes) -> None:
    name = f"blobs/aa/aa{'0' * 62}"
    with tarfile.open(tmp_path / "bad.tar", "w") as tar:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, "/etc/passwd"
        tar.addfile(info)
    with pytest.raises(UserError, match="is damaged"):
        Store(tmp_path / "store").import_from(tmp_path / "bad.tar")
    assert not (tmp_path / "store" / name).exists()


def test_a_missing_or_broken_archive_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        Store(tmp_path).import_from(tmp_path / "none.tar")
    (tmp_path / "text.tar").write_text("hello")
    with pytest.raises(UserError, match="no export"):
        Store(tmp_path).import_from(tmp_path / "text.tar")


def test_experiments_in_temporary_workspaces_share_the_main_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDCT_STORE", raising=False)
    queued = tmp_path / ".dvc" / "tmp" / "exps" / "abc"
    queued.mkdir(parents=True)
    assert default_root(queued) == default_root(tmp_path) == tmp_path / ".store"
    monkeypatch.setenv("EDCT_STORE", str(tmp_path / "elsewhere"))
    assert default_root(queued) == tmp_path / "elsewhere"


def _write_many(root: str, worker: int) -> None:
    store = Store(Path(root))
    for number in range(60):
        put(store, {"q": f"{number % 40}"}, image=b"shared")


def test_many_processes_write_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write_many, args=(str(tmp_path), n)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    store = Store(tmp_path)
    assert [store.get(key) is not None for key in list(store.keys())] == [True] * 40
    assert not list(tmp_path.rglob("*.partial"))


def _write_until_killed(root: str) -> None:
    store = Store(Path(root))
    for number in range(1_000_000):
        put(store, {"q": str(number)}, image=os.urandom(50_000))


def test_what_was_written_before_a_kill_is_whole(tmp_path: Path) -> None:
    worker = multiprocessing.get_context("spawn").Process(
        target=_write_until_killed, args=(str(tmp_path),)
    )
    worker.start()
    deadline = time.monotonic() + 20
    while sum(1 for _ in tmp_path.glob("replies/*/*.json")) < 50 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    store = Store(tmp_path)
    keys = list(store.keys())
    assert len(keys) >= 50
    assert all(store.get(key) is not None for key in keys)


def test_a_claim_is_exclusive_and_goes_with_its_holder(tmp_path: Path) -> None:
    store, order = Store(tmp_path), []

    async def hold(name: str) -> None:
        async with store.claim("k"):
            order.append(f"{name} in")
            await asyncio.sleep(0.05)
            order.append(f"{name} out")

    async def both() -> None:
        await asyncio.gather(hold("a"), hold("b"))

    asyncio.run(both())
    assert order in (["a in", "a out", "b in", "b out"], ["b in", "b out", "a in", "a out"])
    assert not list((tmp_path / "claims").iterdir())


def test_an_unwritable_store_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "replies").write_text("in the way")
    with pytest.raises(UserError, match="could not be written"):
        put(Store(tmp_path), {"q": "x"})


class Slow(Store):
    """A store on a disk that takes its time."""

    def put(self, *arguments: object, **options: object) -> None:
        time.sleep(0.3)
        super().put(*arguments, **options)  # type: ignore[arg-type]


def test_a_slow_disk_holds_nobody_else_up(tmp_path: Path) -> None:
    store, ticks = Slow(tmp_path), []

    async def tick() -> None:
        while True:
            await asyncio.sleep(0.01)
            ticks.append(time.monotonic())

    async def both() -> None:
        ticking = asyncio.create_task(tick())
        request = {"q": "x"}
        await asyncio.gather(*(store.keep(request_key(request), request, Stored({})) for _ in "ab"))
        assert store.get(request_key(request)) is not None
        ticking.cancel()

    began = time.monotonic()
    asyncio.run(both())
    assert time.monotonic() - began < 0.55  # the two writes overlapped
    assert len(ticks) > 10


def test_a_reply_is_stored_before_its_claim_is_free_even_if_its_caller_leaves(
    tmp_path: Path,
) -> None:
    store, request = Slow(tmp_path), {"q": "x"}
    key = request_key(request)

    async def first() -> None:
        async with store.claim(key):
            await store.keep(key, request, Stored({"text": "paid"}))

    async def second() -> Stored | None:
        leaving = asyncio.create_task(first())
        await asyncio.sleep(0.05)
        leaving.cancel()
        async with store.claim(key):
            return store.get(key)

    assert asyncio.run(second()) == Stored({"text": "paid"})


def test_one_blob_in_many_replies_is_written_by_many_threads(tmp_path: Path) -> None:
    store, data = Store(tmp_path), b"the very same object" * 1000

    async def all_at_once() -> None:
        requests = [{"q": str(n)} for n in range(40)]
        await asyncio.gather(
            *(store.keep(request_key(r), r, Stored({}, {"image": data})) for r in requests)
        )

    asyncio.run(all_at_once())
    assert [store.get(key) is not None for key in list(store.keys())] == [True] * 40
    assert not list(tmp_path.rglob("*.partial"))
