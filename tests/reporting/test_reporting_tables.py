"""Tables in their written forms."""

import csv
import io

import pytest

from stages.reporting.tables import (
    Column,
    Quantity,
    Table,
    Value,
    escape_latex,
    text,
    to_csv,
    to_latex,
    to_markdown,
    without_empty_columns,
)

COLUMNS = (
    Column("target", "Target"),
    Column("ccs", "CCS_b", quantity=True),
    Column("difference", "Difference", signed=True),
    Column("n", "n"),
)


def table(*rows: tuple[Value, ...]) -> Table:
    return Table("t", "A & B", COLUMNS, rows)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Quantity(0.474, 0.41, 0.53), "0.47 [0.41, 0.53]"),
        (Quantity(0.0, 0.0, 0.1), "0.00 [0.00, 0.10]"),
        (Quantity(1.0), "1.00 (no interval)"),
        (Quantity(None), "not estimable"),
        (None, "–"),
        (0, "0"),
        ("a\x07b", "a\ufffdb"),
    ],
)
def test_values_read_as_people_expect(value: Value, shown: str) -> None:
    assert text(value, Column("x", "X")) == shown


def test_differences_carry_their_sign() -> None:
    signed = Column("d", "D", signed=True)
    assert [text(v, signed) for v in (0.03, -0.03)] == ["+0.03", "-0.03"]


def test_csv_can_be_read_back_and_missing_is_empty() -> None:
    written = to_csv(
        table(('a,"b"', Quantity(0.5, 0.4, 0.6), -0.25, 3), ("c", Quantity(None), None, 0))
    )
    first, second = csv.DictReader(io.StringIO(written))
    assert first["target"] == 'a,"b"'
    assert (first["ccs"], first["ccs_low"], first["ccs_high"]) == ("0.5000", "0.4000", "0.6000")
    assert (second["ccs"], second["ccs_low"], second["difference"], second["n"]) == (
        "",
        "",
        "",
        "0",
    )
    assert "nan" not in written.lower()


def test_latex_is_booktabs_and_sets_text_as_it_reads(hostile: str) -> None:
    written = to_latex(table(("a_b & 5% " + hostile, Quantity(0.5, 0.4, 0.6), -0.25, 3)))
    assert r"\toprule" in written
    assert r"A \& B" in written
    assert r"0.50 {\scriptsize [0.40, 0.60]}" in written
    assert r"a\_b \& 5\%" in written
    assert r"\input" not in written
    assert r"\frac" not in written
    assert "$-$0.25" in written
    (row,) = [line for line in written.splitlines() if line.startswith("a")]
    assert row.replace(r"\&", "").count("&") == len(COLUMNS) - 1


def test_latex_escape_leaves_no_special_sign_bare() -> None:
    assert escape_latex(r"\{}$&#%_^~") == (
        r"\textbackslash{}\{\}\$\&\#\%\_\textasciicircum{}\textasciitilde{}"
    )


def test_markdown_keeps_its_columns_whatever_the_text() -> None:
    written = to_markdown(table(("a|b<script>`x`", Quantity(None), None, 0)))
    row = written.splitlines()[-1]
    assert row == r"| a\|b&lt;script>\`x\` | not estimable | – | 0 |"


def test_only_optional_columns_without_values_are_dropped() -> None:
    given = table(("a", Quantity(None), None, 0))
    kept = without_empty_columns(given, frozenset({"difference", "n"}))
    assert [column.key for column in kept.columns] == ["target", "ccs", "n"]
    assert kept.rows == (("a", Quantity(None), 0),)
