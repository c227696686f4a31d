"""What a benchmark is: chosen items, each with a lazily read picture, and a count of the others."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stages.models.picture import Picture


@dataclass(frozen=True)
class Item:
    """One chosen image-question pair before it becomes a `Sample`; fields as there."""

    id: str
    domain: str
    question: str
    picture: Callable[[], Picture]
    """Reads the image when it is needed; raises UserError where it is missing or unusable."""
    system_prompt: str | None = None
    reference: str | None = None
    group: str | None = None
    source: str | None = None


@dataclass(frozen=True)
class Selection:
    """What a benchmark chose."""

    items: tuple[Item, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Why candidates were left out: reason → how many."""
    skipped: tuple[str, ...] = ()
    """Rows that could not be used: file, row and why, one line each."""


class Benchmark(ABC):
    """A publisher's files and a recipe. Equal files and recipe give equal selections anywhere."""

    @abstractmethod
    def select(self) -> Selection:
        """Choose the items; raise UserError where a file is missing or broken."""
