"""Tables of the paper and of the findings, from scored studies; all of them in LaTeX."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from stages import score
from stages.records import jsonl
from stages.records.finding import Measured
from stages.records.score import Intervention
from stages.reporting import figures, finding_figures, page, paper_tables
from stages.reporting.all_tables import all_tables
from stages.reporting.prints import Prints
from stages.reporting.reading import read_study
from stages.reporting.study import Study
from stages.reporting.tables import Quantity, Table, to_csv, to_latex, to_markdown
from tests.analysis.test_analysis_people import published_labels
from tests.stages.drawn import DESIGN, cell, write_study

GEMINI, QWEN, GPT = "gemini_2_5_flash", "qwen3_235b_a22b", "gpt_5_2"


def scored(root: Path, *args) -> Study:
    params = write_study(root, *args)
    score.run(root, params)
    return read_study(root, params)


def values(table: Table, key: str) -> list:
    return [row[table.column(key)] for row in table.rows]


@pytest.fixture(scope="module")
def paper(tmp_path_factory) -> Study:
    """Two of the paper's targets."""
    cells = {cell(t, QWEN, "flux_2_max", QWEN): 0.6 for t in (GEMINI, "glm_4_6v")}
    return scored(tmp_path_factory.mktemp("paper"), cells)


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory) -> Study:
    """Two LLMs in both roles, two editors."""
    cells = {
        cell(GEMINI, x, e, j): 0.6
        for x in (QWEN, GPT)
        for e in ("flux_2_max", "gemini_3_pro_image")
        for j in (QWEN, GPT)
    }
    design = DESIGN._replace(no_concepts=0.0)
    return scored(tmp_path_factory.mktemp("pipelines"), cells, design, {GPT: 0.1})


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Study:
    """Five seeds."""
    cells = {cell(GEMINI, QWEN, "flux_2_max", QWEN, seed): 0.6 for seed in range(5)}
    return scored(tmp_path_factory.mktemp("runs"), cells)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory) -> Study:
    """People's labels with the published counts."""
    root = tmp_path_factory.mktemp("labelled")
    design = DESIGN._replace(n_samples=150, k=1, accept=0.9, no_concepts=0.0)
    params = write_study(root, {cell(GEMINI): 0.5}, design)
    score.run(root, params)
    rows = jsonl.read(root / "data" / "score" / "interventions.jsonl", Intervention)
    folder = root / "data" / "annotations"
    folder.mkdir()
    labels = published_labels(rows)
    names = [name for name in type(labels[0]).model_fields if name not in ("attempt", "edited")]
    lines = [",".join(names)]
    for label in labels:
        given = label.model_dump()
        lines.append(",".join("" if given[n] is None else str(given[n]) for n in names))
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    score.run(root, params)
    return read_study(root, params)


def test_every_number_of_tables_1_and_3_has_the_published_one_beside_it(paper):
    tables = {table.name: table for table in all_tables(paper)}
    beside = tables["published"]
    assert len(beside.rows) == 2 * (6 + 3 * 2)  # Table 1: six numbers; Table 3: two by domain
    columns = [values(beside, key) for key in ("ours", "published", "difference")]
    for ours, theirs, difference in zip(*columns, strict=True):
        assert difference == pytest.approx(ours.mean - theirs.mean)
    row = tables["table1"].rows[0]
    assert row[tables["table1"].column("published_ccs_binary")] == 0.60
    assert "table2" not in tables
    assert "table5" not in tables


def test_main_tables_say_how_many_and_what_was_lost_and_why(paper):
    tables = {table.name: table for table in all_tables(paper)}
    for name in ("table1", "table3"):
        table = tables[name]
        for key in ("n_samples", "n_interventions", "n_planned"):
            assert all(value > 0 for value in values(table, key))
        assert any("inside unchanged" in lost for lost in values(table, "lost"))
    lost = values(tables["table1"], "lost")[0]
    counted = sum(int(part.split()[0]) for part in lost.split("; "))
    mine = [r for r in paper.interventions if r.cell.target == GEMINI and r.status != "ok"]
    assert counted == len(mine)


def test_table_4_without_labels_shows_the_published_rows_alone(paper):
    table = paper_tables.table4(paper)
    assert len(table.rows) == 8
    assert set(values(table, "agree")) == {None}
    assert values(table, "published_agree")[0] == 88


