"""Both pages in a real browser: what a reader does with them, and what hostile text can't do."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.large_report import Size, write_study
from stages.records import jsonl
from stages.records.annotation import Annotation
from stages.records.judgement import Judgement
from stages.records.score import Intervention
from stages.reporting import case_page, gallery, page, words
from stages.reporting.prints import Prints
from stages.reporting.reading import read_study

pytestmark = pytest.mark.browser
ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)
DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
Build = Callable[..., dict[str, Any]]
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser(chromium_path: Path) -> Iterator[Any]:
    """One browser for all."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=chromium_path, args=ARGUMENTS.split(" ")
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, build_workspace: Build, hostile: str) -> Path:
    """A report with hostile text in all that models say, two judges, pairs, and people's labels."""
    root = tmp_path_factory.mktemp("pages")
    params = build_workspace(root, judges=("demo", "other"), n=12, text=hostile, pairs=("photos",))
    _disagree(root)
    return write_pages(root, params)


def write_pages(root: Path, params: dict[str, Any]) -> Path:
    """Both pages and their images as the report stage writes them, without figures and tables."""
    study = read_study(root, params)
    reports = root / "reports"
    prints = Prints(reports, view_px=640, thumbnail_px=144)
    prints.make(study)
    html = page.render(
        study,
        title="Hostile <i>",
        cases=gallery.choose(gallery.all_cases(study), 12),
        verified=gallery.verified(study, 4),
        figures={},
        settings=("study", "chain"),
        prints=prints,
    )
    (reports / "index.html").write_text(html, encoding="utf-8")
    (reports / "gallery.html").write_text(case_page.render(study, prints), encoding="utf-8")
    return reports


def _disagree(root: Path) -> None:
    """Turn the second judge's verdict on one edit, and have a person turn the first's on it."""
    folder = root / "data" / "judge" / "demo_looks-demo-demo-other-0"
    rows = jsonl.read(folder / "judgements.jsonl", Judgement)
    rows[0] = rows[0].model_copy(update={"explanation_faithful": 0, "ccs_binary": 0})
    jsonl.write(folder / "judgements.jsonl", rows)
    path = root / "data" / "score" / "interventions.jsonl"
    about = rows[0].sample_id, rows[0].position
    fates = [
        row.model_copy(update={"ef": 0.0, "ccs_binary": 0.0})
        if (row.cell.target, row.cell.judge) == ("demo_looks", "other")
        and (row.sample_id, row.position) == about
        else row
        for row in jsonl.read(path, Intervention)
    ]
    jsonl.write(path, fates)
    label = Annotation(
        **fates[0].cell.model_dump(exclude={"judge"}),
        sample_id=about[0],
        position=about[1],
        attempt=2,
        annotator="Ann <b>",
        valid="yes",
        ac=0,
        ef=1,
    )
    jsonl.write(root / "data" / "score" / "labels.jsonl", [label])


@pytest.fixture(scope="module")
def visit(browser: Any, made: Path) -> Iterator[Open]:
    """Opens a page; at the end no page has complained or asked for anything but files."""
    contexts: list[Any] = []
    faults: list[str] = []

    def open_(name: str, *, size: dict[str, int] = DESKTOP, at: Path = made, **options: Any) -> Any:
        context = browser.new_context(viewport=size, **options)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: faults.append(message.text))
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.on("dialog", lambda dialog: (faults.append("a dialog"), dialog.dismiss()))
        tab.on(
            "request",
            lambda request: (
                None if request.url.startswith(("file://", "data:")) else faults.append(request.url)
            ),
        )
        tab.on("requestfailed", lambda request: faults.append(f"failed: {request.url}"))
        tab.goto(f"{at.as_uri()}/{name}")
        return tab

    yield open_
    for context in contexts:
        context.close()
    assert faults == []


def count(tab: Any) -> int:
    """How many cases the gallery says that it shows."""
    return int(re.match(r"[\d,]+", tab.text_content("#count")).group().replace(",", ""))


def until(tab: Any, true: str) -> None:
    """Wait for an expression; playwright's own way needs an `eval`, which the page forbids."""
    for _ in range(200):
        if tab.evaluate(true):
            return
        tab.wait_for_timeout(25)
    raise AssertionError(true)


