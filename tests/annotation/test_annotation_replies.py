"""Exports of the form: JSON, and CSV after whatever a spreadsheet did to it."""

import json

import pytest

from stages.annotation.replies import read_replies
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
        pytest.param(semicolons(), id="semicolons"),
        pytest.param("\ufeff" + semicolons(), id="semicolons with mark"),
        pytest.param("sep=;\r\n" + semicolons(), id="sep line"),
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
        (plain().replace(HEAD, HEAD + ",more"), "no such column: more"),
        (plain().replace(HEAD, HEAD.replace("note", "id")), "'id' twice"),
        (plain().replace("fgh,no,,,", "fgh,no,,,,what"), "a.csv:4: has more cells"),
        (plain().replace("f-1,ann,fgh", ",ann,fgh"), "a.csv:4: form is empty"),
        (plain().replace("f-1,ann,fgh", "f-1,,fgh"), "a.csv:4: annotator is empty"),
        (plain().replace("f-1,ann,fgh", "f-1,ann,"), "a.csv:4: id is empty"),
        (plain().replace("f-1,ann,fgh", "f-1,../ann,fgh"), "a.csv:4: annotator is '../ann'"),
        (plain().replace('comma"', "comma"), "a.csv:2: can't be read"),
        (plain().replace("two", "zw\xf6lf").encode("latin-1"), "not UTF-8"),
        (b"PK\x03\x04\x00\x00", "is no text"),
    ],
)
def test_what_can_t_be_read_is_named_with_its_line(tmp_path, data, what):
    with pytest.raises(UserError) as caught:
        read(tmp_path / "a.csv", data)
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_kind_of_file_or_none_is_named(tmp_path):
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    with pytest.raises(UserError, match="neither JSON nor CSV"):
        read_replies(tmp_path / "a.xlsx", {})
    with pytest.raises(UserError, match="no such file"):
        read_replies(tmp_path / "b.csv", {})
