"""`params.yaml` from `conf/`: composed by Hydra, exactly as `dvc exp run` does it.

`dvc repro` reads `params.yaml` and never composes; `dvc exp run` composes and overwrites it. So the
file is generated, and `--check` says when it differs from what `conf/` gives.

    python -m stages.workflow.compose [--check] [study=table1] [editor=flux_2_max] [chain.k=1] …
"""

import sys
import tempfile
from pathlib import Path

import yaml

from stages.records.errors import UserError
from stages.workflow.cells import study_cells


def compose(root: Path, overrides: list[str]) -> str:
    """The text of `params.yaml` for the given overrides."""
    from dvc.utils.hydra import compose_and_dump
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

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
        except (HydraException, OmegaConfBaseException) as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            shown = " ".join(" ".join(overrides).split())
            raise UserError(
                f"conf/ with {shown or 'no override'}",
                "; ".join(lines[:6]).rstrip("."),
                "Choose a file that is in conf/.",
            ) from None
        return output.read_text(encoding="utf-8")


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
