"""Files that hold other files, and files of the repository's own, damaged: read, or refused in one
line. Parquet, zip, images in a table, exports of Label Studio, keys of forms, published tables,
lists of ids, conf/."""

import base64
import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.annotation.intake import read_key
from stages.annotation.replies import Reply, read_replies
from stages.benchmarks.hf import HuggingFace
from stages.benchmarks.okvqa import OKVQA
from stages.benchmarks.selection import read_ids
from stages.benchmarks.threedsrbench import ThreeDSRBench
from stages.benchmarks.vlmevalkit import VLMEvalKit
from stages.models.detector.boxes import read_boxes
from stages.models.protocol import CallError
from stages.records.errors import UserError
from stages.reporting.published import read_capability, read_published, read_reference
from stages.workflow.compose import compose
from stages.workflow.folders import Folders
from tests.faults import book
from tests.faults.fuzz import PNG, Loader, counted, lines, sheet, some, tried, try_loader  # noqa: F401
from tests.faults.mangle import mangled
from tests.models.contract.cases import BOXES

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "data" / "reference"


def parquet() -> bytes:
    """Two rows as on the Hub."""
    image = {"bytes": PNG, "path": "0.png"}
    rows = [{"id": str(n), "question": "What?", "image": image, "answer": "cat"} for n in (1, 2)]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


def hugging_face(path: Path) -> list[Any]:
    named = {"id": "id", "question": "question", "image": "image", "reference": "answer"}
    found = HuggingFace(str(path.parent.parent), "own", "test", named, images_once=False).select()
    return [candidate.picture() for candidate in found.items]


def archive() -> bytes:
    """OK-VQA's questions and images, zipped."""
    out = io.BytesIO()
    ask = {"questions": [{"image_id": 1, "question_id": 15, "question": "?"}]}
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("q.json", json.dumps({"data_subtype": "val2014", **ask}))
        made.writestr("val2014/COCO_val2014_000000000001.jpg", PNG)
    return out.getvalue()


def okvqa(path: Path) -> list[Any]:
    there = {"folder": str(path.parent), "images": str(path.parent), "annotations": None}
    found = OKVQA(**there, questions="q.json", count=1).select()  # type: ignore[arg-type]
    return [candidate.picture() for candidate in found.items]


def vlmevalkit(path: Path) -> list[Any]:
    found = VLMEvalKit(str(path.parent), path.name, "own", images_once=False).select()
    return [candidate.picture() for candidate in found.items]


def raw3dsr(path: Path) -> object:
    return ThreeDSRBench(str(path.parent), path.name, str(path.parent), count=1).select()


def form_key(path: Path) -> object:
    folder = path.parents[2]
    found = Folders(folder)
    assert found.annotation_keys == path.parent
    return read_key(found, Reply("r.csv:1", path.stem, "a", "e1", {}))


def table(name: str) -> bytes:
    return (REFERENCE / name).read_bytes()


def published(path: Path) -> object:
    for other in REFERENCE.glob("*.csv"):
        if not (path.parent / other.name).exists():
            shutil.copy(other, path.parent)
    return read_published(path.parent), read_reference(path.parent)


_KEY = {
    "form": "f-0", "seed": 0, "axes": ["target"], "annotators": ["a"],
    "strata": [], "items": [],
}  # fmt: skip
_TSV = {
    "index": "1", "question": "What?", "A": "cat", "B": "cow", "answer": "A", "category": "c",
    "image": base64.b64encode(PNG).decode(),
}  # fmt: skip
_RAW = {
    "qid": "1", "image": "0.png", "qtype": "orientation", "relation": "viewpoint",
    "subject": "cat", "object1": "", "object2": "", "answer": "front",
}  # fmt: skip
_STUDIO = {
    "id": 1,
    "data": {"item": "e1", "form": "f"},
    "annotations": [
        {
            "id": 7,
            "completed_by": 1,
            "result": [
                {"from_name": "valid", "type": "choices", "value": {"choices": ["yes"]}},
                {"from_name": "note", "type": "textarea", "value": {"text": ["so"]}},
            ],
        }
    ],
}
LOADERS = {
    "Hugging Face, parquet": Loader("data/test-00000-of-00001.parquet", parquet(), hugging_face),
    "OK-VQA, zipped": Loader("all.zip", archive(), okvqa),
    "VLMEvalKit, images in the table": Loader("own.tsv", sheet("\t", _TSV), vlmevalkit),
    "3DSRBench, raw CSV": Loader("raw.csv", sheet(",", _RAW), raw3dsr, beside=True),
    "list of ids": Loader("ids.csv", b"id,note\n1,a\n2,\n", read_ids),
    "Label Studio's export": Loader(
        "s.json", json.dumps([_STUDIO]).encode(), lambda path: read_replies(path, {"1": "a"})
    ),
    "published tables: table1.csv": Loader("table1.csv", table("table1.csv"), published),
    "published tables: table4.csv": Loader("table4.csv", table("table4.csv"), published),
    "what is known from elsewhere": Loader(
        "capability.csv",
        table("capability.csv"),
        lambda path: read_capability(path.parent),
    ),
}


@pytest.mark.parametrize("name", LOADERS)
def test_a_damaged_container_is_read_or_refused_in_a_line(name: str, tmp_path: Path) -> None:
    try_loader(name, LOADERS[name], tmp_path, short=8)


def test_a_damaged_key_of_a_form_is_read_or_refused(tmp_path: Path) -> None:
    there = Folders(tmp_path).annotation_keys.relative_to(tmp_path)
    key = Loader(str(there / "f-0.json"), json.dumps(_KEY).encode(), form_key)
    try_loader("keys of forms", key, tmp_path, short=8)


CONFIGS = ("config.yaml", "verify.yaml", "judge/demo.yaml", "study/table1.yaml")
"""Composing takes half a second: few in the short form."""


@pytest.mark.parametrize("name", CONFIGS if book.LONG else CONFIGS[:1])
def test_a_damaged_file_of_conf_is_composed_or_refused(name: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    overrides = ["study=table1"] if name.startswith("study/") else []

    def composed(path: Path) -> object:
        return compose(tmp_path, overrides)

    good = (ROOT / "conf" / name).read_bytes()
    try_loader(f"conf/{name}", Loader(f"conf/{name}", good, composed), tmp_path, short=2)


def test_a_damaged_reply_of_a_detector_is_boxes_or_refused() -> None:
    from hypothesis import given

    @some(100, 3000)
    @given(mangled(f"Here:\n```json\n{BOXES}\n```".encode()))
    def all_of_them(data: bytes) -> None:
        tried["replies: boxes"] += 1
        try:
            read_boxes(data.decode("utf-8", "replace"))
        except CallError as error:
            assert "\n" not in error.reason  # noqa: PT017
        except UserError:
            pytest.fail("a reply is no fault of the user's")

    all_of_them()
