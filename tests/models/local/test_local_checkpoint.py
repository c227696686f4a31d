"""What names weights: their content or their commit, and never where they lie."""

import os
import shutil
from pathlib import Path

import pytest

from stages.models.local.checkpoint import Checkpoint, folder_digest, weight_bytes
from stages.models.local.faults import explained, installed, release_of
from stages.records.errors import UserError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one" / "sub").mkdir(parents=True)
    (tmp_path / "one" / "config.json").write_text("{}")
    (tmp_path / "one" / "model.safetensors").write_bytes(b"\x00\x01")
    (tmp_path / "one" / "sub" / "more.bin").write_bytes(b"\x02")
    return tmp_path / "one"


def test_a_folder_is_its_content_wherever_it_lies(folder: Path) -> None:
    before = Checkpoint(str(folder)).identity()
    assert str(folder) not in str(before)
    assert "one" not in str(before)
    moved = shutil.move(folder, folder.parent / "two")
    assert Checkpoint(str(moved)).identity() == before


@pytest.mark.parametrize("change", ["weight", "name", "added", "config"])
def test_every_change_of_a_file_is_another_model(folder: Path, change: str) -> None:
    before = folder_digest(folder)
    if change == "weight":
        weights = folder / "model.safetensors"
        state = weights.stat()
        weights.write_bytes(b"\x00\x02")
        os.utime(weights, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    elif change == "name":
        (folder / "sub" / "more.bin").rename(folder / "sub" / "less.bin")
    elif change == "added":
        (folder / "adapter.json").write_text("{}")
    else:
        (folder / "config.json").write_text("[]")
    assert folder_digest(folder) != before


def test_names_and_contents_can_not_change_places(tmp_path: Path) -> None:
    digests = set()
    for name, content in (("ab", b"c"), ("a", b"bc"), ("abc", b"")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_bytes(content)
        digests.add(folder_digest(folder))
    assert len(digests) == 3


def test_hidden_files_do_not_count_and_an_empty_folder_is_an_error(folder: Path) -> None:
    before = folder_digest(folder)
    (folder / ".cache").mkdir()
    (folder / ".cache" / "x").write_text("x")
    assert folder_digest(folder) == before
    (folder / "nothing").mkdir()
    with pytest.raises(UserError, match="holds no file"):
        folder_digest(folder / "nothing")


@pytest.mark.parametrize("link", ["folder", "file"])
def test_what_a_link_leads_to_counts(tmp_path: Path, link: str) -> None:
    digests = set()
    for content in (b"12", b"345"):
        real, folder = (tmp_path / f"{kind}{len(content)}" for kind in ("real", "model"))
        for each in (real, folder):
            each.mkdir()
        (real / "w.safetensors").write_bytes(content)
        if link == "folder":
            (folder / "transformer").symlink_to(real)
        else:
            (folder / "w.safetensors").symlink_to(real / "w.safetensors")
        digests.add(folder_digest(folder))
        assert weight_bytes(folder) == len(content)
    assert len(digests) == 2


def test_two_names_of_one_file_are_two_models(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(b"1")
    for name in ("a", "b"):
        (tmp_path / f"of-{name}").mkdir()
        (tmp_path / f"of-{name}" / name).symlink_to(tmp_path / "w")
    assert folder_digest(tmp_path / "of-a") != folder_digest(tmp_path / "of-b")


def test_a_link_that_leads_in_a_circle_is_one_line(folder: Path) -> None:
    (folder / "sub" / "up").symlink_to(folder)
    with pytest.raises(UserError, match="a link to a folder that it lies in"):
        folder_digest(folder)
    (folder / "sub" / "up").unlink()
    (folder / "again").symlink_to(folder / "sub")  # twice the same is no circle
    folder_digest(folder)


def test_a_folder_that_changed_since_it_was_named_is_one_line(folder: Path) -> None:
    checkpoint = Checkpoint(str(folder))
    before = checkpoint.identity()
    checkpoint.check_unchanged()
    (folder / "config.json").write_text('{"a": 1}')
    assert checkpoint.identity() == before
    assert Checkpoint(str(folder)).key != checkpoint.key
    with pytest.raises(UserError, match="changed while it was loaded"):
        checkpoint.check_unchanged()


def test_a_pinned_id_is_itself_without_a_look_at_anything() -> None:
    identity = Checkpoint("maker/name", COMMIT).identity()
    assert identity == {"model": "maker/name", "revision": COMMIT}


@pytest.mark.parametrize("model", ["no/such/folder", "/nowhere", "name", "../x/y", "maker/na me"])
def test_what_is_neither_folder_nor_id_is_one_line(model: str) -> None:
    with pytest.raises(UserError, match="neither a folder nor a model id"):
        Checkpoint(model)


def test_foreign_code_wants_a_commit(folder: Path) -> None:
    with pytest.raises(UserError, match="Pin the revision"):
        Checkpoint("maker/name", "main", trust_remote_code=True)
    Checkpoint("maker/name", COMMIT, trust_remote_code=True)
    Checkpoint(str(folder), trust_remote_code=True)


def test_weights_are_counted_once(folder: Path) -> None:
    assert weight_bytes(folder) == 2
    (folder / "model.safetensors").unlink()
    assert weight_bytes(folder) == 1


class RevisionNotFoundError(Exception):
    """Named as the Hub's own."""


class GatedRepoError(Exception):
    """Named as the Hub's own."""


class LocalEntryNotFoundError(OSError):
    """Named as the Hub's own."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RevisionNotFoundError("404\nlong"), "has no revision 'v9'"),
        (GatedRepoError("403"), "licence"),
        (LocalEntryNotFoundError("x"), "not on this disk"),
        (RuntimeError("CUDA out of memory. Tried"), "memory of the device. Lower batch_size"),
        (MemoryError(), "max_pixels"),
        (OSError("no file named\nmodel.safetensors"), "can't be loaded: no file named model"),
        (ModuleNotFoundError("No module named 'timm'", name="timm"), r"\(timm\). `make extras"),
    ],
)
def test_what_goes_wrong_is_one_line_with_a_remedy(error: Exception, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught, explained("maker/name", revision="v9"):
        raise error
    assert "\n" not in str(caught.value)


def test_the_cause_beneath_a_vague_error_counts() -> None:
    vague = OSError("We couldn't connect")
    vague.__cause__ = LocalEntryNotFoundError("x")
    with pytest.raises(UserError, match="not on this disk"), explained("maker/name"):
        raise vague


def test_what_is_no_fault_of_loading_passes() -> None:
    with pytest.raises(ZeroDivisionError), explained("maker/name"):
        raise ZeroDivisionError


def test_a_missing_package_is_named() -> None:
    with pytest.raises(ImportError) as caught:
        installed("json", "nosuchpackage")
    assert caught.value.name == "nosuchpackage"
    assert release_of("pytest").split()[1].count(".") == 1
