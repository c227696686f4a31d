"""Replies to annotations: what comes in, what is refused, and Table 4 as published."""

import csv
import json

import pytest

from stages import score
from stages.annotation.__main__ import main
from stages.annotation.intake import take_in
from stages.records import jsonl
from stages.records.annotation import read_annotations
from stages.records.errors import UserError
from stages.records.finding import AgreementRow
from stages.records.form import FormKey
from stages.workflow.folders import Folders
from tests.annotation.conftest import ROOT, write_forms
from tests.annotation.published import answers_with_the_published_counts, published_rows


@pytest.fixture
def made(study):
    return write_forms(study(), size=16)


def export(made, annotator="annotator_1", **answers):
    """An export with the answers to the first, second … edit of the key."""
    rows = [
        {"id": item.id, "valid": None, "ac": None, "ef": None, "note": None, **given}
        for item, given in zip(made.key.items, answers.get("rows", []), strict=False)
    ]
    path = made.root / f"{answers.get('name', annotator)}.json"
    content = {"format": "edct-annotation/1", "form": made.key.form, "annotator": annotator}
    path.write_text(json.dumps({**content, "rows": rows}))
    return path


YES = {"valid": "yes", "ac": 1, "ef": 0}


def test_answers_become_annotations_of_what_was_shown(made):
    rows = [YES, {"valid": "cant_tell"}, {}, {"valid": "yes", "note": "=1+1"}]
    (taken,) = take_in(Folders(made.root), [export(made, rows=rows)], {})
    got = read_annotations(made.root / "data" / "annotations")
    assert [(r.valid, r.ac, r.ef, r.ccs, r.note) for r in got] == [
        ("yes", 1, 0, 0, None),
        ("cant_tell", None, None, None, None),
        ("yes", None, None, None, "=1+1"),
    ]
    items = [made.key.items[i] for i in (0, 1, 3)]
    assert [(r.sample_id, r.position, r.attempt, r.edited) for r in got] == [
        (i.sample_id, i.position, i.attempt, i.edited) for i in items
    ]
    assert {r.annotator for r in got} == {"annotator_1"}
    assert "3 of 16 edits: 2 valid (1 of them without AC or EF)" in str(taken)
    assert "'=1+1" in taken.path.read_text()  # no spreadsheet takes it for a formula


def test_two_people_and_two_files_of_one_are_joined(made):
    files = [
        export(made, name="a", rows=[YES, {"valid": "no"}]),
        export(made, name="b", rows=[{"valid": "YES"}, {}, {"valid": "no"}]),
        export(made, "annotator_2", rows=[{"valid": "no"}]),
    ]
    first, second = take_in(Folders(made.root), files, {})
    assert [row.valid for row in first.rows] == ["yes", "no", "no"]
    assert first.rows[0].ccs == 0
    assert [row.valid for row in second.rows] == ["no"]


def test_what_contradicts_itself_is_refused(made):
    files = [export(made, name="a", rows=[YES]), export(made, name="b", rows=[{"valid": "no"}])]
    with pytest.raises(UserError, match=r"b\.json: row 1.*'no'.*'yes'.*a\.json"):
        take_in(Folders(made.root), files, {})
    assert not (made.root / "data" / "annotations").exists()


def test_nothing_that_was_taken_is_lost_unless_asked_for(made):
    folders = Folders(made.root)
    take_in(folders, [export(made, rows=[YES, {"valid": "no"}])], {})
    take_in(folders, [export(made, rows=[YES, {"valid": "no"}, {"valid": "no"}])], {})
    assert len(read_annotations(folders.annotations)) == 3
    fewer = export(made, rows=[YES])
    with pytest.raises(UserError, match="--replace"):
        take_in(folders, [fewer], {})
    assert len(read_annotations(folders.annotations)) == 3
    take_in(folders, [fewer], {}, replace=True)
    assert len(read_annotations(folders.annotations)) == 1


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"valid": "ja"}, "valid is 'ja'"),
        ({"valid": "can't tell"}, "valid is"),
        ({"ac": 2}, "ac is '2'"),
        ({"ef": "yes"}, "ef is 'yes'"),
        ({"ac": -1}, "ac is '-1'"),
    ],
)
def test_words_that_are_not_the_form_s_are_refused_with_their_row(made, row, what):
    with pytest.raises(UserError) as caught:
        take_in(Folders(made.root), [export(made, rows=[{}, row])], {})
    assert what in str(caught.value)
    assert "row 2" in str(caught.value)


@pytest.mark.parametrize("note", ["'=x", "''=x", "=x", "'", "a\rb", "a\r\nb", "a\x0bb", "[1]"])
def test_a_note_is_taken_in_as_it_was_and_again(made, note):
    folders = Folders(made.root)
    for _ in range(2):
        take_in(folders, [export(made, rows=[{"note": note}])], {})
        (row,) = read_annotations(folders.annotations)
        assert row.note == note.replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.parametrize("note", ["a\0b", "\ud800"])
