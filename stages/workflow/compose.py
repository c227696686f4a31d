"""`params.yaml` from `conf/`: composed by Hydra, exactly as `dvc exp run` does it.

`dvc repro` reads `params.yaml` and never composes; `dvc exp run` composes and overwrites it. So the
file is generated, and `--check` says when it differs from what `conf/` gives.

    python -m stages.workflow.compose [--check] [study=table1] [editor=flux_2_max] [chain.k=1] …
"""

import difflib
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from stages.records.errors import UserError
from stages.workflow.cells import study_cells


def compose(root: Path, overrides: list[str]) -> str:
    """The text of `params.yaml` for the given overrides."""
    from dvc.utils.hydra import compose_and_dump

    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "params.yaml"
        try:
            compose_and_dump(
                output_file=str(output),
                config_dir=str((root / "conf").resolve()),
                config_module=None,
                config_name="config",
                plugins_path=str(root / ".dvc" / "plugins"),
                overrides=overrides,
            )
        except yaml.MarkedYAMLError as error:
            raise _no_yaml(error) from None
        except Exception as error:  # Hydra raises whatever a broken file makes it stumble over
            raise _fault(root, str(error), overrides) from None
        return output.read_text(encoding="utf-8")


def _no_yaml(error: yaml.MarkedYAMLError) -> UserError:
    mark = error.problem_mark
    folders, _, file = (mark.name if mark else "").rpartition("/")
    where = f"conf/{folders.partition('/conf/')[2]}/{file}".replace("//", "/")
    line = f":{mark.line + 1}" if mark else ""
    return UserError(f"{where}{line}", f"is no YAML ({error.problem})", "Mend that line.")


def _fault(root: Path, said: str, overrides: list[str]) -> UserError:
    """What Hydra says, as a line with the names that there are."""
    where = f"conf/ with {' '.join(' '.join(overrides).split()) or 'no override'}"
    if named := re.search(r"Could not (?:load|find) '(?:(.+)/)?([^/']+)'", said):
        group, name = named[1] or "", named[2]
        known = sorted(path.stem for path in (root / "conf" / group).glob("*.yaml"))
        near = difflib.get_close_matches(name, known, n=3)
        nearest = f"Nearest: {', '.join(near)}. " if near else ""
        there = f"{nearest}There are: {', '.join(known) or 'none'}."
        return UserError(where, f"there is no {'/'.join(filter(None, (group, name)))}.yaml", there)
    if named := re.search(r"Could not override '(.+?)'", said):
        near = difflib.get_close_matches(named[1], _keys(root, named[1], overrides), n=3)
        remedy = f"Nearest: {', '.join(near)}." if near else "params.yaml has the keys there are."
        return UserError(where, f"there is no {named[1]}", remedy)
    line = next((line.strip() for line in said.splitlines() if line.strip()), "can't be composed")
    return UserError(where, line.rstrip("."), "Mend it; in a shell, quote lists: 'target=[a,b]'.")


def _keys(root: Path, fault: str, overrides: list[str]) -> list[str]:
    """Everything that can be set: groups, and the dotted keys of the study without the fault."""
    others = [each for each in overrides if each.lstrip("+~").partition("=")[0] != fault]
    if not overrides:  # the fault is in conf/ itself
        composed: dict[str, Any] = {}
    else:
        composed = _composed(root, others if others != overrides else [])
    groups = [path.name for path in (root / "conf").iterdir() if path.is_dir()]
    return [*sorted(groups), *_dotted(composed)]


def _composed(root: Path, overrides: list[str]) -> dict[str, Any]:
    try:
        return dict(yaml.safe_load(compose(root, overrides)))
    except UserError:
        return _composed(root, []) if overrides else {}


def _dotted(node: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in node.items():
        yield f"{above}{name}"
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{above}{name}.")


def main(arguments: list[str]) -> int:
    """Write `params.yaml`, or with ``--check`` compare it; the exit status says whether it fits."""
    check = "--check" in arguments
    overrides = [argument for argument in arguments if argument != "--check"]
    path = Path("params.yaml")
    try:
        text = compose(Path(), overrides)
        study_cells(yaml.safe_load(text))
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    if not check:
        path.write_text(text, encoding="utf-8")
        return 0
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    print("params.yaml: differs from conf/. Compose it: `make params`.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