def test_numbers_of_the_report_lead_to_as_many_cases(visit: Open) -> None:
    tab = visit("index.html")
    ways = tab.eval_on_selector_all(
        "a.cases", "links => links.map(a => [a.getAttribute('href'), a.textContent])"
    )
    cases = visit("gallery.html")
    counted = 0
    for href, text in dict.fromkeys(map(tuple, ways)):
        cases.evaluate("hash => { location.hash = hash }", href.partition("#")[2])
        cases.wait_for_timeout(30)
        told = re.match(r"\d+(?!\.\d)", text)
        if told:
            assert count(cases) == int(told.group()), (href, text)
            counted += 1
        assert count(cases) > 0, (href, text)
    assert counted > 10


def test_link_of_the_table_opens_the_gallery_filtered(visit: Open) -> None:
    tab = visit("index.html")
    tab.click("table >> text=demo_prior >> nth=0")
    tab.wait_for_selector("#question")
    assert "gallery.html#target=demo_prior" in tab.url
    assert tab.is_checked("input[name=target][value=demo_prior]")


def test_filters_narrow_and_live_in_the_address(visit: Open) -> None:
    tab = visit("gallery.html")
    everything = count(tab)
    tab.check("input[name=target][value=demo_prior]")
    tab.check("input[name=ef][value='0']")
    narrowed = count(tab)
    assert 0 < narrowed < everything
    assert tab.text_content("#place") == f"1 of {narrowed}"
    assert "target=demo_prior" in tab.url
    tab.press("body", "j")
    shown = tab.text_content("#case .case-head")
    tab.reload()
    assert count(tab) == narrowed
    assert tab.text_content("#case .case-head") == shown
    shown = tab.text_content("#place")
    tab.click("#clear")  # the case in view stays
    assert count(tab) == everything
    assert tab.text_content("#place") != shown
    assert tab.text_content("#place").endswith(f" of {everything}")


def test_disagreement_is_found_and_shown(visit: Open) -> None:
    tab = visit("gallery.html#differ=judges")
    assert count(tab) == 2  # the edit under either judge
    assert tab.text_content("#case").count("Judge ") == 2
    tab = visit("gallery.html#differ=judge_people")
    assert count(tab) == 2
    human = tab.text_content(".judge.human")
    assert "Ann <b>" in human
    assert "answer inconsistent" in human
    tab = visit("gallery.html#differ=gate_people")
    assert count(tab) == 1
    assert "too much changed elsewhere" in tab.text_content("#case")


def test_search_wants_every_word(visit: Open) -> None:
    tab = visit("gallery.html")
    tab.keyboard.press("/")
    tab.keyboard.type("PICTURE 红宝石 s-003")
    until(tab, "location.hash.includes('s-003')")
    assert count(tab) == 8  # two edits, two targets, two judges
    assert "q=" in tab.url
    tab.keyboard.type(" nowhere")
    tab.wait_for_selector("#empty:not([hidden])")
    tab.click("#clear-too")
    assert tab.is_hidden("#empty")


def test_keys_lead_through_the_cases(visit: Open) -> None:
    tab = visit("gallery.html")
    place = lambda: int(tab.text_content("#place").split(" ")[0])  # noqa: E731
    for key, expected in (("j", 2), ("ArrowRight", 3), ("k", 2), ("ArrowLeft", 1), ("k", 1)):
        tab.keyboard.press(key)
        assert place() == expected, key
    tab.keyboard.press("End")  # nothing has the focus
    assert place() == count(tab)
    tab.keyboard.press("PageUp")
    assert 1 < place() < count(tab)
    tab.focus("#list")
    tab.keyboard.press("End")
    assert place() == count(tab)
    selected = tab.get_attribute("#list", "aria-activedescendant")
    assert tab.get_attribute(f"#{selected}", "aria-selected") == "true"
    tab.keyboard.press("Home")
    tab.keyboard.press("ArrowDown")
    assert place() == 2
    tab.keyboard.press("?")
    assert tab.is_visible("#help")
    tab.keyboard.press("j")  # a dialog has the keys to itself
    tab.keyboard.press("Escape")
    assert tab.is_hidden("#help")
    assert place() == 2
    tab.keyboard.press("/")
    tab.keyboard.type("j")
    tab.keyboard.press("Escape")
    assert tab.input_value("#search") == "j"
    assert tab.evaluate("document.activeElement === document.body")


