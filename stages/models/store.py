"""The response store: every good reply, under the SHA-256 of the request that it answers.

One folder, one file a reply, images beside it under their own hash. A file appears whole or not
at all, carries its own checksum, and is never changed, so that any number of processes may write
at once and a killed run loses nothing it was given. Errors, refusals and unreadable replies are
the caller's to keep out. What is damaged is set aside and asked for again.

The store is no output of any stage: DVC deletes those before a run. `export_to` and `import_from`
turn it into one file that DVC carries.
"""

import asyncio
import fcntl
import io
import json
import os
import sys
import tarfile
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from stages.models.pending import Pending
from stages.records.errors import UserError

Json = Mapping[str, Any]
_NAME_LENGTH = 64
_WRITERS = 8
"""Replies that are written at once: flushes to a disk overlap."""


def canonical(value: Json) -> bytes:
    """JSON with sorted keys and no white space: equal values give equal bytes."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def request_key(request: Json) -> str:
    """The key of a request: SHA-256 of its canonical form."""
    return sha256(canonical(request)).hexdigest()


@dataclass(frozen=True)
class Stored:
    """A reply: JSON, and the binary parts that it names."""

    reply: Json
    blobs: Mapping[str, bytes] = field(default_factory=dict)


def main_workspace(workspace: Path) -> Path:
    """The workspace that holds what all share: queued experiments of DVC run in copies of it under
    `.dvc/tmp/exps`."""
    main, inside, _ = str(workspace.resolve()).partition(f"{os.sep}.dvc{os.sep}tmp{os.sep}exps")
    return Path(main) if inside else workspace


def default_root(workspace: Path) -> Path:
    """Where the store lies: EDCT_STORE, or `.store` in the main workspace."""
    if given := os.environ.get("EDCT_STORE"):
        return Path(given)
    return main_workspace(workspace) / ".store"


class Store:
    """A folder of replies, shared by all runs of a project.

    Parameters
    ----------
    root : Path
        The folder; made when the first reply is written.
    replay : bool
        Answer from the store alone: a missing reply is an error that names the request.
    """

    def __init__(self, root: Path, *, replay: bool = False) -> None:
        self.root, self.replay = root, replay
        self._replies, self._blobs = root / "replies", root / "blobs"
        self._claims, self._pending = root / "claims", root / "pending"
        self._writers = ThreadPoolExecutor(_WRITERS, thread_name_prefix="store")

    @classmethod
    def open(cls, workspace: Path = Path()) -> "Store":
        """The store of a workspace; EDCT_REPLAY=1 forbids everything that is not in it."""
        return cls(default_root(workspace), replay=os.environ.get("EDCT_REPLAY", "0") == "1")

    def get(self, key: str) -> Stored | None:
        """The reply under a key, or None. A damaged one is set aside and counts as missing."""
        path = self._reply_path(key)
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            entry = json.loads(raw)
            checksum = entry.pop("sha256")
            if sha256(canonical(entry)).hexdigest() != checksum:
                raise ValueError("checksum")
            if request_key(entry["request"]) != key:
                raise ValueError("it answers another request")
            blobs = {name: self._read_blob(sha) for name, sha in entry["blobs"].items()}
            return Stored(entry["reply"], blobs)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            self._set_aside(path, error)
            return None

    def model_of(self, key: str) -> Json | None:
        """The identity of the model whose reply is under a key; None where there is no reply."""
        try:
            found = json.loads(self._reply_path(key).read_bytes())["request"]["model"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def put(self, key: str, request: Json, stored: Stored, *, durable: bool = True) -> None:
        """Write a reply; it is complete on disk (flushed, if durable) before this returns."""
        blobs = {name: self._write_blob(data, durable) for name, data in stored.blobs.items()}
        entry: dict[str, Any] = {"request": request, "reply": stored.reply, "blobs": blobs}
        entry["sha256"] = sha256(canonical(entry)).hexdigest()
        self._write(self._reply_path(key), canonical(entry) + b"\n", durable)

    async def keep(self, key: str, request: Json, stored: Stored, *, durable: bool = True) -> None:
        """`put` beside the event loop, since a flush takes milliseconds and other calls go on.

        Complete on disk before this returns, as with `put`; where the caller is cancelled, too, so
        that whoever waits for the key finds the reply.
        """
        loop = asyncio.get_running_loop()
        writing = loop.run_in_executor(
            self._writers, lambda: self.put(key, request, stored, durable=durable)
        )
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait({writing})
            raise

    def pending(self, key: str) -> Pending:
        """The place of the ticket of a task that was submitted for this key."""
        return Pending(self._pending / f"{key}.json")

    @asynccontextmanager
    async def claim(self, key: str) -> AsyncIterator[None]:
        """Hold a key while its call is made, so that no second process makes the same call.

        The lock is the operating system's: it goes when its holder does, however that ends.
        """
        path = self._claims / key
        pause = 0.01
        while True:
            try:
                handle = os.open(path, os.O_CREAT | os.O_RDWR)
            except FileNotFoundError:
                self._claims.mkdir(parents=True, exist_ok=True)
                continue
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_current(handle, path):
                    break
            except BlockingIOError:
                await asyncio.sleep(pause)
                pause = min(2 * pause, 0.5)
            os.close(handle)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            os.close(handle)

    def keys(self) -> Iterator[str]:
        """All keys, sorted."""
        for path in sorted((self.root / "replies").glob("*/*.json")):
            yield path.stem

    def export_to(self, archive: Path) -> int:
        """Write all sound replies into one tar file; equal stores give equal bytes."""
        archive.parent.mkdir(parents=True, exist_ok=True)
        partial = archive.with_name(f".{archive.name}.partial")
        written: set[Path] = set()
        count = 0
        with tarfile.open(partial, "w", format=tarfile.PAX_FORMAT) as tar:
            for key in self.keys():
                if self.get(key) is None:
                    continue
                path = self._reply_path(key)
                count += 1
                for sha in json.loads(path.read_bytes())["blobs"].values():
                    if (blob := self._blob_path(sha)) not in written:
                        written.add(blob)
                        self._add(tar, blob)
                self._add(tar, path)
        os.replace(partial, archive)
        return count

    def import_from(self, archive: Path) -> int:
        """Take over all replies of an exported file that are not here yet; return how many."""
        fresh = 0
        try:
            with tarfile.open(archive) as tar:
                for member in tar:
                    path = self._path_of_member(archive, member)
                    if path.exists():
                        continue
                    content = tar.extractfile(member) if member.isfile() else None
                    data = content.read() if content is not None else b""
                    damaged = path.suffix != ".json" and sha256(data).hexdigest() != path.name
                    if content is None or damaged:
                        raise UserError(str(archive), f"{member.name} is damaged", "Export again.")
                    self._write(path, data, durable=False)
                    fresh += path.suffix == ".json" and self.get(path.stem) is not None
        except FileNotFoundError:
            raise UserError(str(archive), "no such file", "Run `dvc pull` first.") from None
        except (tarfile.TarError, EOFError, OSError) as error:
            why = " ".join(str(error).split())
            raise UserError(str(archive), f"no export ({why})", "Export it again.") from None
        return fresh

    def _path_of_member(self, archive: Path, member: tarfile.TarInfo) -> Path:
        kind, _, name = member.name.partition("/")
        stem = name.rpartition("/")[2].removesuffix(".json")
        is_hash = len(stem) == _NAME_LENGTH and all(c in "0123456789abcdef" for c in stem)
        path = {"replies": self._reply_path, "blobs": self._blob_path}.get(kind)
        if path is None or not is_hash or str(path(stem).relative_to(self.root)) != member.name:
            raise UserError(
                str(archive), f"holds {member.name!r}, which is none of a store's", "Export again."
            )
        return path(stem)

    def _add(self, tar: tarfile.TarFile, path: Path) -> None:
        data = path.read_bytes()
        info = tarfile.TarInfo(str(path.relative_to(self.root)))
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))

    def _reply_path(self, key: str) -> Path:
        return self._replies / f"{key[:2]}/{key}.json"

    def _blob_path(self, sha: str) -> Path:
        return self._blobs / f"{sha[:2]}/{sha}"

    def _read_blob(self, sha: str) -> bytes:
        try:
            data = self._blob_path(sha).read_bytes()
        except FileNotFoundError:
            raise ValueError(f"blob {sha[:12]} is missing") from None
        if sha256(data).hexdigest() != sha:
            self._set_aside(self._blob_path(sha), ValueError("checksum"))
            raise ValueError(f"blob {sha[:12]} is damaged")
        return data

    def _write_blob(self, data: bytes, durable: bool) -> str:
        sha = sha256(data).hexdigest()
        path = self._blob_path(sha)
        try:
            there = path.read_bytes() == data  # a damaged one would spoil this reply as well
        except OSError:
            there = False
        if not there:
            self._write(path, data, durable)
        return sha

    def _write(self, path: Path, data: bytes, durable: bool) -> None:
        partial = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.partial")
        try:
            try:
                self._place(partial, path, data, durable)
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._place(partial, path, data, durable)
        except OSError as error:
            raise UserError(
                str(self.root),
                f"a reply could not be written ({error.strerror})",
                "Make room or make it writable, and run again: what is stored stays.",
            ) from error

    @staticmethod
    def _place(partial: Path, path: Path, data: bytes, durable: bool) -> None:
        try:
            with partial.open("wb") as file:
                file.write(data)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise

    def _set_aside(self, path: Path, error: Exception) -> None:
        aside = self.root / "damaged" / path.name
        aside.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.replace(path, aside)
        except FileNotFoundError:
            return  # another process was faster
        print(f"store: {path.name} is damaged ({error}); set aside in {aside}", file=sys.stderr)

    @staticmethod
    def _is_current(handle: int, path: Path) -> bool:
        try:
            return os.fstat(handle).st_ino == path.stat().st_ino
        except FileNotFoundError:
            return False


def main(arguments: list[str]) -> int:
    """`python -m stages.models.store export|import FILE`, or `count`."""
    try:
        match arguments:
            case ["export", file]:
                print(f"{Store.open().export_to(Path(file))} replies exported to {file}")
            case ["import", file]:
                print(f"{Store.open().import_from(Path(file))} new replies imported from {file}")
            case ["count"]:
                print(len(list(Store.open().keys())))
            case _:
                print(f"usage: {main.__doc__}", file=sys.stderr)
                return 2
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(
            f"{error.filename}: {error.strerror}. Name a file that can be written.", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
