"""Where weights go, and in which precision."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from stages.records.errors import UserError

DTYPES = ("auto", "checkpoint", "bfloat16", "float16", "float32")
_DEVICE = re.compile(r"cpu|mps|cuda(:[0-9]+)?")


@dataclass(frozen=True)
class Placement:
    """Precision and devices of a model.

    Parameters
    ----------
    device : str or sequence of str
        ``auto`` (the first GPU, else Apple's, else the CPU), ``cpu``, ``cuda``, ``cuda:N`` or
        ``mps``; a list of the last four puts a copy on each, ``all`` one on every GPU (without
        one: as ``auto``).
    dtype : str
        ``bfloat16``, ``float16`` or ``float32``; ``auto``: bfloat16 where every device is a GPU
        that calculates in it, else float32; ``checkpoint``: as its config says.
    device_map : str or None
        ``auto`` spreads one copy over all GPUs, and over main memory where they do not suffice.
    """

    device: str | Sequence[str] = "auto"
    dtype: str = "auto"
    device_map: Literal["auto"] | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype is {self.dtype!r}; it must be one of {', '.join(DTYPES)}")
        if self.device_map not in (None, "auto"):
            raise ValueError(f"device_map is {self.device_map!r}; it must be auto or null")
        if self.device_map and self.device != "auto":
            raise ValueError("device_map: auto chooses the devices; leave device out")
        single = isinstance(self.device, str)
        given = self.device if isinstance(self.device, (list, tuple)) else (self.device,)
        if not given:
            raise ValueError("device is an empty list")
        for name in given:
            known = isinstance(name, str) and _DEVICE.fullmatch(name)
            if not (known or (single and name in ("auto", "all"))):
                raise ValueError(
                    f"device {name!r} is none of auto, all, cpu, cuda, cuda:N, mps, nor a list of "
                    "the last four"
                )

    @cached_property
    def named(self) -> tuple[str, ...]:
        """The devices as given, one a copy."""
        if self.device == "all":
            return tuple(f"cuda:{number}" for number in range(_gpus())) or ("auto",)
        return (self.device,) if isinstance(self.device, str) else tuple(self.device)

    def devices(self) -> tuple[str, ...]:
        """The devices of this machine, one a copy; one that is absent is an error."""
        return tuple(_present(name) for name in self.named)

    def place(self, number: int) -> tuple[str, int]:
        """The device of a copy, and which of the copies on this device it is, from 0."""
        devices = self.devices()
        return devices[number], devices[:number].count(devices[number])

    def most(self, number: int, batch_size: int) -> int:
        """Pictures that go through a copy together, at most: on a CPU one.

        Its kernels add up in an order that depends on the shape of the batch, so that a last digit
        would depend on what else is asked; and many pictures at once are hardly faster there.
        """
        try:
            return 1 if self.devices()[number] == "cpu" else batch_size
        except UserError:  # no such device: the call will say so
            return batch_size

    @property
    def precision(self) -> str:
        """What a store knows the dtype by. It does not depend on the device.

        Replies to ``auto`` serve on any machine, so that a run from a GPU is found again without
        one. ``checkpoint`` has the name that ``auto`` once had with this meaning.
        """
        return {"auto": "bfloat16 or float32", "checkpoint": "auto"}.get(self.dtype, self.dtype)

    @property
    def settled(self) -> str:
        """The dtype on this machine: a name, or ``auto`` where the checkpoint's config says."""
        if self.dtype == "checkpoint":
            return "auto"
        if self.dtype != "auto":
            return self.dtype
        places = self.devices() if self.device_map is None else _all()
        return "bfloat16" if all(_has_bfloat16(place) for place in places) else "float32"

    def torch_dtype(self) -> Any:
        """What ``from_pretrained`` takes as ``dtype``."""
        import torch

        return "auto" if (name := self.settled) == "auto" else getattr(torch, name)

    def options(self, device: str) -> dict[str, Any]:
        """Keyword arguments of ``from_pretrained`` for a copy on one device."""
        placed = {"device_map": self.device_map or {"": device}}
        return {"dtype": self.torch_dtype(), **({} if device == "cpu" else placed)}


def _present(name: str) -> str:
    import torch

    gpus = _gpus()
    if name == "auto":
        return "cuda:0" if gpus else "mps" if torch.backends.mps.is_available() else "cpu"
    kind, _, index = name.partition(":")
    if kind == "cuda" and int(index or 0) >= gpus:
        raise UserError(
            f"device {name}",
            f"there is none ({gpus} CUDA devices, torch {torch.__version__})",
            "Set device: auto or cpu, or install a torch that was built for the GPU.",
        )
    if kind == "mps" and not torch.backends.mps.is_available():
        raise UserError("device mps", "there is none", "Set device: auto or cpu.")
    return f"cuda:{index or 0}" if kind == "cuda" else name


def _gpus() -> int:
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _all() -> Sequence[str]:
    return [f"cuda:{number}" for number in range(_gpus())] or ["cpu"]


def _has_bfloat16(device: str) -> bool:
    """Whether a device calculates in bfloat16 by itself: GPUs do, from Ampere on."""
    import torch

    if not device.startswith("cuda"):
        return False
    with torch.cuda.device(device):
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))


@contextmanager
def at(device: str) -> Iterator[None]:
    """Let a device be the one that is meant where none is named."""
    if not device.startswith("cuda"):
        yield
        return
    import torch

    with torch.cuda.device(device):
        yield
