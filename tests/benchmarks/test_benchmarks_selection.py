"""The recipe: deterministic, balanced, stable; and lists of ids in its place."""

import hashlib
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.benchmarks.protocol import Item
from stages.benchmarks.selection import (
    Candidate,
    Pool,
    Recipe,
    arrange,
    one_line,
    read_ids,
    write_ids,
)
from stages.imaging import codec
from stages.imaging.codec import ImageError
from stages.records.errors import UserError

IMAGE = codec.encode_png(np.zeros((2, 3, 3), dtype=np.uint8))


def candidate(number: int, **values: object) -> Candidate:
    fields: dict = {
        "id": f"x-{number}",
        "domain": "x",
        "question": "What?",
        "image": f"image {number}",
        "read": lambda: IMAGE,
        "where": f"x.jsonl:{number}",
        "category": "abc"[number % 3],
        "group": f"scene {number % 7}",
    }
    return Candidate(**{**fields, **values})


def choose(candidates: list[Candidate], **recipe: object) -> list[str]:
    pool = Pool(Recipe(**{"count": 12, **recipe}))
    for one in candidates:
        pool.offer(one.id, one.where, None, partial(lambda made: made, one))
    selection = pool.choose("x.jsonl")
    assert len(selection.items) + sum(selection.left_out.values()) == len(candidates)
    return [item.id for item in selection.items]


def test_choice_is_the_same_on_any_machine() -> None:
    ids = choose([candidate(number) for number in range(200)])
    digest = hashlib.sha256("\n".join(ids).encode()).hexdigest()
    assert digest.startswith("349e8378d43cd375"), ids


def test_order_of_rows_does_not_matter_and_the_seed_does() -> None:
    candidates = [candidate(number) for number in range(200)]
    first = choose(candidates)
    assert choose(candidates[::-1]) == first
    assert choose(candidates, seed=1) != first


def test_categories_take_turns_and_scenes_come_once() -> None:
    candidates = [candidate(n, group=f"scene {n % 40}") for n in range(400)]
    candidates += [candidate(n, category="d", group=f"scene {n % 40}") for n in range(1000, 1002)]
    chosen = {one.id: one for one in candidates}
    picked = [chosen[id] for id in choose(candidates, count=14)]
    assert Counter(one.category for one in picked) == {"a": 4, "b": 4, "c": 4, "d": 2}
    assert len({one.group for one in picked if one.category != "d"}) == 12


def test_better_tiers_come_first() -> None:
    candidates = [candidate(number, tier=number % 3) for number in range(90)]
    order = [one.tier for one in arrange(candidates, 0)]
    assert order == sorted(order)


def test_an_image_and_a_pair_of_twins_serve_once() -> None:
    candidates = [candidate(number, image="one") for number in range(5)]
    candidates += [candidate(number, twin="t") for number in range(5, 9)]
    ids = choose(candidates, count=None)
    assert sum(int(id[2:]) < 5 for id in ids) == 1
    assert sum(int(id[2:]) >= 5 for id in ids) == 1
    assert len(choose(candidates, count=None, images_once=False)) == 6


@settings(max_examples=60, deadline=None)
@given(new=st.integers(1000, 10**9), tier=st.integers(0, 1), seed=st.integers(0, 3))
def test_a_new_row_takes_one_place_at_most_where_scenes_are_plenty(
    new: int, tier: int, seed: int
) -> None:
    before = [candidate(n, group=f"scene {n}", tier=n % 2) for n in range(150)]
    added = candidate(new, group=f"scene {new}", tier=tier)
    old, now = choose(before, seed=seed), choose([*before, added], seed=seed)
    assert len(set(old) - set(now)) == (added.id in now)


