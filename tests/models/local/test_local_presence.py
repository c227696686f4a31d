"""What a preflight finds out about weights without loading them."""

import json
from pathlib import Path

import pytest

from stages.models.local import presence as room
from stages.models.local.checkpoint import Checkpoint
from stages.models.local.placement import Placement
from stages.models.local.presence import presence

pytestmark = pytest.mark.local


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({"dtype": "bfloat16"}))
    (tmp_path / "model.safetensors").write_bytes(bytes(2_000_000))
    return tmp_path


@pytest.mark.parametrize(
    ("dtype", "free", "state"),
    [
        ("checkpoint", 2_000_000, "ok"),
        ("checkpoint", 1_999_999, "wrong"),
        ("auto", 3_999_999, "wrong"),  # float32, since there is no GPU
        ("auto", 4_000_000, "ok"),
        ("bfloat16", 2_000_000, "ok"),
        ("float32", 3_999_999, "wrong"),
        ("float32", 4_000_000, "ok"),
    ],
)
def test_weights_that_do_not_fit_are_said_before_a_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, free: int, state: str
) -> None:
    monkeypatch.setattr(room, "_room", lambda device: room.Room(device, free))
    here, memory = presence(Checkpoint(str(folder)), Placement("cpu", dtype))
    assert here.state == "ok"
    assert str(folder) not in here.what
    assert memory.state == state


def test_a_device_that_is_not_there_is_wrong(folder: Path) -> None:
    (found,) = presence(Checkpoint(str(folder)), Placement("cuda:64"))
    assert (found.state, "cuda:64" in found.what) == ("wrong", True)


def test_memory_is_asked_of_this_machine(folder: Path) -> None:
    assert [f.state for f in presence(Checkpoint(str(folder)), Placement("cpu"))] == ["ok", "ok"]
    assert [f.state for f in presence(Checkpoint(str(folder)))] == ["ok"]
