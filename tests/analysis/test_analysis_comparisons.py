"""Comparisons: signs, common samples, families of tests, factorial effects, ranks, power."""

import numpy as np
import pytest

from stages.analysis.comparisons import Matrix, compare, plan_power, rank
from stages.analysis.simulation import Design
from stages.stats.comparison import holm, samples_needed


def whole(rows, quick, axis):
    return [
        r
        for r in compare(rows, quick)
        if r.axis == axis and r.metric == "ccs_binary" and r.domain is None and r.position is None
    ]


def test_a_difference_is_first_less_second_on_common_samples(study, cell, quick):
    made = study({cell("good"): 0.8, cell("bad"): 0.3})
    (row,) = whole(made.rows, quick, "target")
    table = Matrix(made.rows, "ccs_binary").table
    common = ~np.isnan(table).any(axis=1)
    assert row.difference.mean == pytest.approx((table[common, 0] - table[common, 1]).mean())
    assert (row.first, row.second) == ("good", "bad")
    assert row.difference.low > 0
    assert row.p < 0.01
    assert row.difference.n_samples == common.sum()
    assert row.n_left_out == (~np.isnan(table)).any(axis=1).sum() - common.sum()


def test_turning_the_targets_round_turns_the_sign(study, cell, quick):
    made = study({cell("a"): 0.7, cell("b"): 0.4})
    (row,) = whole(made.rows, quick, "target")
    (back,) = whole(made.of(target="b") + made.of(target="a"), quick, "target")
    assert back.difference.mean == pytest.approx(-row.difference.mean)
    assert back.p == row.p


def test_p_is_corrected_within_a_family_alone(study, cell, quick):
    made = study({cell(name): ccs for name, ccs in zip("abc", (0.3, 0.5, 0.7), strict=True)})
    families = {}
    for row in compare(made.rows, quick):
        families.setdefault((row.metric, row.domain, row.position), []).append(row)
    assert len(families) == 2 + 2 + 2  # two metrics, two domains, two positions
    for rows in families.values():
        assert len(rows) == 3
        assert [r.p_holm for r in rows] == pytest.approx(holm([r.p for r in rows]))


@pytest.fixture(scope="module")
def factorial(study, cell):
    """A judge that scores 0.3 lower whatever the extractor; both extractors alike."""
    cells = {
        cell(extractor=x, judge=j): 0.8 if j == "mild" else 0.5
        for x in ("x1", "x2")
        for j in ("mild", "strict")
    }
    return study(cells, Design(300, 2, 0.5, 0.5, 0.9, 2, 0.0))


def test_extractor_and_judge_effects_are_told_apart(factorial, quick):
    (judge,) = whole(factorial.rows, quick, "judge")
    assert judge.difference.low < 0.3 < judge.difference.high
    assert judge.difference.low > 0
    (extractor,) = whole(factorial.rows, quick, "extractor")
    assert extractor.difference.low < 0 < extractor.difference.high
    (interaction,) = whole(factorial.rows, quick, "extractor × judge")
    assert interaction.difference.low < 0 < interaction.difference.high


def test_a_judge_that_favours_its_own_extractor_shows_in_the_interaction(study, cell, quick):
    cells = {
        cell(extractor=x, judge=j): 0.9 if x == j else 0.4 for x in ("m", "n") for j in ("m", "n")
    }
    (row,) = whole(study(cells).rows, quick, "extractor × judge")
    # (mm + nn − mn − nm) / 2 of the means 0.9, 0.9, 0.4, 0.4
    assert row.difference.low < 0.5 < row.difference.high
    assert row.p < 0.01


def test_seeds_are_taken_together(study, cell, quick):
    made = study({cell(t, seed=s): 0.5 for t in "ab" for s in (0, 1)})
    (row,) = whole(made.rows, quick, "target")
    assert Matrix(made.rows, "ccs_binary").table.shape[1] == 2
    (single,) = whole(made.of(seed=0), quick, "target")
    assert row.sd < single.sd


def test_ranks_follow_the_means_and_add_up(study, cell, quick):
    made = study({cell("low"): 0.1, cell("high"): 0.9})
    rows = [r for r in rank(made.rows, quick) if r.metric == "ccs_binary"]
    by_target = {r.target: r for r in rows}
    assert by_target["high"].probabilities == (1.0, 0.0)
    assert by_target["low"].expected == 2.0
    assert list(rank(made.of(target="low"), quick)) == []


def test_a_target_without_a_score_has_no_rank_and_no_difference(study, cell, quick):
    made = study({cell("a"): 0.5, cell("b"): 0.5})
    rows = [
        r.model_copy(update={"ccs_binary": None}) if r.cell.target == "b" else r for r in made.rows
    ]
    (row,) = whole(rows, quick, "target")
    assert (row.difference.mean, row.p, row.sd) == (None, None, None)
    ranks = {r.target: r for r in rank(rows, quick) if r.metric == "ccs_binary"}
    assert ranks["b"].expected is None
    assert sum(ranks["b"].probabilities) == 0


def test_planned_samples_pay_for_attrition(study, cell, quick):
    made = study({cell("a"): 0.7, cell("b"): 0.4})
    compared = list(compare(made.rows, quick))
    plans = [p for p in plan_power(compared, 60, [0.1], 0.8) if p.metric == "ccs_binary"]
    (row,) = whole(made.rows, quick, "target")
    at_gap, observed = plans
    assert (at_gap.gap, observed.gap) == (0.1, None)
    assert at_gap.n_common == samples_needed(row.sd, 0.1).n
    assert at_gap.n_planned == int(np.ceil(at_gap.n_common / (row.difference.n_samples / 60)))
    assert at_gap.n_common > observed.n_common
