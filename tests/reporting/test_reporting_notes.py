"""What stands under the tables: how intervals were made, and where no published value may stand."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stages import report
from stages.records.finding import Measured
from stages.reporting import protocol_tables
from stages.reporting.notes import fixed_edits, how_made
from stages.reporting.reading import read_study
from stages.reporting.tables import Column, Table, to_latex, to_markdown

Workspace = Callable[..., tuple[Path, dict[str, Any]]]
PERCENTILE = "percentile bootstrap over samples"
ALIKE = "wilson over samples (all alike)"


def measured(method: str, ends: bool = True) -> Measured:
    low, high = (0.4, 0.6) if ends else (None, None)
    return Measured(mean=0.5, low=low, high=high, confidence=0.95, method=method, n_samples=9, n=9)


def test_each_method_that_occurs_is_counted() -> None:
    shown = [measured(ALIKE), measured(PERCENTILE), measured(PERCENTILE), None]
    assert how_made(shown) == (
        "Intervals here: 2 by percentile bootstrap over samples; "
        "1 by Wilson interval over samples (all alike)."
    )


def test_one_method_is_named_alone() -> None:
    assert how_made([measured(ALIKE)]) == (
        "Every interval here: Wilson interval over samples (all alike)."
    )
    assert how_made([None]) == ""


def test_numbers_without_interval_are_counted_with_their_reason() -> None:
    shown = [measured("not estimable: a single sample", ends=False), None]
    assert how_made(shown) == "Numbers without interval: 1, a single sample."


def test_methods_that_differ_in_undefined_resamples_alone_are_one() -> None:
    counts = (776, 6, 3331, 776)
    shown = [measured(f"{PERCENTILE}, {n} of 10000 resamples undefined") for n in counts]
    assert how_made([*shown, measured(ALIKE)]) == (
        "Intervals here: 4 by percentile bootstrap over samples, 6 to 3331 of 10000 resamples "
        "undefined; 1 by Wilson interval over samples (all alike)."
    )
    assert ", 776 of 10000 resamples" in how_made(shown[:1])


def test_a_method_without_words_reads_as_written() -> None:
    assert "two-level bootstrap over 5 runs" in how_made(
        [measured("two-level bootstrap over 5 runs")]
    )


def test_the_note_stands_under_the_table() -> None:
    made = Table("t", "Caption", (Column("a", "A"),), (("x",),), "5 % by Wilson.")
    assert to_markdown(made).endswith("| x |\n\n5 % by Wilson.\n")
    latex = to_latex(made)
    assert (
        latex.index(r"\end{tabular}")
        < latex.index(r"5 \% by Wilson.")
        < latex.index(r"\end{table}")
    )
    long = Table("t", "Caption", (Column("a", "A"),), (("x",),) * 50, "By Wilson.")
    assert to_latex(long).endswith("{\\footnotesize By Wilson.\\par}\n")


def test_the_tables_of_a_study_say_how_their_intervals_were_made(workspace: Workspace) -> None:
    study = read_study(*workspace())
    for table in (protocol_tables.table1(study), protocol_tables.table3(study)):
        assert table.note == "Every interval here: bootstrap."


def fixed(params: dict[str, Any], value: object = True) -> dict[str, Any]:
    return {**params, "extractors": {"demo": {"_target_": "x.Bench", "fixed": value}}}


def test_no_published_value_stands_beside_edits_made_for_another_model(
    workspace: Workspace,
) -> None:
    root, params = workspace()
    report.run(root, fixed(params))
    html = (root / "reports" / "index.html").read_text()
    assert "made for another model" in html
    assert "published values and differences" not in html
    assert "tested on its own explanations" not in html
    assert not (root / "reports" / "tables" / "published.csv").exists()
    for path in (root / "reports" / "tables").glob("*.csv"):
        assert not re.search("published|difference", path.read_text().splitlines()[0]), path


@pytest.mark.parametrize("value", [False, None])
def test_published_values_stand_beside_a_targets_own_edits(
    workspace: Workspace, value: object
) -> None:
    root, params = workspace()
    report.run(root, fixed(params, value))
    html = (root / "reports" / "index.html").read_text()
    assert "made for another model" not in html
    assert "published values and differences" in html
    assert fixed_edits(read_study(root, params)) == ""


def test_published_values_are_promised_only_where_there_are_any(workspace: Workspace) -> None:
    root, params = workspace(targets=("real",))
    params["targets"]["real"] = {"_target_": "no.such.Model"}
    report.run(root, params)
    assert "published values" not in (root / "reports" / "index.html").read_text()
