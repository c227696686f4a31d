"""A cluster of Ray for as long as a stage runs: one that is there, or one of this machine's own.

One of its own is private: it listens on 127.0.0.1 alone, under a token that no file holds, in a
folder that only this user enters and that goes with it. Nothing of it outlives the stage, but where
that is killed by SIGKILL: then workers end what they have in hand, and what is left is taken away
by the next stage that begins a cluster. No dashboard, no usage statistics.
"""

import contextlib
import fcntl
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from stages.records.errors import UserError
from stages.workflow.sections import Ray

_PREFIX = "edct-ray-"
_SOCKET = 107
"""Bytes that the path of a socket may have."""
_BELOW = 72
"""Bytes of it below the folder: ``/r/session_…/sockets/plasma_store``."""
_CURRENT = "ray_current_cluster"
_PRIVATE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Off, Ray takes 127.0.0.1 for this machine's address, and everything listens there.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "token",
}


@contextlib.contextmanager
def connected(settings: Ray, workers: int) -> Iterator[Any]:
    """The module ``ray``, connected; a cluster that the process has already is used and left."""
    own = settings.address is None
    if own and not _already():
        with _own(settings, workers) as ray:
            yield ray
        return
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray = _imported()
    if ray.is_initialized():
        yield ray
        return
    address = settings.address or ""
    try:
        address = _found() if address == "auto" else address
        _reach(address)
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise UserError(
            "params.yaml: executor.address",
            f"no cluster at {address!r} ({said})",
            "`ray start --head` begins one; the stage runs on one of its machines.",
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _found() -> str:
    """HOST:PORT of the cluster that `auto` means: of RAY_ADDRESS, or that `ray start` wrote down.

    Ray itself goes on to any that it sees running: the own one of another stage too, which it
    cannot enter, and tries to for minutes.
    """
    named = os.environ.get("RAY_ADDRESS", "")
    if named not in ("", "auto"):
        return named
    for folder in (os.environ.get("RAY_TMPDIR"), os.environ.get("TMPDIR"), "/tmp"):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return (Path(folder or "/tmp") / "ray" / _CURRENT).read_text("utf-8").strip()
    raise ValueError(f"no RAY_ADDRESS, and no ray/{_CURRENT} that `ray start` writes")


def _reach(address: str) -> None:
    """Find out at once what Ray tries for minutes, and says on standard error."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise ValueError("no HOST:PORT")
    socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _already() -> bool:
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


def _imported() -> Any:
    import ray

    quiet = logging.getLogger("ray")  # what matters of it comes as exceptions
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    # Of a worker that died Ray prints a paragraph among the stage's own lines, and has no switch
    # for it. The stage says it in one.
    if hasattr(ray._private.worker, "print_to_stdstream"):
        ray._private.worker.print_to_stdstream = lambda *_, **__: None
    return ray


@contextlib.contextmanager
def _own(settings: Ray, workers: int) -> Iterator[Any]:
    folder = _folder()
    others = {child.pid for child in psutil.Process().children(recursive=True)}

    def take_away() -> None:
        _kill(others)
        shutil.rmtree(folder, ignore_errors=True)

    os.environ.update(_PRIVATE)
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    _find_our_code()
    with on_interrupt(take_away):
        try:
            ray = _begun(settings, workers, folder)
            _check_gpus(ray, settings, workers)
            yield ray
        finally:
            if "ray" in sys.modules:
                sys.modules["ray"].shutdown()
            take_away()


def _begun(settings: Ray, workers: int, folder: Path) -> Any:
    ray = _imported()
    try:
        ray.init(
            address="local",  # whatever RAY_ADDRESS says
            num_cpus=max(1, round(workers * settings.cpus + 0.499)),
            object_store_memory=settings.object_store_mb * 1_000_000,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            _temp_dir=str(folder / "r"),  # Ray opens its folder to everybody, hence one below
        )
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise UserError(
            "params.yaml: executor",
            f"Ray does not start ({said})",
            "Run it again, or take `executor=local`.",
        ) from None
    return ray


@contextlib.contextmanager
def on_interrupt(act: Callable[[], None]) -> Iterator[None]:
    """Do something before whatever Ctrl-C does, which may be to leave without any ``finally``."""
    before = signal.getsignal(signal.SIGINT)

    def interrupted(*arguments: Any) -> None:
        act()
        if callable(before):
            before(*arguments)

    in_main = _handles(interrupted)
    try:
        yield
    finally:
        if in_main:
            signal.signal(signal.SIGINT, before)


def _folder() -> Path:
    """A new folder, private and locked; those of stages that were killed are taken away."""
    usual = tempfile.gettempdir()
    fits = len(os.fsencode(usual)) + len(f"/{_PREFIX}12345678") + _BELOW <= _SOCKET
    parent = Path(usual if fits else "/tmp")
    for old in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if old.lstat().st_uid == os.getuid():
                with left(old / "lock"):
                    _end_all_that_name(old)
                    shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    lock = os.open(folder / "new", os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)  # held until this process is no more
    os.rename(folder / "new", folder / "lock")
    return folder


@contextlib.contextmanager
def left(path: Path, mode: int = os.O_RDONLY) -> Iterator[None]:
    """Hold the lock of a file that a killed process left; OSError where it is held or no file."""
    handle = os.open(path, mode | os.O_NONBLOCK | os.O_NOFOLLOW)  # a pipe would not open
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _end_all_that_name(folder: Path) -> None:
    """End Ray's processes of a stage that was killed; workers go when these do."""
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if str(folder) in line and "/ray/" in line:
            with contextlib.suppress(psutil.Error):
                process.kill()


def _handles(handler: Any) -> bool:
    try:
        signal.signal(signal.SIGINT, handler)
    except ValueError:  # not the main thread, which signals go to
        return False
    return True


def _find_our_code() -> None:
    """Workers import `stages` from where this process has it."""
    home = str(Path(__file__).parents[2])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if home not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([home, *filter(None, paths)])


def _check_gpus(ray: Any, settings: Ray, workers: int) -> None:
    there = ray.cluster_resources().get("GPU", 0)
    if workers * settings.gpus > there:
        raise UserError(
            "params.yaml: executor.gpus",
            f"{workers} workers with {settings.gpus:g} each, and this machine has {there:g}",
            "Lower `executor.workers` or `executor.gpus`.",
        )


def _kill(others: set[int]) -> None:
    """End all processes that this one has begun since, and those that they have begun."""
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            if child.pid not in others:
                with contextlib.suppress(psutil.Error):
                    child.kill()
