"""Every planned edit has one row, with its score or its reason."""

from stages.analysis.fates import Trail, follow
from stages.records.base import Status


def test_every_sample_and_every_planned_edit_is_accounted_for(study, cell):
    made = study({cell(): 0.5})
    (trail,) = made.trails.values()
    steps = {chain.sample_id: len(chain.steps) for chain in trail.chains}
    for sample in made.samples:
        rows = [row for row in made.rows if row.sample_id == sample.id]
        assert len(rows) == max(1, steps[sample.id])
        assert {row.domain for row in rows} == {sample.domain}
    scored = [row for row in made.rows if row.status is Status.OK]
    assert len(scored) == len(trail.judgements)
    assert all(row.ccs_binary == row.ac * row.ef for row in scored)
    lost = [row for row in made.rows if row.status is not Status.OK]
    assert {row.ccs_binary for row in lost} == {None}
    assert {row.stage for row in lost} == {"concepts", "edit"}


def test_an_accepted_edit_carries_its_image_and_a_lost_one_none(study, cell):
    made = study({cell(): 0.5})
    for row in made.rows:
        assert (row.edited is not None) == (row.status is Status.OK)


def test_replicates_are_averaged_and_unreadable_ones_left_out(study, cell):
    made = study({cell(): 0.5})
    (trail,) = made.trails.values()
    first = trail.judgements[0]
    more = [
        first.model_copy(update={"replicate": 1, "answer_consistent": 1, "ccs_binary": 1}),
        first.model_copy(update={"replicate": 2, "answer_consistent": 0, "ccs_binary": 0}),
        first.model_copy(
            update={
                "replicate": 3,
                "status": Status.UNPARSED,
                "answer_consistent": None,
                "ccs_binary": None,
            }
        ),
    ]
    changed = Trail(*trail[:5], [*more, *trail.judgements[1:]])
    row = next(r for r in follow(cell(), made.samples, changed) if r.status is Status.OK)
    assert (row.sample_id, row.ac, row.ccs_binary) == (first.sample_id, 0.5, 0.5)


def test_a_verdict_that_never_came_is_missing_not_zero(study, cell):
    made = study({cell(): 0.5})
    (trail,) = made.trails.values()
    rows = list(follow(cell(), made.samples, trail._replace(judgements=[])))
    assert {row.ccs_binary for row in rows} == {None}
    assert ("judge", Status.NOT_REACHED) in {(row.stage, row.status) for row in rows}


def test_a_lost_grade_leaves_the_binary_score_and_is_told(study, cell):
    made = study({cell(): 0.5})
    (trail,) = made.trails.values()
    lost = {"grade": None, "ccs_graded": None, "graded_status": Status.UNPARSED}
    said = [
        v if i % 4 == 0 else v.model_copy(update={**lost, "graded_reason": "no grade"})
        for i, v in enumerate(trail.judgements)
    ]
    rows = list(follow(cell(), made.samples, trail._replace(judgements=said)))
    scored = [row for row in rows if row.status is Status.OK]
    assert len(scored) == len(said)  # the binary verdicts are all there
    told = [row for row in scored if row.graded_status is Status.UNPARSED]
    assert len(told) == sum(v.grade is None for v in said) > len(said) / 2
    assert all(row.ccs_graded is None and row.grades_lost == 1 for row in told)
    assert {row.graded_reason for row in told} == {"no grade"}
    kept = [row for row in scored if row.graded_status is Status.OK]
    assert all(row.ccs_graded is not None and row.graded_reason is None for row in kept)
    never = [row for row in rows if row.stage != "judge"]
    assert {(row.graded_status, row.replicates) for row in never} == {(None, 0)}


def test_a_grade_outlives_a_lost_binary_verdict(study, cell):
    made = study({cell(): 0.5})
    (trail,) = made.trails.values()
    lost = {"answer_consistent": None, "explanation_faithful": None, "ccs_binary": None}
    said = [
        v.model_copy(update={**lost, "status": Status.UNPARSED, "reason": "no verdict"})
        for v in trail.judgements
    ]
    rows = list(follow(cell(), made.samples, trail._replace(judgements=said)))
    judged = [row for row in rows if row.stage == "judge"]
    assert len(judged) == len(said)
    for row in judged:
        assert (row.status, row.ccs_binary) == (Status.UNPARSED, None)
        assert row.graded_status is Status.OK
        assert row.ccs_graded is not None
        assert (row.replicates, row.verdicts_lost, row.grades_lost) == (1, 1, 0)


def test_one_grade_of_several_replicates_is_enough_and_the_others_are_counted(study, cell):
    made = study({cell(): 0.5})
    (trail,) = made.trails.values()
    first = trail.judgements[0].model_copy(
        update={"grade": None, "ccs_graded": None, "graded_status": Status.TRUNCATED}
    )
    more = [
        first,
        first.model_copy(
            update={"replicate": 1, "grade": 3, "ccs_graded": 0.5, "graded_status": Status.OK}
        ),
    ]
    changed = trail._replace(judgements=[*more, *trail.judgements[1:]])
    row = next(r for r in follow(cell(), made.samples, changed) if r.status is Status.OK)
    assert (row.graded_status, row.ccs_graded) == (Status.OK, 0.5)
    assert (row.replicates, row.verdicts_lost, row.grades_lost) == (2, 0, 1)
