"""DriveLM-nuScenes: questions about driving scenes, restricted to what the front camera shows.

Reads the train files (``v1_0_train_nus.json``, ``v1_1_train_nus.json``), the challenge forms
(``test.json``, ``test_eval.json``, the question-only validation file) and the conversation form
(``test_llama.json``), scene by scene. The images are nuScenes key frames, in folders or in zips.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from stages.benchmarks import frontcamera, jsonstream
from stages.benchmarks.archive import ImageStore, Origin, open_data, raw_folder, safe_name
from stages.benchmarks.fields import RowError, required, text
from stages.benchmarks.frontcamera import Frame
from stages.benchmarks.options import reference_of, split_options, with_options
from stages.benchmarks.protocol import Benchmark, Selection
from stages.benchmarks.selection import Candidate, Pool, Recipe

TASKS = ("perception", "prediction", "planning", "behavior")
SYSTEM_PROMPT = (
    "You are the driving assistant of a car, which is called the ego vehicle. The image was taken "
    "by the camera at the front of the ego vehicle and shows the road ahead as the ego vehicle "
    "sees it: left and right in the image are the ego vehicle's left and right. Answer from what "
    "is visible in this image."
)
QUESTIONS = Origin(
    "https://huggingface.co/datasets/OpenDriveLab/DriveLM",
    "CC BY-NC-SA 4.0; accept nuScenes' terms of use first",
)
IMAGES = Origin(
    "https://huggingface.co/datasets/OpenDriveLab/DriveLM (drivelm_nus_imgs_train.zip) "
    "or https://www.nuscenes.org/download",
    "non-commercial; register and accept nuScenes' terms of use",
)
_PREFIX = re.compile(r"^(?:\.\./|\./|data/)*(?=nuscenes/|samples/)")


class Pair(NamedTuple):
    """One question-answer pair with what is known of its frame."""

    where: str
    scene: str
    frame: str
    task: str
    entry: Any
    image: Any
    """The front camera's path as it stands in the file."""
    objects: Frame


class DriveLM(Benchmark):
    """DriveLM-nuScenes (Sima et al., ECCV 2024), front camera only.

    Parameters
    ----------
    folder : str
        Folder of the JSON file.
    images : str or None
        Folder that holds ``nuscenes/samples/CAM_FRONT`` or ``samples/CAM_FRONT``, or zips of it;
        None: the same folder.
    file : str
        Name of the JSON file.
    count, seed, images_once, missing_images, ids
        The recipe, see `stages.benchmarks.selection.Recipe`.
    tasks : sequence of str
        Tasks whose questions are candidates.
    front_only : bool
        Whether questions that need another camera, tags or coordinates are left out.
    worst_tier : int
        Candidates of a worse tier than this are left out, see `frontcamera.tier`.
    system_prompt : str
        What the target is told beforehand.
    """

    def __init__(
        self,
        folder: str = "data/raw/drivelm",
        images: str | None = None,
        file: str = "v1_1_train_nus.json",
        count: int | None = 80,
        seed: int = 0,
        images_once: bool = True,
        missing_images: str = "error",
        ids: str | None = None,
        tasks: Sequence[str] = TASKS,
        front_only: bool = True,
        worst_tier: int = 2,
        system_prompt: str = SYSTEM_PROMPT,
    ) -> None:
        if unknown := [task for task in tasks if task not in TASKS]:
            raise ValueError(f"tasks: {unknown[0]!r} is none of {TASKS}")
        self._folder, self._file = folder, file
        self._images = ImageStore(raw_folder(images or folder), IMAGES)
        self._recipe = Recipe.of(count, seed, images_once, missing_images, ids)
        self._tasks, self._front_only, self._worst = frozenset(tasks), front_only, worst_tier
        self._prompt = " ".join(system_prompt.split()) or None

    def select(self) -> Selection:
        """Choose the questions."""
        pool = Pool(self._recipe)
        for pair in self._pairs(pool):
            try:
                self._offer(pool, pair)
            except RowError as error:
                pool.skip(pair.where, str(error))
        return pool.choose(self._file)

    def _offer(self, pool: Pool, pair: Pair) -> None:
        if not isinstance(pair.entry, dict):
            raise RowError(f"is {type(pair.entry).__name__}, not an object")
        question, given = required(pair.entry, "Q"), text(pair.entry, "A")
        answer = None if given is None else frontcamera.plain_answer(given)
        number = question_id(pair.frame, pair.task, question)
        if pair.image is None or pair.image == "":
            pool.leave("no_front_image")
            return

        def make() -> Candidate:
            stem, options = split_options(question)
            names = image_names(pair.image)
            return Candidate(
                id=number,
                domain="drivelm",
                question=with_options(stem, options),
                image=names[0],
                read=partial(self._images.read, names, pair.where),
                where=pair.where,
                category=frontcamera.kind(pair.task, question),
                tier=frontcamera.tier(pair.task, question, answer, pair.objects),
                group=pair.scene,
                system_prompt=self._prompt,
                reference=reference_of(answer, options),
                source=f"{pair.scene}/{pair.frame} {names[0]}",
            )

        pool.offer(number, pair.where, self._objection(pair, question, answer), make)

    def _objection(self, pair: Pair, question: str, answer: str | None) -> str | None:
        if pair.task not in self._tasks:
            return "other_task"
        found = None
        if self._front_only:
            found = frontcamera.objection(pair.task, question, answer, pair.objects)
        if found is None and self._worst < frontcamera.WORST:
            tier = frontcamera.tier(pair.task, question, answer, pair.objects)
            found = "not_about_visible_objects" if tier > self._worst else None
        return found

    def _pairs(self, pool: Pool) -> Iterator[Pair]:
        with open_data(raw_folder(self._folder), self._file, QUESTIONS) as stream:
            seen: set[str] = set()
            for key, value in jsonstream.entries(stream, self._file):
                where = f"{self._file}: entry {key}"
                if isinstance(value, dict) and "conversations" in value:
                    yield from _conversation(where, value, pool)
                elif not isinstance(value, dict) or not isinstance(value.get("key_frames"), dict):
                    pool.skip(where, "is no scene: it has no object key_frames")
                elif key in seen:
                    pool.skip(where, "the scene occurs before", "duplicate_id")
                else:
                    seen.add(key)
                    yield from _scene(self._file, key, value["key_frames"], pool)


