"""3DSRBench: spatial questions in three dimensions; here orientation and its relatives.

Reads whichever of the publisher's files there is: the TSV for VLMEvalKit (images inside), its
circular form, the parquet file, the same rows as JSONL (images by COCO address), and the raw CSV.

A row whose id ends in ``-flip`` is about the photograph mirrored left to right. In the TSV its
image is mirrored already; by address it names the photograph as it was, which must be mirrored
first. Such rows are left out by default, because each repeats an unflipped one. Ids with a further
number (``-1``, ``-flip-1``) repeat a row with its options in another order: always left out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from stages.benchmarks import hf, raw3dsr, vlmevalkit
from stages.benchmarks.archive import ImageStore, Origin, raw_folder, safe_name
from stages.benchmarks.fields import RowError, identifier, required, text
from stages.benchmarks.options import reference_of, with_options
from stages.benchmarks.protocol import Benchmark, Selection
from stages.benchmarks.selection import Candidate, Pool, Recipe
from stages.benchmarks.table import read_rows
from stages.records.errors import UserError

CATEGORIES = (
    "orientation_in_front_of",
    "orientation_on_the_left",
    "orientation_viewpoint",
    "multi_object_facing",
    "multi_object_viewpoint_towards_object",
    "multi_object_parallel",
    "multi_object_same_direction",
)
FILES = Origin("https://huggingface.co/datasets/ccvl/3DSRBench", "CC BY 4.0")
IMAGES = Origin(
    "http://images.cocodataset.org/zips/train2017.zip or the data set's coco_images.zip",
    "photographs under Flickr's terms of use",
)
_ID = re.compile(r"(?P<base>.+?)(?P<flip>-flip)?(?P<turn>-\d+)?")


class Name(NamedTuple):
    """What a row's id says."""

    base: str
    """The id of the question, whatever the variant."""
    flip: bool
    turned: bool
    """Whether it repeats a row with its options in another order."""


class _Read(NamedTuple):
    """A row before it is judged, whatever file it comes from."""

    where: str
    row: Mapping[str, Any]
    image: str
    read: partial[bytes]
    mirror: bool
    """Whether the image of a flipped row must still be mirrored."""


