"""Every loader on thousands of damaged files: read, or refused in one line.

Nothing else may come out: no other exception, no default in place of what can't be read. A few
inputs each; `make soak` has many.
"""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from stages import plan
from stages.annotation.replies import read_replies
from stages.benchmarks.drivelm import DriveLM
from stages.benchmarks.okvqa import OKVQA
from stages.benchmarks.pairs import PairFolder
from stages.benchmarks.table import QuestionTable
from stages.benchmarks.threedsrbench import ThreeDSRBench
from stages.models.chat.recorded import RecordedTarget
from stages.models.detector.recorded import RecordedDetector
from stages.models.editor.recorded import RecordedEditor
from stages.models.ledger import Ledger
from stages.models.pending import Pending
from stages.models.prices import Prices
from stages.models.prompt import Prompt
from stages.records.annotation import read_annotations
from stages.records.errors import UserError
from stages.workflow import cells
from stages.workflow import params as parameters
from tests.faults.fuzz import PNG, Loader, counted, lines, sheet, some, tried, try_loader  # noqa: F401

ROOT = Path(__file__).parents[2]
PARAMS: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text())


_LABEL = {
    "target": "t", "extractor": "x", "editor": "e", "seed": 0, "sample_id": "s", "position": 1,
    "annotator": "a", "valid": "yes", "ac": 1, "ef": 0, "note": "so",
}  # fmt: skip
_ROW = {
    "form": "f", "annotator": "a", "id": "e1", "valid": "yes", "ac": "1", "ef": "", "note": "so",
}  # fmt: skip
_QA = {"id": "q1", "question": "What?", "image": "0.png", "A": "cat", "B": "cow", "reference": "B"}
_TSV = {
    "index": "7", "question": "Which?", "A": "front", "B": "left", "answer": "B",
    "category": "orientation_viewpoint", "image": base64.b64encode(PNG).decode(),
    "image_source": "MS-COCO", "image_url": "http://x/0.png",
}  # fmt: skip
_IDS = {"image_id": 1, "question_id": 15}
_FRAME = {
    "QA": {"perception": [{"Q": "What is it?", "A": "Red."}], "prediction": []},
    "image_paths": {"CAM_FRONT": "0.png"},
    "key_object_infos": {"<c1,CAM_FRONT,1.0,2.0>": {"Category": "Vehicle", "Status": None}},
}
_PRICES = (
    b"models:\n  m: {input: 0.1, output: 2, image: 0.5}\nassumed:\n  judge: {input: 1, output: 2}\n"
)
_CHARGE = (
    b'{"id":"a","study":"s","stage":"judge","role":"judge","model":"m","key":"k","outcome":"ok"}\n'
)


def _okvqa(path: Path) -> object:
    there = {"folder": str(path.parent), "images": str(path.parent), "annotations": None}
    return OKVQA(**there, questions=path.name, count=1).select()  # type: ignore[arg-type]


def _drivelm(path: Path) -> object:
    return DriveLM(str(path.parent), str(path.parent), path.name, count=1).select()


def _threedsr(path: Path) -> object:
    return ThreeDSRBench(str(path.parent), path.name, str(path.parent), count=1).select()


def _table(path: Path) -> object:
    return QuestionTable(str(path.parent), path.name, "own").select()


