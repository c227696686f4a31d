"""The forms: blind, self-contained, alike on every run, and whole."""

import base64
import hashlib
import io
import json
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from stages.annotation import images
from stages.annotation.__main__ import main
from stages.imaging import localization
from stages.models.picture import Picture
from stages.records.errors import UserError
from stages.workflow import params as parameters
from tests.annotation.conftest import HOSTILE, ROOT, data_of, picture, unsealed, write_forms

STATUSES = ("accepted", "rejected", "inside_unchanged", "outside_changed", "not_reached", "verdict")
SAMPLES = Path(os.environ.get("EDCT_SAMPLES", ROOT.parent / "shared" / "samples"))


@pytest.fixture(scope="module")
def pages(written):
    return {p.stem: p.read_text() for p in sorted(written.folder.glob("*.html"))}


def texts_of(page):
    """A form without its code, its style and its images: what could give something away."""
    page = re.sub(
        r"<style>.*?</style>|<script>.*?</script>|<dialog.*?</dialog>", "", page, flags=re.S
    )
    return re.sub(r'(<script type="text/plain"[^>]*>)[^<]*', r"\1", page)


def test_every_annotator_has_a_form_with_the_same_edits_in_another_order(written, pages):
    assert set(pages) == {"annotator_1", "annotator_2"}
    ids = {name: [item["id"] for item in data_of(page)["items"]] for name, page in pages.items()}
    assert ids["annotator_1"] != ids["annotator_2"]
    assert set(ids["annotator_1"]) == set(ids["annotator_2"]) == {i.id for i in written.key.items}
    assert len(written.key.items) == 128


def test_nothing_gives_target_verdict_or_sample_away(written, pages):
    project = [p.read_text() for p in (written.folder / "label_studio").glob("*.json")]
    sealed = [json.dumps([unsealed(i) for i in data_of(p)["items"]]) for p in pages.values()]
    for text in [*map(texts_of, pages.values()), *project, *sealed]:
        # Every model, domain and judge of the study begins with zq.
        assert not re.search("zq(target|market|road|room|extractor|editor|judge)", text)
        assert str(written.root) not in text
        for item in written.key.items:
            assert item.edited not in text
            assert not re.search(rf"\b{item.sample_id}\b", text)
        for status in STATUSES:
            assert status not in text.lower()


def test_an_item_s_place_and_name_say_nothing_about_the_verdict(written, pages):
    data = data_of(pages["annotator_1"])
    verdicts = [written.accepted[item["id"]] for item in data["items"]]
    assert Counter(verdicts) == {True: 112, False: 16}
    # Neither all rejections at one end, nor runs longer than chance makes them (16 of 128).
    runs = "".join("ar"[not v] for v in verdicts)
    assert "rrrrrr" not in runs
    assert "r" in runs[:64]
    assert "r" in runs[64:]
    assert len({len(item["sealed"]) for item in data["items"]}) == 1
    assert len({frozenset(item) for item in data["items"]}) == 1


def test_what_is_sealed_is_the_answer_after_the_edit_and_nothing_else(written, pages):
    for item in data_of(pages["annotator_1"])["items"]:
        words = unsealed(item)
        if written.accepted[item["id"]]:
            assert words == {"answer": "A new answer.", "explanation": "First.\nSecond."}
        else:
            assert words is None


def test_names_survive_spreadsheets(written):
    for item in written.key.items:
        assert re.fullmatch(r"[bcdfghjkmnpqrstvwxz]{8}", item.id)


def test_a_form_shows_the_very_pixels(written, pages):
    from stages.models.picture import Picture

    page = pages["annotator_1"]
    held = dict(re.findall(r'data-image="(\w+)" data-mime="image/webp">([^<]+)<', page))
    edited = {item.id: item for item in written.key.items}
    for item in data_of(page)["items"][:10]:
        one = edited[item["id"]]
        folder = next((written.root / "data" / "edit").glob(f"{one.target}-*")) / "images"
        shown = Image.open(io.BytesIO(base64.b64decode(held[item["images"]["edited"]])))
        assert np.array_equal(np.asarray(shown), Picture.load(folder, one.edited).pixels)
    assert set(held) == {n for i in data_of(page)["items"] for n in i["images"].values()}


