"""Training that a kill does not undo: a state every so many steps, found again by what is trained.

Every step draws from generators seeded by its own number, so that a run which goes on from a state
ends as one that was never stopped, to the byte on the same machine and number of threads. A state
that can't be read is set aside, and the training goes on from the one before. States lie outside
the outputs of stages, which DVC removes before a run.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stages.models.store import default_root

if TYPE_CHECKING:
    from torch import nn, optim

_STEP = "step.pt"
_BEFORE = "step-before.pt"
_UNREADABLE = (OSError, EOFError, RuntimeError, ValueError, KeyError, pickle.UnpicklingError)
"""What torch raises of a file that was cut off or overwritten."""


def states_folder(root: Path) -> Path:
    """Where all states lie: beside the response store, which experiments share."""
    return default_root(root) / "training"


class Progress:
    """The last state of one training.

    Parameters
    ----------
    root : Path
        Folder of all trainings' states.
    about : mapping
        What is trained on what and how, as JSON: equal trainings share their state.
    every : int
        Steps between two states.
    """

    def __init__(self, root: Path, about: Mapping[str, Any], *, every: int) -> None:
        text = json.dumps(about, sort_keys=True, ensure_ascii=False)
        self.folder = root / hashlib.sha256(text.encode()).hexdigest()[:32]
        self.every = every

    def resume(
        self, model: nn.Module, optimiser: optim.Optimizer, wanted: Sequence[int] = ()
    ) -> tuple[int, dict[str, Any]]:
        """Load the last state that can be read into model and optimiser.

        Parameters
        ----------
        model, optimiser
            Left as they are where there is no state.
        wanted : sequence of int
            Steps that are to be kept for good: a state counts only if all up to it can be read.

        Returns
        -------
        int, dict
            The step to go on with, and the notes.
        """
        for name in (_STEP, _BEFORE):
            state = self._read(name)
            if state is None or not all(
                self._read(_kept(step)) for step in wanted if step <= state["step"]
            ):
                continue
            model.load_state_dict(state["model"], strict=False)
            optimiser.load_state_dict(state["optimiser"])
            return int(state["step"]), json.loads(state["notes"])
        return 0, {}

    def keep(self, step: int, state: Mapping[str, Any]) -> None:
        """Keep tensors of a step for good, apart from the last state."""
        self._write(_kept(step), dict(state))

    def kept(self, step: int) -> dict[str, Any]:
        """What was kept of a step."""
        found = self._read(_kept(step))
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "is not readable", str(self.folder / _kept(step)))
        return found

    def reached(
        self,
        step: int,
        model: nn.Module,
        optimiser: optim.Optimizer,
        notes: Mapping[str, Any],
        *,
        now: bool = False,
    ) -> None:
        """Keep the state after a step, if it is time for one; whole or not at all.

        Parameters
        ----------
        step : int
            Steps that are done.
        model, optimiser
            Of the model only what is trained is kept.
        notes : mapping
            What is to be known again, as JSON.
        now : bool
            Keep it in any case.
        """
        if step % self.every and not now:
            return
        trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
        state = {
            "step": step,
            "model": {name: w for name, w in model.state_dict().items() if name in trained},
            "optimiser": optimiser.state_dict(),
            "notes": json.dumps(notes),
        }
        self._write(_STEP, state)

    def _write(self, name: str, state: Mapping[str, Any]) -> None:
        """Write a file, whole or not at all; the state before the last one stays."""
        import torch

        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / f".{name}.{os.getpid()}"
        with partial.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        if name == _STEP and (self.folder / name).is_file():
            os.replace(self.folder / name, self.folder / _BEFORE)
        os.replace(partial, self.folder / name)

    def _read(self, name: str) -> dict[str, Any] | None:
        """Read a file; None where there is none, or none that can be read: that is set aside."""
        import torch

        path = self.folder / name
        if not path.is_file():
            return None
        try:
            found: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except PermissionError:
            raise
        except _UNREADABLE:
            os.replace(path, path.with_suffix(".broken"))
            return None
        return found


def _kept(step: int) -> str:
    return f"kept-{step}.pt"
