"""OK-VQA: questions about COCO photographs that need knowledge from beyond the image.

Reads the publisher's two JSON files (also inside their zip archives) and the images of COCO's 2014
splits. The split comes from the question file: the 2017 splits hold the same ids in other folders.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from stages.benchmarks import jsonstream
from stages.benchmarks.archive import ImageStore, Origin, open_data, raw_folder
from stages.benchmarks.fields import RowError, required, text, whole
from stages.benchmarks.protocol import Benchmark, Selection
from stages.benchmarks.selection import Candidate, Pool, Recipe
from stages.records.errors import UserError

ANNOTATIONS = Origin("https://okvqa.allenai.org/download.html", "CC BY 4.0")
IMAGES = Origin(
    "http://images.cocodataset.org/zips/val2014.zip", "photographs under Flickr's terms of use"
)


class OKVQA(Benchmark):
    """OK-VQA (Marino et al., CVPR 2019).

    Parameters
    ----------
    folder : str
        Folder of the JSON files, or of the zip archives that hold them.
    images : str
        Folder of the images, or of the zip archives that hold them.
    questions : str
        Name of the question file.
    annotations : str or None
        Name of the answer file; None: no references and no categories.
    count, seed, images_once, missing_images, ids
        The recipe, see `stages.benchmarks.selection.Recipe`.
    categories : sequence of str or None
        Only questions of these knowledge categories, as the answer file names them; None: all.
    """

    def __init__(
        self,
        folder: str = "data/raw/okvqa",
        images: str = "data/raw/coco",
        questions: str = "OpenEnded_mscoco_val2014_questions.json",
        annotations: str | None = "mscoco_val2014_annotations.json",
        count: int | None = 160,
        seed: int = 0,
        images_once: bool = True,
        missing_images: str = "error",
        ids: str | None = None,
        categories: Sequence[str] | None = None,
    ) -> None:
        self._folder, self._questions, self._annotations = folder, questions, annotations
        self._images = ImageStore(raw_folder(images), IMAGES)
        self._recipe = Recipe.of(count, seed, images_once, missing_images, ids)
        self._categories = None if categories is None else frozenset(categories)

    def select(self) -> Selection:
        """Choose the questions."""
        pool = Pool(self._recipe)
        content = self._read(self._questions, "questions")
        split = content.get("data_subtype")
        if not isinstance(split, str) or not re.fullmatch(r"(train|val|test)\d{4}", split):
            raise UserError(
                self._questions, f"data_subtype is {split!r}, no COCO split", "Get it again."
            )
        notes = self._notes(pool)
        for row, entry in enumerate(content["questions"], 1):
            where = f"{self._questions}: question {row}"
            try:
                self._offer(pool, where, split, entry, notes)
            except RowError as error:
                pool.skip(where, str(error))
        return pool.choose(self._questions)

    def _offer(
        self, pool: Pool, where: str, split: str, entry: Any, notes: Mapping[int, tuple[str, str]]
    ) -> None:
        if not isinstance(entry, dict):
            raise RowError(f"is {type(entry).__name__}, not an object")
        number, image = whole(entry, "question_id"), whole(entry, "image_id")
        question = required(entry, "question")
        category, answer = notes.get(number, ("", ""))
        unwanted = self._categories is not None and category not in self._categories
        names = coco_names(split, image)
        pool.offer(
            f"okvqa-{number}",
            where,
            "other_category" if unwanted else None,
            lambda: Candidate(
                id=f"okvqa-{number}",
                domain="okvqa",
                question=question,
                image=names[0],
                read=partial(self._images.read, names, where),
                where=where,
                category=category,
                group=category or None,
                reference=answer or None,
                source=names[0],
            ),
        )

    def _notes(self, pool: Pool) -> dict[int, tuple[str, str]]:
        """Question id → (category, reference); both empty where unknown."""
        if self._annotations is None:
            return {}
        content = self._read(self._annotations, "annotations")
        kinds = content.get("question_types")
        names = kinds if isinstance(kinds, dict) else {}
        notes: dict[int, tuple[str, str]] = {}
        for row, entry in enumerate(content["annotations"], 1):
            where = f"{self._annotations}: annotation {row}"
            try:
                if not isinstance(entry, dict):
                    raise RowError(f"is {type(entry).__name__}, not an object")
                number, kind = whole(entry, "question_id"), text(entry, "question_type") or ""
                if number in notes:
                    raise RowError(f"question_id {number} occurs before")
                notes[number] = str(names.get(kind, kind)), majority(entry) or ""
            except RowError as error:
                pool.note(where, str(error))
        return notes

    def _read(self, name: str, member: str) -> dict[str, Any]:
        with open_data(raw_folder(self._folder), name, ANNOTATIONS) as stream:
            content = jsonstream.load(stream, name)
        if not isinstance(content, dict) or not isinstance(content.get(member), list):
            raise UserError(name, f"has no list {member!r}", "Check that it is OK-VQA's own file.")
        return content


def coco_names(split: str, image: int) -> tuple[str, ...]:
    """Names under which an image of a COCO split is looked for, the publisher's first."""
    official, plain = f"COCO_{split}_{image:012d}.jpg", f"{image:012d}.jpg"
    return f"{split}/{official}", official, f"{split}/{plain}", f"images/{plain}", plain


def majority(entry: Mapping[str, Any]) -> str | None:
    """The answer given by most annotators, in their own words; of equals, the first given.

    OK-VQA's ``answer`` is stemmed ("race" for "racing") and so is no reference. VQA v2, which has
    no ``raw_answer``, gives the consensus as ``multiple_choice_answer``.
    """
    given = entry.get("answers")
    if not isinstance(given, list):
        raise RowError("answers is no list")
    raw = [answer.get("raw_answer") for answer in given if isinstance(answer, dict)]
    words = [answer.strip() for answer in raw if isinstance(answer, str) and answer.strip()]
    if not words:
        return text(entry, "multiple_choice_answer")
    return Counter(words).most_common(1)[0][0]
