"""How a stage begins and ends: its params, one clear line for an error, earlier outputs kept."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from stages.models.account import on_behalf_of
from stages.records.errors import UserError
from stages.workflow import endings
from stages.workflow import params as parameters

Run = Callable[..., None]
_INTERRUPTED = (
    "interrupted; every finished call is in the store: run it again, or bring the earlier output "
    "back by `dvc checkout`, if there was one"
)


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
    name = f"{stage}@{'-'.join(chosen.values())}" if chosen else stage
    signal.signal(signal.SIGINT, lambda *_: _end(name, _INTERRUPTED, 130))
    endings.begin(Path(), name)
    try:
        with on_behalf_of(stage):
            run(Path(), parameters.load(Path("params.yaml")), **chosen)
    except UserError as error:
        _end(name, str(error), 1)
    except OSError as error:
        what = f"{error.filename or 'disk'}: {error.strerror or error}"
        _end(name, f"{what}. Mend it and run again.", 1)
    except Exception as error:
        # Not hidden: the stage fails, and the whole trace is a variable away. But the output that
        # DVC removed comes back, whatever went wrong.
        if os.environ.get("EDCT_TRACE"):
            traceback.print_exc()
        kind = type(error).__name__
        _end(name, f"unexpected {kind}: {error}. EDCT_TRACE=1 shows where.".replace("\n", " "), 1)
    endings.succeed(Path(), name)


def _end(name: str, line: str, status: int) -> NoReturn:
    """Bring earlier outputs back, say what happened in one line, and leave.

    Who interrupts does not wait for DVC's checkout, which takes seconds.
    """
    said = name.replace("@", " ")
    line = line.removeprefix(f"{said}: ")
    endings.fail(Path(), name, line)
    if status != 130:
        _restore(name)
    print(f"{said}: {line}", file=sys.stderr, flush=True)
    if status != 130:
        sys.exit(status)
    sys.stdout.flush()
    os._exit(status)  # threads that wait for a reply would hold an interrupted process


def _restore(name: str) -> None:
    """Bring back the outputs that DVC removed before this run, if they ever were made."""
    if "DVC_STAGE" not in os.environ or shutil.which("dvc") is None:
        return
    subprocess.run(  # what was never made can't be restored, and that is no fault
        ["dvc", "checkout", "--quiet", "--force", name],
        capture_output=True,
        check=False,
        timeout=60,
    )
