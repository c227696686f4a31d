"""Training that a kill does not undo: a state every so many steps, found again by what is trained.

Every step draws from generators seeded by its own number, so that a run which goes on from a state
ends as one that was never stopped, to the byte on the same machine and number of threads. States
lie outside the outputs of stages, which DVC removes before a run.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stages.models.store import default_root

if TYPE_CHECKING:
    from torch import nn, optim

_STEP = "step.pt"


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

    def resume(self, model: nn.Module, optimiser: optim.Optimizer) -> tuple[int, dict[str, Any]]:
        """Load the last state into model and optimiser; the step to go on with, and notes."""
        import torch

        path = self.folder / _STEP
        if not path.is_file():
            return 0, {}
        state = torch.load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"], strict=False)
        optimiser.load_state_dict(state["optimiser"])
        return int(state["step"]), json.loads(state["notes"])

    def keep(self, step: int, state: Mapping[str, Any]) -> None:
        """Keep tensors of a step for good, apart from the last state."""
        self._write(f"kept-{step}.pt", dict(state))

    def kept(self, step: int) -> dict[str, Any]:
        """What was kept of a step."""
        import torch

        path = self.folder / f"kept-{step}.pt"
        found: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
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
        """Write a file, whole or not at all."""
        import torch

        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / f".{name}.{os.getpid()}"
        torch.save(state, partial)
        os.replace(partial, self.folder / name)
