"""The report stage as a whole: its files, its bytes, hostile text, studies with little in them."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from stages import report
from stages.records.errors import UserError
from stages.reporting import summary

Workspace = Callable[..., tuple[Path, dict[str, Any]]]


class Page(HTMLParser):
    """Collects what a page holds: tags with attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page_of(root: Path) -> Page:
    return Page((root / "reports" / "index.html").read_text(encoding="utf-8"))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory,
    build_workspace: Callable[..., dict[str, Any]],
    hostile: str,
) -> Path:
    """One report with hostile text in everything that a model says."""
    root = tmp_path_factory.mktemp("hostile")
    report.run(root, build_workspace(root, text=hostile, pairs=("photos",)))
    return root


def test_writes_tables_figures_plots_metrics_and_page(made: Path) -> None:
    names = set(contents(made / "reports"))
    for table in ("table1", "table3", "funnel", "attrition", "pairs"):
        assert {f"tables/{table}.{ending}" for ending in ("csv", "md", "tex")} <= names
    for figure in ("estimates", "positions", "funnel", "verification", "example_1"):
        assert {f"figures/{figure}.png", f"figures/{figure}.svg"} <= names
    assert {"plots/estimates.csv", "plots/positions.csv", "plots/funnel.csv"} <= names
    assert {"metrics.json", "index.html", "gallery.html"} <= names


def test_equal_records_give_equal_bytes(made: Path, workspace: Workspace, hostile: str) -> None:
    root, params = workspace("elsewhere", text=hostile, pairs=("photos",))
    report.run(root, params)
    assert contents(root / "reports") == contents(made / "reports")


def test_no_file_holds_a_path_of_the_machine(made: Path) -> None:
    files = contents(made / "reports")
    assert [name for name, data in files.items() if str(made).encode() in data] == []


def test_model_text_is_text_and_nothing_else(made: Path) -> None:
    page = page_of(made)
    assert not page.all("script")
    assert not [a for _, a in page.tags for name in a if name.startswith("on")]
    links = [a["href"] or "" for a in page.all("a")]
    ways = r"#|figures/|tables/|gallery\.html(#|$)"
    assert [link for link in links if not re.match(ways, link)] == []
    assert '<script>alert("x")</script>' in page.text
    assert "[a](javascript:alert(1))" in page.text
    assert r"$\frac{1}{0}$ \input{/etc/passwd}" in page.text
    assert "{{ 7*7 }}" in page.text
    assert "红宝石" in page.text
    assert not set("\x07\x1b\u202e\u202c") & set(page.text)


def test_page_needs_no_network(made: Path) -> None:
    page = page_of(made)
    sources = [a.get("src") or "" for _, a in page.tags if "src" in a]
    assert sources
    for source in sources:
        assert re.fullmatch(r"images/[0-9a-f]{20}\.(jpg|png)", source)
        assert (made / "reports" / source).exists()
    assert {a.get("rel") for a in page.all("link")} == {"icon"}
    assert "url(" not in (made / "reports" / "index.html").read_text(encoding="utf-8")
    gallery = (made / "reports" / "gallery.html").read_text(encoding="utf-8")
    shown = {source.removeprefix("images/") for source in sources}
    shown |= set(re.findall(r"[0-9a-f]{20}\.(?:jpg|png)", gallery))
    assert shown == {path.name for path in (made / "reports" / "images").iterdir()}


def test_images_are_described_and_hold_their_place(made: Path) -> None:
    for image in page_of(made).all("img"):
        assert image["alt"] or image.get("class") == "layer"
        assert int(image["width"] or 0) > 0
        assert int(image["height"] or 0) > 0


def test_ids_are_unique_and_links_within_lead_somewhere(made: Path) -> None:
    page = page_of(made)
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    inner = {(a["href"] or "")[1:] for a in page.all("a") if (a["href"] or "").startswith("#")}
    assert inner <= set(ids)


def test_simulated_models_are_called_so(made: Path, workspace: Workspace) -> None:
    assert "Every model here is simulated." in page_of(made).text
    root, params = workspace("real", targets=("real",))
    params["targets"]["real"] = {"_target_": "stages.models.chat.Real"}
    params["report"] = {**params["report"], "gallery": 0, "panels": 0, "examples": 0}
    report.run(root, params)
    assert "simulated" not in page_of(root).text


def test_svg_figures_are_well_formed(made: Path) -> None:
    for path in (made / "reports" / "figures").glob("*.svg"):
        assert ET.parse(path).getroot().tag.endswith("svg")


def test_metrics_hold_numbers_only(made: Path) -> None:
    metrics = json.loads((made / "reports" / "metrics.json").read_text())
    assert metrics["demo_looks"]["ccs_binary"] == 1.0
    assert metrics["pairs"] == {
        "photos": {"agreement": 0.5, "low": 0.095, "high": 0.905, "accepting_all": 1.0, "n": 2}
    }