def test_published_agreement_stands_beside_the_papers_own_targets_alone(labelled):
    assert "published" in [column.key for column in paper_tables.table4(labelled).columns]
    other = replace(labelled, published={("another", *key[1:]): value
                                         for key, value in labelled.published.items()})  # fmt: skip
    table = paper_tables.table4(other)
    assert len(table.rows) == len(labelled.findings.people) + len(labelled.findings.gate)
    assert not any(c.key.startswith(("published", "difference")) for c in table.columns)


def test_every_table_of_a_study_stands_on_its_page(paper, pipelines, runs, labelled, tmp_path):
    found = replace(labelled.findings, verifier=labelled.findings.gate[:1])
    prints = Prints(tmp_path, view_px=64, thumbnail_px=32)
    for study in (paper, pipelines, runs, replace(labelled, findings=found)):
        html = page.render(
            study, title="t", cases=(), verified=(), figures={}, settings=(), prints=prints
        )
        captions = set(re.findall(r'id="caption-(\w+?)(?:-all)?"', html))
        missing = {table.name for table in all_tables(study)} - captions
        assert missing <= {"funnel"}  # drawn as bars where there is one row
    assert "caption-gate_verifier" in html


def test_table_2_sets_one_llm_in_both_roles_before_the_mixed_pairs(pipelines):
    table = paper_tables.table2(pipelines)
    assert values(table, "same") == ["yes"] * 4 + ["no"] * 4
    published = values(table, "published_ccs_binary")
    assert published[:4] == [0.60, 0.61, 0.54, 0.53]
    assert published[4:] == [None] * 4
    first = table.rows[0]
    ours = first[table.column("ccs_binary")].mean
    assert first[table.column("difference_ccs_binary")] == pytest.approx(ours - 0.60)


def test_effects_of_extractor_judge_and_editor_have_a_row_each(pipelines):
    tables = {table.name: table for table in all_tables(pipelines)}
    axes = values(tables["effects"], "axis")
    assert set(axes) == {"extractor", "editor", "judge", "extractor × judge"}
    assert "comparisons" not in tables  # one target
    assert {"judges", "judge_scores"} <= set(tables)


def test_table_5_lays_mean_and_sd_beside_the_published_ones(runs):
    table = paper_tables.table5(runs)
    (binary,) = [row for row in table.rows if "CCS, binary" in row]
    get = dict(zip([c.key for c in table.columns], binary, strict=True))
    assert (get["runs"], get["published_mean"], get["published_sd"]) == (5, 0.5783, 0.0356)
    assert get["difference"] == pytest.approx(get["mean"].mean - 0.5783)
    assert get["mean"].low < get["mean"].mean < get["mean"].high
    assert len(get["run_means"].split(", ")) == 5
    assert get["n_planned"] > get["n_interventions"] > get["n_samples"]


def test_table_4_reproduces_the_published_numbers_to_a_tenth_of_a_point(labelled):
    table = paper_tables.table4(labelled)
    for row in table.rows:
        get = dict(zip([c.key for c in table.columns], row, strict=True))
        if get["what"] != "CCS, binary" or get["subset"] != "all":
            continue
        assert (get["agree"], get["n"]) == (get["published_agree"], get["published_n"])
        assert get["difference"] == pytest.approx(0, abs=1e-9)
        assert get["share"][:3] == pytest.approx(get["published"][:3], abs=0.1)
    assert "| 88.0 \\[80.2, 93.0\\] |" in to_markdown(table)


def test_correction_is_in_a_table_with_the_check_of_its_labels(labelled):
    tables = {table.name: table for table in all_tables(labelled)}
    table = tables["corrected"]
    assert set(values(table, "looks_random")) <= {"yes", "no"}
    assert values(table, "n_labelled")[0] == 112


def test_heat_map_and_differences_are_drawn_where_there_is_something_to_draw(paper, pipelines):
    with figures.style():
        for study in (paper, pipelines):
            assert finding_figures.sensitivity(study) is not None
            assert finding_figures.differences(study) is not None
            assert finding_figures.recovered(study) is None
            assert finding_figures.calibration(study) is None


