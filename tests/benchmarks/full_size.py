"""Synthetic files of the published sizes, to be loaded by hand: not collected by pytest.

    python tests/benchmarks/full_size.py FOLDER make
    /usr/bin/time -v python tests/benchmarks/full_size.py FOLDER okvqa|tsv|parquet|drivelm

The folder takes about 1 GB. Bounds: 60 seconds and 1 GiB for each.
"""

import base64
import csv
import json
import random
import sys
import time
import zipfile
from pathlib import Path

import cv2
import numpy as np

from stages.benchmarks.drivelm import DriveLM
from stages.benchmarks.okvqa import OKVQA
from stages.benchmarks.protocol import Benchmark
from stages.benchmarks.threedsrbench import CATEGORIES, ThreeDSRBench

SCENES, FRAMES = 696, 4072


def jpeg(seed: int, width: int = 64, height: int = 48, padding: int = 0) -> bytes:
    """A small photograph-like JPEG, followed by so many bytes that a decoder ignores."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return cv2.imencode(".jpg", pixels)[1].tobytes() + bytes(padding)


def make_tsv(path: Path, rows: int = 5157, kilobytes: int = 52) -> None:
    """372 MB: 5,157 rows of 72 kB."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(["index", "qid", "question", *"ABCD", "answer", "category", "image"])
        for row in range(rows):
            image = base64.b64encode(jpeg(row % 2000, padding=kilobytes << 10)).decode()
            qid = f"Q{row // 2:07d}" + ("-flip" if row % 2 else "")
            kind = CATEGORIES[row // 2 % len(CATEGORIES)]
            cells = ["Which side faces us?", "front", "left", "nan", "", "A", kind, image]
            writer.writerow([row, qid, *cells])


def make_parquet(path: Path, rows: int = 5157) -> None:
    """The rows of the TSV, with addresses in place of images."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    listed = [
        {
            "index": f"Q{row // 2:07d}" + ("-flip" if row % 2 else ""),
            "question": "Which side faces us?",
            **{"A": "front", "B": "left", "C": None, "D": None, "answer": "A"},
            "category": CATEGORIES[row // 2 % len(CATEGORIES)],
            "image_source": "MS-COCO",
            "image_url": f"http://images.cocodataset.org/train2017/{row // 2:012d}.jpg",
        }
        for row in range(rows)
    ]
    pq.write_table(pa.Table.from_pylist(listed), path)


def make_drivelm(path: Path, pairs: int = 400_000, pretty: bool = True) -> None:
    """400,000 pairs in 4,072 frames of 696 scenes, worded like the published ones."""
    draw = random.Random(0)
    tagged = (
        "What is the observed status of object {}?",
        "What actions could the ego vehicle take based on {}? Why take this action?",
        "Would {} be in the moving direction of the ego vehicle?",
    )
    plain = (
        ("planning", "What is the target action of the ego vehicle?", "Go straight."),
        ("planning", "What is the traffic signal that the ego vehicle should pay attention to?",
         "Red light."),
        ("perception", "What are objects to the front of the ego car?", "There are two cars."),
        ("perception", "What are objects to the back of the ego car?", "There is one bus."),
        ("behavior", "Predict the behavior of the ego vehicle.", "The ego vehicle is stopped."),
    )  # fmt: skip
    scenes: dict[str, dict] = {}
    share = pairs // FRAMES + 1
    left = pairs
    for number in range(FRAMES):
        tags = [
            f"<c{k},CAM_{draw.choice(('FRONT', 'BACK'))},{draw.randrange(1600)}.0,450.5>"
            for k in range(1, 6)
        ]
        tasks: dict[str, list] = {
            t: [] for t in ("perception", "prediction", "planning", "behavior")
        }
        for row in range(min(share, left)):
            if row < len(plain):
                task, question, answer = plain[row]
            else:
                task = draw.choice(("perception", "prediction", "planning"))
                question = draw.choice(tagged).format(draw.choice(tags)) + f" ({row})"
                answer = f"Because {draw.choice(tags)} is in front of it, it should brake gently."
            blank = dict.fromkeys(("C", "con_up", "con_down", "cluster", "layer"))
            tasks[task].append({"Q": question, "A": answer, **blank})
        left -= min(share, left)
        infos = {
            tag: {"Category": "Vehicle", "Status": None, "Visual_description": "Brown SUV.",
                  "2d_bbox": [1.0, 2.0, 3.0, 4.0]}
            for tag in tags
        }  # fmt: skip
        image = f"../nuscenes/samples/CAM_FRONT/n{number:06d}.jpg"
        scene = scenes.setdefault(
            f"scene{number % SCENES:04d}", {"scene_description": "It drives.", "key_frames": {}}
        )
        scene["key_frames"][f"frame{number:06d}"] = {
            "key_object_infos": infos, "QA": tasks, "image_paths": {"CAM_FRONT": image},
        }  # fmt: skip
    path.write_text(json.dumps(scenes, indent=4 if pretty else None), encoding="utf-8")


def make_okvqa(folder: Path, questions: int = 5046) -> None:
    """The val question file with ten answers each, and an archive of 40,504 images."""
    listed, answers = [], []
    for number in range(questions):
        ids = {"image_id": number + 1, "question_id": (number + 1) * 10 + 5}
        listed.append({**ids, "question": "What is this used for?"})
        given = [
            {"answer_id": k, "raw_answer": "racing", "answer_confidence": "yes", "answer": "race"}
            for k in range(1, 11)
        ]
        kind = ("one", "two", "three")[number % 3]
        answers.append({**ids, "answer_type": "other", "question_type": kind, "answers": given})
    name = "OpenEnded_mscoco_val2014_questions.json"
    (folder / name).write_text(json.dumps({"data_subtype": "val2014", "questions": listed}))
    (folder / "mscoco_val2014_annotations.json").write_text(
        json.dumps({"question_types": {"one": "Sports"}, "annotations": answers})
    )
    with zipfile.ZipFile(folder / "val2014.zip", "w") as archive:
        for number in range(40_504):
            archive.writestr(
                f"val2014/COCO_val2014_{number:012d}.jpg", jpeg(number) if number < 6000 else b"x"
            )


def main(folder: Path, what: str) -> None:
    """Make the files, or load one of them and say how long it took."""
    if what == "make":
        folder.mkdir(parents=True, exist_ok=True)
        make_tsv(folder / "bench.tsv")
        make_parquet(folder / "bench.parquet")
        make_drivelm(folder / "drivelm.json")
        make_okvqa(folder)
        images = folder / "photos"
        (images / "train2017").mkdir(parents=True, exist_ok=True)
        (images / "nuscenes/samples/CAM_FRONT").mkdir(parents=True, exist_ok=True)
        for number in range(FRAMES):
            (images / f"train2017/{number:012d}.jpg").write_bytes(jpeg(number))
            (images / f"nuscenes/samples/CAM_FRONT/n{number:06d}.jpg").write_bytes(jpeg(number))
        return
    photos = str(folder / "photos")
    loaders: dict[str, Benchmark] = {
        "okvqa": OKVQA(folder=str(folder), images=str(folder)),
        "tsv": ThreeDSRBench(folder=str(folder), file="bench.tsv"),
        "parquet": ThreeDSRBench(folder=str(folder), file="bench.parquet", images=photos),
        "drivelm": DriveLM(folder=str(folder), file="drivelm.json", images=photos),
    }
    begun = time.perf_counter()
    chosen = loaders[what].select()
    seen = len(chosen.items) + sum(chosen.left_out.values())
    print(f"{what}: {len(chosen.items)} of {seen} rows, {time.perf_counter() - begun:.1f} s")
    print(dict(chosen.left_out))
    for item in chosen.items:
        item.picture()
    print(f"with all pictures: {time.perf_counter() - begun:.1f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
