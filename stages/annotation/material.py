"""What an annotator sees of an edit: texts and images under names that say nothing.

No name of a model, a sample, a benchmark or a file, no status, no verdict and no order goes into
a form. The answer after the edit is there for accepted edits alone (nobody asked about the
others), so a form seals it until the annotator has judged the edit: see `Item.sealed`.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from stages.annotation.draw import Candidate, Draw
from stages.models.picture import Picture
from stages.records.answer import Answer
from stages.records.form import FormItem, FormKey
from stages.reporting.words import plain
from stages.stats.resampling import stream
from stages.workflow.folders import Folders
from stages.workflow.sections import AnnotationSettings

# Consonants without vowels and digits: no word, no number and no month for a spreadsheet to mend.
_LETTERS = "bcdfghjkmnpqrstvwxz"
_NAME_LENGTH = 8


@dataclass(frozen=True)
class Item:
    """One edit as it is shown."""

    id: str
    """Its opaque name."""
    question: str
    context: str
    """What the target was told beforehand; empty: nothing."""
    edits: tuple[Mapping[str, str], ...]
    """The edits so far, this one last: `change`, `appearance`, `keep`, `avoid`."""
    answer: str
    explanation: str
    new: Mapping[str, str] | None
    """`answer` and `explanation` after the edit; None where the target gave none."""
    images: Mapping[str, str]
    """`original`, `before` (this edit) and `edited` → SHA-256 of the PNG."""
    load: Callable[[str], Picture]
    """From SHA-256 to the picture."""

    @property
    def shown(self) -> dict[str, object]:
        """The texts, but for those after the edit."""
        return {
            "id": self.id,
            "question": self.question,
            "context": self.context,
            "edits": [dict(edit) for edit in self.edits],
            "answer": self.answer,
            "explanation": self.explanation,
        }

    @cached_property
    def after(self) -> bytes:
        """What is shown once the edit was called valid, as JSON."""
        return json.dumps(self.new, sort_keys=True).encode()

    def sealed(self, length: int) -> str:
        """`after`, filled up to a length and in base64: no glance into the file tells which edits
        have an answer. It is no lock: who wants to open it can."""
        return base64.b64encode(self.after.ljust(length)).decode()


def gather(drawn: Draw, folders: Folders, settings: AnnotationSettings) -> list[Item]:
    """The material of every edit that was drawn, under opaque names."""
    rng = stream(settings.seed, "annotation", "names")
    names: dict[str, None] = {}
    while len(names) < len(drawn.candidates):
        letters = rng.integers(len(_LETTERS), size=_NAME_LENGTH)
        names["".join(_LETTERS[i] for i in letters)] = None
    return [_item(name, one, folders) for name, one in zip(names, drawn.candidates, strict=True)]


def key(study: str, drawn: Draw, items: Sequence[Item], settings: AnnotationSettings) -> FormKey:
    """What the opaque names stand for. The form's name changes with whatever is shown in it."""
    rows = tuple(
        FormItem(
            id=item.id,
            sample_id=one.sample.id,
            target=one.cell.target,
            extractor=one.cell.extractor,
            editor=one.cell.editor,
            seed=one.cell.seed,
            position=one.attempt.position,
            attempt=one.attempt.attempt,
            edited=str(one.attempt.edited),
        )
        for item, one in zip(items, drawn.candidates, strict=True)
    )
    content = [[item.shown, item.after.decode(), dict(item.images)] for item in items]
    content.append([row.model_dump() for row in rows])
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    return FormKey(
        form=f"{re.sub('[^A-Za-z0-9_-]', '_', study)}-{hashlib.sha256(canonical).hexdigest()[:8]}",
        seed=settings.seed,
        axes=tuple(settings.strata),
        strata=tuple(drawn.strata),
        annotators=tuple(settings.annotators),
        items=rows,
    )


def in_order(items: Sequence[Item], settings: AnnotationSettings, annotator: str) -> list[Item]:
    """The items in an annotator's own order."""
    rng = stream(settings.seed, "annotation", "order", annotator)
    return [items[i] for i in rng.permutation(len(items))]


def _item(name: str, one: Candidate, folders: Folders) -> Item:
    places = (folders.prepare / "images", folders.edit(one.cell) / "images")

    def load(sha256: str) -> Picture:
        found = [place for place in places if (place / f"{sha256}.png").exists()]
        return Picture.load(Path(found[0] if found else places[-1]), sha256)

    original = one.sample.image
    return Item(
        id=name,
        question=legible(one.sample.question),
        context=legible(one.sample.system_prompt),
        edits=tuple(
            {
                "change": legible(step.change),
                "appearance": legible(step.appearance),
                "keep": legible(step.keep),
                "avoid": legible(step.avoid),
            }
            for step in one.steps
        ),
        answer=legible(one.before.answer),
        explanation=legible(one.before.explanation),
        new=_said(one.after),
        images={
            "original": original,
            "before": one.attempt.source or original,
            "edited": str(one.attempt.edited),
        },
        load=load,
    )


def _said(answer: Answer | None) -> Mapping[str, str] | None:
    if answer is None:
        return None
    return {"answer": legible(answer.answer), "explanation": legible(answer.explanation)}


def legible(text: str | None) -> str:
    """Text without characters that steer a page or the reading direction; its lines stay."""
    return "\n".join(plain(line).rstrip() for line in (text or "").splitlines()).strip()
