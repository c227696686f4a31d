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
