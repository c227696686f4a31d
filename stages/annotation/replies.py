"""What annotators send back: exports of the form and of Label Studio, read row by row.

JSON and CSV of the form, the latter also after a spreadsheet had it (`records.sheet`); JSON,
JSON-MIN and CSV of Label Studio. Which it is, is told by the content. In CSV the words are those of
the form and no others: `yes`, `no`, `cant_tell` for `valid`, `0` and `1` for `ac` and `ef`, in any
case; an empty cell is no answer.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stages.records.errors import UserError
from stages.records.form import FORMAT
from stages.records.sheet import read_sheet

COLUMNS = ("form", "annotator", "id", "valid", "ac", "ef", "note")
"""Columns of the form's CSV."""
ANSWERS = ("valid", "ac", "ef", "note")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_STUDIO = frozenset({"item", "form", "annotator", "annotation_id", *ANSWERS})


class Reply(NamedTuple):
    """One annotator's answers about one edit, as they were given."""

    where: str
    """File and row."""
    form: str
    annotator: str
    id: str
    """The edit's opaque name."""
    answers: Mapping[str, str]
    """`valid`, `ac`, `ef` and `note`, where given."""


def read_replies(path: Path, names: Mapping[str, str]) -> list[Reply]:
    """Read one export.

    Parameters
    ----------
    path : Path
        The file.
    names : mapping of str to str
        Label Studio's number or address of a person → the name to use.

    Raises
    ------
    UserError
        If the file is no export, or a row can't be read; names file and row.
    """
    if not path.is_file():
        raise UserError(str(path), "there is no such file", "Give the exported files.")
    if path.suffix.lower() in (".csv", ".tsv", ".txt"):
        return list(_from_sheet(path, names))
    if path.suffix.lower() == ".json":
        return list(_from_json(path, names))
    raise UserError(str(path), "is neither JSON nor CSV", "Export it as one of these.")


def _from_sheet(path: Path, names: Mapping[str, str]) -> Iterator[Reply]:
    sheet = read_sheet(path, _STUDIO | set(COLUMNS))
    columns = set(sheet.columns)
    if {"item", "annotation_id"} <= columns:
        for line, cells in sheet.rows:
            yield from _from_studio(cells, f"{path}:{line}", names)
        return
    missing = [name for name in COLUMNS if name not in columns]
    unknown = [name for name in sheet.columns if name not in COLUMNS]
    if missing:
        raise UserError(
            f"{path}:1",
            f"has no column {', '.join(missing)}",
            f"A form's export has: {', '.join(COLUMNS)}.",
        )
    if unknown:
        raise UserError(
            f"{path}:1", f"no such column: {', '.join(unknown)}", f"Known: {', '.join(COLUMNS)}."
        )
    for line, cells in sheet.rows:
        yield _reply(cells, f"{path}:{line}")


def _from_json(path: Path, names: Mapping[str, str]) -> Iterator[Reply]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UserError(str(path), f"no JSON ({error})", "Export it again.") from None
    if isinstance(content, dict) and content.get("format") == FORMAT:
        head = {name: content.get(name) for name in ("form", "annotator")}
        for number, row in enumerate(_objects(content.get("rows"), f"{path}: row"), 1):
            where = f"{path}: row {number}"
            yield _reply({**_texts(row, where), **_texts(head, where)}, where)
        return
    if isinstance(content, dict) and "format" in content:
        raise UserError(str(path), f"is of format {content['format']!r}", f"{FORMAT} is read here.")
    for number, task in enumerate(_objects(content, f"{path}: task"), 1):
        where = f"{path}: task {number}"
        if "annotations" not in task:
            yield from _from_studio(task, where, names)
            continue
        (data,) = _objects([task.get("data")], f"{where}: data")
        for annotation in _objects(task["annotations"], f"{where}: annotations"):
            if annotation.get("was_cancelled"):
                continue
            said = {
                part.get("from_name"): part.get("value")
                for part in _objects(annotation.get("result"), f"{where}: result")
            }
            cells = {
                "form": data.get("form"),
                "item": data.get("item"),
                "annotator": annotation.get("completed_by"),
                "annotation_id": annotation.get("id"),
                **{name: _studio_value(said.get(name)) for name in ANSWERS},
            }
            yield from _from_studio(cells, where, names)


def _from_studio(cells: Mapping[str, Any], where: str, names: Mapping[str, str]) -> Iterator[Reply]:
    """A row of JSON-MIN or CSV; a task that nobody annotated has none."""
    if cells.get("annotation_id") in (None, ""):
        return
    given = {name: _studio_value(cells.get(name)) for name in ANSWERS}
    head = {name: cells.get(name) for name in ("form", "item")}
    texts = _texts({**given, **head}, where)
    person = _person(cells.get("annotator"), where, names)
    yield _reply({**texts, "id": texts.pop("item", ""), "annotator": person}, where)


def _studio_value(value: Any) -> Any:
    """The one thing that a choice or a text area holds, however an export wraps it."""
    if isinstance(value, str) and value[:1] in "[{":
        try:
            value = json.loads(value)
        except ValueError:
            return value
    if isinstance(value, dict):
        value = value.get("choices", value.get("text"))
    if isinstance(value, list):
        parts = [part for part in map(_studio_value, value) if part not in (None, "")]
        return "\n".join(map(str, parts)) or None
    return value


def _person(given: Any, where: str, names: Mapping[str, str]) -> str:
    if isinstance(given, dict):
        given = given.get("id", given.get("email"))
    person = str(given or "")
    if person in names:
        return names[person]
    if "@" in person:
        raise UserError(
            where,
            f"names a person by address ({person})",
            f"Addresses don't belong in the repository: --name {person}=annotator_1.",
        )
    if not person:
        raise UserError(where, "does not say who annotated", "Export it again.")
    return f"label_studio_{person}"


def _reply(cells: Mapping[str, str], where: str) -> Reply:
    for name in ("form", "annotator", "id"):
        if not cells.get(name):
            raise UserError(where, f"{name} is empty", "Take it from the export as it was.")
    if not _NAME.fullmatch(cells["annotator"]):
        raise UserError(
            where,
            f"annotator is {cells['annotator']!r}",
            "A name has letters, digits, dots, dashes and underscores.",
        )
    answers = {name: cells[name] for name in ANSWERS if cells.get(name)}
    return Reply(where, cells["form"], cells["annotator"], cells["id"], answers)


def _texts(row: Mapping[str, Any], where: str) -> dict[str, str]:
    """Values of a JSON object as text; what is null or empty is left out."""
    texts = {}
    for name, value in row.items():
        if isinstance(value, bool) or not isinstance(value, str | int | None):
            raise UserError(where, f"{name} is {value!r}", "Export it again.")
        text = "" if value is None else str(value).strip()
        if text:
            texts[name] = text
    return texts


def _objects(value: Any, where: str) -> Sequence[Mapping[str, Any]]:
    if not isinstance(value, list):
        raise UserError(where, "is no list", "Export it again.")
    for number, one in enumerate(value, 1):
        if not isinstance(one, dict):
            raise UserError(f"{where} {number}", f"is {one!r}", "Export it again.")
    return value
