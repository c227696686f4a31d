"""The Label Studio project, and what its exports come back as."""

import csv
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from stages.annotation.label_studio import CONFIG
from stages.annotation.replies import read_replies
from stages.models.picture import Picture
from stages.records.errors import UserError
from tests.annotation.conftest import write_forms

PEOPLE = {"3": "ann", "4": "bob"}


@pytest.fixture(scope="module")
def tasks(written):
    return json.loads((written.folder / "label_studio" / "tasks.json").read_text())


def test_the_configuration_asks_for_what_the_tasks_hold(tasks):
    root = ElementTree.fromstring(CONFIG)
    asked = {v[1:] for e in root.iter() for v in e.attrib.values() if v.startswith("$")}
    for task in tasks:
        assert set(task) == {"data"}
        assert set(task["data"]) == asked | {"form", "item"}
    # Label Studio writes its own number under `id`, which would cover a field of that name.
    assert "id" not in tasks[0]["data"]


def test_controls_are_bound_to_objects_and_shown_when_they_make_sense():
    root = ElementTree.fromstring(CONFIG)
    objects = {e.get("name") for e in root.iter() if e.tag in ("Image", "Text")}
    controls = {e.get("name"): e for e in root.iter() if e.get("toName")}
    assert set(controls) == {"valid", "ac", "ef", "note"}
    assert all(control.get("toName") in objects for control in controls.values())
    assert controls["valid"].get("required") == "true"
    for name in ("ac", "ef"):
        shown = {
            k: controls[name].get(k) for k in ("visibleWhen", "whenTagName", "whenChoiceValue")
        }
        assert list(shown.values()) == ["choice-selected", "valid", "yes"]
    assert [c.get("value") for c in controls["valid"]] == ["yes", "no", "cant_tell"]
    keys = [c.get("hotkey") for c in root.iter("Choice")]
    assert len(keys) == len(set(keys))


def test_images_lie_where_the_tasks_say_and_are_the_study_s(written, tasks):
    known = {path.stem for path in (written.root / "data").rglob("*.png")}
    for task in tasks:
        for kind in ("original", "before", "edited"):
            place = re.fullmatch(r"/data/local-files/\?d=(\S+)", task["data"][kind])[1]
            # Relative to the folder that holds the forms' folders: Label Studio's document root.
            picture = Picture((written.folder.parent / place).read_bytes())
            assert picture.sha256 in known
            assert np.asarray(picture.pixels).ndim == 3


def test_images_can_be_inline(study):
    written = write_forms(study(), label_studio_images="inline", size=8)
    text = (written.folder / "label_studio" / "tasks.json").read_text()
    assert not (written.folder / "label_studio" / "images").exists()
    assert text.count("data:image/png;base64,") == 24


def exported(written, tasks, person=lambda n: n):
    """Annotated tasks as Label Studio exports them: two people, a skipped and an open task."""
    rows = []
    for number, task in enumerate(tasks[:5], 1):
        annotations = []
        for who, (valid, ac, ef, note) in {
            3: ("yes", "1", "0", None),
            4: ("no", None, None, 'half done,\n"really"'),
        }.items():
            given = {"valid": ("choices", [valid])}
            given |= {k: ("choices", [v]) for k, v in (("ac", ac), ("ef", ef)) if v}
            given |= {"note": ("text", [note])} if note else {}
            result = [
                {
                    "id": f"r{number}{name}",
                    "from_name": name,
                    "to_name": "edited",
                    "type": "textarea" if kind == "text" else "choices",
                    "origin": "manual",
                    "value": {kind: value},
                }
                for name, (kind, value) in given.items()
            ]
            annotations.append(
                {
                    "id": 100 * number + who,
                    "completed_by": person(who),
                    "result": result,
                    "was_cancelled": number == 4,
                    "created_at": "2026-01-01T00:00:00Z",
                    "updated_at": "2026-01-01T00:00:00Z",
                    "lead_time": 4.2,
                    "task": number,
                }
            )
        rows.append(
            {
                "id": number,
                "data": task["data"],
                "annotations": [] if number == 5 else annotations,
                "drafts": [],
                "predictions": [],
                "project": 1,
            }
        )
    return rows


