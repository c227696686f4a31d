"""One reader of replies under a fuzzer that is led by coverage (atheris, on libFuzzer).

    python -m tests.faults.guided READER CORPUS [-runs=20000 -seed=1 …]

A reply that raises anything but a refusal, or is read into what can't be, ends it with a crash.
"""

import contextlib
import sys
from typing import Any

import atheris

with atheris.instrument_imports(include=["stages.models"]):
    from stages.models import replies
    from stages.models.detector import boxes
    from stages.models.protocol import CallError

from tests.faults.said import SAID, sound

REFUSALS = (replies.Unparsed, CallError)


def main(name: str, arguments: list[str]) -> None:
    """Feed it so many replies."""
    read: Any = boxes.read_boxes if name == "boxes" else SAID[name][0]

    def once(data: bytes) -> None:
        with contextlib.suppress(*REFUSALS):
            sound(read(data.decode("utf-8", "replace")))

    atheris.Setup([sys.argv[0], *arguments], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
