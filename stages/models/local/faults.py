"""What goes wrong with weights, in one line that says how to mend it."""

import importlib.metadata
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from stages.records.errors import UserError


class OutOfMemory(UserError):  # noqa: N818 - what ran out
    """A device or the machine had no memory left; with a smaller batch it may do."""


_NO_MEMORY = (
    "does not fit into the memory of the device",
    "Lower batch_size or max_pixels, take a smaller dtype or quantization, or spread it over "
    "several GPUs (device_map: auto). What was answered is in the store.",
)
_OUT_OF_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")


def installed(*packages: str) -> None:
    """Raise ImportError, with the package's name, for the first that is missing; import none."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def release_of(package: str) -> str:
    """Name and release of an installed package, without its last number: ``transformers 5.24``.

    Minor releases of a library change how images are prepared and how attention is summed, so
    replies of two are not exchangeable; its patch releases are taken to be.
    """
    installed(package)
    return f"{package} {'.'.join(importlib.metadata.version(package).split('.')[:2])}"


@contextmanager
def explained(where: str, *, revision: str | None = None) -> Iterator[None]:
    """Turn what the loading of weights raises into a UserError; let what is no such fault pass.

    Parameters
    ----------
    where : str
        The model's id or folder.
    revision : str, optional
        The revision that was asked for.
    """
    try:
        yield
    except UserError:
        raise
    except ImportError as error:
        name = error.name or str(error).strip().splitlines()[0]
        raise UserError(
            where, f"needs a package that is not installed ({name})", "`make extras EXTRAS=local`."
        ) from error
    except Exception as error:
        if (fault := _fault(where, revision, error)) is not None:
            raise fault from error
        raise


@contextmanager
def within_memory(where: str) -> Iterator[None]:
    """Turn a lack of memory while a model runs into OutOfMemory; let the rest pass."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise OutOfMemory(where, *_NO_MEMORY) from error
        raise


def _fault(where: str, revision: str | None, error: Exception) -> UserError | None:
    if is_out_of_memory(error):
        return UserError(where, *_NO_MEMORY)  # a smaller batch would not help the weights
    names = {cause.__name__ for each in _causes(error) for cause in type(each).__mro__}
    if "GatedRepoError" in names:
        what, remedy = "wants its licence accepted", "Accept it on its page; set HF_TOKEN."
    elif "RevisionNotFoundError" in names:
        what, remedy = f"has no revision {revision!r}", "Take a commit, tag or branch that it has."
    elif "RepositoryNotFoundError" in names:
        what = "is not on the Hub, or is private"
        remedy = "Check the id; a private one needs HF_TOKEN."
    elif names & {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "ConnectError"}:
        what = f"is not on this disk (revision {revision}), and the Hub is out of reach"
        remedy = f"`hf download {where}` where there is a network, or name a folder."
    elif isinstance(error, OSError | ValueError | KeyError | RuntimeError | EOFError) or (
        "SafetensorError" in names  # a file that is cut off or empty
    ):
        return UserError(
            where, f"can't be loaded: {_line(error)}", "Check that the checkpoint is whole."
        )
    else:
        return None
    return UserError(where, what, remedy)


def is_out_of_memory(error: Exception) -> bool:
    """Whether a device or the machine had no memory left."""
    named = type(error).__name__ in ("OutOfMemoryError", "MemoryError")
    return named or any(part in str(error).lower() for part in _OUT_OF_MEMORY)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _line(error: Exception, length: int = 200) -> str:
    line = " ".join(str(error).split()) or type(error).__name__
    return line if len(line) <= length else f"{line[: length - 1]}…"
