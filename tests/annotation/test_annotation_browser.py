"""An annotator's way in a real browser: open, judge, lose nothing, export, take in, Table 4."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stages.annotation.intake import take_in
from stages.annotation.replies import read_replies
from stages.records.annotation import read_annotations
from stages.workflow.folders import Folders
from tests.annotation.conftest import HOSTILE, Written, data_of, write_forms
from tests.annotation.published import answers_with_the_published_counts
from tests.annotation.test_annotation_intake import check_table_4

pytestmark = pytest.mark.browser("axe_playwright_python")

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SIZES = {"wide": (1440, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def chromium(chromium_path: Path) -> Iterator[Any]:
    """A running browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def opened(chromium: Any, path: Path, size: str = "wide", **options: Any) -> Iterator[Any]:
    """The form of a path, past its guide; complaints and requests fail the test in the end."""
    width, height = SIZES[size]
    phone = {"has_touch": True, "is_mobile": True} if size == "phone" else {}
    context = chromium.new_context(
        viewport={"width": width, "height": height}, accept_downloads=True, **phone, **options
    )
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("request", lambda request: complaints.append(request.url))
    page.goto(path.as_uri())
    past_guide(page)
    yield page
    context.close()
    local = (path.as_uri(), "data:image/", "blob:null/", "blob:file:")
    assert [text[:200] for text in complaints if not text.startswith(local)] == []


def past_guide(page: Any) -> None:
    """Close the guide where it is open."""
    if page.locator("#guide").is_visible():
        page.click("#close-guide")


def form(written: Written, annotator: str = "annotator_1") -> Path:
    """The file of an annotator's form."""
    return written.folder / f"{annotator}.html"


def ids(written: Written, annotator: str = "annotator_1") -> list[str]:
    """The edits in the form's order."""
    page = form(written, annotator).read_text()
    return [item["id"] for item in data_of(page)["items"]]


def pressed(page: Any, field: str) -> str | None:
    """The answer that is chosen."""
    found = page.locator(f'[data-field="{field}"] [aria-pressed="true"]')
    return found.get_attribute("data-value") if found.count() else None


def export(page: Any, kind: str, folder: Path) -> Path:
    """Export by hand."""
    page.keyboard.press("e")
    with page.expect_download() as waiting:
        page.click(f"#save-{kind}")
    page.click("#close-export")
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def go_to(page: Any, number: int) -> None:
    """Open an edit by its number, from 1."""
    page.keyboard.press("o")
    page.locator("#cells button").nth(number - 1).click()


def first(written: Written, accepted: bool) -> int:
    """The number of the first edit that the gate accepted, or rejected."""
    return 1 + next(i for i, name in enumerate(ids(written)) if written.accepted[name] == accepted)


def says(page: Any, where: str, words: str) -> None:
    """Wait until a place has these words."""
    page.locator(where, has_text=words).wait_for()


def test_form_export_import_table_4(chromium, study, tmp_path):
    """Two annotators judge all edits by keyboard; the published table comes out."""
    made = write_forms(study())
    files = []
    keys = {"yes": "y", "no": "n", "1": "1", "0": "2"}
    for annotator, answers in answers_with_the_published_counts(made).items():
        kind = {"annotator_1": "json", "annotator_2": "csv"}[annotator]
        with opened(chromium, form(made, annotator)) as page:
            for name in ids(made, annotator):
                given = answers[name]
                page.keyboard.press(keys[given["valid"]])
                if "ac" in given:
                    page.keyboard.press({"1": "1", "0": "2"}[given["ac"]])
                    page.keyboard.press({"1": "3", "0": "4"}[given["ef"]])
                page.keyboard.press("ArrowRight")
            assert page.inner_text("#count") == "128 of 128 judged"
            assert page.locator("#export").is_visible()  # after the last edit
            page.click("#close-export")
            files.append(export(page, kind, tmp_path))
    assert [path.name for path in files] == [
        f"edct-annotation.{made.key.form}.annotator_1.json",
        f"edct-annotation.{made.key.form}.annotator_2.csv",
    ]
    taken = take_in(Folders(made.root), files, {})
    assert [len(one.rows) for one in taken] == [128, 128]
    check_table_4(made)


def test_nothing_is_lost_by_a_reload_and_everything_can_be_taken_back(chromium, written):
    number = first(written, True)
    with opened(chromium, form(written)) as page:
        assert page.inner_text("#saved") == "Nothing to save yet"
        go_to(page, number)
        for key in ("y", "1", "4"):
            page.keyboard.press(key)
        page.keyboard.press("m")
        page.keyboard.type("ünclear <b>edge</b>, y n c")
        page.keyboard.press("Escape")
        assert page.inner_text("#saved") == "Saved on this device"
        page.reload()
        assert not page.locator("#guide").is_visible()
        assert page.inner_text("#place") == f"{number} / 128"
        assert [pressed(page, f) for f in ("valid", "ac", "ef")] == ["yes", "1", "0"]
        assert page.input_value("#note") == "ünclear <b>edge</b>, y n c"
        assert page.inner_text("#count") == "1 of 128 judged"
        page.keyboard.press("ArrowRight" if number < 128 else "ArrowLeft")
        page.click("#undo")  # goes back to where the change was
        assert page.inner_text("#place") == f"{number} / 128"
        assert page.input_value("#note") == ""
        page.keyboard.press("Control+z")
        page.keyboard.press("u")
        assert [pressed(page, f) for f in ("valid", "ac", "ef")] == ["yes", None, None]
        page.keyboard.press("Shift+U")
        assert pressed(page, "ac") == "1"
        page.keyboard.press("u")
        page.keyboard.press("u")
        assert pressed(page, "valid") is None
        assert page.is_disabled("#undo")
        assert page.inner_text("#count") == "0 of 128 judged"


