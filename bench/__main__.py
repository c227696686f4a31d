"""`python -m bench [TOPIC …] [--quick]`: measure, and write docs/speed.json and docs/speed.md."""

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

from bench import figure

TOPICS = ("verification", "calls", "samples", "start", "growth", "workers")
DOCS = Path(__file__).parents[1] / "docs"


class Topic(Protocol):
    """A module of this package that measures."""

    def measure(self, *, quick: bool) -> Iterator[figure.Figure]:
        """Yield figures as they are measured; quick: small sizes, for a look."""


def main() -> int:
    """Measure the topics asked for (all, by default); earlier figures of the others stay."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=main.__doc__)
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help=f"of {', '.join(TOPICS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is written")
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.topics) - set(TOPICS))
    if unknown:
        parser.error(f"no topic {', '.join(unknown)}; there are {', '.join(TOPICS)}")
    fresh = []
    print(figure.HEAD)
    for name in chosen.topics or TOPICS:
        try:
            topic = cast(Topic, importlib.import_module(f"bench.{name}"))
        except ImportError as error:
            print(
                f"{name}: needs {error.name}: `make bench TOPICS={name}` brings it", file=sys.stderr
            )
            return 1
        for found in topic.measure(quick=chosen.quick):
            if chosen.quick:  # bounds are for whole sizes, on a machine at rest
                found = found.model_copy(update={"bound": None})
            fresh.append(found)
            print(figure.table([found]).splitlines()[-1], flush=True)
    if not chosen.quick:
        figures = figure.merge(figure.load(DOCS / "speed.json"), fresh)
        figure.save(DOCS / "speed.json", figures)
        figure.insert(DOCS / "speed.md", f"{figure.table(figures)}\n\n{figure.where()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
