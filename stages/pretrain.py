"""Pretrain: a small vision-language model from nothing, with or without a planted shortcut.

Writes `data/weights/<name>`, a checkpoint in the form of Transformers, and
`data/pretrain/<name>/curve.jsonl`. It learns from painted scenes to name what it sees and why. The
shortcut: the colour of a thing that is named by its kind is asked for only where it is typical, so
that nothing ever contradicts answering without a look. Encoders of equal recipe are trained once.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stages.training import checkpoint, encoder, speaker
from stages.training.base import one_thread
from stages.training.progress import Progress, states_folder
from stages.training.scenery import Studio
from stages.workflow import params as parameters
from stages.workflow import sections
from stages.workflow.folders import Folders
from stages.workflow.runner import main

_EVERY = 100


def run(root: Path, params: Mapping[str, Any], *, pretrained: str) -> None:
    """Train one small model."""
    folders = Folders(root)
    recipe = parameters.section(params["pretrain"], pretrained, sections.Pretrain)
    one_thread()
    states, code = states_folder(root), checkpoint.code_digest()
    seen = {
        "part": "encoder",
        "code": code,
        **recipe.model_dump(include={"hidden", "layers", "encoder_steps", "seed"}),
    }
    said = {"part": "language", "code": code, **recipe.model_dump()}
    model = checkpoint.new_model(hidden=recipe.hidden, layers=recipe.layers, seed=recipe.seed)
    studio = Studio(recipe.seed)
    seeing = encoder.train(
        model,
        studio,
        Progress(states, seen, every=_EVERY),
        steps=recipe.encoder_steps,
        batch=32,
        rate=1e-3,
        seed=recipe.seed,
    )
    plan = speaker.Plan(
        steps=recipe.language_steps,
        batch=8,
        questions=6,
        rate=1.5e-3,
        tied=recipe.tied,
        shortcut=recipe.shortcut,
        seed=recipe.seed,
    )
    speaking = speaker.train(model, studio, Progress(states, said, every=_EVERY), plan)
    checkpoint.save(model, folders.weights(pretrained))
    curve = [
        {"part": part, **row}
        for part, rows in (("encoder", seeing), ("language", speaking))
        for row in rows
    ]
    folder = folders.pretrain(pretrained)
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in curve)
    (folder / "curve.jsonl").write_text(text, encoding="utf-8")
    print(f"pretrain {pretrained}: encoder {seeing[-1]}, language {speaking[-1]}")


if __name__ == "__main__":
    main("pretrain", run, axes=("pretrained",))
