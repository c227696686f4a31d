"""Could a model run here? Packages, weights, device and memory, looked at without loading it."""

import json
from pathlib import Path
from typing import NamedTuple

from stages.models.local.checkpoint import Checkpoint, offline, weight_bytes
from stages.models.local.faults import explained, installed
from stages.models.local.placement import Placement
from stages.models.protocol import Finding
from stages.records.errors import UserError

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1}
GB = 1e9
HUB_WAIT_S = 5.0
"""Seconds after which a Hub that says nothing counts as out of reach."""


class Room(NamedTuple):
    """Memory of one place, in bytes."""

    where: str
    free: int


def presence(checkpoint: Checkpoint, placement: Placement | None = None) -> list[Finding]:
    """What a preflight says of a checkpoint; a branch or tag is looked up on the Hub if need be.

    Parameters
    ----------
    checkpoint : Checkpoint
        The weights.
    placement : Placement, optional
        Where they would go. Left out, only the disk is looked at.
    """
    try:
        found = checkpoint.on_disk()
        if found is None:
            return [absent(checkpoint, f"the weights of {checkpoint.model} are not on this disk")]
        size = weight_bytes(found)
        here = f"the weights of {checkpoint.label} are on this disk ({_gb(size)})"
        memory = [] if placement is None else [_memory(found, placement)]
    except UserError as error:
        return [Finding("wrong", f"{error.where}: {error.what}", error.remedy)]
    return [Finding("ok", here), *memory]


def absent(checkpoint: Checkpoint, missing: str) -> Finding:
    """What a preflight says of weights that are not on the disk: can they be had?"""
    if offline():
        return Finding("wrong", missing, "Download them, or unset HF_HUB_OFFLINE.")
    try:
        ask_hub(checkpoint.model, checkpoint.revision)
    except UserError as error:
        return Finding("wrong", f"{missing}; {error.where} {error.what}", error.remedy)
    return Finding("note", missing, "The first call downloads them.")


def ask_hub(model: str, revision: str) -> None:
    """Raise UserError where the Hub does not answer within some seconds, or does not serve it."""
    installed("huggingface_hub")
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        HfApi().model_info(model, revision=revision, timeout=HUB_WAIT_S)
    except HfHubHTTPError:  # it answered, but not with this model
        with explained(model, revision=revision):
            raise
    except Exception as error:  # a timeout, a proxy, a certificate: each client has its own
        raise UserError(
            model,
            f"can't be asked for on the Hub ({type(error).__name__})",
            f"`hf download {model}` where there is a network, or name a folder.",
        ) from error


def _memory(folder: Path, placement: Placement) -> Finding:
    """Whether the weights alone fit; what a batch takes comes on top and is not known before."""
    installed("torch")
    rooms = [_room(device) for device in placement.devices()]
    if placement.device_map is not None:
        rooms = [Room("all GPUs", sum(room.free for room in map(_room, _gpus())))]
    need = int(weight_bytes(folder) * _scale(folder, placement.settled))
    tight = min(rooms, key=lambda room: room.free)
    said = f"they take {_gb(need)} of {_gb(tight.free)} free on {tight.where}"
    if need > tight.free:
        remedy = "Take a smaller dtype, quantization, device_map: auto or another device."
        return Finding("wrong", said, remedy)
    return Finding("ok", f"{said}, beside what a batch takes")


def _scale(folder: Path, dtype: str) -> float:
    """Bytes of a weight in memory to bytes on disk."""
    if dtype == "auto":
        return 1.0
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 1.0
    stored = config.get("dtype") or config.get("torch_dtype")
    return _BYTES[dtype] / _BYTES.get(str(stored), _BYTES[dtype])


def _gpus() -> list[str]:
    import torch

    return [f"cuda:{n}" for n in range(torch.cuda.device_count())] or ["cpu"]


def _room(device: str) -> Room:
    import torch

    if device.startswith("cuda"):
        return Room(device, torch.cuda.mem_get_info(device)[0])
    installed("psutil")
    import psutil

    return Room("this machine", psutil.virtual_memory().available)


def _gb(size: int) -> str:
    return f"{size / GB:.1f} GB"
