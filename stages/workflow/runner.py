"""How a stage begins and ends: its params, one clear line for an error, earlier outputs kept."""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stages.records.errors import UserError
from stages.workflow import params as parameters

Run = Callable[..., None]


def main(stage: str, run: Run, axes: Sequence[str] = ()) -> None:
    """Run a stage in the current workspace and leave the process with its exit status.

    Parameters
    ----------
    stage : str
        The stage's name, which begins every message.
    run : callable
        Called as ``run(root, params, **axes)``.
    axes : sequence of str
        Axes of the matrix that the command line must give, e.g. ``--target demo_looks``.
    """
    parser = argparse.ArgumentParser(prog=f"python -m stages.{stage}", description=run.__doc__)
    for axis in axes:
        parser.add_argument(f"--{axis}", required=True)
    chosen = vars(parser.parse_args())
    try:
        run(Path(), parameters.load(Path("params.yaml")), **chosen)
    except UserError as error:
        _fail(stage, chosen, str(error), 1)
    except KeyboardInterrupt:
        _fail(stage, chosen, "interrupted; every finished call is in the store: run it again", 130)
    except OSError as error:
        if error.filename is None and error.errno is None:
            raise
        _fail(stage, chosen, f"{error.filename or 'disk'}: {error.strerror}. Mend it and rerun.", 1)


def _fail(stage: str, chosen: dict[str, Any], line: str, status: int) -> None:
    _restore(Path("data") / stage / "-".join(chosen.values()) if chosen else Path("data") / stage)
    print(f"{stage}: {line}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(status) if status == 130 else sys.exit(status)


def _restore(output: Path) -> None:
    """Bring back the output that DVC removed before this run, if it ever was made."""
    if output.exists() or "DVC_STAGE" not in os.environ or shutil.which("dvc") is None:
        return
    subprocess.run(  # what was never made can't be restored, and that is no fault
        ["dvc", "checkout", "--quiet", "--force", str(output)],
        capture_output=True,
        check=False,
        timeout=60,
    )
