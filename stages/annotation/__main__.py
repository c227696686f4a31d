"""Forms for annotators, and their answers.

python -m stages.annotation write
python -m stages.annotation import FILE… [--replace] [--name 3=annotator_1]
"""

import argparse
import json
import shutil
import sys
from functools import partial
from pathlib import Path

from stages.annotation import form, label_studio, material
from stages.annotation.draw import candidates, draw
from stages.annotation.images import encode_all
from stages.annotation.intake import take_in
from stages.records.errors import UserError
from stages.records.score import Cell
from stages.workflow import params as parameters
from stages.workflow import sections
from stages.workflow.folders import Folders

_ROOM_FOR_TEXT = 1_000_000


def write(root: Path) -> str:
    """Write the forms, the Label Studio project and the key; says what was written."""
    params = parameters.load(root / "params.yaml")
    settings = parameters.section(params, "annotation", sections.AnnotationSettings)
    folders = Folders(root)
    drawn = draw(list(candidates(folders, _cells(folders))), settings)
    if not drawn.candidates:
        raise UserError(str(folders.edit), "no edit was made", "Run `dvc repro` first.")
    items = material.gather(drawn, folders, settings)
    key = material.key(parameters.value(params, "study", str), drawn, items, settings)
    coding, files = encode_all(
        {sha: partial(item.load, sha) for item in items for sha in item.images.values()},
        max_bytes=(settings.max_mb * 1e6 - _ROOM_FOR_TEXT) * 3 / 4,
    )
    folder = folders.forms / key.form
    unfinished = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        sizes = []
        for annotator in settings.annotators:
            ordered = material.in_order(items, settings, annotator)
            html = form.render(
                ordered, form=key.form, annotator=annotator, coding=coding, files=files
            )
            path = unfinished / f"{annotator}.html"
            path.write_text(html, encoding="utf-8")
            sizes.append(f"{path.name} ({path.stat().st_size / 1e6:.1f} MB)")
        label_studio.write(
            unfinished / "label_studio",
            items,
            form=key.form,
            images=settings.label_studio_images,
        )
        place = folders.annotation_keys / f"{key.form}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{json.dumps(key.model_dump(), indent=1)}\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.replace(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    rejected = sum(not one.accepted for one in drawn.candidates)
    return (
        f"{folder}: {len(items)} edits, {rejected} of them rejected by verification, from "
        f"{len(drawn.strata)} strata; images {coding.name}; {', '.join(sizes)}; label_studio/\n"
        f"{place}: the key. Commit it, and give it to no annotator."
    )


def _cells(folders: Folders) -> list[Cell]:
    path = folders.plan / "cells.json"
    try:
        listing = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(str(path), "the file is missing", "Run `dvc repro` first.") from None
    return [Cell.model_validate(row) for row in listing]


def main(arguments: list[str]) -> int:
    """Run a command; an error is one line."""
    parser = argparse.ArgumentParser(prog="python -m stages.annotation", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write", help="write the forms of the finished run")
    taking = commands.add_parser("import", help="take annotators' exports into data/annotations")
    taking.add_argument("files", nargs="+", type=Path)
    taking.add_argument("--replace", action="store_true", help="overrule what is there already")
    taking.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="PERSON=NAME",
        help="a name for a person whom Label Studio gives by number or address",
    )
    given = parser.parse_args(arguments)
    try:
        if given.command == "write":
            print(write(Path()))
        else:
            names = dict(_pair(text) for text in given.name)
            for one in take_in(Folders(Path()), given.files, names, replace=given.replace):
                print(one)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename or 'disk'}: {error.strerror}. Mend it and rerun.", file=sys.stderr)
        return 1
    return 0


def _pair(text: str) -> tuple[str, str]:
    person, sign, name = text.partition("=")
    if not (person and sign and name):
        raise UserError(f"--name {text}", "is no PERSON=NAME", "Give e.g. --name 3=annotator_1.")
    return person, name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