def test_only_its_own_code_may_run_and_nothing_may_be_fetched(pages):
    page = pages["annotator_1"]
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    for tag, kind in (("script", "script-src"), ("style", "style-src")):
        (code,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert not re.search(r"(?:src|href)=[\"']?(?!data:)[a-z]+:", page)
    assert "http:" not in page
    assert "https:" not in page


def test_equal_studies_give_equal_bytes_and_another_seed_another_form(study):
    root = study()
    first = write_forms(root)
    files = {p: p.read_bytes() for p in sorted(first.folder.rglob("*")) if p.is_file()}
    write_forms(root)
    assert {p: p.read_bytes() for p in sorted(first.folder.rglob("*")) if p.is_file()} == files
    assert write_forms(root, seed=1).key.form != first.key.form
    assert first.folder.is_dir()  # forms that people may have are left alone


def test_a_form_whose_texts_change_has_another_name(study):
    root = study()
    before = write_forms(root).key
    for path in (root / "data" / "instructions").rglob("*.jsonl"):
        path.write_text(path.read_text().replace("matt blue", "shining blue"))
    after = write_forms(root).key
    assert after.items == before.items
    assert after.form != before.form


def test_hostile_words_are_data(study):
    written = write_forms(study(hostile=HOSTILE))
    page = (written.folder / "annotator_1.html").read_text()
    assert "<script>alert" not in page
    assert page.count("</script>") == page.count("<script")
    item = data_of(page)["items"][0]
    assert '<script>alert("x")</script>' in item["question"]
    assert not set("\x07\x1b\u202e\u202c\u2028") & set(json.dumps(item, ensure_ascii=False))
    assert "�" in item["answer"]
    (written.folder / "label_studio" / "config.xml").read_text()


def test_an_unfinished_study_is_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    assert main(["write"]) == 1
    error = capsys.readouterr().err
    assert "dvc repro" in error
    assert error.count("\n") == 1


def photo(size=256):
    """Something with edges and colours that coding finds hard."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:size, :size]
    waves = 127 + 60 * np.sin(x / 9)[..., None] * np.cos(y / 7)[..., None] * [1, 0.5, -1]
    return Picture.of(np.clip(waves + rng.normal(0, 12, (size, size, 3)), 0, 255).astype(np.uint8))


def test_the_best_coding_that_fits_is_taken():
    loads = {"a": photo, "b": lambda: picture(1)}
    lossless = sum(len(images.LADDER[0].encode(load().pixels)) for load in loads.values())
    assert images.encode_all(loads, lossless)[0].name == "lossless WebP"
    coding, files = images.encode_all(loads, lossless / 2)
    assert coding.name.startswith("AVIF")
    assert sum(map(len, files.values())) <= lossless / 2
    with pytest.raises(UserError, match="max_mb"):
        images.encode_all(loads, 500)


@pytest.mark.parametrize("coding", images.LADDER, ids=lambda c: c.name)
def test_codings_give_equal_bytes_and_keep_colour_edges(coding):
    stripes = np.zeros((64, 64, 3), dtype=np.uint8)
    stripes[:, ::2], stripes[:, 1::2] = (200, 30, 30), (30, 30, 200)
    data = coding.encode(stripes)
    assert data == coding.encode(stripes)
    again = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), dtype=int)
    # With colour at half resolution these stripes become one purple: an error of 85 on average.
    assert np.abs(again - stripes).mean() < 12


@pytest.mark.samples
@pytest.mark.skipif(not SAMPLES.is_dir(), reason="no folder of real samples")
def test_on_photographs_the_gate_sees_no_change_made_by_the_worst_coding():
    settings = parameters.verification(parameters.load(ROOT / "params.yaml"))[1]
    shares = []
    for path in sorted((SAMPLES / "okvqa" / "images").rglob("*.jpg"))[:6]:
        pixels = np.asarray(Image.open(path).convert("RGB"))
        data = images.LADDER[-1].encode(pixels)
        again = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        mask = np.zeros(pixels.shape[:2], dtype=bool)
        mask[: len(mask) // 2] = True
        found = localization.localize(pixels, again, mask, settings=settings)
        shares += [found.r_in, found.r_out]
    assert max(shares) < 0.002
