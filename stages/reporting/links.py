"""Ways from a number of the report to the cases that it rests on.

A link is the gallery's address with a filter in its fragment, e.g.
``gallery.html#target=gemma&position=1&through=judge``. Facets that are named twice mean either.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from stages.records.base import Status
from stages.records.score import PANELS, Cell, Intervention
from stages.reporting.funnel import GRADED, Step, funnel
from stages.reporting.study import Study
from stages.reporting.words import AXES, cell_label, varying_axes

PAGE = "gallery.html"
EARLY = ("baseline", "concepts", "instructions")
"""Stages that a sample can be lost at before it has edits."""
THROUGH = {
    "planned": "planned",
    "reached": "tried",
    "edit": "accepted by verification",
    "requery": "asked again",
    "judge": "scored (AC, EF)",
    "graded": "graded",
}
"""Steps of the funnel that are counted in edits, and what came through them."""
_STEP = {"graded": GRADED}
_NAME = {step: name for name, step in _STEP.items()}


def gallery(filters: Mapping[str, object] | None = None, **facets: object) -> str:
    """The gallery with some facets chosen; a sequence chooses several values of one."""
    chosen = {**(filters or {}), **facets}
    return f"{PAGE}#{urlencode(chosen, doseq=True)}"


def of_cell(cell: Cell, study: Study) -> dict[str, object]:
    """Facets that choose a cell among those of its study."""
    held = varying_axes(study.cells)
    return {axis: getattr(cell, axis) for axis in AXES if axis in held}


Links = dict[str, str | None]
"""The link of each number of a row, by key of the column."""


def main_table(study: Study) -> list[Links]:
    """Links of the main table's rows; None throughout those of a panel."""
    positions = study.positions or (1, 2)
    return [_row_of(cell, of_cell(cell, study), positions) for cell in study.scored]


def domain_table(study: Study) -> list[Links]:
    """Links of the table by domain; None throughout the rows of a panel."""
    return [
        _row_of(cell, {**of_cell(cell, study), "domain": domain}, ())
        for cell in study.scored
        for domain in study.domains
    ]


def _row_of(cell: Cell, facets: dict[str, object], positions: Sequence[int]) -> Links:
    """A case has one judge and none is a panel's, so no filter counts what a panel scored."""
    row = _row(facets, positions)
    return dict.fromkeys(row) if cell.judge in PANELS.values() else {**row}


def _row(facets: dict[str, object], positions: Sequence[int]) -> dict[str, str]:
    out = {
        "head": gallery(facets),
        "ccs_binary": gallery(facets, through="judge"),
        "ccs_graded": gallery(facets, through="graded"),
        "n_interventions": gallery(facets, through="judge"),
        "n_graded": gallery(facets, through="graded"),
        "n_planned": gallery(facets),
    }
    for k in positions:
        at = gallery(facets, position=k, through="judge")
        out |= {f"ac_{k}": at, f"ef_{k}": at, f"n_{k}": at}
    return out


def kept(step: Step, facets: Mapping[str, object] | None = None) -> str | None:
    """What came through a step of the funnel; None where the step counts samples."""
    name = _NAME.get(step.key, step.key)
    return gallery(facets, through=name) if name in THROUGH else None


def lost(step: Step, status: Status, facets: Mapping[str, object] | None = None) -> str:
    """What a step of the funnel lost for one reason."""
    if step.key == GRADED:
        return gallery(facets, stage="judge", grade=f"none: {status}")
    stage = "edit" if step.key == "reached" else step.key
    return gallery(facets, stage=stage, status=str(status))


def came_through(row: Intervention) -> list[str]:
    """Which of the steps in `THROUGH` an intervention came through."""
    if row.position == 0:
        return []
    steps = {step.key: step for step in funnel([row])}
    return [name for name in THROUGH if steps[_STEP.get(name, name)].kept]


def attrition_table(study: Study) -> list[str | None]:
    """The link of each row of the attrition table; None for candidates that were never chosen."""
    axes = varying_axes(study.cells)
    by_label = {"all": funnel(study.interventions)}
    facets: dict[str, dict[str, object]] = {"all": {}}
    if len(study.cells) > 1:
        for cell in study.cells:
            label = cell_label(cell, axes)
            by_label[label] = funnel(row for row in study.interventions if row.cell == cell)
            facets[label] = of_cell(cell, study)
    chosen: list[str | None] = [None] * len(study.left_out)
    return chosen + [
        lost(step, status, facets[label])
        for label, steps in by_label.items()
        for step in steps
        for status in step.lost
    ]
