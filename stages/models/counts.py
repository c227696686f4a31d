"""What the calls of a stage came to, as numbers that add up over processes."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from stages.models.ledger import Spent


@dataclass
class Counts:
    """Calls by role, and what they cost."""

    made: Counter[str] = field(default_factory=Counter)
    """Calls that were made and stored."""
    answered: Counter[str] = field(default_factory=Counter)
    """Calls that the store answered."""
    failed: Counter[str] = field(default_factory=Counter)
    """Calls that gave no usable reply."""
    spent: Spent = field(default_factory=Spent)
    """What was charged."""

    def add(self, other: "Counts") -> None:
        """Count what another process did, too."""
        self.made += other.made
        self.answered += other.answered
        self.failed += other.failed
        for each in fields(Spent):
            total = getattr(self.spent, each.name) + getattr(other.spent, each.name)
            setattr(self.spent, each.name, total)

    def summary(self) -> str:
        """One line: calls made, answered from the store, failed, and what they cost."""
        parts = [
            f"{label} {counts.total()}"
            + (f" ({', '.join(f'{r} {n}' for r, n in sorted(counts.items()))})" if counts else "")
            for label, counts in (
                ("calls made", self.made),
                ("answered from the store", self.answered),
                ("failed", self.failed),
            )
        ]
        return "; ".join([*parts, *self.spent.said()])

    def as_json(self) -> dict[str, Any]:
        """Plain values, for another process."""
        roles = {"made": self.made, "answered": self.answered, "failed": self.failed}
        return {**{name: dict(counts) for name, counts in roles.items()}, "spent": vars(self.spent)}

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> "Counts":
        """The same from plain values."""
        roles = {name: Counter(values[name]) for name in ("made", "answered", "failed")}
        return cls(**roles, spent=Spent(**values["spent"]))
