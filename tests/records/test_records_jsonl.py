"""Records on disk: every row comes back, and a bad one is named."""

import weakref
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.records import jsonl
from stages.records.concept import Concept
from stages.records.errors import UserError
from stages.records.held import Held

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(rows=st.lists(st.builds(Concept, object=TEXT, attribute=st.none() | TEXT, text=TEXT)))
def test_rows_come_back_whatever_they_hold(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Concept]
) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    jsonl.write(path, rows)
    assert jsonl.read(path, Concept) == rows
    assert len(path.read_bytes().splitlines()) >= len(rows)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"object": "car", "text": ', "invalid JSON"),
        ('{"object": "car"}', "text: field required"),
        ('{"object": "car", "text": "car", "extra": 1}', "extra: extra inputs"),
        ("[]", "row:"),
    ],
)
def test_a_bad_row_is_named_with_file_and_row(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"object": "a", "text": "a"}\n\n' + line + "\n")
    with pytest.raises(UserError) as caught:
        jsonl.read(path, Concept)
    assert f"{path}:3" in str(caught.value)
    assert said.lower() in str(caught.value).lower()
    assert "\n" not in str(caught.value)


def test_missing_and_binary_files_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="missing"):
        jsonl.read(tmp_path / "none.jsonl", Concept)
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="UTF-8"):
        jsonl.read(tmp_path / "bytes.jsonl", Concept)


def test_a_failed_write_leaves_the_earlier_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [Concept(object="a", text="a")]
    jsonl.write(path, rows)

    def broken():  # type: ignore[no-untyped-def]
        yield rows[0]
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        jsonl.write(path, broken())
    assert jsonl.read(path, Concept) == rows
    assert list(tmp_path.iterdir()) == [path]


def test_rows_that_are_held_are_the_rows_and_are_checked_at_once(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [Concept(object=name, text="ü") for name in "abc"]
    jsonl.write(path, rows)
    held = jsonl.held(path, Concept)
    assert (list(held), len(held), held[-1], list(held[1:])) == (rows, 3, rows[2], rows[1:])
    assert list(Held.of(rows)) == rows
    path.write_text('{"object": "a", "text": "a"}\n{}\n')
    with pytest.raises(UserError, match=r"rows\.jsonl:2"):
        jsonl.held(path, Concept)


def test_no_record_outlives_its_row_where_rows_are_held() -> None:
    row = Concept(object="a", text="a" * 50)
    left = weakref.ref(row)
    held = Held.of([row])
    del row
    assert left() is None
    assert held[0].object == "a"
