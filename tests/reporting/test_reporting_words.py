"""Names, reasons and safe text."""

import pytest

from stages.records.base import Status
from stages.records.score import Cell
from stages.reporting import words


def cell(target: str = "t", judge: str = "j", seed: int = 0) -> Cell:
    return Cell(target=target, extractor="x", editor="e", judge=judge, seed=seed)


@pytest.mark.parametrize(
    ("cells", "axes"),
    [
        ([cell()], ("target",)),
        ([cell("a"), cell("b")], ("target",)),
        ([cell(judge="a"), cell(judge="b")], ("judge",)),
        ([cell("a"), cell("b", seed=1)], ("target", "seed")),
        ([], ("target",)),
    ],
)
def test_rows_are_told_apart_by_the_axes_that_vary(
    cells: list[Cell], axes: tuple[str, ...]
) -> None:
    assert words.varying_axes(cells) == axes


def test_labels_name_the_seed_and_keys_begin_with_the_target() -> None:
    assert words.cell_label(cell("a", seed=3), ("target", "seed")) == "a · seed 3"
    assert words.cell_key(cell("a", judge="b"), ("judge",)) == "a-b"
    assert words.cell_key(cell("a", seed=0), ("target", "seed")) == "a-seed0"


def test_every_status_has_its_reason_in_words() -> None:
    assert {status for status in Status if "_" in words.reason(status)} == set()
    assert len({words.reason(status) for status in Status}) == len(Status)


def test_plain_text_steers_nothing_and_keeps_all_letters() -> None:
    assert words.plain("a\x1b[31m\u202eb\x00c") == "a\ufffd[31m\ufffdb\ufffdc"
    assert words.plain("红宝石 ñ – €\n\tx") == "红宝石 ñ – €  x"


def test_shortened_text_is_no_longer_than_the_limit() -> None:
    assert words.shorten("a b\n c", 10) == "a b c"
    assert words.shorten("abcdefgh", 5) == "abcd…"


def test_shares_without_a_whole_are_dashes() -> None:
    assert words.share(1, 0) == words.DASH
    assert words.share(1, 8) == "12 %"
    assert words.percent(None) == words.DASH
    assert words.percent(0.1234) == "12.3 %"
