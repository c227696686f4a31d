"""Pairs: the gate alone, on photographs and edits that were made elsewhere.

Reads a folder of pairs, with labels where it has them. Writes `attempts.jsonl` (a row is one pair,
measured and accepted or rejected as an attempt of `edit` would be), `images/`, and
`agreement.json`: how often the gate says what the annotator said, with a Wilson interval. No
target or judge takes part; where a pair is not labelled, the extractor reads its instruction.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stages.benchmarks.pairs import Pair, PairFolder
from stages.models import replies
from stages.models.picture import Picture
from stages.models.protocol import CallError
from stages.records import jsonl
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.stats.agreement import wilson
from stages.workflow import adapters, cast, prompts, sections, tally
from stages.workflow import params as parameters
from stages.workflow.folders import Folders
from stages.workflow.mapping import for_each
from stages.workflow.runner import main

AT_ONCE = 2


def run(root: Path, params: Mapping[str, Any], *, pair: str) -> None:
    """Verify all pairs of one folder."""
    folder = Folders(root).pairs(pair)
    pairs = adapters.build(params, f"pairs.{pair}", PairFolder).load()
    verifier = cast.verifier(root, params)
    calls = verifier.calls
    extractor = parameters.value(params, "extractor_names", list)[0]
    clerk = cast.clerk(root, params, "extractor", extractor, 0, calls)
    parse = prompts.load(root, params, "parse_edit")
    max_tokens = parameters.section(params, "generation", sections.Generation).max_tokens
    images = folder / "images"

    async def verify(pair: Pair) -> Attempt:
        source = Picture.of(pair.original)
        row = Attempt(
            sample_id=pair.id,
            position=1,
            attempt=1,
            status=Status.OK,
            instruction=pair.instruction,
            edit_type=pair.edit_type or "modify",
            target_object=pair.target or "",
            source=source.save(images),
            returned_height=pair.edited.shape[0],
            returned_width=pair.edited.shape[1],
        )
        try:
            if pair.target is None:
                text = parse.render(instruction=pair.instruction)
                read = await clerk.ask(
                    text, replies.read_edit, schema=replies.EDIT_SCHEMA, max_tokens=max_tokens
                )
                row = row.model_copy(update={**read.value.value._asdict(), "calls": (read.note,)})
            edited = verifier.fit(Picture.of(pair.edited), source)
            if edited is None:
                raise CallError(Status.SIZE_MISMATCH, "the aspect ratios differ")
            row = row.model_copy(update={"edited": edited.save(images)})
            searched = edited if row.edit_type == "add" else source
            grounding = await verifier.ground(searched, row.target_object, pair.boxes)
            row = row.model_copy(
                update={"boxes": grounding.boxes, "mask": grounding.mask.save(images)}
            )
            verdict = await verifier.judge(source, edited, grounding)
        except CallError as error:
            return row.model_copy(update={"status": error.status, "reason": error.reason})
        verdict.delta.save(images)
        return row.model_copy(
            update={
                "status": verdict.status,
                "reason": verdict.reason,
                "measurement": verdict.measurement,
            }
        )

    attempts = asyncio.run(for_each(pairs, verify, at_once=AT_ONCE, label=f"pairs {pair}"))
    limits = parameters.section(params, "limits", sections.Limits)
    outcome = tally.check(
        f"pairs {pair}", (row.status for row in attempts), limits.max_failed_share
    )
    found = agreement(pairs, attempts)
    jsonl.write(folder / "attempts.jsonl", attempts)
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    (folder / "agreement.json").write_text(text, encoding="utf-8")
    print(f"pairs {pair}: {outcome}; {calls.summary()}")
    if found["n"]:
        ends = f"[{found['low']:.3f}, {found['high']:.3f}]"
        print(f"pairs {pair}: the gate agrees with {found['agree']} of {found['n']} labels {ends}")


def agreement(pairs: list[Pair], attempts: list[Attempt]) -> dict[str, Any]:
    """Count where the gate says what the label says; labels that are unsure don't count."""
    rows = [
        {
            "id": pair.id,
            "status": attempt.status,
            "valid": pair.valid,
            "r_in": attempt.measurement.r_in if attempt.measurement else None,
            "r_out": attempt.measurement.r_out if attempt.measurement else None,
            "reason": pair.label_reason,
        }
        for pair, attempt in zip(pairs, attempts, strict=True)
    ]
    sure = [row for row in rows if row["valid"] in ("yes", "no")]
    agree = sum((row["status"] is Status.OK) == (row["valid"] == "yes") for row in sure)
    interval = wilson(agree, len(sure))
    return {
        "agree": agree,
        "n": len(sure),
        "low": None if interval.low is None else round(interval.low, 6),
        "high": None if interval.high is None else round(interval.high, 6),
        "rows": rows,
    }


if __name__ == "__main__":
    main("pairs", run, axes=("pair",))
