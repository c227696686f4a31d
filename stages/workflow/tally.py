"""What became of a stage's rows: counted for the log, and held against the limit."""

from collections import Counter
from collections.abc import Iterable

from stages.records.base import Status
from stages.records.errors import UserError

CALL_FAILURES = frozenset(
    {
        Status.REFUSED,
        Status.TRUNCATED,
        Status.API_ERROR,
        Status.UNPARSED,
        Status.NOT_RECORDED,
        Status.UNVERIFIED,
    }
)
_CUT = (
    "Replies were cut off (truncated): raise generation.max_tokens, or graded_max_tokens of graded "
    "verdicts. "
)


def check(where: str, statuses: Iterable[Status], max_failed_share: float) -> str:
    """Count statuses as one line; too many failed calls are an error before anything is written."""
    counts = Counter(statuses)
    total = counts.total()
    failed = sum(n for status, n in counts.items() if status in CALL_FAILURES)
    line = ", ".join(f"{n} {status}" for status, n in sorted(counts.items())) or "no rows"
    if total and failed / total > max_failed_share:
        raise UserError(
            where,
            f"{failed} of {total} rows got no reply ({line}), more than limits.max_failed_share "
            f"= {max_failed_share}",
            (_CUT if counts[Status.TRUNCATED] else "")
            + "What was answered is in the store; mend the cause and run again, or raise it.",
        )
    return line
