"""The protocol: modules are stages, packages are the rooms that stages use."""

import os
import signal
import sys


def _interrupted(*_: object) -> None:
    os.write(2, b"interrupted; nothing that was finished is lost: run it again\n")
    os._exit(130)  # an exception would be lost, or taken for another, in what is being imported


# `python -m stages.x` imports this first, and only then what takes a second to import. Until the
# stage has a handler of its own, Ctrl-C ends it with a line and not with Python's trace.
if sys.argv[:1] == ["-m"]:
    signal.signal(signal.SIGINT, _interrupted)
