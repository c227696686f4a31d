"""What an adapter is trained on: questions with the right answer, to originals and to edits.

The label of an original is the publisher's answer; that of an edited image is given in a file, or
follows from the edit where question and edit are of the built-in world.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from stages.models.demo.changes import read_changes, revise
from stages.models.demo.world import UNCLEAR, Features, Scene, decide, understand
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.sample import Sample
from stages.records.tuning import Images, Split

Labels = Mapping[tuple[str, int], str]
"""(sample id, position) → the right answer."""


class Example(NamedTuple):
    """One question about one image, with the right answer."""

    sample: Sample
    images: Images
    position: int
    image: str
    """SHA-256 of the PNG."""
    label: str
    mask: str | None
    """SHA-256 of the mask of the edit; None for an original without any."""


def originals(samples: Iterable[Sample], masks: Mapping[str, str]) -> list[Example]:
    """The originals whose answer is known; ``masks`` names the mask of each sample's first edit."""
    return [
        Example(s, "original", 0, s.image, s.reference, masks.get(s.id))
        for s in samples
        if s.reference
    ]


def counterfactuals(
    samples: Iterable[Sample],
    attempts: Iterable[Attempt],
    labels: Labels | None,
    *,
    verified: bool,
) -> list[Example]:
    """Edited images with the answer that the edits make right.

    Parameters
    ----------
    samples : iterable of Sample
    attempts : iterable of Attempt
    labels : mapping or None
        Right answers; None: they follow from the instructions.
    verified : bool
        Only edits that the gate accepted; otherwise every first attempt that gave an image, as if
        there were no gate.
    """
    known = {sample.id: sample for sample in samples}
    done: dict[str, list[str]] = {}
    made = []
    for attempt in sorted(attempts, key=lambda a: (a.sample_id, a.position, a.attempt)):
        sample = known.get(attempt.sample_id)
        usable = attempt.status is Status.OK if verified else attempt.attempt == 1
        if sample is None or attempt.edited is None or not usable:
            continue
        done.setdefault(sample.id, []).append(attempt.instruction)
        place = (sample.id, attempt.position)
        label = labels.get(place) if labels is not None else label_of(sample, done[sample.id])
        if label is not None:
            made.append(
                Example(
                    sample, "counterfactual", attempt.position, attempt.edited, label, attempt.mask
                )
            )
    return made


def label_of(sample: Sample, instructions: Sequence[str]) -> str | None:
    """The answer that follows from edits of the built-in world; None where it does not."""
    question = understand(sample.question)
    if question is None:
        return None
    scene = Scene({kind: Features() for kind in question.kinds})
    for instruction in instructions:
        changes = read_changes(instruction)
        if not changes:
            return None
        scene = revise(scene, changes[0])
    answer = decide(question, scene).answer
    return None if answer == UNCLEAR else answer


def masks_of(attempts: Iterable[Attempt]) -> dict[str, str]:
    """The mask of each sample's first accepted edit."""
    found: dict[str, str] = {}
    for attempt in sorted(attempts, key=lambda a: (a.sample_id, a.position, a.attempt)):
        if attempt.status is Status.OK and attempt.mask is not None:
            found.setdefault(attempt.sample_id, attempt.mask)
    return found


def check(splits: Mapping[Split, list[Example]], taught: list[Example]) -> None:
    """There is something to train on and something to look at, and no scene is in both."""
    for split, those in splits.items():
        if not any(e.images == "counterfactual" for e in those):
            raise UserError(
                f"finetune: {split}",
                "has no accepted counterfactual with a known answer",
                "Raise the number of samples, or look at data/edit and the labels.",
            )
    shared = {e.image for e in taught} & {e.image for e in splits["held_out"]}
    groups = {e.sample.image for e in taught} & {e.sample.image for e in splits["held_out"]}
    if shared or groups:
        raise UserError("params.yaml: tuning", "a held-out image is trained on", "Split by scene.")


def read_labels(path: Path) -> Labels:
    """Right answers to edited images: a CSV with sample_id, position, answer."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        return {(row["sample_id"], int(row["position"])): row["answer"] for row in rows}
    except FileNotFoundError:
        raise UserError(
            str(path), "the file is missing", "Write it, or set labels: null."
        ) from None
    except (KeyError, ValueError) as error:
        raise UserError(
            str(path), f"can't be read ({error})", "Give columns sample_id, position, answer."
        ) from None