def test_study_of_pairs_alone(workspace: Workspace) -> None:
    root, params = workspace(targets=(), pairs=("photos",))
    params["detector"] = {"_target_": "stages.models.detector.demo.DemoDetector"}  # never called
    for path in ("prepare/samples.jsonl", "score/estimates.jsonl", "score/interventions.jsonl"):
        (root / "data" / path).unlink()
    report.run(root, params)
    page = page_of(root)
    said = " ".join(page.text.split())
    assert "the gate agrees with the label on 1 of 2 pairs (50.0 %; 95 % Wilson" in said
    assert "accepting every pair would agree on 2 (100.0 %)" in said
    assert "No vision-language model is asked" in said
    assert "too much changed elsewhere" in said
    assert "outside_changed" not in page.text
    crossed = (root / "reports" / "tables" / "pairs_crossed.csv").read_text().splitlines()
    assert crossed[1:] == ["photos,accepted,1,0,1,2", "photos,rejected,1,0,0,1"]
    assert len(page.all("img")) == 3 * (4 + 2)  # four views, two of them under a layer
    assert "Counterfactual consistency" not in page.text
    assert (root / "reports" / "figures" / "verification.png").exists()
    rows = (root / "reports" / "tables" / "pairs.csv").read_text().splitlines()
    assert rows[1].startswith("pair-1,photos,no,yes,no,")  # the disagreement comes first
    assert rows[2].startswith("pair-0,photos,yes,yes,yes,1.0000,0.0000,ok")
    assert rows[3].startswith("pair-2,photos,yes,,,")
    assert "simulated" not in page.text


def test_nothing_scored_is_said_and_never_nan(workspace: Workspace) -> None:
    root, params = workspace(scored=False)
    report.run(root, params)
    assert "not estimable" in page_of(root).text
    assert not (root / "reports" / "figures" / "estimates.png").exists()
    for path in (root / "reports").rglob("*.[cmjt]*"):
        if path.suffix in {".csv", ".md", ".tex", ".json"}:
            assert not re.search(r"\bnan\b", path.read_text(), re.IGNORECASE), path


def test_empty_gallery_and_no_examples(workspace: Workspace) -> None:
    root, params = workspace()
    params["report"] = {**params["report"], "gallery": 0, "panels": 0, "examples": 0}
    report.run(root, params)
    assert page_of(root).all("img") == []


@pytest.mark.parametrize(
    ("key", "wrong"), [("gallery", -1), ("dpi", "high"), ("settings", None), ("titel", "x")]
)
def test_wrong_setting_is_named_before_anything_is_written(
    workspace: Workspace, key: str, wrong: object
) -> None:
    root, params = workspace()
    params["report"] = {**params["report"], key: wrong}
    with pytest.raises(UserError, match=rf"report\.{key}"):
        report.run(root, params)
    assert not (root / "reports").exists()


def test_missing_image_is_an_error_with_its_remedy(workspace: Workspace) -> None:
    root, params = workspace()
    for path in (root / "data" / "prepare" / "images").iterdir():
        path.unlink()
    with pytest.raises(UserError, match="dvc checkout"):
        report.run(root, params)


@pytest.mark.parametrize("width", [80, 120])
def test_terminal_shows_the_table_whole(made: Path, width: int) -> None:
    console = Console(width=width, record=True, force_terminal=False, highlight=False)
    with console.capture() as captured:
        summary.show(made / "reports", console)
    shown = captured.get()
    assert "demo_looks" in shown
    assert "0.90–1.00" in shown
    assert "inside" in shown
    assert "…" not in shown
    told = "photos: the gate agrees with 50.0 % of 2 labelled pairs (95 % interval 9.5 to 90.5 %)"
    assert told in " ".join(shown.split())
    assert str((made / "reports" / "index.html").resolve()) in shown
    table = shown.split("photos:")[0]
    assert max(len(line) for line in table.splitlines()) <= width


@pytest.mark.parametrize("width", [70, 80, 100, 160])
def test_terminal_breaks_no_name_of_two_axes(workspace: Workspace, width: int) -> None:
    judges = ("demo_lenient", "gpt_5_2")
    root, params = workspace(targets=("demo_looks", "demo_mixture"), judges=judges)
    params["report"] = {**params["report"], "gallery": 0, "panels": 0, "examples": 0}
    report.run(root, params)
    console = Console(width=width, force_terminal=False, highlight=False)
    with console.capture() as captured:
        summary.show(root / "reports", console)
    table = captured.get().split("Report:")[0]
    for name in ("demo_looks", "demo_mixture", *judges):
        assert name in table
    assert "0.90–1.00" in table
    assert ("n=" in table) == (width >= 100)
    assert max(len(line.rstrip()) for line in table.splitlines()) <= width


def test_calls_without_a_served_model_name_who_answered(workspace: Workspace) -> None:
    root, params = workspace(targets=("demo_looks",))
    folder = root / "data" / "baseline" / "demo_looks-0"
    file = folder / "answers.jsonl"
    file.write_text(file.read_text().replace('"served_model":"demo"', '"served_model":null'))
    report.run(root, params)
    assert "DemoTarget (simulated)" in page_of(root).text


def test_terminal_needs_a_report(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"table1\.csv"):
        summary.show(tmp_path, Console())
