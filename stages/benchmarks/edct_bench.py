"""EDCT-Bench: the samples of a finished run, as its export holds them (docs/edct_bench.md)."""

from collections.abc import Mapping
from functools import partial

from stages.benchmarks.fields import MAX_ID
from stages.benchmarks.protocol import Benchmark, Item, Selection
from stages.models.artefact import lookup
from stages.models.artefact.layout import EDITS, SAMPLES
from stages.models.artefact.reading import Artefact, Row
from stages.models.picture import Picture
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.sample import Sample


class EDCTBench(Benchmark):
    """Samples of an artefact in its order.

    Parameters
    ----------
    folder : str
        The artefact.
    accepted_only : bool
        Leave out samples without an accepted edit, which can't be scored.
    target, extractor, editor : str or None
        Whose edits these are; None: the only one's.
    """

    def __init__(
        self,
        folder: str,
        accepted_only: bool = True,
        target: str | None = None,
        extractor: str | None = None,
        editor: str | None = None,
    ) -> None:
        self._artefact = Artefact.open(folder)
        self._whose = None
        if accepted_only:
            named = (("target", target), ("extractor", extractor), ("editor", editor))
            self._whose = {axis: lookup.chosen(self._artefact, axis, n) for axis, n in named}

    def select(self) -> Selection:
        """Take the samples."""
        rows = kept = self._artefact.rows(SAMPLES)
        if self._whose is not None:
            edited = self._edited(self._whose)
            kept = tuple(row for row in rows if row.record.id in edited)
        left_out = {"no_accepted_edit": len(rows) - len(kept)} if len(rows) > len(kept) else {}
        return Selection(tuple(map(self._item, kept)), left_out)

    def _edited(self, whose: Mapping[str, str]) -> frozenset[str]:
        return frozenset(
            row.record.sample_id
            for row in self._artefact.rows(EDITS)
            if row.record.status is Status.OK
            and all(row.axes[axis] == n for axis, n in whose.items())
        )

    def _item(self, row: Row) -> Item:
        sample: Sample = row.record
        if not (0 < len(sample.id) <= MAX_ID and sample.id.isprintable()):
            raise UserError(str(row.place), f"{sample.id[:40]!r} is no id", "Export again.")
        return Item(
            id=sample.id,
            domain=sample.domain,
            question=sample.question,
            picture=partial(self._picture, row),
            system_prompt=sample.system_prompt,
            reference=sample.reference,
            group=sample.group,
            source=sample.source,
        )

    def _picture(self, row: Row) -> Picture:
        return self._artefact.picture(row, "picture", row.record.image)
