"""The draw: proportional, stratified, repeatable, and of the right edits."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.annotation import material
from stages.annotation.draw import AXES, apportion, candidates, draw
from stages.records import jsonl
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.workflow.folders import Folders
from stages.workflow.sections import AnnotationSettings
from tests.annotation.conftest import TARGETS, cell


def settings(**given):
    return AnnotationSettings(
        **{
            "size": 128,
            "rejected": 0.125,
            "strata": ["target", "domain", "position"],
            "annotators": ["ann", "bob"],
            "seed": 0,
            "max_mb": 30,
            "label_studio_images": "files",
            **given,
        }
    )


@pytest.fixture(scope="module")
def pool(written):
    return list(candidates(Folders(written.root), [cell(target) for target in TARGETS]))


@given(st.lists(st.integers(1, 400), min_size=1, max_size=12), st.data())
def test_shares_are_the_exact_ones_to_within_one_and_none_is_too_large(sizes, data):
    n = data.draw(st.integers(0, sum(sizes)))
    counts = apportion(sizes, n, np.random.default_rng(0))
    assert sum(counts) == n
    for size, count in zip(sizes, counts, strict=True):
        assert abs(count - n * size / sum(sizes)) < 1
        assert 0 <= count <= size


def test_largest_remainders_by_hand():
    # 10 seats over 53, 24 and 23: 5.3, 2.4 and 2.3, so the one that is left goes to the second.
    assert apportion([53, 24, 23], 10, np.random.default_rng(0)) == [5, 3, 2]


def test_ties_go_by_lot():
    got = {tuple(apportion([7, 7, 7], 4, np.random.default_rng(seed))) for seed in range(40)}
    assert got == {(2, 1, 1), (1, 2, 1), (1, 1, 2)}


def test_the_draw_has_its_size_its_share_of_rejections_and_proportional_strata(pool):
    drawn = draw(pool, settings())
    assert Counter(one.accepted for one in drawn.candidates) == {True: 112, False: 16}
    assert len({id(one) for one in drawn.candidates}) == 128
    for accepted, n in ((True, 112), (False, 16)):
        whole = sum(one.accepted == accepted for one in pool)
        for stratum in (s for s in drawn.strata if s.accepted == accepted):
            assert abs(stratum.drawn - n * stratum.n / whole) < 1
            named = [
                one
                for one in drawn.candidates
                if one.accepted == accepted
                and tuple(AXES[a](one) for a in ("target", "domain", "position")) == stratum.name
            ]
            assert len(named) == stratum.drawn
    assert sum(s.n for s in drawn.strata) == len(pool)


def test_equal_seeds_draw_alike_and_others_do_not(pool):
    def names(seed):
        return [
            (c.sample.id, c.attempt.position) for c in draw(pool, settings(seed=seed)).candidates
        ]

    assert names(3) == names(3)
    assert names(3) != names(4)


@pytest.mark.parametrize(
    ("given_", "accepted", "rejected"),
    [
        ({"rejected": 0.0}, 128, 0),
        ({"size": 8, "rejected": 1.0}, 0, 8),
        ({"size": 10_000, "rejected": 0.0}, None, 0),
        ({"size": 40, "strata": []}, 35, 5),
    ],
)
def test_other_settings(pool, given_, accepted, rejected):
    got = Counter(one.accepted for one in draw(pool, settings(**given_)).candidates)
    whole = sum(one.accepted for one in pool)
    assert (got[True], got[False]) == (whole if accepted is None else accepted, rejected)


def test_where_there_are_fewer_than_asked_for_all_are_drawn(pool):
    few = [one for one in pool if not one.accepted][:3] + [one for one in pool if one.accepted][:5]
    assert len(draw(few, settings()).candidates) == 8


def test_only_what_the_gate_decided_is_in_the_pool(written, pool):
    folders = Folders(written.root)
    for target in TARGETS:
        rows = jsonl.read(folders.edit(cell(target)) / "attempts.jsonl", Attempt)
        last = {(r.sample_id, r.position): r for r in rows if r.attempt > 0}
        mine = [one for one in pool if one.cell.target == target]
        assert {(c.sample.id, c.attempt.position): c.attempt for c in mine} == last
        for one in mine:
            assert len(one.steps) == one.attempt.position
            assert one.accepted == (one.after is not None)


@pytest.mark.parametrize(
    ("status", "counts"),
    [
        (Status.API_ERROR, False),
        (Status.REFUSED, False),
        (Status.UNVERIFIED, False),
        (Status.REST_CHANGED, True),
        (Status.SIZE_MISMATCH, True),
    ],
)
def test_a_call_that_failed_is_no_verdict(study, status, counts):
    root = study()
    folders = Folders(root)
    path = folders.edit(cell(TARGETS[0])) / "attempts.jsonl"
    rows = jsonl.read(path, Attempt)
    before = list(candidates(folders, [cell(TARGETS[0])]))
    lost = next(
        i for i, r in enumerate(rows) if r.status is Status.INSIDE_UNCHANGED and r.attempt == 2
    )
    rows[lost] = rows[lost].model_copy(update={"status": status})
    jsonl.write(path, rows)
    after = list(candidates(folders, [cell(TARGETS[0])]))
    assert len(after) == len(before) - (not counts)


def test_several_judges_of_one_edit_are_one_edit(study):
    root = study(judges=("zqjudge", "zqother"))
    cells = [cell(t, j) for t in TARGETS for j in ("zqjudge", "zqother")]
    keys = [
        (c.cell.target, c.sample.id, c.attempt.position) for c in candidates(Folders(root), cells)
    ]
    assert len(keys) == len(set(keys))


def test_each_annotator_has_an_order_of_their_own(written, pool):
    wanted = settings()
    items = material.gather(draw(pool, wanted), Folders(written.root), wanted)
    orders = [[i.id for i in material.in_order(items, wanted, who)] for who in ("ann", "bob")]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(item.id for item in items)
    assert orders[0] == [i.id for i in material.in_order(items, wanted, "ann")]
