"""The recipe: from all candidates of a benchmark to the chosen ones, and why the others are not.

A candidate's place depends on the seed and its own id, through SHA-256, and not on the order of the
rows or on a random generator. The order is made in these steps:

1. of candidates that exclude each other (flipped twins, one image) the best stays;
2. better tiers come before worse ones, all else equal or not;
3. within a tier the categories take turns, so that all get equal shares while they last;
4. within a category, the best of every group (scene) comes before the second best of any;
5. what is still undecided is decided by the hash.

What this keeps: renaming nothing, the same rows in any order give the same choice on any machine.
A new row whose hash places it behind the chosen ones changes nothing. One that comes before takes
a place, and so pushes out the last of its category, or, where it is the better one on its image
or in its group, moves its neighbours there; other categories and groups keep what they had. Only
a category that was not there before makes all others give up part of their share. Where nothing
at all may change, give the list of ids (`read_ids`): it stands in place of the recipe.
"""

import csv
import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from stages.benchmarks.archive import MissingImageError
from stages.benchmarks.protocol import Item, Selection
from stages.imaging import codec
from stages.models.picture import Picture
from stages.records.errors import UserError

MISSING_IMAGES = ("error", "leave_out")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A usable row, before it is known whether it is chosen."""

    id: str
    domain: str
    question: str
    image: str
    """What image it is: equal for two rows about one image."""
    read: Callable[[], bytes]
    """Reads the image file; raises MissingImageError, or ImageError where it is unusable."""
    where: str
    """File and row, for messages."""
    category: str = ""
    tier: int = 0
    """0 is taken first."""
    group: str | None = None
    twin: str | None = None
    """Candidates with one twin name exclude each other; None: none."""
    mirrored: bool = False
    """Whether the image is to be mirrored left to right after it is read."""
    system_prompt: str | None = None
    reference: str | None = None
    source: str | None = None

    def picture(self) -> Picture:
        """The image as the target sees it."""
        try:
            pixels = codec.decode(self.read())
        except codec.ImageError as error:
            raise UserError(self.where, f"its image is unusable ({error})", "Replace it.") from None
        return Picture.of(np.ascontiguousarray(pixels[:, ::-1]) if self.mirrored else pixels)


@dataclass(frozen=True)
class Recipe:
    """How to choose.

    Parameters
    ----------
    count : int or None
        How many; None: all.
    seed : int
        Another seed is another choice.
    images_once : bool
        Whether an image may serve one sample only.
    missing_images : str
        ``error``: a chosen row without its image file is an error; ``leave_out``: it is left out
        and counted, which makes the choice depend on what images are there.
    ids : tuple of str or None
        The chosen ids in order, in place of the recipe; None: the recipe chooses.
    ids_from : str
        Where the ids come from, for messages.
    """

    count: int | None
    seed: int = 0
    images_once: bool = True
    missing_images: str = "error"
    ids: tuple[str, ...] | None = None
    ids_from: str = ""

    @classmethod
    def of(
        cls,
        count: int | None,
        seed: int,
        images_once: bool,
        missing_images: str,
        ids: str | None,
    ) -> "Recipe":
        """Check the values of a YAML file; ``ids`` is the path of a list."""
        if count is not None and count < 1:
            raise ValueError(f"count is {count}: give at least 1, or null for all")
        if missing_images not in MISSING_IMAGES:
            raise ValueError(f"missing_images is {missing_images!r}: use one of {MISSING_IMAGES}")
        listed = read_ids(Path(ids)) if ids else None
        return cls(count, seed, images_once, missing_images, listed, ids or "")


@dataclass
class Pool:
    """Takes up what a loader reads, row by row, and chooses in the end. Counts every row once."""

    recipe: Recipe
    candidates: dict[str, Candidate] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    skipped: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._seen: set[str] = set()
        self._listed = None if self.recipe.ids is None else frozenset(self.recipe.ids)

    def leave(self, reason: str, number: int = 1) -> None:
        """Count rows that are no candidates, under a reason."""
        if number:
            self.left_out[reason] += number

    def skip(self, where: str, why: str, reason: str = "unusable_row") -> None:
        """Count and list a row that can't be used."""
        self.left_out[reason] += 1
        self.skipped.append(f"{where}: {one_line(why)}")

    def note(self, where: str, why: str) -> None:
        """List what can't be used but is no candidate of its own, such as an answer's row."""
        self.skipped.append(f"{where}: {one_line(why)}")

    def offer(
        self, id: str, where: str, objection: str | None, make: Callable[[], Candidate]
    ) -> None:
        """Take a row up, unless there is an objection, or a list of ids that lacks it.

        A list of ids stands in place of all filters. ``make`` is called only where needed.
        """
        if self._listed is not None:
            objection = None if id in self._listed else "not_listed"
        known = id in self._seen
        self._seen.add(id)
        if objection is not None:
            self.leave(objection)
        elif known:
            self.skip(where, f"the id {id!r} occurs before", "duplicate_id")
        else:
            self.candidates[id] = make()

    def choose(self, source: str) -> Selection:
        """Choose, looking at the chosen images; an unusable one gives its place to the next.

        Raises
        ------
        UserError
            If there are fewer than asked for, an id of the list is unknown, or an image is missing.
        """
        order, wanted = self._order(), self.recipe.count
        if self.recipe.ids is not None:
            wanted = None
        chosen: list[Candidate] = []
        left = iter(order)
        while wanted is None or len(chosen) < wanted:
            candidate = next(left, None)
            if candidate is None:
                break
            if self._usable(candidate):
                chosen.append(candidate)
        self.leave("beyond_count", sum(1 for _ in left))
        if not chosen or (wanted is not None and len(chosen) < wanted):
            raise UserError(
                source,
                f"{len(chosen)} samples can be chosen where {wanted or 'some'} are wanted "
                f"(left out: {dict(sorted(self.left_out.items()))}"
                f"{'; first: ' + self.skipped[0] if self.skipped else ''})",
                "Lower the count or widen the filters in conf/benchmark/.",
            )
        items = tuple(as_item(candidate) for candidate in chosen)
        return Selection(items, dict(sorted(self.left_out.items())), tuple(self.skipped))

    def _usable(self, candidate: Candidate) -> bool:
        try:
            codec.decode(candidate.read())
        except MissingImageError:
            if self.recipe.missing_images == "error":
                raise
            self.leave("image_missing")
            return False
        except codec.ImageError as error:
            self.skip(candidate.where, str(error), "unusable_image")
            return False
        return True

    def _order(self) -> list[Candidate]:
        if self.recipe.ids is not None:
            unknown = [id for id in self.recipe.ids if id not in self.candidates]
            if unknown:
                raise UserError(
                    self.recipe.ids_from,
                    f"{unknown[0]!r} is in no row of the data ({len(unknown)} such ids)",
                    "Use the list that belongs to these files, or ids: null.",
                )
            return [self.candidates[id] for id in self.recipe.ids]
        kept = list(self.candidates.values())
        kept = self._one_each(kept, "twin_of_a_better_one", lambda candidate: candidate.twin)
        if self.recipe.images_once:
            kept = self._one_each(kept, "image_of_a_better_one", lambda candidate: candidate.image)
        return arrange(kept, self.recipe.seed)

    def _one_each(
        self, kept: list[Candidate], reason: str, key: Callable[[Candidate], str | None]
    ) -> list[Candidate]:
        best: dict[str, Candidate] = {}
        alone = []
        for candidate in sorted(kept, key=partial(rank, self.recipe.seed)):
            if (name := key(candidate)) is None:
                alone.append(candidate)
            else:
                best.setdefault(name, candidate)
        self.leave(reason, len(kept) - len(best) - len(alone))
        return [*best.values(), *alone]


