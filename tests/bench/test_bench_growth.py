"""Growth: slopes are exponents, stand-ins make every call anew, the plot shows what was found."""

import asyncio
import json
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from bench import growth, growth_plot, study
from bench.figure import Figure, Series
from stages.models import replies
from stages.models.protocol import Conversation, Turn

SIZES = (10, 100, 1_000)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
def test_a_slope_is_the_exponent_over_the_upper_decade(exponent: float) -> None:
    values = [7.0, *(0.3 * size**exponent for size in SIZES[1:])]
    assert growth.slope(SIZES, values) == pytest.approx(exponent, abs=1e-3)


def test_a_quadratic_cost_misses_its_bound() -> None:
    assert growth._figure("x", SIZES, [size**2 for size in SIZES]).met is False
    assert growth._figure("x", SIZES, list(SIZES)).met is True


@pytest.mark.parametrize(
    ("schema", "read"),
    [
        (replies.CONCEPTS_SCHEMA, partial(replies.read_concepts, k=1)),
        (replies.INSTRUCTIONS_SCHEMA, partial(replies.read_instructions, n=1)),
        (replies.EDIT_SCHEMA, replies.read_edit),
        (replies.VERDICT_SCHEMA, partial(replies.read_verdict, judged=())),
        (replies.GRADE_SCHEMA, partial(replies.read_grade, judged=())),
    ],
)
def test_what_echo_says_can_be_read_in_every_role(schema: object, read: object) -> None:
    said = [
        asyncio.run(
            growth.Echo().complete(
                Conversation((Turn("user", text),), max_tokens=64, reply_schema=schema)  # type: ignore[arg-type]
            )
        ).text
        for text in ("one", "two")
    ]
    assert all(read(text) for text in said)  # type: ignore[operator]


def test_a_chain_calls_for_every_sample_and_names_every_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = {name: of for name, of in growth.STAGES.items() if name != "report"}
    monkeypatch.setattr(growth, "STAGES", stages)
    monkeypatch.setenv("EDCT_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(growth, "EDITED", 2)
    assert set(growth.chain(str(tmp_path / "run"), 2)) == set(stages)
    said = capsys.readouterr().out
    assert "calls made 4 (target 4); answered from the store 0" in said  # baseline: two turns
    assert "calls made 4 (judge 4); answered from the store 0" in said
    assert "score: 2 of 2 interventions scored" in said
    monkeypatch.setenv("EDCT_STORE", str(tmp_path / "other"))
    assert set(growth.chain(str(tmp_path / "more"), 3)) == set(stages) - {"edit"}
    said = capsys.readouterr().out
    assert said.count("answered from the store 0") == 5  # nobody was asked that before
    assert "score: 3 of 3 interventions scored" in said


def test_a_plot_has_every_cost_by_name_and_equal_figures_give_equal_files(tmp_path: Path) -> None:
    costs = [cost for costs in growth_plot.PANELS.values() for cost in costs]
    found = [growth._figure(f"DVC's {cost} of it", SIZES, [3.0, 5.0, 9.0]) for cost in costs]
    drawn = growth_plot.drawing(found)
    shown = " ".join(text.get_text() for ax in drawn.axes for text in ax.texts)
    assert all(cost in shown for cost in costs)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        growth_plot.draw(found, tmp_path / folder)
    for name in ("growth.png", "growth.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_names_stay_apart_and_within_the_panel() -> None:
    placed = growth_plot._apart({"a": 0.97, "b": 0.97, "c": 0.96, "d": 0.1})
    heights = sorted(placed.values())
    gaps = [high - low for low, high in pairwise(heights)]
    assert min(gaps) >= growth_plot._GAP - 1e-9
    assert heights[-1] <= 1
    assert placed["d"] < placed["c"] < placed["a"]


def test_a_figure_without_growth_is_left_out(tmp_path: Path) -> None:
    plain = Figure(topic="growth", name="x", value=1, unit="s")
    grown = plain.model_copy(update={"series": Series(sizes=SIZES, values=(1.0, 2.0, 3.0))})
    growth_plot.draw([plain, grown], tmp_path)
    assert (tmp_path / "growth.svg").exists()
    assert study.CELL.target == "bench"
    assert json.loads(grown.model_dump_json())["series"]["sizes"] == list(SIZES)