def flat(rows):
    """The same as JSON-MIN and CSV hold it: skipped annotations are left out."""
    for task in rows:
        base = {**task["data"], "id": task["id"]}
        for annotation in task["annotations"] or [None]:
            if annotation and annotation["was_cancelled"]:
                continue
            said = {
                r["from_name"]: r["value"].get("choices", r["value"].get("text"))[0]
                for r in (annotation or {}).get("result", [])
            }
            about = {
                k: (annotation or {}).get(k) for k in ("created_at", "updated_at", "lead_time")
            }
            yield {
                **base,
                **said,
                "annotator": (annotation or {}).get("completed_by"),
                "annotation_id": (annotation or {}).get("id"),
                **about,
            }


def save(path, kind, rows):
    if kind == "csv":
        found = list(flat(rows))
        names = sorted({name for row in found for name in row})
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, names, quoting=csv.QUOTE_NONNUMERIC)
            writer.writeheader()
            writer.writerows(found)
    else:
        path.write_text(json.dumps(list(flat(rows)) if kind == "min" else rows))
    return path


@pytest.mark.parametrize("kind", ["full", "min", "csv"])
def test_every_export_says_the_same(written, tasks, tmp_path, kind):
    path = tmp_path / f"export.{'csv' if kind == 'csv' else 'json'}"
    got = read_replies(save(path, kind, exported(written, tasks)), PEOPLE)
    assert [(r.id, r.annotator, dict(r.answers)) for r in got] == [
        (task["data"]["item"], who, answers)
        for task in tasks[:3]
        for who, answers in (
            ("ann", {"valid": "yes", "ac": "1", "ef": "0"}),
            ("bob", {"valid": "no", "note": 'half done,\n"really"'}),
        )
    ]
    assert {r.form for r in got} == {written.key.form}


def noted(written, tasks, note):
    """An annotated task with a note."""
    (row,) = exported(written, tasks[:1])
    (annotation,) = row["annotations"] = row["annotations"][:1]
    value = {"text": note if isinstance(note, list) else [note]}
    annotation["result"].append({"from_name": "note", "type": "textarea", "value": value})
    return row


NOTES = ["[1]", '{"a":1}', '["a", "b"]', '{"text": ["a"], "b": 1}', "[" * 100_000, "1", "'=x"]


@pytest.mark.parametrize("kind", ["full", "min", "csv"])
@pytest.mark.parametrize("note", NOTES, ids=range(len(NOTES)))
def test_a_note_is_text_whatever_it_looks_like(written, tasks, tmp_path, kind, note):
    path = tmp_path / f"export.{'csv' if kind == 'csv' else 'json'}"
    (got,) = read_replies(save(path, kind, [noted(written, tasks, note)]), PEOPLE)
    assert got.answers["note"] == note


@pytest.mark.parametrize("wrap", [dict, json.dumps])
def test_several_texts_are_one_note(written, tasks, tmp_path, wrap):
    row = next(flat([noted(written, tasks, "")]))
    row["note"] = wrap({"text": ["a", "", "b"]})
    path = tmp_path / f"a.{'json' if wrap is dict else 'csv'}"
    if wrap is dict:
        path.write_text(json.dumps([row]))
    else:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([row.keys(), row.values()])
    (got,) = read_replies(path, PEOPLE)
    assert got.answers["note"] == "a\nb"