def test_the_new_answer_shows_once_the_edit_was_called_valid(chromium, written):
    with opened(chromium, form(written)) as page:
        go_to(page, first(written, True))
        assert "A new answer." not in page.content()
        page.keyboard.press("1")  # no question to answer yet
        assert pressed(page, "ac") is None
        page.keyboard.press("n")
        assert not page.locator("#after").is_visible()
        assert "A new answer." not in page.content()
        page.keyboard.press("y")
        assert page.inner_text("#new-answer") == "A new answer."
        page.keyboard.press("y")  # taken back
        assert not page.locator("#after").is_visible()
        go_to(page, first(written, False))
        page.keyboard.press("y")
        assert not page.locator("#after").is_visible()
        assert "no new answer" in page.inner_text("#nothing")
        assert page.inner_text("#count") == "1 of 128 judged"


def test_scores_of_an_edit_that_is_not_valid_do_not_go_out(chromium, written, tmp_path):
    number = first(written, True)
    with opened(chromium, form(written)) as page:
        go_to(page, number)
        for key in ("y", "1", "3", "c"):
            page.keyboard.press(key)
        for kind in ("json", "csv"):
            replies = read_replies(export(page, kind, tmp_path), {})
            assert [dict(r.answers) for r in replies if r.answers] == [{"valid": "cant_tell"}]
        assert page.inner_text("#saved") == "Saved here, and exported"
        page.keyboard.press("y")  # what was said of the answer is still there
        assert [pressed(page, f) for f in ("ac", "ef")] == ["1", "1"]


@pytest.mark.parametrize("mark", ["", "'", "''"])
def test_notes_come_back_as_they_were(chromium, study, tmp_path, mark):
    made = write_forms(study(), size=6)
    note = f'{mark}=SUM(A1); "quoted", tab\tand\nsecond line </script> 红'
    with opened(chromium, form(made)) as page:
        page.keyboard.press("n")
        page.fill("#note", note)
        page.keyboard.press("Escape")
        for kind in ("json", "csv"):
            take_in(Folders(made.root), [export(page, kind, tmp_path)], {}, replace=True)
            (row,) = read_annotations(made.root / "data" / "annotations")
            assert (row.valid, row.note) == ("no", note)


def test_both_images_follow_zoom_and_drag(chromium, written):
    script = "id => document.getElementById(id).style.transform"
    with opened(chromium, form(written)) as page:
        page.keyboard.press("+")
        page.keyboard.press("+")
        assert page.inner_text("#scale") == "225 %"
        box = page.locator("#left .pane").bounding_box()
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        before = page.evaluate(script, "left-image")
        page.mouse.move(*middle)
        page.mouse.down()
        page.mouse.move(middle[0] + 60, middle[1] + 40)
        page.mouse.up()
        assert page.evaluate(script, "left-image") != before
        assert page.evaluate(script, "left-image") == page.evaluate(script, "right-image")
        assert page.locator("#right .cross").is_visible()
        assert not page.locator("#left .cross").is_visible()
        page.keyboard.press("0")
        assert page.inner_text("#scale") == "100 %"
        page.mouse.wheel(0, -400)
        assert page.inner_text("#scale") != "100 %"
        page.mouse.move(middle[0] + 5000, middle[1])
        page.mouse.move(*middle)
        page.mouse.dblclick(*middle)
        assert page.inner_text("#scale") == "100 %"
        page.mouse.dblclick(*middle)
        assert page.inner_text("#scale") == "300 %"


def test_flicker_alternates_in_place(chromium, written):
    def shown(page):
        return [page.locator(f"#{side}").is_visible() for side in ("left", "right")]

    with opened(chromium, form(written)) as page:
        assert shown(page) == [True, True]
        page.keyboard.press("f")
        boxes = []
        for _ in range(2):
            (side,) = [s for s in ("left", "right") if page.locator(f"#{s}").is_visible()]
            boxes.append(page.locator(f"#{side} .pane").bounding_box())
            page.locator(f"#{side}").wait_for(state="hidden")
        assert boxes[0] == boxes[1]
        page.keyboard.press("Space")
        was = shown(page)
        assert page.get_attribute("#run", "aria-pressed") == "false"
        page.wait_for_timeout(900)  # by hand: it stays
        assert shown(page) == was
        page.keyboard.press("Space")
        assert shown(page) == was[::-1]
        page.keyboard.press("f")
        assert shown(page) == [True, True]
    with opened(chromium, form(written), reduced_motion="reduce") as page:
        page.keyboard.press("f")
        assert page.get_attribute("#run", "aria-pressed") == "false"


