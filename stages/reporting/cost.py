"""What the calls cost that the records rest on: by stage, role, model asked for and model served.

Each stored reply counts once, in the first stage that it answered. A reply costs the same whether
it was made now or came from the store, so equal records give equal tables. Failed calls have no
record: they are in the ledger (`make spending`), which is no output.
"""

from collections.abc import Iterator
from typing import NamedTuple

from stages.models.prices import Cost
from stages.records.usage import CallNote, total
from stages.reporting.study import Study
from stages.reporting.tables import Column, Table, Value

COLUMNS = (
    Column("stage", "Stage"),
    Column("role", "Role"),
    Column("model", "Model"),
    Column("served_model", "Served model"),
    Column("provider", "Provider"),
    Column("calls", "Calls"),
    Column("input_tokens", "Tokens in"),
    Column("output_tokens", "Tokens out"),
    Column("images", "Images"),
    Column("cost_usd", "US $", digits=4),
    Column("estimated_usd", "of it estimated", digits=4),
    Column("unknown_calls", "Calls of unknown cost"),
)


class Caller(NamedTuple):
    """Who was called, as a row of the table."""

    stage: str
    role: str
    model: str | None
    served: str | None
    provider: str | None


def cost_table(study: Study) -> Table | None:
    """The cost of a study; None where its records rest on no call of a model."""
    groups: dict[Caller, list[CallNote]] = {}
    seen: set[str] = set()
    for stage, note in _notes(study):
        if note.key in seen or note.role == "measurement":
            continue
        seen.add(note.key)
        used = note.usage
        caller = Caller(stage, note.role, note.model, used.served_model, used.provider)
        groups.setdefault(caller, []).append(note)
    if not groups:
        return None
    rows = [_row(study, caller, notes) for caller, notes in groups.items()]
    everything = [note for notes in groups.values() for note in notes]
    rows.append(_row(study, Caller("all", "all", None, None, None), everything))
    unknown = _cost(study, everything).unknown
    return Table(
        name="cost",
        caption="What the calls used and cost that the records rest on, each stored reply once, in "
        "the first stage that it answered.",
        columns=COLUMNS,
        rows=tuple(rows),
        note=_note(unknown),
    )


def _note(unknown: int) -> str:
    said = "Calls that failed have no record: what they cost is in the ledger (make spending)."
    if unknown:
        return f"A lower bound: the cost of {unknown} calls is unknown and not in the sum. {said}"
    return said


def _row(study: Study, caller: Caller, notes: list[CallNote]) -> tuple[Value, ...]:
    used, cost = total(note.usage for note in notes), _cost(study, notes)
    return (
        *caller,
        len(notes),
        used.input_tokens,
        used.output_tokens,
        used.images,
        cost.usd,
        cost.estimated_usd,
        cost.unknown,
    )


def _cost(study: Study, notes: list[CallNote]) -> Cost:
    """What is known; a call that nobody charges for costs what it reports, and nothing else."""
    known, estimated, unknown = 0.0, 0.0, 0
    for note in notes:
        if not note.charged and note.usage.cost_usd is None:
            continue
        cost = study.prices.cost(note.model or "", [note.usage])
        known += cost.usd or 0.0
        estimated += cost.estimated_usd
        unknown += cost.unknown
    told = len(notes) > unknown
    return Cost(round(known, 6) if told else None, round(estimated, 6), unknown)


def _notes(study: Study) -> Iterator[tuple[str, CallNote]]:
    """Every call with its stage, stages in the order of the protocol, cells in theirs."""
    records = study.records
    for cell in records:
        yield from (("baseline", n) for row in cell.baseline.values() for n in row.calls)
    for cell in records:
        yield from (("concepts", n) for row in cell.concepts.values() for n in row.calls)
    for cell in records:
        yield from (("instructions", n) for row in cell.chains.values() for n in row.calls)
    for cell in records:
        attempts = (row for rows in cell.attempts.values() for row in rows)
        yield from (("edit", n) for row in attempts for n in row.calls)
    for cell in records:
        yield from (("requery", n) for row in cell.answers.values() for n in row.calls)
    for cell in records:
        verdicts = (row for rows in cell.judgements.values() for row in rows)
        yield from (("judge", n) for row in verdicts for n in row.calls)
    for pairs in study.pairs:
        yield from (("pairs", n) for row in pairs.attempts for n in row.calls)