def part(**given):
    return {"from_name": "valid", "value": {"choices": ["no"]}, **given}


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (part(), "valid is given twice"),
        (part(from_name="note"), "note is given twice"),
        (part(from_name=["x"]), r"from_name is \['x'\]"),
        (part(from_name="f", value={"a": 1}), None),
        ({"type": "relation"}, None),
    ],
)
def test_what_a_result_says_twice_is_no_answer(written, tasks, tmp_path, given, what):
    row = noted(written, tasks, "a")
    row["annotations"][0]["result"] += [given, given] if what is None else [given]
    path = save(tmp_path / "a.json", "full", [row])
    if what is None:
        assert read_replies(path, PEOPLE)[0].answers["note"] == "a"
        return
    with pytest.raises(UserError, match=f"a.json: task 1: {what}"):
        read_replies(path, PEOPLE)


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("note", {"a": 1}, "note is {'a': 1}"),
        ("note", [["a"]], "note is [['a']]"),
        ("note", {"text": {"a": 1}}, "note is {'a': 1}"),
        ("valid", {"choices": ["yes", "no"]}, "valid is ['yes', 'no']"),
        ("valid", ["yes", "no"], "valid is ['yes', 'no']"),
        ("valid", "[" * 100_000, "valid is '[[["),
        ("annotator", ["x"], "annotator is ['x']"),
        ("annotator", {"id": {"a": 1}}, "annotator is {'a': 1}"),
        pytest.param("annotator", 10**300, "annotator is 'label_studio_1000", id="number"),
        ("annotator", f"{'x' * 300}@\n", "names a person by address ('xxx"),
    ],
)
def test_what_is_no_answer_is_refused_and_not_lost(written, tasks, tmp_path, name, value, what):
    row = {**next(flat([noted(written, tasks, "a")])), name: value}
    (tmp_path / "a.json").write_text(json.dumps([row]))
    with pytest.raises(UserError, match=re.escape(f"a.json: task 1: {what}"[:40])) as caught:
        read_replies(tmp_path / "a.json", {})
    assert what in str(caught.value)
    assert len(str(caught.value)) < len(str(tmp_path)) + 250


def test_people_without_a_name_get_their_number_and_addresses_are_not_taken(
    written, tasks, tmp_path
):
    rows = exported(written, tasks)
    got = read_replies(save(tmp_path / "a.json", "full", rows), {})
    assert {r.annotator for r in got} == {"label_studio_3", "label_studio_4"}
    rows = exported(written, tasks, person=lambda n: {"id": n, "email": f"p{n}@x.org"})
    got = read_replies(save(tmp_path / "b.json", "full", rows), PEOPLE)
    assert {r.annotator for r in got} == {"ann", "bob"}
    for row in rows:
        for annotation in row["annotations"]:
            annotation["completed_by"] = annotation["completed_by"]["email"]
    path = save(tmp_path / "c.csv", "csv", rows)
    with pytest.raises(UserError, match=r"p3@x\.org.*--name"):
        read_replies(path, {})
    got = read_replies(path, {"p3@x.org": "ann", "p4@x.org": "bob"})
    assert {r.annotator for r in got} == {"ann", "bob"}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "no JSON"),
        ('{"a": 1}', "no list"),
        ("[1]", "task 1"),
        ('[{"annotations": 3, "data": {}}]', "annotations"),
        ('[{"annotations": [{"id": 1, "result": [], "completed_by": 3}], "data": {}}]', "form"),
        ('[{"annotations": [4], "data": {}}]', "task 1"),
        ('[{"annotations": [{"id": 1, "result": [7]}], "data": {}}]', "task 1"),
        ('[{"annotations": [], "data": 3}]', "task 1"),
        ('{"format": "edct-annotation/9"}', "edct-annotation/9"),
        ('{"format": "edct-annotation/1", "rows": [{"id": [1]}]}', "row 1"),
        (
            '{"format": "edct-annotation/1", "form": "f", "annotator": "a b", "rows": [{"id": "x"}'
            "]}",
            "a b",
        ),
    ],
)
def test_what_is_no_export_is_named(tmp_path, text, what):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(UserError, match=re.escape(what)) as caught:
        read_replies(tmp_path / "x.json", {})
    assert "\n" not in str(caught.value)
