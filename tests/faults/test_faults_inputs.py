"""Rows, replies, bodies, images and stores by the thousand, damaged: read, or refused in one line.

Nothing else may come out: no other exception, no default in place of what can't be read, no score
out of range. A few inputs each; `make soak` has many.
"""

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from stages.imaging import codec
from stages.models.protocol import CallError, Completion, Detection, EditedImage
from stages.models.replies import Unparsed
from stages.models.store import Store, Stored, request_key
from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.attempt import Attempt
from stages.records.concept import ConceptList
from stages.records.errors import UserError
from stages.records.instruction import InstructionChain
from stages.records.judgement import Judgement
from stages.records.sample import Sample
from stages.records.score import Intervention
from tests.faults import book
from tests.faults.fuzz import DEEP, counted, some, tried  # noqa: F401
from tests.faults.mangle import TOKENS, mangled
from tests.faults.said import SAID, sound
from tests.models.contract.cases import CASES
from tests.models.wire.loopback import KEY, Act, Server

ROOT = Path(__file__).parents[2]
SAMPLES = Path(os.environ.get("EDCT_SAMPLES") or ROOT.parent / "shared/samples")
PNG = codec.encode_png(np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3))


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


@pytest.mark.parametrize("name", SAID)
def test_a_damaged_reply_is_read_or_refused(name: str) -> None:
    read, good = SAID[name]
    fenced = f"I think:\n```json\n{json.dumps(good)}\n```\nThat is all.".encode()

    @some(120, 3000)
    @given(mangled(fenced))
    def all_of_them(data: bytes) -> None:
        tried[f"replies: {name}"] += 1
        try:
            sound(read(data.decode("utf-8", "replace")))
        except Unparsed as error:
            assert str(error)  # noqa: PT017

    all_of_them()


@pytest.mark.samples
@pytest.mark.skipif(not SAMPLES.is_dir(), reason="no samples on this machine")
@pytest.mark.parametrize("name", SAID)
def test_real_replies_of_judges_score_nothing_that_they_do_not_say(name: str) -> None:
    read, _ = SAID[name]
    texts: list[str] = []
    for path in sorted((SAMPLES / "judge_replies").rglob("*.json*")):
        whole = path.read_text(encoding="utf-8", errors="replace").splitlines()
        texts += [line[:20_000] for line in whole[:200]]
    assert len(texts) > 50
    for text in texts:
        tried[f"real replies of judges, read as {name}"] += 1
        try:
            sound(read(text))
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
    @example(b"[" * DEEP)
    def all_of_them(data: bytes) -> None:
        path.write_bytes(data)
        tried["replies in the store"] += 1
        assert store.model_of(key) is None
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
