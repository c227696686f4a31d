"""Replies to annotations: each is looked up in its form's key, and nothing given is ever lost.

Two files of one annotator complete each other; where they contradict each other, or a file no
longer holds what `data/annotations` already has, that is an error that says so.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from stages.annotation.replies import ANSWERS, Reply, read_replies
from stages.records.annotation import (
    Annotation,
    parse_annotation,
    read_annotation_file,
    write_annotations,
)
from stages.records.errors import UserError, quoted
from stages.records.form import FormItem, FormKey
from stages.workflow.folders import Folders


class Taken(NamedTuple):
    """What one annotator's answers to one form came to."""

    path: Path
    n_items: int
    """Edits in the form."""
    rows: list[Annotation]
    """Those with an answer."""

    def __str__(self) -> str:
        said = Counter(row.valid for row in self.rows)
        open_ = self.n_items - len(self.rows)
        half = sum(row.valid == "yes" and row.ccs is None for row in self.rows)
        parts = [
            f"{said['yes']} valid ({half} of them without AC or EF)",
            f"{said['no']} not valid",
            f"{said['cant_tell']} can't tell",
            f"{open_} open",
        ]
        if said[None]:
            parts.append(f"{said[None]} with a note or a score but no word on validity")
        return f"{self.path}: {len(self.rows)} of {self.n_items} edits: {', '.join(parts)}"


def take_in(
    folders: Folders, files: Iterable[Path], names: Mapping[str, str], *, replace: bool = False
) -> list[Taken]:
    """Read exports and write `data/annotations/<form>.<annotator>.csv` for each annotator.

    Parameters
    ----------
    folders : Folders
        The workspace.
    files : iterable of Path
        Exports, of any forms and annotators.
    names : mapping of str to str
        Names for Label Studio's annotators.
    replace : bool
        Let the files overrule what is there already.

    Raises
    ------
    UserError
        Naming file and row, before anything is written.
    """
    keys: dict[str, FormKey] = {}
    found: dict[tuple[str, str], dict[str, Reply]] = {}
    for path in files:
        for reply in read_replies(path, names):
            if reply.form not in keys:
                keys[reply.form] = read_key(folders, reply)
            said = found.setdefault((reply.form, reply.annotator), {})
            said[reply.id] = _joined(said[reply.id], reply) if reply.id in said else reply
    if not found:
        raise UserError("annotation", "the files hold no answer", "Export the form again.")
    taken: list[Taken] = []
    for (form, annotator), said in found.items():
        items = {item.id: item for item in keys[form].items}
        for reply in said.values():
            if reply.id not in items:
                raise UserError(
                    reply.where,
                    f"id: {quoted(reply.id)} is no edit of the form {form}",
                    "Leave the column id as it was.",
                )
        rows = [
            _annotation(said[name], item)
            for name, item in items.items()
            if name in said and said[name].answers
        ]
        path = folders.annotations / f"{form}.{annotator}.csv"
        others = [*folders.annotations.glob("*.csv"), *(one.path for one in taken)]
        _is_one_file(path, others, next(iter(said.values())).where)
        if not replace:
            _keeps(path, rows)
        taken.append(Taken(path, len(items), rows))
    for one in taken:
        write_annotations(one.path, one.rows)
    return taken


def read_key(folders: Folders, reply: Reply) -> FormKey:
    """The key of the form that a reply belongs to."""
    known = sorted(path.stem for path in folders.annotation_keys.glob("*.json"))
    if reply.form not in known:
        raise UserError(
            reply.where,
            f"is about the form {quoted(reply.form)}, "
            f"whose key is not in {folders.annotation_keys}",
            f"There are: {', '.join(known) or 'none'}. Whoever wrote the form has it.",
        )
    path = folders.annotation_keys / f"{reply.form}.json"
    try:
        return FormKey.model_validate_json(path.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0]
        raise UserError(str(path), f"is no key of a form ({first})", "Take it from git.") from None


def _joined(first: Reply, second: Reply) -> Reply:
    for name in ANSWERS:
        said, also = first.answers.get(name), second.answers.get(name)
        if said and also and said != also:
            raise UserError(
                second.where,
                f"{second.annotator} says {name} = {quoted(also)} of {quoted(second.id)}, "
                f"but {quoted(said)} in {first.where}",
                "Keep the row that holds.",
            )
    return first._replace(answers={**first.answers, **second.answers})


def _annotation(reply: Reply, item: FormItem) -> Annotation:
    about = item.model_dump(exclude={"id"})
    return parse_annotation({**about, "annotator": reply.annotator, **reply.answers}, reply.where)


def _is_one_file(path: Path, others: Iterable[Path], where: str) -> None:
    """Refuse a name that is another's on a disk that does not tell capitals apart."""
    for other in others:
        if path.name != other.name and path.name.casefold() == other.name.casefold():
            raise UserError(
                where,
                f"would be {path.name}, the same file as {other.name} on macOS and Windows",
                "Spell the annotator as there, or give another name.",
            )


def _keeps(path: Path, rows: list[Annotation]) -> None:
    """Refuse to overwrite answers with fewer or other ones."""
    now = {row.key: row for row in rows}
    for where, old in read_annotation_file(path) if path.exists() else ():
        new = now.get(old.key)
        for name in ANSWERS:
            said = getattr(old, name)
            also = getattr(new, name) if new else None
            if said is not None and said != also:
                raise UserError(
                    where,
                    f"says {name} = {quoted(said)}, and the new files say {quoted(also)}",
                    "With --replace the new files overrule what is there.",
                )
