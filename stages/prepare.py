"""Prepare: from publishers' files to samples.

Reads raw data by way of the chosen benchmarks. Writes `samples.jsonl` (a row is one image-question
pair), `images/` (PNG files named by their SHA-256) and `left_out.json` (why each candidate that was
not chosen was left out, as counts). From here on only these are read.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stages.benchmarks.protocol import Benchmark, Item
from stages.benchmarks.selection import write_ids
from stages.records import jsonl
from stages.records.errors import UserError
from stages.records.sample import Sample
from stages.workflow import adapters
from stages.workflow.folders import Folders
from stages.workflow.runner import main


def run(root: Path, params: Mapping[str, Any]) -> None:
    """Choose the samples of the study and write them."""
    folder = Folders(root).prepare
    samples: list[Sample] = []
    left_out: dict[str, Mapping[str, int]] = {}
    skipped: list[str] = []
    for name in params.get("benchmarks") or {}:
        selection = adapters.build(params, f"benchmarks.{name}", Benchmark).select()
        if not selection.items:
            raise UserError(
                f"params.yaml: benchmarks.{name}",
                f"chose no sample (left out: {dict(selection.left_out)})",
                "Widen its filters, or raise its count.",
            )
        samples.extend(write_images(selection.items, folder / "images"))
        write_ids(folder / "selection" / f"{name}.csv", selection.items)
        left_out[name] = dict(sorted(selection.left_out.items()))
        skipped.extend(f"{name}: {row}" for row in selection.skipped)
    check_unique(samples)
    jsonl.write(folder / "samples.jsonl", samples)
    (folder / "left_out.json").write_text(json.dumps(left_out, indent=1) + "\n", encoding="utf-8")
    (folder / "skipped.txt").write_text("".join(f"{row}\n" for row in skipped), encoding="utf-8")
    domains = Counter(sample.domain for sample in samples)
    print(f"prepare: {len(samples)} samples ({dict(domains)}), {len(skipped)} rows skipped")


def write_images(items: tuple[Item, ...], folder: Path) -> Iterator[Sample]:
    """Write each item's image and yield it as a sample; one image at a time is in memory."""
    for item in items:
        picture = item.picture()
        height, width = picture.pixels.shape[:2]
        yield Sample(
            id=item.id,
            domain=item.domain,
            image=picture.save(folder),
            width=width,
            height=height,
            question=item.question,
            system_prompt=item.system_prompt,
            reference=item.reference,
            group=item.group,
            source=item.source,
        )


def check_unique(samples: list[Sample]) -> None:
    """Ids are what everything later is joined by."""
    twice = [id for id, n in Counter(sample.id for sample in samples).items() if n > 1]
    if twice:
        raise UserError("benchmarks", f"{twice[0]!r} is the id of two samples", "Make ids unique.")


if __name__ == "__main__":
    main("prepare", run)
