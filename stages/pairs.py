"""Pairs: the gate alone, on photographs and edits that were made elsewhere.

Reads a folder of pairs, with labels where it has them. Writes `attempts.jsonl` (a row is one pair,
measured and accepted or rejected as an attempt of `edit` would be), `images/`, and
`agreement.json`: how often the gate says what the annotator said, with a Wilson interval; where
there is a verifier, the same for it, and for both together. No target or judge takes part; where a
pair is not labelled, the extractor reads its instruction.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stages.analysis.verification import against_labels
from stages.benchmarks.pairs import Pair, PairFolder
from stages.imaging import threads
from stages.models import replies
from stages.models.picture import Picture
from stages.models.protocol import CallError
from stages.records import jsonl
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.workflow import adapters, cast, prompts, sections, tally
from stages.workflow import params as parameters
from stages.workflow.folders import Folders
from stages.workflow.mapping import for_each
from stages.workflow.runner import main

AT_ONCE = 2 * threads.cores()


def run(root: Path, params: Mapping[str, Any], *, pair: str) -> None:
    """Verify all pairs of one folder."""
    folder = Folders(root).pairs(pair)
    pairs = adapters.build(params, f"pairs.{pair}", PairFolder).load()
    acceptance = cast.acceptance(root, params, 0)
    calls, gate = acceptance.calls, acceptance.gate
    extractor = parameters.value(params, "extractor_names", list)[0]
    clerk = cast.clerk(root, params, "extractor", extractor, 0, calls)
    parse = prompts.load(root, params, "parse_edit")
    max_tokens = parameters.section(params, "generation", sections.Generation).max_tokens
    images = folder / "images"

    async def verify(pair: Pair) -> Attempt:
        source = await asyncio.to_thread(Picture.of, pair.original)
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
            returned = await asyncio.to_thread(Picture.of, pair.edited)
            edited = await asyncio.to_thread(gate.fit, returned, source)
            if edited is None:
                raise CallError(Status.SIZE_MISMATCH, "the aspect ratios differ")
            row = row.model_copy(update={"edited": edited.save(images)})
            searched = edited if row.edit_type == "add" else source
            grounding = await gate.ground(searched, row.target_object, pair.boxes)
            row = row.model_copy(
                update={
                    "boxes": grounding.boxes,
                    "mask": grounding.mask.save(images),
                    "calls": (*row.calls, *grounding.calls),
                }
            )
            return await acceptance.settle(row, source, edited, grounding, images)
        except CallError as error:
            calls = (*row.calls, *error.notes)
            update = {"status": error.status, "reason": error.reason, "calls": calls}
            return row.model_copy(update=update)

    attempts = list(asyncio.run(for_each(pairs, verify, at_once=AT_ONCE, label=f"pairs {pair}")))
    limits = parameters.section(params, "limits", sections.Limits)
    outcome = tally.check(
        f"pairs {pair}", (row.status for row in attempts), limits.max_failed_share
    )
    looks = [row.inspection.status for row in attempts if row.inspection]
    looked = tally.check(f"pairs {pair} (verifier)", looks, limits.max_failed_share)
    outcome += f"; verifier {looked}" if looks else ""
    found = agreement(pairs, attempts)
    jsonl.write(folder / "attempts.jsonl", attempts)
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    (folder / "agreement.json").write_text(text, encoding="utf-8")
    print(f"pairs {pair}: {outcome}; {calls.summary()}")
    for rater, said in {"gate": found, **found["raters"]}.items():
        if said["n"]:
            count = f"{said['agree']} of {said['n']} labels"
            ends = f"[{said['low']:.3f}, {said['high']:.3f}]"
            print(f"pairs {pair}: the {rater.replace('_', ' ')} agrees with {count} {ends}")


def agreement(pairs: list[Pair], attempts: list[Attempt]) -> dict[str, Any]:
    """Count where gate and verifier say what the label says; what is unsure doesn't count."""
    rows = [
        {
            "id": pair.id,
            "status": attempt.status,
            "gate": attempt.gate,
            "verifier": attempt.inspection.accepted if attempt.inspection else None,
            "valid": pair.valid,
            "r_in": attempt.measurement.r_in if attempt.measurement else None,
            "r_out": attempt.measurement.r_out if attempt.measurement else None,
            "reason": pair.label_reason,
        }
        for pair, attempt in zip(pairs, attempts, strict=True)
    ]
    raters = against_labels(attempts, [pair.valid for pair in pairs])
    return {**raters.pop("gate"), "raters": raters, "rows": rows}


if __name__ == "__main__":
    main("pairs", run, axes=("pair",))
