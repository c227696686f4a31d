"""Exports of the form: JSON, and CSV after whatever a spreadsheet did to it."""

import json

import pytest

from stages.annotation.replies import read_replies
from stages.records import sheet
from stages.records.errors import UserError

HEAD = "form,annotator,id,valid,ac,ef,note"
ROWS = (
    'f-1,ann,bcd,yes,1,0,"two\nlines, and a comma"',
    "f-1,ann,fgh,no,,,",
    "f-1,ann,jkl,cant_tell,,,",
    "f-1,ann,mnp,,,,",
)
WANTED = [
    ("bcd", {"valid": "yes", "ac": "1", "ef": "0", "note": "two\nlines, and a comma"}),
    ("fgh", {"valid": "no"}),
    ("jkl", {"valid": "cant_tell"}),
    ("mnp", {}),
]


def read(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_replies(path, {})


def plain():
    return "\n".join([HEAD, *ROWS]) + "\n"


def semicolons():
    """What a German spreadsheet writes: semicolons, and quotes only where it must."""
    return (
        "form;annotator;id;valid;ac;ef;note\r\n"
        'f-1;ann;bcd;yes;1;0;"two\nlines, and a comma"\r\n'
        "f-1;ann;fgh;no;;;\r\nf-1;ann;jkl;cant_tell;;;\r\nf-1;ann;mnp;;;;\r\n"
    )


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(plain(), id="as exported"),
        pytest.param("\ufeff" + plain(), id="byte order mark"),
        pytest.param(plain().replace("\n", "\r\n").replace("two\r\n", "two\n"), id="CRLF"),
        pytest.param(plain().replace("\n", "\r").replace("two\r", "two\n"), id="CR"),
        pytest.param(plain().replace("two\n", "two\r\n"), id="CRLF in a cell"),
        pytest.param(plain().replace("two\n", "two\r"), id="CR in a cell"),
        pytest.param(semicolons(), id="semicolons"),
        pytest.param("\ufeff" + semicolons(), id="semicolons with mark"),
        pytest.param("sep=;\r\n" + semicolons(), id="sep line"),
        pytest.param(
            "sep=,\r" + plain().replace("\n", "\r").replace("two\r", "two\n"), id="sep, CR"
        ),
        pytest.param(plain().encode("utf-16"), id="UTF-16"),
        pytest.param(semicolons().replace(";", "\t").encode("utf-16"), id="UTF-16 tabs"),
        pytest.param(plain() + ",,,,,,\n,,,,,,\n\n", id="empty rows at the end"),
        pytest.param(plain().replace(ROWS[1], ",,,,,,\n" + ROWS[1]), id="empty row between"),
        pytest.param(plain().replace("no,,,", "no,,,,,"), id="empty cells beyond the header"),
        pytest.param(plain().replace("no,,,", "no"), id="cells cut off"),
        pytest.param(plain().replace(HEAD, HEAD + ",,").replace("no,,,", "no,,,,,"), id="no name"),
        pytest.param(plain().replace("id,valid", " ID ,Valid"), id="names in capitals"),
        pytest.param(plain().replace(",no,", ", no ,"), id="blanks"),
        pytest.param(plain().rstrip("\n"), id="no last line end"),
    ],
)
def test_a_spreadsheet_may_have_had_it(tmp_path, data):
    got = read(tmp_path / "a.csv", data)
    assert [(r.id, dict(r.answers)) for r in got] == WANTED
    assert {(r.form, r.annotator) for r in got} == {("f-1", "ann")}


def test_columns_may_stand_in_any_order(tmp_path):
    got = read(tmp_path / "a.csv", "ef,note,id,annotator,ac,valid,form\n0,,bcd,ann,1,yes,f-1\n")
    assert dict(got[0].answers) == {"valid": "yes", "ac": "1", "ef": "0"}


