"""Exchange finished runs.

python -m stages.exchange export FOLDER [--accepted-only]
python -m stages.exchange check FOLDER
python -m stages.exchange replay FOLDER [--name NAME]
"""

import argparse
import sys
from pathlib import Path

from stages.exchange import card, export, replay
from stages.models.artefact.layout import Provenance
from stages.records.errors import UserError


def main(arguments: list[str]) -> int:
    """Run a command; an error is one line."""
    parser = argparse.ArgumentParser(prog="python -m stages.exchange", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    exporting = commands.add_parser("export", help="write the finished run into a new folder")
    checking = commands.add_parser("check", help="read everything in an artefact once")
    replaying = commands.add_parser("replay", help="write the study that runs an artefact again")
    for command in (exporting, checking, replaying):
        command.add_argument("folder", type=Path)
    exporting.add_argument(
        "--accepted-only", action="store_true", help="without the pictures of rejected edits"
    )
    replaying.add_argument("--name", default="replay", help="name of the study (replay)")
    given = parser.parse_args(arguments)
    try:
        match given.command:
            case "export":
                made = export.export(Path(), given.folder, accepted_only=given.accepted_only)
                print(f"{given.folder}: {_counts(made)}")
                for name, config in (made.params.get("benchmarks") or {}).items():
                    print(f"before you pass it on: {name}: {card.licence(config)}")
            case "check":
                print(f"{given.folder}: whole; {_counts(replay.check(given.folder).provenance)}")
            case "replay":
                path = replay.write_study(Path(), given.folder, given.name)
                print(f"{path} written. Run it: make params STUDY=study={given.name} && dvc repro")
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename or 'disk'}: {error.strerror}. Mend it and rerun.", file=sys.stderr)
        return 1
    return 0


def _counts(made: Provenance) -> str:
    return ", ".join(f"{n} {name}" for name, n in made.rows.items())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
