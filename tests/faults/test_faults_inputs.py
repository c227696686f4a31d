"""Every loader and parser on thousands of damaged files: read, or refused in one line.

Nothing else may come out: no other exception, no default in place of what can't be read, no score
out of range. A few inputs each; `make soak` has many.
"""

import csv
import io
import json
import os
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image

from stages import plan
from stages.annotation.replies import read_replies
from stages.benchmarks.drivelm import DriveLM
from stages.benchmarks.okvqa import OKVQA
from stages.benchmarks.pairs import PairFolder
from stages.benchmarks.table import QuestionTable
from stages.benchmarks.threedsrbench import ThreeDSRBench
from stages.imaging import codec
from stages.models import replies
from stages.models.chat.recorded import RecordedTarget
from stages.models.detector.recorded import RecordedDetector
from stages.models.editor.recorded import RecordedEditor
from stages.models.ledger import Ledger
from stages.models.pending import Pending
from stages.models.prices import Prices
from stages.models.prompt import Prompt
from stages.models.protocol import CallError, Completion, Detection, EditedImage
from stages.models.replies import Unparsed
from stages.models.store import Store, Stored, request_key
from stages.records import jsonl
from stages.records.annotation import read_annotations
from stages.records.answer import Answer
from stages.records.attempt import Attempt
from stages.records.concept import ConceptList
from stages.records.errors import UserError
from stages.records.instruction import InstructionChain
from stages.records.judgement import Judgement
from stages.records.sample import Sample
from stages.records.score import Intervention
from stages.workflow import cells
from stages.workflow import params as parameters
from tests.faults import book
from tests.faults.mangle import TOKENS, mangled
from tests.models.contract.cases import CASES
from tests.models.wire.loopback import KEY, Act, Server

ROOT = Path(__file__).parents[2]
SAMPLES = Path(os.environ.get("EDCT_SAMPLES") or ROOT.parent / "shared/samples")
PNG = codec.encode_png(np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3))
PARAMS: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text())
tried: Counter[str] = Counter()