def test_json_is_read_like_csv(tmp_path):
    rows = [
        {"id": name, **{k: said.get(k) for k in ("valid", "ac", "ef", "note")}}
        for name, said in WANTED
    ]
    rows[0] |= {"ac": 1, "ef": 0}
    content = {"format": "edct-annotation/1", "form": "f-1", "annotator": "ann", "rows": rows}
    for mark in ("", "\ufeff"):
        got = read(tmp_path / "a.json", mark + json.dumps(content))
        assert [(r.id, dict(r.answers)) for r in got] == WANTED


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ("", "no header"),
        ("\n\n", "no header"),
        (plain().replace(HEAD, HEAD.replace("valid", "gueltig")), "no column valid"),
        (plain().replace(HEAD, HEAD + ",more"), "no such column: 'more'"),
        (plain().replace(HEAD, HEAD.replace("note", "id")), "'id' twice"),
        (plain().replace("fgh,no,,,", "fgh,no,,,,what"), "a.csv:4: has more cells"),
        (plain().replace("f-1,ann,fgh", ",ann,fgh"), "a.csv:4: form is empty"),
        (plain().replace("f-1,ann,fgh", "f-1,,fgh"), "a.csv:4: annotator is empty"),
        (plain().replace("f-1,ann,fgh", "f-1,ann,"), "a.csv:4: id is empty"),
        (plain().replace("f-1,ann,fgh", "f-1,../ann,fgh"), "a.csv:4: annotator is '../ann'"),
        (plain().replace('comma"', "comma"), "a.csv:2: can't be read"),
        (plain().replace("two", "zw\xf6lf").encode("latin-1"), "not UTF-8"),
        (b"PK\x03\x04\x00\x00", "is no text"),
        (plain().replace("fgh,no,,,", "fgh,no,,,a\0b"), "a.csv:4: is no text: it has a NUL"),
        (plain().replace("fgh,no,,,", "fgh,no,,,a\0b").replace("\n", "\r"), "a.csv:4: is no text"),
        (plain().replace(HEAD, f"{HEAD},{'x' * 140_000}"), "no such column: 'xxx"),
        (semicolons().replace(";note", f";note;{'x' * 140_000}"), "no such column: 'xxx"),
        (plain().replace("no,,,", "no,01,,"), "a.csv:4: ac is '01'. Known words: 0, 1"),
        (plain().replace("no,,,", "no,,1.0,"), "a.csv:4: ef is '1.0'"),
        (plain().replace("f-1,ann,fgh", f"f-1,{'a' * 65},fgh"), "A name has at most 64"),
        (plain().replace("f-1,ann,fgh", f"f-1,{'a' * 400},fgh"), "A name has at most 64"),
    ],
)
def test_what_can_t_be_read_is_named_with_its_line(tmp_path, data, what):
    with pytest.raises(UserError) as caught:
        read(tmp_path / "a.csv", data)
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(tmp_path)) + 250


def test_a_cell_beyond_all_bounds_is_named_with_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(sheet, "_MAX_CELL", 1000)
    with pytest.raises(UserError, match=r"a\.csv:1: can't be read: field larger"):
        read(tmp_path / "a.csv", f"{HEAD},{'x' * 1001}\n")


def test_a_note_starts_as_it_did_in_either_format(tmp_path):
    for cell, note in (("'=x", "=x"), ("''=x", "'=x"), ("'x", "'x"), ("'\t-x", "-x")):
        (got,) = read(tmp_path / "a.csv", f"{HEAD}\nf-1,ann,bcd,,,,{cell}\n")
        assert got.answers["note"] == note
        (got,) = read(tmp_path / "a.json", exported(note=note))
        assert got.answers["note"] == note


def exported(**row):
    """A form's JSON with one row."""
    content = {"format": "edct-annotation/1", "form": "f-1", "annotator": "ann"}
    return json.dumps({**content, "rows": [{"id": "bcd", **row}]})


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"note": "a\0b"}, "row 1: note has U+0000"),
        ({"note": "a\ud83d"}, "row 1: note has U+D83D"),
        ({"note": "\udc4d"}, "row 1: note has U+DC4D"),
        ({"id": "a\ud800"}, "row 1: id has U+D800"),
        ({"valid": "y" * 400}, "row 1: valid is 'yyy"),
        ({"ac": "01"}, "row 1: ac is '01'"),
        ({"note": [["a" * 400] * 9] * 9}, "row 1: note is [['aaa"),
        ({"vaild\n": "yes"}, "row 1: no such key: 'vaild\\n'"),
    ],
)
def test_what_no_file_could_hold_is_named_with_its_row(tmp_path, row, what):
    with pytest.raises(UserError) as caught:
        read(tmp_path / "a.json", exported(**row))
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(tmp_path)) + 250


def test_whole_pairs_and_other_control_characters_stay(tmp_path):
    for note in ("a\U0001f44db", "a\x0bb", "a\x1b[31mb", "a\ufffdb"):
        (got,) = read(tmp_path / "a.json", exported(note=note))
        assert got.answers["note"] == note


def test_another_kind_of_file_or_none_is_named(tmp_path):
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    with pytest.raises(UserError, match="neither JSON nor CSV"):
        read_replies(tmp_path / "a.xlsx", {})
    with pytest.raises(UserError, match="no such file"):
        read_replies(tmp_path / "b.csv", {})
