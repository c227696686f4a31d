"""People's judgements as CSV: what can be read, and what is named as wrong."""

from itertools import product

import pytest

from stages.records.annotation import Annotation, read_annotations, write_annotations
from stages.records.errors import UserError, quoted
from stages.records.sheet import with_formula, without_formula

HEAD = "sample_id,target,extractor,editor,position,annotator,valid,ac,ef,note\n"


def write(folder, rows, name="a.csv", head=HEAD, encoding="utf-8"):
    (folder / name).write_text(head + rows, encoding=encoding)
    return read_annotations(folder)


def test_empty_cells_are_missing_and_never_zero(tmp_path):
    (row,) = write(tmp_path, "s1,t,x,e,1,ann,,,,\n")
    assert (row.valid, row.ac, row.ef, row.note, row.ccs) == (None, None, None, None, None)
    assert (row.seed, row.attempt, row.edited) == (0, None, None)


@pytest.mark.parametrize(
    ("cells", "ccs"),
    [
        ("yes,1,1", 1),
        ("yes,1,0", 0),
        ("yes,0,0", 0),
        ("yes,1,", None),
        ("yes,,1", None),
        ("no,1,1", None),
        ("cant_tell,0,0", None),
        (",1,1", None),
    ],
)
def test_a_human_ccs_needs_a_valid_edit_and_both_scores(tmp_path, cells, ccs):
    (row,) = write(tmp_path, f"s1,t,x,e,1,ann,{cells},\n")
    assert row.ccs == ccs


def test_files_are_read_in_order_with_a_spreadsheet_s_mark(tmp_path):
    write(tmp_path, "s2,t,x,e,1,bob,yes,1,1,\n", name="b.csv", encoding="utf-8-sig")
    rows = write(tmp_path, 's1,t,x,e,1,ann,yes,1,1,"a, b"\n')
    assert [row.annotator for row in rows] == ["ann", "bob"]
    assert rows[0].note == "a, b"
    assert read_annotations(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ("s1,t,x,e,1,ann,maybe,1,1,\n", "a.csv:2"),
        ("s1,t,x,e,1,ann,yes,2,1,\n", "ac"),
        ("s1,t,x,e,0,ann,yes,1,1,\n", "position"),
        ("s1,t,x,e,,ann,yes,1,1,\n", "position"),
        ("s1,t,x,e,1,ann,yes,1,1,,too many\n", "more cells"),
        ("s1,t,x,e,1,ann,yes,1,1,\ns1,t,x,e,1,ann,no,,,\n", "already in"),
    ],
)
def test_what_can_t_be_is_named_with_its_row(tmp_path, rows, what):
    with pytest.raises(UserError, match=what):
        write(tmp_path, rows)


def test_an_unknown_column_is_named_with_the_known_ones(tmp_path):
    with pytest.raises(UserError, match="faithful") as caught:
        write(tmp_path, "", head="sample_id,faithful\n")
    assert "annotator" in str(caught.value)


def test_two_attempts_of_one_edit_may_be_judged(tmp_path):
    head = HEAD.replace("position,", "position,attempt,")
    rows = write(tmp_path, "s1,t,x,e,1,1,ann,no,,,\ns1,t,x,e,1,2,ann,yes,1,1,\n", head=head)
    assert [row.attempt for row in rows] == [1, 2]
    assert isinstance(rows[0], Annotation)


def test_a_spreadsheet_may_have_had_the_file(tmp_path):
    head = "\ufeffAnnotator;note;valid;position;editor;extractor;target;sample_id\r\n"
    rows = 'ann;"two\nlines";Yes;1;e;x;t;s1\r\nann;;NO;2;e;x;t;s1\r\n;;;;;;;\r\n'
    first, second = write(tmp_path, rows, head=head)
    assert (first.valid, first.note, first.seed) == ("yes", "two\nlines", 0)
    assert (second.valid, second.position) == ("no", 2)


def test_lines_are_those_of_the_file_even_after_a_cell_with_several(tmp_path):
    with pytest.raises(UserError, match=r"a\.csv:4: valid is 'ja'"):
        write(tmp_path, 's1,t,x,e,1,ann,yes,,,"a\nb"\ns2,t,x,e,1,ann,ja,,,\n')


def test_a_defused_formula_is_told_from_a_note_that_starts_with_apostrophes():
    notes = ["".join(signs) for n in range(1, 5) for signs in product("'=-a", repeat=n)]
    cells = [without_formula(note) for note in notes]
    assert len(set(cells)) == len(notes)
    assert [with_formula(cell) for cell in cells] == notes
    assert not any(cell.startswith(("=", "-")) for cell in cells)
    assert without_formula("'quoted'") == "'quoted'"


@pytest.mark.parametrize(
    "note", ["=1+1", "'=x", "''=x", "'quoted'", "-", "plain", 'two\n"lines", and more', "@x"]
)
def test_annotations_are_read_as_they_were_written(tmp_path, note):
    about = {"sample_id": "s1", "target": "t", "extractor": "x", "editor": "e", "position": 1}
    row = Annotation(**about, annotator="ann", valid="yes", ac=1, ef=0, note=note, edited="0" * 64)
    write_annotations(tmp_path / "a.csv", [row, row.model_copy(update={"position": 2})])
    assert read_annotations(tmp_path)[0] == row
    cell = (tmp_path / "a.csv").read_text().splitlines()[1].rsplit("0,", 1)[1]
    assert not cell.strip('"').startswith(("=", "+", "-", "@"))


def test_a_quoted_value_is_one_short_line():
    deep = []
    for _ in range(900):
        deep = [deep]
    for value in ("a\n" * 400, "\ud800\x1b", deep, {"a" * 400: 1}, 10**400, ["b" * 400] * 3):
        text = quoted(value)
        assert text.isprintable()
        assert len(text) <= 100
    assert quoted("a'b") == repr("a'b")