def some(short: int, long: int) -> settings:
    """How many inputs."""
    return settings(
        max_examples=long if book.LONG else short,
        deadline=None,
        derandomize=not book.LONG,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(autouse=True)
def counted(request: pytest.FixtureRequest) -> Iterator[None]:
    """What was tried is in the book; all of it survived, or the test has failed."""
    tried.clear()
    failed = request.session.testsfailed
    yield
    survived = request.session.testsfailed == failed
    for case, number in tried.items():
        book.note("Bad input", case, number, number if survived else 0)


# --- files ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loader:
    """A file that is good, and what reads it."""

    file: str
    good: bytes
    load: Callable[[Path], object]
    beside: bool = False
    """Whether images lie beside it."""


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def sheet(delimiter: str, *rows: dict[str, Any]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


_LABEL = {
    "target": "t", "extractor": "x", "editor": "e", "seed": 0, "sample_id": "s", "position": 1,
    "annotator": "a", "valid": "yes", "ac": 1, "ef": 0, "note": "so",
}  # fmt: skip
_QA = {"id": "q1", "question": "What?", "image": "0.png", "A": "cat", "B": "cow", "reference": "B"}
_TSV = {
    "index": "7", "question": "Which?", "A": "front", "B": "left", "answer": "B",
    "category": "orientation_viewpoint", "image_source": "MS-COCO", "image_url": "http://x/0.png",
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
        "a.csv", sheet(",", _LABEL, _LABEL), lambda path: read_annotations(path.parent)
    ),
    "annotators' export, CSV": Loader(
        "r.csv",
        sheet(";", {"form": "f", "annotator": "a", "id": "e1", "valid": "yes", "ac": "1"}),
        lambda path: read_replies(path, {}),
    ),
    "annotators' export, JSON": Loader(
        "r.json",
        json.dumps({"form": "f", "annotator": "a", "answers": [{"id": "e", "ac": "1"}]}).encode(),
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
    loader = LOADERS[name]
    path = tmp_path / loader.file
    if loader.beside:
        (tmp_path / "0.png").write_bytes(PNG)
        (tmp_path / "COCO_val2014_000000000001.jpg").write_bytes(PNG)

    @some(40, 400)
    @given(mangled(loader.good))
    @example(loader.good.replace(b"}}", b"\n}}", 1))
    def all_of_them(data: bytes) -> None:
        path.write_bytes(data)
        tried[name] += 1
        try:
            loader.load(path)
        except UserError as error:
            assert "\n" not in str(error)  # noqa: PT017 - refused, then in one line

    all_of_them()


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


# --- records -------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats() | st.sampled_from(("ok", "", "x")),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
RECORDS = (Sample, Answer, ConceptList, InstructionChain, Attempt, Judgement, Intervention)
SHARES = ("ccs_binary", "ccs_graded", "r_in", "r_out")
BINARY = ("ac", "ef", "answer_consistent", "explanation_faithful")


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_rows_of_any_shape_are_records_or_refused(record: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    fields = st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(record.model_fields, VALUES),
            "status": st.sampled_from(("ok", "refused", "x")),
            "sample_id": st.just("s"),
        },
    )

    @some(40, 400)
    @given(fields)
    def all_of_them(row: dict[str, Any]) -> None:
        path.write_text(json.dumps(row) + "\n")
        tried["rows of records"] += 1
        try:
            (found,) = jsonl.read(path, record)
        except UserError as error:
            assert "\n" not in str(error)  # noqa: PT017
            return
        for name in SHARES:
            assert getattr(found, name, None) is None or 0 <= getattr(found, name) <= 1
        for name in BINARY:
            assert getattr(found, name, None) in (None, 0, 1)
        assert getattr(found, "grade", None) in (None, 1, 2, 3, 4, 5)

    all_of_them()


# --- what models say -----------------------------------------------------------------------------

_SAID: dict[str, tuple[Callable[[str], Any], dict[str, Any]]] = {
    "concept lists": (
        lambda text: replies.read_concepts(text, 2),
        {"concepts": [{"text": "red colour", "object": "car", "attribute": "colour"}] * 2},
    ),
    "instruction lists": (
        lambda text: replies.read_instructions(text, 1),
        {"instructions": [{"keep": "a", "change": "b", "appearance": "c", "avoid": "d"}]},
    ),
    "edit parses": (replies.read_edit, {"edit_type": "replace", "target_object": "the car"}),
    "verdicts": (
        replies.read_verdict,
        {"reason": "so", "answer_consistent": 1, "explanation_faithful": 0},
    ),
    "grades": (replies.read_grade, {"reason": "so", "grade": 4}),
    "looks": (replies.read_look, {"change_present": True, "rest_unchanged": False, "reason": "r"}),
}


def _sound(found: Any) -> None:
    """What was read lies in range, and says something."""
    match found:
        case replies.Verdict():
            assert {found.answer_consistent, found.explanation_faithful} <= {0, 1}
            assert type(found.answer_consistent) is type(found.explanation_faithful) is int
        case replies.Grade():
            assert type(found.grade) is int
            assert 1 <= found.grade <= 5
        case replies.Edit():
            assert found.edit_type in replies.EDIT_TYPES
            assert found.target_object.strip()
        case replies.Look():
            assert isinstance(found.change_present, bool)


@pytest.mark.parametrize("name", _SAID)
def test_a_damaged_reply_is_read_or_refused(name: str) -> None:
    read, good = _SAID[name]
    fenced = f"I think:\n```json\n{json.dumps(good)}\n```\nThat is all.".encode()

    @some(120, 3000)
    @given(mangled(fenced))
    def all_of_them(data: bytes) -> None:
        tried[f"replies: {name}"] += 1
        try:
            _sound(read(data.decode("utf-8", "replace")))
        except Unparsed as error:
            assert str(error)  # noqa: PT017

    all_of_them()


@pytest.mark.samples
@pytest.mark.skipif(not SAMPLES.is_dir(), reason="no samples on this machine")
@pytest.mark.parametrize("name", _SAID)
def test_real_replies_of_judges_score_nothing_that_they_do_not_say(name: str) -> None:
    read, _ = _SAID[name]
    texts: list[str] = []
    for path in sorted((SAMPLES / "judge_replies").rglob("*.json*")):
        whole = path.read_text(encoding="utf-8", errors="replace").splitlines()
        texts += [line[:20_000] for line in whole[:200]]
    assert len(texts) > 50
    for text in texts:
        tried[f"real replies of judges, read as {name}"] += 1
        try:
            _sound(read(text))
        except Unparsed as error:
            assert str(error)  # noqa: PT017


BODIES = ("openrouter chat", "openrouter images", "http editor", "moondream cloud", "chat boxes")


@pytest.mark.parametrize("name", CASES if book.LONG else BODIES)
def test_a_damaged_body_is_a_reply_or_a_failure(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    case = CASES[name]
    if case.key:
        monkeypatch.setenv(case.key, KEY)
    with Server() as server:
        route = case.route(server)
        once = {"tries": 1, "total_s": 0.01, "first_wait_s": 0.001, "max_wait_s": 0.001}
        adapter = case.adapter(server.url, patience=once, timeout_s=2)
        good = json.dumps(case.route(server)(None).body).encode() if name in BODIES else b"{}"  # type: ignore[arg-type]

        @some(12, 40)
        @given(mangled(good))
        def all_of_them(body: bytes) -> None:
            server.route = lambda seen: Act(body, headers={"content-type": "application/json"})
            tried["bodies of providers"] += 1
            try:
                _neutral(asyncio.run(_whole(case, adapter)))
            except (CallError, UserError) as error:
                assert KEY not in str(error)  # noqa: PT017

        all_of_them()
        del route


async def _whole(case: Any, adapter: Any) -> Any:
    from tests.models.contract.cases import ASKED, SOURCE

    if case.role == "chat":
        return await adapter.complete(ASKED)
    if case.role == "editor":
        return await adapter.edit(SOURCE, "Do.", seed=0, attempt=1)
    return await adapter.detect(SOURCE, "cup")


def _neutral(found: Any) -> None:
    match found:
        case Completion():
            assert found.text.strip()
        case EditedImage():
            assert isinstance(found.data, bytes)
        case Detection():
            assert all(
                0 <= box.x0 < box.x1 <= 64 and 0 <= box.y0 < box.y1 <= 48 for box in found.boxes
            )


# --- images --------------------------------------------------------------------------------------

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP")


def _encoded(kind: str) -> bytes:
    out = io.BytesIO()
    frames = [Image.fromarray(np.full((9, 7, 3), n * 40, np.uint8)) for n in range(3)]
    many: dict[str, Any] = {"save_all": True, "append_images": frames[1:]} if kind == "GIF" else {}
    frames[0].save(out, kind, **many)
    return out.getvalue()


@pytest.mark.filterwarnings("ignore")  # Pillow warns of what it then refuses
@pytest.mark.parametrize("kind", FORMATS)
def test_a_damaged_image_is_pixels_or_an_error(kind: str) -> None:
    @some(100, 800)
    @given(mangled(_encoded(kind)))
    def all_of_them(data: bytes) -> None:
        tried[f"images, {kind}"] += 1
        try:
            pixels = codec.decode(data, max_pixels=10_000)
        except codec.ImageError as error:
            assert "\n" not in str(error)  # noqa: PT017
            return
        assert pixels.dtype == np.uint8
        assert pixels.shape[2] == 3
        assert 0 < pixels.shape[0] * pixels.shape[1] <= 10_000

    all_of_them()


# --- the store -----------------------------------------------------------------------------------


def test_a_damaged_reply_in_the_store_is_the_same_or_missing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store, request = Store(tmp_path), {"q": "what?"}
    key, stored = request_key(request), Stored({"text": "a cat", "n": 1}, {"image": PNG})
    store.put(key, request, stored)
    path = next(tmp_path.glob("replies/*/*.json"))
    good = path.read_bytes()

    @some(100, 800)
    @given(mangled(good))
    def all_of_them(data: bytes) -> None:
        path.write_bytes(data)
        tried["replies in the store"] += 1
        assert store.get(key) in (None, stored)

    all_of_them()


def test_a_damaged_archive_brings_nothing_but_sound_replies(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, request = Store(tmp_path / "source"), {"q": "what?"}
    key, stored = request_key(request), Stored({"text": "a cat"}, {"image": PNG})
    source.put(key, request, stored)
    source.export_to(tmp_path / "good.tar")
    good, runs = (tmp_path / "good.tar").read_bytes().rstrip(b"\0") + b"\0" * 1024, 0

    @some(80, 400)
    @given(mangled(good))
    def all_of_them(data: bytes) -> None:
        nonlocal runs
        runs += 1
        tried["store archives"] += 1
        archive, fresh = tmp_path / "bad.tar", Store(tmp_path / str(runs))
        archive.write_bytes(data)
        try:
            fresh.import_from(archive)
        except UserError as error:
            assert "\n" not in str(error)  # noqa: PT017
        assert fresh.get(key) in (None, stored)

    all_of_them()
    outside = [p for p in tmp_path.iterdir() if p.name not in ("source", "good.tar", "bad.tar")]
    assert all(path.name.isdecimal() for path in outside)


@pytest.mark.parametrize("token", TOKENS, ids=range(len(TOKENS)))
def test_names_in_an_archive_stay_in_its_folder(token: bytes, tmp_path: Path) -> None:
    name = token.decode("utf-8", "replace")[:90].replace("\0", "") or "x"
    for member in (name, f"blobs/{name}", f"replies/aa/{name}", f"blobs/aa/../../{name}"):
        with tarfile.open(tmp_path / "bad.tar", "w") as tar:
            info = tarfile.TarInfo(member)
            info.size = 2
            tar.addfile(info, io.BytesIO(b"{}"))
        tried["names in archives"] += 1
        with pytest.raises(UserError):
            Store(tmp_path / "store").import_from(tmp_path / "bad.tar")
        assert not (tmp_path / "store").exists()