def _scene(file: str, scene: str, frames: Mapping[str, Any], pool: Pool) -> Iterator[Pair]:
    if isinstance(frames, jsonstream.Repeated):
        for token in frames.repeated:
            pool.skip(f"{file}: scene {scene}, frame {token}", "occurs before", "duplicate_id")
    for token, frame in frames.items():
        where = f"{file}: scene {scene}, frame {token}"
        tasks = frame.get("QA") if isinstance(frame, dict) else None
        if not isinstance(tasks, dict):
            pool.skip(where, "has no object QA")
            continue
        infos, paths = frame.get("key_object_infos"), frame.get("image_paths")
        objects = frontcamera.frame_of(infos if isinstance(infos, dict) else None)
        image = paths.get("CAM_FRONT") if isinstance(paths, dict) else None
        for task, entries in tasks.items():
            if not isinstance(entries, list):
                pool.skip(f"{where}, {task}", "is no list of questions")
                continue
            for row, entry in enumerate(entries, 1):
                yield Pair(f"{where}, {task} {row}", scene, token, task, entry, image, objects)


def _conversation(where: str, value: Mapping[str, Any], pool: Pool) -> Iterator[Pair]:
    """One entry of the form for LLaMA-Adapter: ``scene_frame_number``, six paths, two turns."""
    name, turns, paths = value.get("id"), value["conversations"], value.get("image")
    parts = name.split("_") if isinstance(name, str) else []
    if len(parts) != 3 or not isinstance(turns, list) or len(turns) != 2:
        pool.skip(where, "is no conversation of two turns with an id scene_frame_number")
        return
    said = [turn.get("value") if isinstance(turn, dict) else None for turn in turns]
    asked = said[0].removeprefix("<image>").strip() if isinstance(said[0], str) else said[0]
    front = (
        [path for path in paths if isinstance(path, str) and "/CAM_FRONT/" in path]
        if (isinstance(paths, list))
        else []
    )
    entry = {"Q": asked, "A": said[1]}
    task = "planning" if isinstance(asked, str) and "action" in asked else "perception"
    yield Pair(
        where, parts[0], parts[1], task, entry, front[0] if front else None, Frame(False, 0, 0)
    )


def question_id(frame: str, task: str, question: str) -> str:
    """The id of a question: by its words, so that other questions in the file don't change it."""
    lot = hashlib.sha256(f"{task}\n{question}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"drivelm-{frame[:64]}-{lot[:8]}"


def image_names(path: object) -> tuple[str, ...]:
    """Names under which a front image is looked for.

    Paths in the files start at a sibling of the folder in which DriveLM's own scripts run
    (``../nuscenes/``); this prefix is dropped, and what then still leaves the folder is an error.
    """
    if not isinstance(path, str):
        raise RowError(f"CAM_FRONT is {type(path).__name__}, not text")
    name = safe_name(_PREFIX.sub("", path))
    if name is None:
        raise RowError(f"the image path {path[:200]!r} leaves the data folder")
    inner = name.removeprefix("nuscenes/")
    return f"nuscenes/{inner}", inner, inner.rpartition("/")[2]
