"""Where weights go, and in which precision."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stages.records.errors import UserError

DTYPES = ("auto", "bfloat16", "float16", "float32")


@dataclass(frozen=True)
class Placement:
    """Precision and devices of a model.

    Parameters
    ----------
    device : str or sequence of str
        ``auto`` (the first GPU, else Apple's, else the CPU), ``cpu``, ``cuda``, ``cuda:N`` or
        ``mps``; a list puts a copy on each.
    dtype : str
        ``auto`` (as the checkpoint says), ``bfloat16``, ``float16`` or ``float32``.
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
        if not self.named:
            raise ValueError("device is an empty list")
        for name in self.named:
            kind, _, index = name.partition(":")
            if kind not in ("auto", "cpu", "cuda", "mps") or (index and not index.isdecimal()):
                raise ValueError(f"device {name!r} is none of auto, cpu, cuda, cuda:N, mps")

    @property
    def named(self) -> tuple[str, ...]:
        """The devices as given, one a copy."""
        return (self.device,) if isinstance(self.device, str) else tuple(self.device)

    def devices(self) -> tuple[str, ...]:
        """The devices of this machine, one a copy; one that is absent is an error."""
        return tuple(_present(name) for name in self.named)

    def torch_dtype(self) -> Any:
        """What ``from_pretrained`` takes as ``dtype``."""
        import torch

        return "auto" if self.dtype == "auto" else getattr(torch, self.dtype)

    def options(self, device: str) -> dict[str, Any]:
        """Keyword arguments of ``from_pretrained`` for a copy on one device."""
        placed = {"device_map": self.device_map or {"": device}}
        return {"dtype": self.torch_dtype(), **({} if device == "cpu" else placed)}


def _present(name: str) -> str:
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
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
