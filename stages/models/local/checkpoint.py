"""Which weights: a model id with a revision, or a folder; and what names them in the store.

An id is pinned by its commit, a folder by its content. The path of a folder names nothing, so that
moving a checkpoint keeps every stored reply, and a changed weight is another model.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from stages.models.local.faults import explained, installed
from stages.records.errors import UserError

_COMMIT = re.compile(r"[0-9a-f]{40}")
_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
UNUSED = ("*.bin", "*.pth", "*.pt", "*.gguf", "*.onnx", "*.h5", "*.msgpack", "consolidated*")
"""Files of a repository that are not downloaded: second copies of its safetensors."""


@dataclass(frozen=True)
class Checkpoint:
    """Weights with all that belongs to them.

    Parameters
    ----------
    model : str
        ``maker/name`` on the Hub, or a folder, relative to the workspace or absolute.
    revision : str
        Commit, tag or branch on the Hub. A branch is the commit that lies on this disk; where there
        is none, the one that it names now. Without meaning for a folder.
    trust_remote_code : bool
        Run the Python code that the repository brings. Wants a commit as revision, since that code
        could change otherwise.
    """

    model: str
    revision: str = "main"
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        if not self.is_folder and not _ID.fullmatch(self.model):
            raise UserError(
                self.model,
                "is neither a folder nor a model id",
                "Give maker/name, or a folder that exists.",
            )
        if self.trust_remote_code and not self.is_folder and not _COMMIT.fullmatch(self.revision):
            raise UserError(
                self.model,
                f"trust_remote_code with the revision {self.revision!r} runs code that may change",
                "Pin the revision: the 40 digits of a commit that you have looked at.",
            )

    @property
    def is_folder(self) -> bool:
        """Whether the weights are a folder's rather than a repository's."""
        return Path(self.model).is_dir()

    @cached_property
    def commit(self) -> str:
        """The commit that the revision names; no weights are downloaded to find it."""
        if _COMMIT.fullmatch(self.revision):
            return self.revision
        installed("huggingface_hub")
        from huggingface_hub import HfApi, constants
        from huggingface_hub.file_download import repo_folder_name

        repository = repo_folder_name(repo_id=self.model, repo_type="model")
        named = Path(constants.HF_HUB_CACHE) / repository / "refs" / self.revision
        if named.is_file():
            return named.read_text(encoding="utf-8").strip()
        with explained(self.model, revision=self.revision):
            return str(HfApi().model_info(self.model, revision=self.revision).sha)

    def identity(self) -> Mapping[str, str]:
        """What names the weights: id and commit, or the digest of a folder's content."""
        if self.is_folder:
            return {"model": "folder", "sha256": self._digest}
        return {"model": self.model, "revision": self.commit}

    @cached_property
    def _digest(self) -> str:
        return folder_digest(Path(self.model))

    @property
    def key(self) -> tuple[str, ...]:
        """What weights held in memory are found by: where they lie, and what they are."""
        return (self.model, *self.identity().values())

    def check_unchanged(self) -> None:
        """Raise UserError where a folder is no longer what `identity` said.

        To be called when its weights are in memory: replies are stored under that name.
        """
        if self.is_folder and folder_digest(Path(self.model)) != self._digest:
            raise changed(self.model)

    @property
    def label(self) -> str:
        """A short name for records, without a path: the id, or the head of a folder's digest."""
        identity = self.identity()
        digest = identity.get("sha256")
        return f"folder {digest[:12]}" if digest else self.model

    def folder(self) -> Path:
        """Where the files lie on this disk; they are downloaded if need be."""
        if self.is_folder:
            return Path(self.model)
        installed("huggingface_hub")
        from huggingface_hub import snapshot_download

        with explained(self.model, revision=self.revision):
            return Path(
                snapshot_download(self.model, revision=self.commit, ignore_patterns=list(UNUSED))
            )

    def on_disk(self) -> Path | None:
        """Where the files lie, or None where they would have to be downloaded."""
        if self.is_folder:
            return Path(self.model)
        installed("huggingface_hub")
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError

        try:
            found = snapshot_download(
                self.model,
                revision=self.commit,
                ignore_patterns=list(UNUSED),
                local_files_only=True,
            )
        except (LocalEntryNotFoundError, UserError):
            return None
        return Path(found)


_digests: dict[tuple[tuple[str, str, int, int], ...], str] = {}


def folder_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of a folder's files, hidden ones left out.

    Names are relative to the folder and sorted; links count as what they lead to. A file is
    read once a process unless its size or time changes; 16 GB take some ten seconds.
    """
    files = sorted((path.relative_to(folder).as_posix(), path) for path in _files(folder))
    if not files:
        raise UserError(str(folder), "holds no file", "Name the folder of a checkpoint.")
    state = tuple(
        (name, str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns)
        for name, path in files
    )
    if state not in _digests:
        digest = hashlib.sha256()
        for name, path in files:
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{name}\0{content}\n".encode())
        _digests[state] = digest.hexdigest()
    return _digests[state]


def changed(where: str) -> UserError:
    """The error of weights that are no longer those which replies would be stored under."""
    return UserError(
        where, "changed while it was loaded", "Run again, once nothing writes to it any more."
    )


def _files(folder: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """All files below a folder, hidden ones left out, through links to folders too."""
    here = folder.resolve()
    if here in above:
        raise UserError(str(folder), "is a link to a folder that it lies in", "Remove the link.")
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _files(path, above | {here})
        elif path.is_file():
            yield path


def weight_bytes(folder: Path) -> int:
    """Bytes of the weight files of a checkpoint, ``safetensors`` alone where there are any."""
    sizes = {path: path.stat().st_size for path in _files(folder)}
    tensors = [size for path, size in sizes.items() if path.suffix == ".safetensors"]
    return sum(tensors) or sum(
        size for path, size in sizes.items() if path.suffix in (".bin", ".pt", ".pth")
    )


def offline() -> bool:
    """Whether the environment forbids to look at the Hub."""
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE") for name in names)