def test_views_are_enlarged_and_flicked_through(visit: Open) -> None:
    tab = visit("gallery.html#through=judge&tries=2")
    tab.wait_for_selector("#case .views img")
    assert tab.locator("#case section >> nth=0").locator("figure").count() == 4
    tab.locator(".zoom").nth(0).focus()
    tab.keyboard.press("Enter")
    assert "before" in tab.text_content("#look .of")
    tab.keyboard.press("ArrowRight")
    assert "after" in tab.text_content("#look .of")
    tab.keyboard.press("Escape")
    assert tab.is_hidden("#look")
    assert tab.locator("#h-attempts").text_content() == "2 attempts"


def test_what_changed_between_answers_is_marked(visit: Open) -> None:
    tab = visit("gallery.html#through=judge")
    assert tab.text_content(".one del") == "red"
    assert tab.text_content(".two ins") == "blue"
    assert tab.locator(".two ins").count() == 1


def test_hostile_text_is_text(visit: Open, hostile: str) -> None:
    tab = visit("gallery.html#through=judge&tries=2")
    shown = words.shown(hostile)
    assert {"\u2407", "\u241b", "⟨U+202E⟩"} <= {*re.findall("⟨.*?⟩|.", shown)}
    assert tab.text_content("#question").endswith(shown)
    assert tab.text_content(".one .said").endswith(shown)
    assert tab.locator(".judgement .said").nth(0).text_content().endswith(shown)
    data = tab.evaluate("document.querySelector('#data').textContent")
    assert shown in json.loads(data)["samples"][0]["question"]
    for either, scripts in ((tab, 2), (visit("index.html"), 0)):
        assert either.locator("img[onerror], a[href^='javascript:'], dd script").count() == 0
        assert either.evaluate("document.scripts.length") == scripts
        told = either.evaluate("document.body.innerText")
        assert not set("\x07\x1b\u202e") & set(told)


