"""CCS against scores from elsewhere: what is read, what is refused, what is drawn."""

import csv
from pathlib import Path

import pytest

from stages import score
from stages.records.errors import UserError
from stages.reporting import capability, figures
from stages.reporting.published import read_capability
from stages.reporting.reading import read_study
from stages.reporting.study import Study
from tests.stages.drawn import cell, write_study

REFERENCE = Path(__file__).parents[2] / "data" / "reference"
TARGETS = ("gemma3_27b", "pixtral_12b", "glm_4_6v")


def row(target: str = "gemma3_27b", value: str = "64.9", source: str = "a page") -> dict[str, str]:
    return {"target": target, "scale": "MMMU", "value": value, "source": source}


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Study:
    root = tmp_path_factory.mktemp("capability")
    params = write_study(root, {cell(target): 0.3 + 0.2 * i for i, target in enumerate(TARGETS)})
    score.run(root, params)
    return read_study(root, params)


def test_every_shipped_value_has_a_source_and_every_target_a_row_a_scale():
    with (REFERENCE / "capability.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len({(r["target"], r["scale"]) for r in rows}) == len(rows) == 36
    known = read_capability(REFERENCE)
    assert {(s.target, s.value) for s in known} >= {("pixtral_12b", 52.5)}
    assert all(s.source for s in known)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row(value="sixty")], "row 2: 'sixty' is no number"),
        ([row(value="nan")], "row 2: 'nan' is no number"),
        ([row(), row(target="glm_4_6v", source=" ")], "row 3: the value has no source"),
        ([row(), row(value="1")], "row 3: gemma3_27b has a second value of MMMU"),
        ([{"target": "gemma3_27b", "scale": "MMMU", "value": "1"}], "row 2: has no source"),
    ],
)
def test_a_row_that_can_not_be_meant_is_named(rows, said):
    with pytest.raises(UserError, match=r"x\.csv") as caught:
        capability.read_scores(rows, "x.csv")
    assert said in str(caught.value)


def test_a_row_without_a_value_waits_to_be_filled():
    assert capability.read_scores([row(value="", source="")], "x.csv") == ()


def test_a_scale_is_drawn_once_two_targets_of_the_study_have_a_value(study):
    one = capability.read_scores([row(), row(target="somebody_else")], "x")
    two = capability.read_scores([row(), row(target="pixtral_12b", value="52.5")], "x")
    with figures.style():
        assert capability.beside(study, one) is None
        drawn = capability.beside(study, two)
    assert drawn is not None
    (panel,) = [ax for ax in drawn.axes if ax.get_visible()]
    points = {line.get_xdata()[0]: line.get_ydata() for line in panel.lines}
    assert set(points) == {64.9, 52.5}
    marks = {float(line.get_xdata()[0]): float(line.get_ydata()[0])
             for line in panel.lines if len(line.get_xdata()) == 1}  # fmt: skip
    for target, x in (("gemma3_27b", 64.9), ("pixtral_12b", 52.5)):
        (found,) = [c for c in study.cells if c.target == target]
        assert marks[x] == study.estimate(found, "ccs_binary").mean


def test_equal_scores_give_equal_bytes(study):
    scores = capability.read_scores([row(), row("pixtral_12b", "52.5"), row("glm_4_6v", "1")], "x")
    with figures.style():
        first, second = (figures.save(capability.beside(study, scores), dpi=72) for _ in range(2))
    assert first == second