class ThreeDSRBench(Benchmark):
    """3DSRBench (Ma et al., 2024).

    Parameters
    ----------
    folder : str
        Folder of the file.
    file : str
        Name of the file; its ending tells the form (``.tsv``, ``.csv``, ``.parquet``, ``.jsonl``).
    images : str
        Folder of the COCO images, or of zips of them, for forms without images inside.
    count, seed, images_once, missing_images, ids
        The recipe, see `stages.benchmarks.selection.Recipe`.
    categories : sequence of str
        Question categories that are candidates.
    flipped : bool
        Whether flipped rows are candidates too; of a row and its flipped twin one stays at most.
    """

    def __init__(
        self,
        folder: str = "data/raw/3dsrbench",
        file: str = "3dsrbench_v1_vlmevalkit.tsv",
        images: str = "data/raw/coco",
        count: int | None = 60,
        seed: int = 0,
        images_once: bool = True,
        missing_images: str = "error",
        ids: str | None = None,
        categories: Sequence[str] = CATEGORIES,
        flipped: bool = False,
    ) -> None:
        self._path = raw_folder(folder) / file
        if self._path.suffix == ".parquet":
            hf.need_pyarrow("3dsrbench")
        self._store = ImageStore(raw_folder(images), IMAGES)
        self._recipe = Recipe.of(count, seed, images_once, missing_images, ids)
        self._categories, self._flipped = frozenset(categories), flipped

    def select(self) -> Selection:
        """Choose the questions."""
        if not self._path.is_file():
            raise UserError(str(self._path), "the file is missing", FILES.remedy(self._path))
        pool = Pool(self._recipe)
        photographs: dict[str, str] = {}
        later = []
        for found in self._rows(pool):
            try:
                name = name_of(found.row)
                if name.flip and not found.mirror:
                    later.append((found, name))  # its photograph is that of its unflipped twin
                    continue
                if not name.flip:
                    photographs[name.base] = found.image
                self._offer(pool, found, name, found.image)
            except RowError as error:
                pool.skip(found.where, str(error))
        for found, name in later:
            try:
                self._offer(pool, found, name, photographs.get(name.base, found.image))
            except RowError as error:
                pool.skip(found.where, str(error))
        return pool.choose(str(self._path))

    def _offer(self, pool: Pool, found: _Read, name: Name, image: str) -> None:
        row, where = found.row, found.where
        if name.turned:
            pool.leave("options_in_another_order")
            return
        category = required(row, "category").lower().replace(" ", "_")
        number = f"3dsrbench-{name.base}{'-flip' if name.flip else ''}"
        if category not in self._categories:
            objection: str | None = "other_category"
        else:
            objection = "flipped_row" if name.flip and not self._flipped else None
        options, answer = hf.options_of_row(row), required(row, "answer")
        reference = reference_of(answer, options)
        if reference is None or not options:
            raise RowError(f"answer {answer[:40]!r} names no option")
        question = required(row, "question")
        pool.offer(
            number,
            where,
            objection,
            lambda: Candidate(
                id=number,
                domain="3dsrbench",
                question=with_options(question, options),
                image=image,
                read=found.read,
                where=where,
                category=category,
                group=category,
                twin=name.base,
                mirrored=name.flip and found.mirror,
                reference=reference,
                source=text(row, "image_url") or where,
            ),
        )

    def _rows(self, pool: Pool) -> Iterator[_Read]:
        if self._path.suffix == ".tsv":
            yield from self._embedded(pool)
        elif self._path.suffix == ".parquet":
            for place, cells in hf.rows(self._path):
                yield from self._addressed(pool, f"{self._path.name}: row {place.row}", cells)
        else:
            raw = self._path.suffix == ".csv"
            needed = raw3dsr.COLUMNS if raw else ()
            for where, row, fault in read_rows(self._path, needed, FILES):
                if fault is not None:
                    pool.skip(where, fault)
                    continue
                try:
                    made: Mapping[str, Any] = raw3dsr.worded(row) if raw else row
                except raw3dsr.NoWordingError:
                    pool.leave("other_category")
                except RowError as error:
                    pool.skip(where, str(error))
                else:
                    yield from self._addressed(pool, where, made)

    def _embedded(self, pool: Pool) -> Iterator[_Read]:
        table = vlmevalkit.open_table(
            self._path, ("question", "answer", "category", "image"), FILES
        )
        for line in vlmevalkit.lines(table, "image"):
            if isinstance(line, tuple):
                pool.skip(*line)
            elif line.refers:
                pool.skip(line.where, "holds no image")
            else:
                read = partial(vlmevalkit.read_image, table, line.row, "image")
                yield _Read(line.where, line.cells, line.image, read, mirror=False)

    def _addressed(self, pool: Pool, where: str, row: Mapping[str, Any]) -> Iterator[_Read]:
        try:
            names = image_names(required(row, "image_url"))
        except RowError as error:
            pool.skip(where, str(error))
        else:
            yield _Read(where, row, names[0], partial(self._store.read, names, where), mirror=True)


def name_of(row: Mapping[str, Any]) -> Name:
    """Read a row's id, which stands under ``qid`` or else under ``index``."""
    found = _ID.fullmatch(identifier(row, "qid" if text(row, "qid") else "index"))
    assert found is not None  # the pattern fits any text that is not empty
    return Name(found["base"], bool(found["flip"]), bool(found["turn"]))


def image_names(address: str) -> tuple[str, ...]:
    """Names under which the image of an address is looked for: with its split, then without."""
    name = safe_name(urlsplit(address).path.lstrip("/"))
    if name is None or not Path(name).suffix:
        raise RowError(f"image_url {address[:200]!r} names no file")
    parts = name.split("/")
    return "/".join(parts[-2:]), f"images/{parts[-1]}", parts[-1]