@settings(max_examples=60, deadline=None)
@given(new=st.integers(1000, 10**9), seed=st.integers(0, 3))
def test_a_new_row_in_a_known_scene_moves_only_that_scene(new: int, seed: int) -> None:
    before = [candidate(n, group=f"scene {n % 50}") for n in range(150)]
    added = candidate(new, group=f"scene {new % 50}")
    groups = {one.id: one.group for one in [*before, added]}
    old, now = choose(before, seed=seed), choose([*before, added], seed=seed)
    gone = set(old) - set(now)
    assert len(gone) <= 4
    assert sum(groups[id] != added.group for id in gone) <= 3


def test_a_row_behind_the_chosen_ones_changes_nothing() -> None:
    before = [candidate(number, tier=0) for number in range(100)]
    after = [*before, *(candidate(number, tier=1) for number in range(100, 200))]
    assert choose(before) == choose(after)


def test_an_unusable_image_gives_its_place_to_the_next() -> None:
    def broken() -> bytes:
        raise ImageError("cut off")

    candidates = [candidate(number) for number in range(60)]
    first = choose(candidates)
    spoiled = [
        candidate(n, read=broken) if f"x-{n}" == first[3] else one
        for n, one in enumerate(candidates)
    ]
    pool = Pool(Recipe(count=12))
    for one in spoiled:
        pool.offer(one.id, one.where, None, partial(lambda made: made, one))
    selection = pool.choose("x.jsonl")
    assert set(first) - {item.id for item in selection.items} == {first[3]}
    assert len(selection.items) == 12
    assert selection.left_out["unusable_image"] == 1
    assert selection.skipped == (f"x.jsonl:{first[3][2:]}: cut off",)


def test_a_list_of_ids_stands_in_place_of_the_recipe(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("id,note\nx-9,first\nx-3,\n", encoding="utf-8")
    pool = Pool(Recipe.of(2, 0, True, "error", str(path)))
    for number in range(20):
        made = partial(candidate, number, image="one")
        pool.offer(f"x-{number}", "x", "some_objection", made)
    selection = pool.choose("x.jsonl")
    assert [item.id for item in selection.items] == ["x-9", "x-3"]
    assert selection.left_out == {"not_listed": 18}


def test_a_written_selection_reads_back(tmp_path: Path) -> None:
    def picture() -> None:
        raise AssertionError

    items = [Item(f'a"{n},\n', "a", "?", picture, group="g") for n in range(3)]  # type: ignore[arg-type]
    items = [Item(item.id.strip(), "a", "?", picture) for item in items]  # type: ignore[arg-type]
    write_ids(tmp_path / "deep/ids.csv", items)
    assert read_ids(tmp_path / "deep/ids.csv") == tuple(item.id for item in items)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"name\nx-1\n", "no column 'id'"),
        (b"id\nx-1\nx-1\n", "lists 'x-1' twice"),
        (b"id\n", "lists no id"),
        (b"id,note\n,a\n", ":2: the id is empty"),
        (b"", "no column 'id'"),
        (b"id\n\xff\xfe\n", "no CSV in UTF-8"),
    ],
)
def test_broken_lists_are_named(tmp_path: Path, content: bytes, match: str) -> None:
    path = tmp_path / "ids.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=match):
        read_ids(path)


def test_unknown_ids_and_missing_lists_are_named(tmp_path: Path) -> None:
    path = tmp_path / "ids.csv"
    path.write_text("id\nx-404\n", encoding="utf-8")
    pool = Pool(Recipe.of(None, 0, True, "error", str(path)))
    with pytest.raises(UserError, match="x-404"):
        pool.choose("x.jsonl")
    with pytest.raises(UserError, match="is missing"):
        Recipe.of(None, 0, True, "error", str(tmp_path / "none.csv"))


def test_values_of_a_recipe_are_checked() -> None:
    with pytest.raises(ValueError, match="count is 0"):
        Recipe.of(0, 0, True, "error", None)
    with pytest.raises(ValueError, match="missing_images"):
        Recipe.of(1, 0, True, "ignore", None)


def test_one_line_is_short_and_printable() -> None:
    assert one_line("a\x1b[31m\nb" + "c" * 1000).startswith("a [31m bccc")
    assert len(one_line("x" * 10**6)) < 310