def digest(seed: int, text: str) -> bytes:
    """SHA-256 of seed and text: the lot that is drawn for it."""
    return hashlib.sha256(f"{seed}\n{text}".encode("utf-8", "surrogatepass")).digest()


def rank(seed: int, candidate: Candidate) -> tuple[int, bytes]:
    """A candidate's place among its like: its tier, then its lot."""
    return candidate.tier, digest(seed, candidate.id)


def arrange(candidates: Iterable[Candidate], seed: int) -> list[Candidate]:
    """Put candidates in the order in which they are taken: steps 2 to 5 above."""
    ranked = sorted(candidates, key=partial(rank, seed))
    ahead: Counter[tuple[int, str]] = Counter()
    categories: dict[tuple[int, str], list[tuple[int, Candidate]]] = defaultdict(list)
    for candidate in ranked:
        place = 0
        if candidate.group is not None:
            place = ahead[candidate.tier, candidate.group]
            ahead[candidate.tier, candidate.group] += 1
        categories[candidate.tier, candidate.category].append((place, candidate))
    turns = []
    for (tier, category), members in categories.items():
        members.sort(key=lambda member: member[0])  # stable: the hash order stays within a place
        lot = digest(seed, category)
        turns += [(tier, turn, lot, member) for turn, (_, member) in enumerate(members)]
    turns.sort(key=lambda entry: entry[:3])
    return [candidate for *_, candidate in turns]


def as_item(candidate: Candidate) -> Item:
    """A chosen candidate as the protocol's item."""
    return Item(
        id=candidate.id,
        domain=candidate.domain,
        question=candidate.question,
        picture=candidate.picture,
        system_prompt=candidate.system_prompt,
        reference=candidate.reference,
        group=candidate.group,
        source=candidate.source,
    )


def one_line(text: str, limit: int = 300) -> str:
    """Text without line breaks and control characters, cut to a length, for a list of rows."""
    flat = "".join(sign if sign.isprintable() else " " for sign in text[: 2 * limit])
    flat = " ".join(flat.split())
    return flat if len(flat) <= limit else f"{flat[:limit]}…"


def read_ids(path: Path) -> tuple[str, ...]:
    """Read a list of ids: a CSV file with a column ``id``; other columns are notes.

    Raises
    ------
    UserError
        If the file is missing, has no such column, lists an id twice or lists none.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file)
            if "id" not in (table.fieldnames or ()):
                raise UserError(f"{path}:1", "has no column 'id'", "Add a header with it.")
            ids = [(row["id"] or "").strip() for row in table]
    except FileNotFoundError:
        raise UserError(
            str(path), "the list of ids is missing", "Write it, or ids: null."
        ) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(str(path), f"is no CSV in UTF-8 ({error})", "Save it as such.") from None
    for row, id in enumerate(ids, 2):
        if not id:
            raise UserError(f"{path}:{row}", "the id is empty", "Remove that row.")
    twice = [id for id, number in Counter(ids).items() if number > 1]
    if twice or not ids:
        what = f"lists {twice[0]!r} twice" if twice else "lists no id"
        raise UserError(str(path), what, "Mend the list.")
    return tuple(ids)


def write_ids(path: Path, items: Sequence[Item]) -> None:
    """Write a selection as a list of ids with group and source as notes, for git."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "group", "source"])
        writer.writerows(_listed(items))


def _listed(items: Sequence[Item]) -> Iterator[tuple[str, str, str]]:
    for item in items:
        yield item.id, item.group or "", item.source or ""