def test_a_later_edit_is_compared_with_the_image_before_it_or_the_original(chromium, written):
    data = data_of(form(written).read_text())
    number = 1 + next(i for i, item in enumerate(data["items"]) if len(item["edits"]) > 1)
    with opened(chromium, form(written)) as page:
        go_to(page, number)
        assert page.locator(".edits li").count() == 2
        assert "judge this one" in page.locator(".edits li").last.inner_text()
        before = page.get_attribute("#left-image", "src")
        page.keyboard.press("b")
        assert page.get_attribute("#left-image", "src") != before
        assert page.inner_text("#left-words") == "Original, before any edit"
        page.keyboard.press("b")
        assert page.get_attribute("#left-image", "src") == before


def test_an_export_goes_on_in_another_browser_and_only_there(chromium, written, tmp_path):
    with opened(chromium, form(written)) as page:
        page.keyboard.press("n")
        path = export(page, "json", tmp_path)
    with opened(chromium, form(written)) as page:
        assert page.inner_text("#count") == "0 of 128 judged"
        page.keyboard.press("e")
        page.set_input_files("#resume", path)
        says(page, "#count", "1 of")
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "form": "another"}))
        page.set_input_files("#resume", path)
        says(page, "#export-state", "another form")
        page.click("#erase")
        page.click("#erase")
        assert page.inner_text("#count") == "0 of 128 judged"
    with opened(chromium, form(written, "annotator_2")) as page:
        page.keyboard.press("e")
        path.write_text(json.dumps(content))
        page.set_input_files("#resume", path)
        says(page, "#export-state", "annotator_1")


def test_two_tabs_do_not_overwrite_each_other(chromium, written):
    with opened(chromium, form(written)) as page:
        other = page.context.new_page()
        other.goto(form(written).as_uri())
        past_guide(other)
        other.keyboard.press("n")
        says(page, "#count", "1 of")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("c")
        says(other, "#count", "2 of")


def test_a_browser_that_keeps_nothing_says_so(chromium, written, tmp_path):
    full = "Storage.prototype.setItem = () => { throw new DOMException('full'); }"
    context = chromium.new_context(accept_downloads=True)
    context.add_init_script(full)
    page = context.new_page()
    page.goto(form(written).as_uri())
    past_guide(page)
    page.keyboard.press("n")
    assert page.inner_text("#saved") == "Not saved"
    assert "Export them before you close it" in page.inner_text("#alarm")
    replies = read_replies(export(page, "csv", tmp_path), {})
    assert [dict(r.answers) for r in replies if r.answers] == [{"valid": "no"}]
    context.close()


def test_keys_can_be_switched_off_and_do_not_act_while_writing(chromium, written):
    with opened(chromium, form(written)) as page:
        page.focus("#note")
        page.keyboard.type("yes no 1 3")
        assert pressed(page, "valid") is None
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        page.uncheck("#use-keys")
        page.click("#close-guide")
        page.keyboard.press("y")
        assert pressed(page, "valid") is None


def test_hostile_words_are_shown_as_words(chromium, study):
    made = write_forms(study(hostile=HOSTILE), size=8)
    with opened(chromium, form(made)) as page:
        for _ in range(8):
            page.keyboard.press("y")
            for where in ("#question", "#old-answer", ".edits"):
                assert '<script>alert("x")</script>' in page.inner_text(where)
                assert "javascript:alert(1)" in page.inner_text(where)
            assert page.locator("main script, main a, .panel img").count() == 0
            page.keyboard.press("ArrowRight")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_out_of_reach(chromium, written, size, scheme):
    """Every screen at both widths: no sideways scrolling, and axe finds nothing serious."""
    from axe_playwright_python.sync_playwright import Axe

    options = {"color_scheme": scheme, "reduced_motion": "reduce"}
    with opened(chromium, form(written), size, **options) as page:
        number = first(written, True)

        def check(what):
            wide = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert wide, what
            found = Axe().run(page).response["violations"]
            assert [(v["id"], v["nodes"][0]["target"]) for v in found] == [], what

        check("first")
        for opener, closer in (
            ("#open-guide", "#close-guide"),
            ("#open-list", "#close-list"),
            ("#open-export", "#close-export"),
        ):
            page.click(opener)
            check(opener)
            page.click(closer)
        page.click("#open-list")
        page.locator("#cells button").nth(number - 1).click()
        for field, value in (("valid", "yes"), ("ac", "1"), ("ef", "0")):
            page.click(f'[data-field="{field}"] [data-value="{value}"]')
        check("judged")
        page.click("#flicker")
        check("flicker")
        for button in page.locator("button:visible").all():
            assert button.bounding_box()["height"] >= 24  # WCAG 2.5.8
