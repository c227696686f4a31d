"""The table of costs: each reply once, known and unknown apart, estimates marked."""

from typing import Any

import pytest

from stages.models.prices import Price, Prices
from stages.records.answer import Answer
from stages.records.base import Status
from stages.records.judgement import Judgement
from stages.records.score import Cell
from stages.records.usage import CallNote, Usage
from stages.reporting import tables
from stages.reporting.cost import cost_table
from stages.reporting.study import CellRecords, Study

CELL = Cell(target="t", extractor="e", editor="d", judge="j", seed=0)
MODEL = "maker/model"
TOKENS = Usage(input_tokens=1000, output_tokens=100)


def note(key: str, usage: Usage, role: str = "target", charged: bool = True) -> CallNote:
    return CallNote(role=role, key=key, usage=usage, model=MODEL, charged=charged)


def answer(position: int, *notes: CallNote) -> Answer:
    return Answer(
        sample_id="s", position=position, image="0" * 64, status=Status.OK, calls=tuple(notes)
    )


def study(
    baseline: list[CallNote],
    requery: list[CallNote] | None = None,
    judge: list[CallNote] | None = None,
    prices: Prices | None = None,
) -> Study:
    def no_pixels(sha256: str) -> Any:
        raise KeyError(sha256)

    ruled = Judgement(
        sample_id="s", position=1, replicate=0, status=Status.OK, graded_status=Status.OK
    )
    records = CellRecords(
        cell=CELL,
        pixels=no_pixels,
        baseline={"s": answer(0, *baseline)},
        concepts={},
        chains={},
        attempts={},
        answers={("s", 1): answer(1, *(requery or []))},
        judgements={("s", 1): (ruled.model_copy(update={"calls": tuple(judge or [])}),)},
    )
    return Study(name="s", params={}, cells=(CELL,), records=(records,), prices=prices or Prices())


def rows(found: Study) -> list[dict[str, Any]]:
    table = cost_table(found)
    assert table is not None
    return [
        {column.key: value for column, value in zip(table.columns, row, strict=True)}
        for row in table.rows
    ]


def test_reported_costs_are_summed_by_stage_role_and_model_that_was_served() -> None:
    flash = Usage(served_model="a", provider="p", cost_usd=0.25, input_tokens=3)
    other = Usage(served_model="b", provider="p", cost_usd=0.5)
    found = rows(
        study(
            [note("1", flash), note("2", flash)],
            [note("3", other)],
            [note("4", other, role="judge")],
        )
    )
    assert [
        (r["stage"], r["role"], r["served_model"], r["calls"], r["cost_usd"]) for r in found
    ] == [
        ("baseline", "target", "a", 2, 0.5),
        ("requery", "target", "b", 1, 0.5),
        ("judge", "judge", "b", 1, 0.5),
        ("all", "all", None, 4, 1.5),
    ]
    assert found[0]["input_tokens"] == 6
    assert {row["unknown_calls"] for row in found} == {0}
    assert {row["estimated_usd"] for row in found} == {0.0}


def test_a_reply_that_answers_two_stages_is_paid_for_once() -> None:
    paid = note("1", Usage(cost_usd=0.5))
    assert [row["calls"] for row in rows(study([paid], [paid]))] == [1, 1]


def test_what_the_table_tells_is_marked_as_estimated() -> None:
    prices = Prices({MODEL: Price(input=1.0, output=10.0)})
    found = rows(study([note("1", TOKENS), note("2", Usage(cost_usd=1.0))], prices=prices))
    assert found[0]["cost_usd"] == pytest.approx(1.002)
    assert found[0]["estimated_usd"] == pytest.approx(0.002)


def test_an_unknown_cost_is_counted_apart_and_is_never_nothing() -> None:
    found = study([note("1", TOKENS)], [note("2", Usage(cost_usd=1.0))])
    first, second, everything = rows(found)
    assert (first["cost_usd"], first["unknown_calls"]) == (None, 1)
    assert (second["cost_usd"], second["unknown_calls"]) == (1.0, 0)
    assert (everything["cost_usd"], everything["unknown_calls"]) == (1.0, 1)
    table = cost_table(found)
    assert table is not None
    assert "A lower bound: the cost of 1 calls is unknown" in table.note
    assert tables.to_csv(table).splitlines()[1].endswith(",1000,100,,,0.0000,1")


def test_what_nobody_charges_for_costs_nothing() -> None:
    (row, _) = rows(study([note("1", TOKENS, charged=False)]))
    assert (row["cost_usd"], row["unknown_calls"]) == (0.0, 0)


def test_a_column_that_begins_with_a_gap_still_holds_words() -> None:
    found = cost_table(study([note("1", TOKENS), note("2", Usage(served_model="a", cost_usd=1.0))]))
    assert found is not None
    assert found.rows[0][found.column("served_model")] is None
    assert tables.is_text(found, found.column("served_model"))
    assert not tables.is_text(found, found.column("calls"))


def test_a_study_without_calls_has_no_such_table() -> None:
    assert cost_table(study([])) is None
