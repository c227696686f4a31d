"""Attrition: from samples to scored edits, with every reason for loss.

The unit changes on the way. A sample that never got as far as a chain has one row at position 0;
from the chain on, each planned edit is a row of its own. The last step forks: the binary and the
graded verdict are asked for apart, and each loses edits of its own.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stages.records.base import Status
from stages.records.score import Intervention

_BEFORE_CHAIN = ("baseline", "concepts", "instructions")
_AFTER_CHAIN = ("edit", "requery", "judge")
GRADED = "judge (graded)"
"""Key of the step that counts grades; like that of the binary verdict it follows on `requery`."""


@dataclass(frozen=True)
class Step:
    """One step of the funnel: how many came through, and why the others did not."""

    key: str
    name: str
    unit: str
    """``samples`` or ``edits``."""
    entered: int
    """How many there were before this step."""
    kept: int
    """How many came through."""
    lost: dict[Status, int] = field(default_factory=dict)
    """Why the others did not, most frequent first."""


@dataclass(frozen=True)
class Gate:
    """What verification made of the edits that were tried. All counts are edits, not attempts."""

    tried: int
    first: int
    """Accepted at the first attempt."""
    retried: int
    """Tried more than once."""
    recovered: int
    """Accepted at a later attempt."""

    @property
    def accepted(self) -> int:
        """Edits that were accepted in the end."""
        return self.first + self.recovered


@dataclass(frozen=True)
class Verdicts:
    """What became of the two verdicts on edits that were judged."""

    binary_only: dict[Status, int]
    """Edits with a binary verdict and without a grade, by why there is none."""
    graded_only: int
    """Edits with a grade and without a binary verdict."""
    replicates: int
    """Verdicts that were asked for, of each kind."""
    verdicts_lost: int
    """Binary ones among them that do not exist."""
    grades_lost: int
    """Graded ones among them that do not exist."""


def funnel(rows: Iterable[Intervention]) -> tuple[Step, ...]:
    """Count what came through each step, of one cell or of several together."""
    rows = list(rows)
    cells = len({row.cell for row in rows})
    before = [row for row in rows if row.position == 0]
    edits = [row for row in rows if row.position > 0]
    samples = len({(row.cell, row.sample_id) for row in rows})
    over = f", over {cells} rows" if cells > 1 else ""
    steps = [Step("samples", f"Samples asked about{over}", "samples", samples, samples)]
    names = {
        "baseline": "Answered and explained",
        "concepts": "Explanation cites editable concepts",
        "instructions": "Edit chain written",
    }
    for stage in _BEFORE_CHAIN:
        steps.append(_step(stage, names[stage], "samples", steps[-1].kept, _lost(before, {stage})))
    steps.append(Step("planned", "Edits planned", "edits", len(edits), len(edits)))
    reached = [row for row in edits if _is_reached(row)]
    missed = _count(row for row in edits if not _is_reached(row))
    steps.append(_step("reached", "Edits tried", "edits", len(edits), missed))
    names = {
        "edit": "Edits accepted by verification",
        "requery": "Target asked again",
        "judge": "Scored (AC, EF, binary CCS)",
    }
    for stage in _AFTER_CHAIN:
        steps.append(_step(stage, names[stage], "edits", steps[-1].kept, _lost(reached, {stage})))
    judged = [row for row in reached if row.stage == "judge"]
    ungraded = Counter(row.graded_status or Status.NOT_REACHED for row in judged)
    del ungraded[Status.OK]
    steps.append(_step(GRADED, "Scored (graded CCS)", "edits", len(judged), _ranked(ungraded)))
    return tuple(steps)


def verdicts(rows: Iterable[Intervention]) -> Verdicts:
    """Count edits that have one of the two verdicts alone, and replicates without one."""
    judged = [row for row in rows if row.stage == "judge"]
    return Verdicts(
        binary_only=_ungraded(row for row in judged if row.status is Status.OK),
        graded_only=sum(
            row.status is not Status.OK and row.graded_status is Status.OK for row in judged
        ),
        replicates=sum(row.replicates for row in judged),
        verdicts_lost=sum(row.verdicts_lost for row in judged),
        grades_lost=sum(row.grades_lost for row in judged),
    )


def _ungraded(scored: Iterable[Intervention]) -> dict[Status, int]:
    return _ranked(Counter(s for row in scored if (s := row.graded_status) and s is not Status.OK))


def gate(rows: Iterable[Intervention]) -> Gate:
    """Count first acceptances, retries and recoveries."""
    tried = [row for row in rows if row.position > 0 and row.attempts > 0]
    accepted = [row for row in tried if row.status is Status.OK or row.stage in _AFTER_CHAIN[1:]]
    return Gate(
        tried=len(tried),
        first=sum(row.attempts == 1 for row in accepted),
        retried=sum(row.attempts > 1 for row in tried),
        recovered=sum(row.attempts > 1 for row in accepted),
    )


def _is_reached(row: Intervention) -> bool:
    unreached = row.status is Status.NOT_REACHED and row.stage == "edit"
    return not unreached and row.stage not in _BEFORE_CHAIN


def _lost(rows: Sequence[Intervention], stages: set[str]) -> dict[Status, int]:
    return _count(row for row in rows if row.stage in stages and row.status is not Status.OK)


def _count(rows: Iterable[Intervention]) -> dict[Status, int]:
    return _ranked(Counter(row.status for row in rows))


def _ranked(counts: Mapping[Status, int]) -> dict[Status, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _step(key: str, name: str, unit: str, entered: int, lost: dict[Status, int]) -> Step:
    return Step(key, name, unit, entered, entered - sum(lost.values()), lost)