def test_no_script_but_its_own_may_run(browser: Any, made: Path) -> None:
    context = browser.new_context()
    tab = context.new_page()
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.goto(f"{made.as_uri()}/gallery.html")
    ran = tab.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.ran = true";
          document.body.append(script);
          return window.ran === true;
        }"""
    )
    context.close()
    assert not ran
    assert "Content Security Policy" in said[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", ["index.html", "gallery.html#through=judge&tries=2"])
def test_axe_finds_nothing_serious(
    visit: Open, name: str, size: dict[str, int], scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    tab = visit(name, size=size, color_scheme=scheme, bypass_csp=True)
    if size is PHONE and name.startswith("gallery"):
        tab.click(".row >> nth=0")
    tab.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    found = Axe().run(tab).response["violations"]
    grave = [
        (v["id"], [node["html"][:120] for node in v["nodes"][:3]])
        for v in found
        if v["impact"] in ("serious", "critical")
    ]
    assert grave == []


def test_phone_shows_one_pane_at_a_time(visit: Open) -> None:
    for name in ("index.html", "gallery.html"):
        tab = visit(name, size=PHONE)
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name
    assert tab.is_hidden("#question")
    tab.click("#filters-toggle")
    tab.check("input[name=target][value=demo_prior]")
    tab.click("#filters-done")
    tab.click(".row >> nth=0")
    assert tab.is_visible("#question")
    assert tab.evaluate("document.querySelector('#detail').scrollWidth") <= PHONE["width"]
    tab.keyboard.press("j")
    assert tab.text_content("#place").startswith("2 ")
    tab.go_back()
    assert tab.is_hidden("#question")
    assert "target=demo_prior" in tab.url
    tab.click(".row >> nth=1")
    tab.reload()
    assert tab.is_visible("#question")
    tab.click("#back")
    assert tab.is_hidden("#question")


@pytest.mark.parametrize("width", [390, 1000, 1440])
def test_scores_in_the_list_are_whole_beside_a_disagreement(visit: Open, width: int) -> None:
    tab = visit("gallery.html#differ=judges", size={"width": width, "height": 800})
    tab.wait_for_selector(".row .chip.differ")
    cut = "[...document.querySelectorAll('.row .chip')].filter(e => e.scrollWidth > e.clientWidth)"
    assert tab.evaluate(f"{cut}.map(e => e.textContent)") == []
    over = (
        "[...document.querySelectorAll('.row .chips')].filter(e => "
        "e.getBoundingClientRect().bottom > e.closest('.row').getBoundingClientRect().bottom)"
    )
    assert tab.evaluate(f"{over}.length") == 0


def test_a_table_that_goes_on_is_shaded_and_numbers_by_domain_fit_a_phone(visit: Open) -> None:
    tab = visit("index.html", size=PHONE)
    shade = "getComputedStyle(document.querySelector('.scroll')).backgroundAttachment"
    assert tab.evaluate(shade) == "local, local, scroll, scroll"
    score = "document.querySelectorAll('table.close tbody tr:first-child td:not(.plot):not(.t)')[0]"
    assert tab.evaluate(f"{score}.getBoundingClientRect().right") <= PHONE["width"]
    assert tab.locator("img").count() > 8
    assert tab.locator("img[loading=lazy], img[decoding=async]").count() == 0  # gaps on paper


def test_paper_gets_the_case_alone_and_tables_whole(visit: Open) -> None:
    tab = visit("gallery.html#through=judge", color_scheme="dark")
    asked = tab.text_content("#question")
    paper = {"width": 720, "height": 1000}
    tab.set_viewport_size(paper)
    tab.emulate_media(media="print")
    tab.wait_for_selector("#question")
    assert tab.text_content("#question") == asked
    assert not any(tab.is_visible(part) for part in (".top", "#list", "#filters", ".turns"))
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    tab = visit("index.html", size=paper)
    tab.emulate_media(media="print")
    wide = "[...document.querySelectorAll('section > .scroll')].map(e => e.scrollWidth)"
    assert max(tab.evaluate(wide)) <= paper["width"]


def test_still_where_motion_is_not_wanted(visit: Open) -> None:
    tab = visit("index.html", reduced_motion="reduce")
    assert tab.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


def test_images_hold_their_place(visit: Open) -> None:
    tab = visit("gallery.html#through=judge")
    seen = "[...document.images].filter(i => i.getBoundingClientRect().top < innerHeight)"
    until(tab, f"{seen}.every(image => image.complete)")
    shift = tab.evaluate(
        """() => new Promise(done => new PerformanceObserver(list => {
          done(list.getEntries().reduce((sum, entry) => sum + entry.value, 0));
        }).observe({ type: "layout-shift", buffered: true }) || setTimeout(() => done(0), 200))"""
    )
    assert shift < 0.01
    assert tab.evaluate(f"{seen}.length") > 8
    assert tab.evaluate(f"{seen}.every(image => image.naturalWidth > 0)")
    holds = "['alt', 'width', 'height'].every(name => image.hasAttribute(name))"
    assert tab.evaluate(f"[...document.images].every(image => {holds})")


def test_thousands_of_cases_within_three_seconds(
    visit: Open, browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("large")
    params = write_study(root, Size(samples=300, targets=6, width=32, height=24))
    reports = write_pages(root, params)
    pages = sum((reports / name).stat().st_size for name in ("index.html", "gallery.html"))
    assert pages < 20 * 2**20
    tries = [_seconds(visit, reports, browser) for _ in range(2)]
    assert min(opening for opening, _ in tries) < 3
    assert min(finding for _, finding in tries) < 3


def _seconds(visit: Open, reports: Path, browser: Any) -> tuple[float, float]:
    """From nothing to the second case; from there to the end of a filtered, searched list.

    The clock's seconds, or the processor's where other work holds the browser up.
    """
    session = browser.new_browser_cdp_session()

    def now() -> tuple[float, float]:
        used = session.send("SystemInfo.getProcessInfo")["processInfo"]
        return time.perf_counter(), sum(process["cpuTime"] for process in used)

    def since(start: tuple[float, float]) -> float:
        return min(end - begin for begin, end in zip(start, now(), strict=True))

    began = now()
    tab = visit("gallery.html", at=reports)
    tab.keyboard.press("j")
    assert tab.text_content("#place").startswith("2 of 3")
    opening, opened = since(began), now()
    assert 0 < tab.locator(".row").count() < 40
    tab.check("input[name=target][value=target_3]")
    tab.fill("#search", "wooden wheel")
    until(tab, "location.hash.includes('wheel')")
    tab.focus("#list")
    tab.keyboard.press("End")
    assert tab.locator(".row[aria-selected=true]").count() == 1
    return opening, since(opened)