def test_calibration_is_drawn_from_its_rows(paper):
    from stages.analysis.coverage import study as simulate
    from stages.analysis.measures import Resampling

    designs = [DESIGN._replace(n_samples=20, planted=p) for p in (0.0, 0.5)]
    rows = simulate("coverage", designs, 3, 0.3, Resampling(100, 0.95, 0))
    noisy = [design._replace(judge_error=0.1) for design in designs]
    more = simulate("judge", noisy, 3, 0.3, Resampling(100, 0.95, 0))
    shown = replace(paper, coverage=(*rows, *more))
    with figures.style():
        assert len(figures.save(finding_figures.calibration(shown), dpi=72)["png"]) > 5000
    (table,) = [t for t in all_tables(shown) if t.name == "calibration_table"]
    assert len(table.rows) == len(shown.coverage)
    assert values(table, "covered")[0].mean == 100.0


def test_recovery_is_drawn_where_targets_have_a_planted_ccs(tmp_path):
    cells = {cell(f"t{i}"): i / 4 for i in range(5)}
    study = replace(scored(tmp_path, cells), planted={c.target: p for c, p in cells.items()})
    with figures.style():
        figure = finding_figures.recovered(study)
        assert figure is not None
        assert len(figures.save(figure, dpi=72)["png"]) > 5000


def test_figures_of_equal_studies_have_equal_bytes(paper):
    with figures.style():
        one, two = (figures.save(finding_figures.sensitivity(paper), dpi=72) for _ in range(2))
    assert one == two


def document(tables) -> str:
    body = "\n\\clearpage\n".join(to_latex(table) for table in tables)
    head = r"\documentclass{article}\usepackage{booktabs,graphicx,longtable}\begin{document}"
    return f"{head}\n{body}\n\\end{{document}}\n"


@pytest.fixture
def compiles(tmp_path):
    """Compile a document with what is installed; skip where nothing is."""
    engine = next((e for e in ("tectonic", "pdflatex") if shutil.which(e)), None)
    if engine is None:
        pytest.skip("neither tectonic nor pdflatex is installed")
    options = ["-interaction=nonstopmode", "-halt-on-error"] if engine == "pdflatex" else []

    def run(text: str) -> None:
        (tmp_path / "t.tex").write_text(text, encoding="utf-8")
        done = subprocess.run(
            [engine, *options, "t.tex"], cwd=tmp_path, capture_output=True, encoding="latin-1"
        )
        assert done.returncode == 0, done.stdout[-2000:]
        assert (tmp_path / "t.pdf").stat().st_size > 1000

    return run


def test_latex_of_every_table_compiles(paper, pipelines, runs, labelled, compiles):
    compiles(document(t for s in (paper, pipelines, runs, labelled) for t in all_tables(s)))


def test_latex_compiles_whatever_a_name_holds(paper, compiles, hostile):
    from stages.reporting.tables import Column

    table = Table(
        "hostile",
        hostile,
        (Column("a", hostile), Column("b", "τ_in ± κ α λ Δ é ñ Å ß ł → 红", quantity=True)),
        ((hostile, Quantity(-0.5, -0.6, -0.4)), ("<|>\"~^`'''--- ", Quantity(None))) * 30,
    )
    compiles(document([table, Table("short", hostile, table.columns, table.rows[:2])]))


@pytest.mark.parametrize("name", ["paper", "pipelines", "runs", "labelled"])
def test_latex_has_as_many_cells_as_columns(name, request):
    for table in all_tables(request.getfixturevalue(name)):
        written = to_latex(table)
        columns = sum(not column.data_only for column in table.columns)
        rows = [line for line in written.splitlines() if line.endswith(r" \\") and "&" in line]
        assert len(rows) >= len(table.rows)
        assert {row.replace(r"\&", "").count("&") for row in rows} == {columns - 1}
        bare = written.replace(r"\{", "").replace(r"\}", "")
        assert bare.count("{") == bare.count("}")


def test_no_table_holds_a_nan(paper, pipelines, runs, labelled):
    for study in (paper, pipelines, runs, labelled):
        for table in all_tables(study):
            assert "nan" not in to_csv(table).lower().replace("nano", "")


def test_shares_are_in_per_cent_and_missing_ones_stay_missing():
    nothing = Measured(mean=None, low=None, high=None, confidence=0.95, method="", n_samples=0, n=0)
    assert paper_tables.percent(nothing) == Quantity(None)
    assert paper_tables.percent(nothing.model_copy(update={"mean": 0.5})) == Quantity(50.0)