LOADERS: dict[str, Loader] = {
    "params.yaml": Loader("params.yaml", (ROOT / "params.yaml").read_bytes(), parameters.load),
    "prices.yaml": Loader("prices.yaml", _PRICES, Prices.load),
    "prompt": Loader(
        "p.txt", (ROOT / "prompts" / "default" / "judge_binary.txt").read_bytes(), Prompt.load
    ),
    "annotations, CSV": Loader(
        "a.csv",
        sheet(",", _LABEL, {**_LABEL, "annotator": "b"}),
        lambda path: read_annotations(path.parent),
    ),
    "annotators' export, CSV": Loader(
        "r.csv",
        sheet(";", _ROW),
        lambda path: read_replies(path, {}),
    ),
    "annotators' export, JSON": Loader(
        "r.json",
        json.dumps(
            {
                "format": "edct-annotation/1",
                "form": "f",
                "annotator": "a",
                "rows": [{"id": "e", "valid": "yes", "ac": "1"}],
            }
        ).encode(),
        lambda path: read_replies(path, {"1": "a"}),
    ),
    "recorded answers": Loader(
        "r.jsonl",
        lines({"image": "0.png", "question": "q", "answer": "a", "explanation": "e"}),
        lambda path: RecordedTarget(str(path), "r"),
        beside=True,
    ),
    "recorded boxes": Loader(
        "r.jsonl",
        lines({"image": "0.png", "phrase": "cup", "boxes": [[0, 0, 4, 4]]}),
        lambda path: RecordedDetector(str(path)),
        beside=True,
    ),
    "recorded edits": Loader(
        "r.jsonl",
        lines({"original": "0.png", "edited": "0.png", "instruction": "i", "attempt": 1}),
        lambda path: RecordedEditor(str(path), "r"),
        beside=True,
    ),
    "pairs": Loader(
        "pairs.json",
        json.dumps(
            [{"id": "p", "original": "0.png", "edited": "0.png", "instruction": "i"}]
        ).encode(),
        lambda path: PairFolder(str(path.parent)).load(),
        beside=True,
    ),
    "OK-VQA": Loader(
        "q.json",
        json.dumps({"data_subtype": "val2014", "questions": [{**_IDS, "question": "?"}]}).encode(),
        _okvqa,
        beside=True,
    ),
    "DriveLM": Loader(
        "d.json",
        json.dumps({"s": {"scene_description": "x", "key_frames": {"f": _FRAME}}}).encode(),
        _drivelm,
        beside=True,
    ),
    "3DSRBench, TSV": Loader("b.tsv", sheet("\t", _TSV, _TSV), _threedsr, beside=True),
    "own benchmark, JSONL": Loader("q.jsonl", lines(_QA, {**_QA, "id": 2}), _table, beside=True),
    "own benchmark, CSV": Loader("q.csv", sheet(",", _QA), _table, beside=True),
    "ledger": Loader("l.jsonl", _CHARGE, lambda path: list(Ledger(path).charges())),
    "ticket of a paid task": Loader(
        "t.json", b'{"task":{"id":"t","polling_url":"http://x"}}', lambda path: Pending(path).read()
    ),
}


@pytest.mark.parametrize("name", LOADERS)
def test_a_damaged_file_is_read_or_refused_in_a_line(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    try_loader(name, LOADERS[name], tmp_path)


def test_parameters_with_one_value_changed_are_taken_or_named() -> None:
    leaves = list(_leaves(PARAMS))

    @some(150, 800)
    @given(st.sampled_from(leaves), st.sampled_from(JUNK))
    @example(("benchmarks", "demo", "_target_"), "../x")
    def all_of_them(leaf: tuple[Any, ...], junk: Any) -> None:
        params = _with(PARAMS, leaf, junk)
        tried["params.yaml, one value replaced"] += 1
        try:
            cells.study_cells(params)
            plan.check_settings(params)
            plan.check_adapters(params)
        except UserError as error:
            assert "\n" not in str(error)  # noqa: PT017

    all_of_them()


JUNK: list[Any] = [
    None,
    True,
    -1,
    0,
    10**30,
    float("inf"),
    float("nan"),
    0.5,
    "",
    "../x",
    "é" * 300,
]
JUNK += [[], {}, [None], {"_target_": "os.system"}, "os.system", GONE := "(taken out)"]


def _leaves(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _leaves(value, (*path, key))


def _with(node: Any, path: tuple[Any, ...], junk: Any) -> Any:
    if not path:
        return junk
    head, *rest = path
    changed = {
        key: _with(value, tuple(rest), junk) if key == head else value
        for key, value in node.items()
    }
    if not rest and junk == GONE:
        del changed[head]
    return changed
