"""Figures: a missed bound is said, and what was not measured anew stays."""

from pathlib import Path

import pytest

from bench import figure
from bench.figure import Figure


def test_a_ratio_is_over_the_baseline_or_under_it() -> None:
    slower = Figure(topic="a", name="n", value=3, unit="s", baseline="b", baseline_value=2)
    assert slower.ratio == 1.5
    assert slower.model_copy(update={"faster": True}).ratio == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("sense", "bound", "met"),
    [("most", 1.5, True), ("most", 1.4, False), ("least", 1.5, True), ("least", 1.6, False)],
)
def test_a_bound_holds_the_ratio_where_there_is_one(sense: str, bound: float, met: bool) -> None:
    row = {"topic": "a", "name": "n", "value": 3, "unit": "s", "bound": bound, "sense": sense}
    against = {"baseline": "b", "baseline_value": 2}
    assert Figure.model_validate(row | against).met is met
    assert Figure.model_validate(row | {"value": 1.5}).met is met


def test_a_missed_bound_stands_in_the_table() -> None:
    row = Figure(topic="a", name="no-op", value=6, unit="s", bound=5)
    assert "**missed**" in figure.table([row])
    assert "**missed**" not in figure.table([row.model_copy(update={"value": 5.0})])


def test_topics_that_were_not_measured_stay(tmp_path: Path) -> None:
    first = [Figure(topic=t, name=n, value=1, unit="s") for t, n in ("ax", "ay", "bz")]
    figure.save(tmp_path / "speed.json", first)
    fresh = [Figure(topic="a", name="w", value=2, unit="s")]
    merged = figure.merge(figure.load(tmp_path / "speed.json"), fresh)
    assert [(f.topic, f.name) for f in merged] == [("a", "w"), ("b", "z")]


def test_a_page_keeps_what_stands_around_the_figures(tmp_path: Path) -> None:
    page = tmp_path / "speed.md"
    page.write_text(f"before\n{figure.BEGIN}\nold\n{figure.END}\nafter\n")
    figure.insert(page, "new")
    assert page.read_text() == f"before\n{figure.BEGIN}\nnew\n{figure.END}\nafter\n"
    page.write_text("no marks")
    with pytest.raises(ValueError, match="lacks the marks"):
        figure.insert(page, "new")