def test_a_note_that_no_file_holds_is_refused_and_later_imports_go_on(made, note):
    folders = Folders(made.root)
    with pytest.raises(UserError, match="row 2: note has U"):
        take_in(folders, [export(made, rows=[YES, {"note": note}])], {})
    assert not folders.annotations.exists()
    take_in(folders, [export(made, rows=[YES])], {})
    assert len(read_annotations(folders.annotations)) == 1


def test_notes_that_differ_in_capitals_contradict_each_other_and_answers_do_not(made):
    files = [export(made, name=str(i), rows=[{"valid": v}]) for i, v in enumerate(("yes", "YES"))]
    take_in(Folders(made.root), files, {})
    files = [export(made, name=str(i), rows=[{"note": n}]) for i, n in enumerate(("US", "us"))]
    with pytest.raises(UserError, match=r"'us'.*'US'"):
        take_in(Folders(made.root), files, {}, replace=True)


def test_two_names_that_are_one_file_elsewhere_are_refused(made):
    folders = Folders(made.root)
    files = [export(made, name, rows=[YES]) for name in ("Anna", "anna")]
    with pytest.raises(UserError, match=r"anna\.json: row 1.*anna\.csv.*Anna\.csv on macOS"):
        take_in(folders, files, {})
    assert not folders.annotations.exists()
    take_in(folders, files[:1], {})
    for replace in (False, True):
        with pytest.raises(UserError, match="same file as"):
            take_in(folders, files[1:], {}, replace=replace)
    assert [row.annotator for row in read_annotations(folders.annotations)] == ["Anna"]


def test_long_names_are_refused_and_not_repeated(made):
    path = export(made, "a" * 300, name="a", rows=[YES])
    with pytest.raises(UserError, match="at most 64") as caught:
        take_in(Folders(made.root), [path], {})
    assert "a" * 100 not in str(caught.value)
    path.write_text(export(made, rows=[YES]).read_text().replace(made.key.form, "f" * 300))
    with pytest.raises(UserError, match="whose key is not in") as caught:
        take_in(Folders(made.root), [path], {})
    assert "f" * 100 not in str(caught.value)


def test_an_unknown_form_or_edit_is_named(made):
    folders = Folders(made.root)
    path = export(made, rows=[YES])
    path.write_text(path.read_text().replace(made.key.items[0].id, "zzzzzzzz"))
    with pytest.raises(UserError, match="'zzzzzzzz' is no edit"):
        take_in(folders, [path], {})
    for name in ("trial-00000000", "../../../etc"):
        path.write_text(export(made, rows=[YES]).read_text().replace(made.key.form, name))
        with pytest.raises(UserError, match="whose key is not in"):
            take_in(folders, [path], {})
    with pytest.raises(UserError, match="no answer"):
        take_in(folders, [export(made, rows=[])], {})


def test_the_command_says_what_it_took_in_and_errors_are_one_line(made, monkeypatch, capsys):
    path = export(made, rows=[YES])
    monkeypatch.chdir(made.root)
    assert main(["import", str(path)]) == 0
    assert "1 of 16 edits" in capsys.readouterr().out
    assert main(["import", str(path), "--name", "nobody"]) == 1
    assert main(["import", "nowhere.json"]) == 1
    assert capsys.readouterr().err.count("\n") == 2


def test_the_key_is_whole_and_knows_the_draw(written):
    assert len({item.id for item in written.key.items}) == 128
    assert sum(s.drawn for s in written.key.strata) == 128
    assert FormKey.model_validate_json(written.key.model_dump_json()) == written.key
    drawn = {True: 0, False: 0}
    for stratum in written.key.strata:
        drawn[stratum.accepted] += stratum.drawn
    assert drawn == {True: 112, False: 16}


def test_every_published_count_of_table_4_comes_out_of_one_set_of_answers(study):
    made = write_forms(study())
    names = ("form", "annotator", "id", "valid", "ac", "ef", "note")
    files = []
    for annotator, answers in answers_with_the_published_counts(made).items():
        path = made.root / f"{annotator}.csv"
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.DictWriter(file, names, delimiter=";")
            writer.writeheader()
            for name, given in answers.items():
                about = {"form": made.key.form, "annotator": annotator, "id": name}
                writer.writerow({**about, **given})
        files.append(path)
    take_in(Folders(made.root), files, {})
    check_table_4(made)


def check_table_4(made):
    """Score the study and hold what it finds against the published table."""
    score.run(made.root, made.params)
    folder = made.root / "data" / "score"
    found = jsonl.read(folder / "people.jsonl", AgreementRow)
    found += jsonl.read(folder / "gate.jsonl", AgreementRow)
    ours = {(r.comparison, r.what): r for r in found if r.subset == "all"}
    assert len(published_rows()) == 8
    for row in published_rows():
        mine = ours[row["comparison"], row["what"]]
        assert (mine.agree, mine.share.n) == (int(row["agree"]), int(row["n"]))
        pairs = [(mine.share.mean, row["agreement_pct"])]
        if row["ci_low_pct"]:
            pairs += [(mine.share.low, row["ci_low_pct"]), (mine.share.high, row["ci_high_pct"])]
        for value, published in pairs:
            assert 100 * value == pytest.approx(float(published), abs=0.1)
    assert (ROOT / "data" / "reference" / "table4.csv").is_file()
