"""Raw data on disk: files found in a folder or inside the zip archives that lie in it.

Archives are read member by member and never unpacked. Every read is bounded, whatever a header
says of the size, and a name that comes out of a data file can't leave its folder.
"""

import io
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from stages.imaging.codec import ImageError
from stages.records.errors import UserError

RAW = Path("data/raw")
MAX_IMAGE_BYTES = 64 << 20
MAX_DATA_BYTES = 256 << 20
MAX_NAME = 1000


@dataclass(frozen=True)
class Origin:
    """Where a publisher's file comes from."""

    address: str
    """Address of the file or of the page that leads to it."""
    licence: str
    """Licence, and what must be accepted by hand."""

    def remedy(self, put_at: Path) -> str:
        """What to do where the file is absent."""
        return (
            f"Get it from {self.address} ({self.licence}) and put it at {put_at}; "
            "data/raw/README.md says more."
        )


class MissingImageError(UserError):
    """An image that a row names is nowhere in the raw data."""


def raw_folder(folder: str) -> Path:
    """The folder that a benchmark's YAML names.

    Where the environment variable ``EDCT_RAW`` names a folder, it stands for ``data/raw``, so that
    raw data can lie on another disk and temporary workspaces share them.
    """
    path, elsewhere = Path(folder).expanduser(), os.environ.get("EDCT_RAW")
    if elsewhere and path.is_relative_to(RAW):
        return Path(elsewhere) / path.relative_to(RAW)
    return path


def safe_name(name: str) -> str | None:
    """A relative file name out of a data file, in POSIX form; None where it leaves its folder."""
    if not name or len(name) > MAX_NAME or not name.isprintable():
        return None
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in path.parts[0:1] or not path.name:
        return None
    return None if len(path.parts[0]) == 2 and path.parts[0][1] == ":" else path.as_posix()


def open_data(folder: Path, name: str, origin: Origin) -> BinaryIO:
    """Open a data file that lies in the folder, in its ``annotations``, or zipped in either.

    Raises
    ------
    UserError
        If it is in none of these places, or an archive is damaged; says where to get it.
    """
    for place in (folder, folder / "annotations"):
        if (place / name).is_file():
            return (place / name).open("rb")
    for archive in sorted([*folder.glob("*.zip"), *folder.glob("annotations/*.zip")]):
        with _opened(archive) as opened:
            members = [m for m in opened.infolist() if PurePosixPath(m.filename).name == name]
            if members:
                if members[0].file_size > MAX_DATA_BYTES:
                    raise UserError(
                        str(archive),
                        f"{name} in it is larger than {MAX_DATA_BYTES >> 20} MiB",
                        "Unpack it.",
                    )
                return _member(archive, opened, members[0])
    raise UserError(str(folder / name), "the file is missing", origin.remedy(folder / name))


def _member(archive: Path, opened: zipfile.ZipFile, member: zipfile.ZipInfo) -> BinaryIO:
    try:
        with opened.open(member) as stream:
            data = stream.read(member.file_size + 1)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, EOFError) as error:
        raise UserError(
            str(archive), f"{member.filename} can't be read ({error})", "Get the archive again."
        ) from None
    if len(data) > member.file_size:
        raise UserError(str(archive), f"{member.filename} is longer than said", "Get it again.")
    return io.BytesIO(data)


def _opened(archive: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(archive)
    except (zipfile.BadZipFile, OSError) as error:
        raise UserError(
            str(archive), f"is no whole zip archive ({error})", "Download it again."
        ) from None


class ImageStore:
    """Image files in a folder, or inside the zip archives that lie directly in it.

    Parameters
    ----------
    folder : Path
        The folder.
    origin : Origin
        Where its content comes from, for the message where an image is missing.
    """

    def __init__(self, folder: Path, origin: Origin) -> None:
        self._folder, self._origin = folder, origin

    def read(self, names: Sequence[str], where: str) -> bytes:
        """Read the first file of these names that exists: in the folder, then in the archives.

        A name matches an archive's member if the member's path is or ends with it.

        Raises
        ------
        MissingImageError
            If there is none; names the row that asked for it.
        ImageError
            If the file is too large to be an image, or its archive's member is damaged.
        """
        for name in names:
            if (path := self._folder / name).is_file():
                if path.stat().st_size > MAX_IMAGE_BYTES:
                    raise ImageError(f"{path} is larger than {MAX_IMAGE_BYTES >> 20} MiB")
                return path.read_bytes()
        for name in names:
            for archive, member in self._members.get(PurePosixPath(name).name, ()):
                if f"/{member.filename}".endswith(f"/{name}"):
                    return self._extract(archive, member)
        raise MissingImageError(
            where,
            f"its image {names[0]} is neither in {self._folder} nor in a zip archive there",
            self._origin.remedy(self._folder / names[0]),
        )

    def _extract(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
        try:
            with archive.open(member) as stream:
                data = stream.read(MAX_IMAGE_BYTES + 1)
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, EOFError) as error:
            raise ImageError(f"{member.filename} in {archive.filename}: {error}") from None
        if len(data) > MAX_IMAGE_BYTES:
            raise ImageError(f"{member.filename} is larger than {MAX_IMAGE_BYTES >> 20} MiB")
        return data

    @cached_property
    def _members(self) -> dict[str, list[tuple[zipfile.ZipFile, zipfile.ZipInfo]]]:
        """Base name → members; the archives stay open, because a directory of 80,000 is slow."""
        found: dict[str, list[tuple[zipfile.ZipFile, zipfile.ZipInfo]]] = {}
        for path in sorted(self._folder.glob("*.zip")):
            archive = _opened(path)
            for member in archive.infolist():
                if not member.is_dir():
                    found.setdefault(PurePosixPath(member.filename).name, []).append(
                        (archive, member)
                    )
        return found
