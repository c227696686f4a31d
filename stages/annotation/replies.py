"""What annotators send back: exports of the form and of Label Studio, read row by row.

JSON and CSV of the form, the latter also after a spreadsheet had it (`records.sheet`); JSON,
JSON-MIN and CSV of Label Studio. Which it is, is told by the content. In CSV the words are those of
the form and no others: `yes`, `no`, `cant_tell` for `valid`, `0` and `1` for `ac` and `ef`, in any
case; an empty cell is no answer. In JSON of Label Studio a text is taken as it is; in its CSV
a cell with several texts is JSON.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stages.records.errors import UserError, quoted
from stages.records.form import FORMAT
from stages.records.sheet import read_sheet, with_formula

COLUMNS = ("form", "annotator", "id", "valid", "ac", "ef", "note")
"""Columns of the form's CSV."""
ANSWERS = ("valid", "ac", "ef", "note")
_WORDS = {"valid": ("yes", "no", "cant_tell"), "ac": ("0", "1"), "ef": ("0", "1")}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")  # the latter: halves of surrogate pairs
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
            opened = {name: _opened(name, cells.get(name, "")) for name in ANSWERS}
            yield from _from_studio({**cells, **opened}, f"{path}:{line}", names)
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
            f"{path}:1",
            f"no such column: {', '.join(map(quoted, unknown))}",
            f"Known: {', '.join(COLUMNS)}.",
        )
    for line, cells in sheet.rows:
        note = with_formula(cells.get("note", "")).strip()
        yield _reply({**cells, "note": note}, f"{path}:{line}")


def _from_json(path: Path, names: Mapping[str, str]) -> Iterator[Reply]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UserError(str(path), f"no JSON ({error})", "Export it again.") from None
    if isinstance(content, dict) and content.get("format") == FORMAT:
        head = {name: content.get(name) for name in ("form", "annotator")}
        for number, row in enumerate(_objects(content.get("rows"), f"{path}: row"), 1):
            where = f"{path}: row {number}"
            unknown = [name for name in row if name not in COLUMNS]
            if unknown:
                raise UserError(where, f"no such key: {quoted(unknown[0])}", "Export it again.")
            yield _reply({**_texts(row, where), **_texts(head, where)}, where)
        return
    if isinstance(content, dict) and "format" in content:
        given = quoted(content["format"])
        raise UserError(str(path), f"is of format {given}", f"{FORMAT} is read here.")
    for number, task in enumerate(_objects(content, f"{path}: task"), 1):
        where = f"{path}: task {number}"
        if "annotations" not in task:
            yield from _from_studio(task, where, names)
            continue
        (data,) = _objects([task.get("data")], f"{where}: data")
        for annotation in _objects(task["annotations"], f"{where}: annotations"):
            if annotation.get("was_cancelled"):
                continue
            said: dict[str, Any] = {}
            for part in _objects(annotation.get("result"), f"{where}: result"):
                name = part.get("from_name")
                if name is not None and not isinstance(name, str):
                    raise UserError(where, f"from_name is {quoted(name)}", "Export it again.")
                if name in said:
                    raise UserError(where, f"{name} is given twice", "Keep the one that holds.")
                if name in ANSWERS:
                    said[name] = part.get("value")
            cells = {
                "form": data.get("form"),
                "item": data.get("item"),
                "annotator": annotation.get("completed_by"),
                "annotation_id": annotation.get("id"),
                **said,
            }
            yield from _from_studio(cells, where, names)


def _from_studio(cells: Mapping[str, Any], where: str, names: Mapping[str, str]) -> Iterator[Reply]:
    """A row of JSON-MIN or CSV; a task that nobody annotated has none."""
    if cells.get("annotation_id") in (None, ""):
        return
    given = {name: _studio_value(name, cells.get(name)) for name in ANSWERS}
    head = {name: cells.get(name) for name in ("form", "item")}
    texts = _texts({**given, **head}, where)
    person = _person(cells.get("annotator"), where, names)
    yield _reply({**texts, "id": texts.pop("item", ""), "annotator": person}, where)


def _studio_value(name: str, value: Any) -> Any:
    """The one choice or the text that an export wraps; what is more stays, to be refused."""
    if isinstance(value, dict):
        value = value.get(_wrapping(name), value)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        parts = [part for part in value if part]
        if name == "note" or len(parts) < 2:
            return "\n".join(parts)
    return value


def _opened(name: str, cell: str) -> Any:
    """What a cell of Label Studio's CSV holds: itself, or several texts or choices as JSON."""
    try:
        value = json.loads(cell)
    except (ValueError, RecursionError):
        return cell
    return value if isinstance(value, dict) and set(value) == {_wrapping(name)} else cell


def _wrapping(name: str) -> str:
    return "text" if name == "note" else "choices"


def _person(given: Any, where: str, names: Mapping[str, str]) -> str:
    if isinstance(given, dict):
        given = given.get("id", given.get("email"))
    if isinstance(given, bool) or not isinstance(given, str | int | None):
        raise UserError(where, f"annotator is {quoted(given)}", "Export it again.")
    person = str(given or "")
    if person in names:
        return names[person]
    if "@" in person:
        raise UserError(
            where,
            f"names a person by address ({quoted(person)})",
            "Addresses don't belong in the repository: --name ADDRESS=annotator_1.",
        )
    if not person:
        raise UserError(where, "does not say who annotated", "Export it again.")
    return f"label_studio_{person}"


def _reply(cells: Mapping[str, str], where: str) -> Reply:
    for name in ("form", "annotator", "id"):
        if not cells.get(name):
            raise UserError(where, f"{name} is empty", "Take it from the export as it was.")
    for name in COLUMNS:
        if found := _UNWRITABLE.search(cells.get(name, "")):
            code = f"U+{ord(found[0]):04X}"
            raise UserError(where, f"{name} has {code}, which no text file holds", "Delete it.")
    if not _NAME.fullmatch(cells["annotator"]):
        raise UserError(
            where,
            f"annotator is {quoted(cells['annotator'])}",
            "A name has at most 64 letters, digits, dots, dashes and underscores.",
        )
    answers = {name: cells[name] for name in ANSWERS if cells.get(name)}
    for name, words in _WORDS.items():
        if name not in answers:
            continue
        answers[name] = answers[name].casefold()
        if answers[name] not in words:
            known = ", ".join(words)
            raise UserError(where, f"{name} is {quoted(cells[name])}", f"Known words: {known}.")
    if "note" in answers:  # a spreadsheet saves line ends of its own
        answers["note"] = re.sub("\r\n?", "\n", answers["note"])
    return Reply(where, cells["form"], cells["annotator"], cells["id"], answers)


def _texts(row: Mapping[str, Any], where: str) -> dict[str, str]:
    """Values of a JSON object as text; what is null or empty is left out."""
    texts = {}
    for name, value in row.items():
        if isinstance(value, bool) or not isinstance(value, str | int | None):
            raise UserError(where, f"{name} is {quoted(value)}", "Export it again.")
        text = "" if value is None else str(value).strip()
        if text:
            texts[name] = text
    return texts


def _objects(value: Any, where: str) -> Sequence[Mapping[str, Any]]:
    if not isinstance(value, list):
        raise UserError(where, "is no list", "Export it again.")
    for number, one in enumerate(value, 1):
        if not isinstance(one, dict):
            raise UserError(f"{where} {number}", f"is {quoted(one)}", "Export it again.")
    return value
