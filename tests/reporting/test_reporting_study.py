"""Reading a study, and the tables, funnel, metrics and plots made of it."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from stages.records.base import Status
from stages.records.errors import UserError
from stages.reporting import figures, plots, protocol_tables
from stages.reporting.funnel import funnel, gate, verdicts
from stages.reporting.gallery import all_cases, choose, told_in_full, verified
from stages.reporting.reading import read_study
from stages.reporting.study import Study, simulated, use_by_role
from stages.reporting.tables import Quantity, Table, to_csv

Workspace = Callable[..., tuple[Path, dict[str, Any]]]


@pytest.fixture
def study(workspace: Workspace) -> Study:
    return read_study(*workspace(n=12))


def value(table: Table, row: int, key: str) -> Any:
    return table.rows[row][table.column(key)]


def test_funnel_loses_only_what_it_explains(study: Study) -> None:
    steps = funnel(study.interventions)
    for step in steps:
        assert step.entered - step.kept == sum(step.lost.values())
    for before, after in pairwise(steps):
        assert after.entered == before.kept or after.key in ("planned", "judge (graded)")
    by_key = {step.key: step for step in steps}
    assert by_key["judge (graded)"].entered == by_key["requery"].kept
    assert by_key["judge"].kept == sum(row.status is Status.OK for row in study.interventions)
    # 12 samples in 2 cells; a sixth of them refuse, a sixth name nothing.
    assert by_key["samples"].kept == 24
    assert by_key["baseline"].lost == {Status.REFUSED: 4}
    assert by_key["concepts"].lost == {Status.NO_CONCEPTS: 4}
    assert by_key["planned"].kept == 32
    assert by_key["reached"].lost == {Status.NOT_REACHED: 4}
    assert by_key["edit"].lost == {Status.OUTSIDE_CHANGED: 4}
    assert by_key["judge"].lost == {Status.UNPARSED: 4}
    assert by_key["judge"].kept == 20
    assert by_key["judge (graded)"].kept == 24


def test_gate_counts_retries_and_recoveries(study: Study) -> None:
    seen = gate(study.interventions)
    assert (seen.tried, seen.accepted, seen.retried, seen.recovered) == (28, 24, 8, 4)


def ungraded(study: Study) -> Study:
    """The study with a judge whose graded replies are unreadable but for every fifth."""
    rows = [
        row
        if row.graded_status is None or i % 5 == 0
        else row.model_copy(
            update={
                "ccs_graded": None,
                "graded_status": Status.UNPARSED,
                "graded_reason": "no grade in the reply",
                "grades_lost": 1,
            }
        )
        for i, row in enumerate(study.interventions)
    ]
    graded: dict[Any, int] = {}
    for row in rows:
        graded[row.cell] = graded.get(row.cell, 0) + (row.ccs_graded is not None)
    estimates = [
        e.model_copy(update={"n_interventions": graded[e.cell]}) if e.metric == "ccs_graded" else e
        for e in study.estimates
    ]
    changed = {"interventions": tuple(rows), "estimates": tuple(estimates)}
    return Study(**{**_fields(study), **changed})


def test_lost_grades_are_counted_with_their_reason(study: Study) -> None:
    lossy = ungraded(study)
    n = sum(row.ccs_graded is not None for row in lossy.interventions)
    assert 0 < n < 10
    steps = {step.key: step for step in funnel(lossy.interventions)}
    assert steps["judge (graded)"].lost == {Status.UNPARSED: 24 - n}
    assert steps["judge (graded)"].kept == n
    assert steps["judge"].kept == 20  # the binary verdicts are what they were
    rows = protocol_tables.attrition_table(lossy).rows
    (row,) = [row for row in rows if row[0] == "all" and row[1] == "judge (graded)"]
    assert row[3:] == ("unparsed", "reply could not be read", 24 - n, pytest.approx(1 - n / 24))
    table = protocol_tables.table1(lossy)
    assert value(table, 0, "n_graded") + value(table, 1, "n_graded") == n
    assert value(table, 0, "n_interventions") == 10
    assert "grades: unparsed" in value(table, 0, "lost")
    found = verdicts(lossy.interventions)
    assert sum(found.binary_only.values()) >= 20 - n
    assert (found.replicates, found.verdicts_lost, found.grades_lost) == (24, 4, 24 - n)


def test_a_grade_without_a_binary_verdict_is_counted_as_such(study: Study) -> None:
    found = verdicts(study.interventions)
    assert (found.binary_only, found.graded_only) == ({}, 4)
    table = protocol_tables.table1(study)
    assert value(table, 0, "n_graded") == 12
    assert value(table, 0, "n_interventions") == 10


def test_table1_says_on_how_many_edits_each_position_rests(study: Study) -> None:
    table = protocol_tables.table1(study)
    assert [value(table, 0, f"n_{k}") for k in (1, 2)] == [6, 4]


def test_positions_are_not_joined_by_lines(study: Study) -> None:
    figure = figures.positions(study)
    assert figure is not None
    for ax in figure.axes:
        assert [line for line in ax.lines if len(set(line.get_xdata())) > 1] == []
        assert [label.get_text() for label in ax.get_xticklabels()] == ["1\nn = 6", "2\nn = 4"]


def test_funnel_says_over_how_many_rows_it_counts(study: Study) -> None:
    assert funnel(study.interventions)[0].name == "Samples asked about, over 2 rows"
    one = [row for row in study.interventions if row.cell == study.cells[0]]
    assert funnel(one)[0].name == "Samples asked about"
    table = protocol_tables.funnel_table(study)
    assert table.rows[0][:3] == ("Samples asked about", "samples", 24)
    assert table.columns[2].head == "All 2 rows"


def test_funnel_of_nothing_is_all_zero() -> None:
    assert {step.kept for step in funnel(())} == {0}


def test_table1_shows_planted_published_and_counts(study: Study) -> None:
    table = protocol_tables.table1(study)
    assert [row[0] for row in table.rows] == ["demo_looks", "demo_prior"]
    assert value(table, 0, "ccs_binary") == Quantity(1.0, 0.9, 1.0)
    assert value(table, 0, "ac_2") == Quantity(1.0, 0.9, 1.0)
    assert value(table, 0, "planted_ccs") == 1.0
    assert value(table, 0, "planted_inside") == "yes"
    assert value(table, 0, "published_ccs_binary") == 0.47
    assert value(table, 0, "difference_ccs_binary") == pytest.approx(0.53)
    assert value(table, 1, "published_ccs_binary") is None
    assert value(table, 0, "n_interventions") == 10
    assert value(table, 0, "n_planned") == 20


def test_planted_value_outside_its_interval_says_so(study: Study) -> None:
    planted = {"demo_looks": 0.5, "demo_prior": 0.05}
    shifted = Study(**{**_fields(study), "planted": planted})
    table = protocol_tables.table1(shifted)
    assert [value(table, i, "planted_inside") for i in (0, 1)] == ["no", "yes"]


def test_columns_that_no_row_fills_are_left_out(workspace: Workspace) -> None:
    root, params = workspace(targets=("real",))
    params["targets"]["real"] = {"_target_": "no.such.Model"}  # it must not be made
    table = protocol_tables.table1(read_study(root, params))
    keys = {column.key for column in table.columns}
    assert not keys & {"planted_ccs", "planted_inside", "published_ccs_binary"}


def test_rows_are_named_by_the_axis_that_varies(workspace: Workspace) -> None:
    study = read_study(*workspace(targets=("demo_looks",), judges=("a", "b")))
    table = protocol_tables.table1(study)
    assert table.columns[0].key == "judge"
    assert [row[0] for row in table.rows] == ["a", "b"]
    assert list(plots.metrics(study)) == ["demo_looks-a", "demo_looks-b"]


def test_table3_has_a_row_for_each_domain(study: Study) -> None:
    table = protocol_tables.table3(study)
    assert [row[:2] for row in table.rows[:3]] == [
        ("demo_looks", "objects"),
        ("demo_looks", "driving"),
        ("demo_looks", "spatial"),
    ]
    assert value(table, 0, "published_ccs_binary") == 0.47
    assert value(table, 1, "published_ccs_binary") is None


def test_nothing_scored_is_not_estimable_and_keeps_its_counts(workspace: Workspace) -> None:
    study = read_study(*workspace(scored=False))
    table = protocol_tables.table1(study)
    assert value(table, 0, "ccs_binary") == Quantity(None)
    assert value(table, 0, "n_interventions") == 0
    assert value(table, 0, "n_planned") == 12
    metrics = plots.metrics(study)["demo_looks"]
    assert "ccs_binary" not in metrics
    assert metrics["n_scored"] == 0
    assert metrics["acceptance"] == 0


def test_attrition_names_every_loss_with_its_share(study: Study) -> None:
    rows = protocol_tables.attrition_table(study).rows
    assert ("all", "prepare", "candidates", *["demo: not in the front camera"] * 2, 3, None) in rows
    (refused,) = [row for row in rows if row[0] == "all" and row[3] == "refused"]
    assert refused[5:] == (4, pytest.approx(4 / 24))


def test_metrics_are_small_rounded_and_plain_json(study: Study) -> None:
    metrics = plots.metrics(study)
    assert json.loads(json.dumps(metrics, allow_nan=False)) == metrics
    assert metrics["demo_prior"]["ac"] == 0.6
    assert metrics["demo_prior"]["acceptance"] == 0.8571


def test_plot_data_has_a_row_for_each_mark(study: Study) -> None:
    by_name = {table.name: table for table in plots.plot_tables(study)}
    assert len(by_name["estimates"].rows) == 2 * 2
    assert len(by_name["positions"].rows) == 2 * 2 * 2
    assert to_csv(by_name["estimates"]).startswith("cell,metric,mean,low,high,n\n")


def test_gallery_shows_every_kind_of_outcome(study: Study) -> None:
    cases = all_cases(study)
    kinds = {(case.label, kind) for case in cases for kind in case.outcomes}
    shown = choose(cases, 12)
    assert {(case.label, kind) for case in shown for kind in case.outcomes} == kinds
    assert [c.anchor for c in choose(list(reversed(cases)), 12)[::-1]] == [c.anchor for c in shown]
    assert len(choose(cases, 3)) == 3
    assert len(choose(cases, 999)) == len(cases)


def test_printed_examples_are_scored_to_the_end(study: Study) -> None:
    told = told_in_full(all_cases(study))
    assert len(told) == 2 * 2 * 2  # samples 3 and 5 of each six, two cells
    assert all(len(case.steps) == 2 for case in told)


def test_panels_show_each_status_and_no_edit_twice(study: Study) -> None:
    shown = verified(study, 6)
    assert {str(v.attempt.status) for v in shown} == {"ok", "inside_unchanged", "outside_changed"}
    pairs = [(v.attempt.source, v.attempt.edited) for v in shown]
    assert len(set(pairs)) == len(pairs) == 6


def test_simulated_parts_are_found_wherever_they_stand() -> None:
    params = {
        "targets": {"a": {"_target_": "stages.models.demo.Target"}, "b": {"_target_": "x.Real"}},
        "wrapped": [{"inner": {"_target_": "demo.Y"}}],
        "study": "demo",
    }
    assert simulated(params) == ("targets.a", "wrapped.0.inner")
    assert simulated({"targets": {"b": {"_target_": "x.Real"}}}) == ()


def test_use_counts_a_stored_reply_once(study: Study) -> None:
    (use,) = use_by_role(study)  # the fixture's keys are shared by both cells
    keys = {n.key for r in study.records for a in r.baseline.values() for n in a.calls}
    keys |= {n.key for r in study.records for a in r.answers.values() for n in a.calls}
    assert use.calls == len(keys)
    assert use.input_tokens == 100 * len(keys)


@pytest.mark.parametrize(
    "path", ["data/plan/cells.json", "data/score/estimates.jsonl", "data/prepare/left_out.json"]
)
def test_missing_file_is_named(workspace: Workspace, path: str) -> None:
    root, params = workspace()
    (root / path).unlink()
    with pytest.raises(UserError, match=Path(path).name):
        read_study(root, params)


def test_broken_row_is_named(workspace: Workspace) -> None:
    root, params = workspace()
    file = root / "data" / "score" / "interventions.jsonl"
    lines = file.read_text().splitlines()
    lines[1] = lines[1][:-5]
    file.write_text("\n".join(lines))
    with pytest.raises(UserError, match=r"interventions\.jsonl:2"):
        read_study(root, params)


def test_cells_outside_the_study_are_not_read(workspace: Workspace) -> None:
    root, params = workspace()
    (root / "data" / "judge" / "old-demo-demo-demo-0").mkdir()
    assert [r.cell.target for r in read_study(root, params).records] == ["demo_looks", "demo_prior"]


def _fields(study: Study) -> dict[str, Any]:
    return {name: getattr(study, name) for name in study.__dataclass_fields__}
