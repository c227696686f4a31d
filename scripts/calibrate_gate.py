"""Calibrate the verification gate on edits whose verdict is known, and report its agreement.

    python -m scripts.calibrate_gate [--samples FOLDER] [--tune] [--panels FOLDER]

Two kinds of evidence: edits planted in the photographs of scikit-image (``planted_edits``), and
outputs of real editors with a reviewed label each (``edit_pairs`` in the folder of samples, named
by ``--samples`` or ``EDCT_SAMPLES``; left out with a line where it is absent). Photographs are
split in two halves; with ``--tune`` the thresholds are chosen on one and reported on both.
τ_in and τ_out are the paper's and are not tuned.
"""

import argparse
import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import yaml
from numpy.typing import NDArray
from scipy.stats import binomtest

from scripts.planted_edits import Case, planted
from stages.imaging import codec, localization, mask, size
from stages.imaging.settings import Settings
from stages.models.picture import Picture
from stages.models.segmenter.grabcut import GrabCut
from stages.records.attempt import Box
from stages.records.errors import UserError

SECTION = Path(__file__).parents[1] / "conf" / "verify.yaml"
SSIM_GRID = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
PIXEL_GRID = (0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.10, 0.12)


class Taus(NamedTuple):
    """The thresholds of the verdict."""

    tau_in: float
    tau_out: float


class Prepared(NamedTuple):
    """A case with all that does not depend on the thresholds of change."""

    case: Case
    tuned: bool
    """Whether it lies in the half that thresholds are chosen on."""
    mask: NDArray[np.bool_]
    comparison: localization.Comparison | None
    """None where the aspect ratios differ."""


class Result(NamedTuple):
    """What the gate says about a case."""

    outcome: str
    r_in: float | None
    r_out: float | None
    mask_share: float
    registration: str

    @property
    def accepted(self) -> bool:
        """Whether the gate lets the edit pass."""
        return self.outcome == "ok"


def real(folder: Path) -> list[Case]:
    """Read the labelled outputs of real editors from ``edit_pairs``."""
    pairs = {row["id"]: row for row in json.loads((folder / "pairs.json").read_text("utf-8"))}
    cases = []
    for label in json.loads((folder / "labels.json").read_text("utf-8")):
        pair = pairs[label["id"]]
        source, edited = (
            _cropped(codec.decode((folder / pair[key]).read_bytes()), pair.get("crop_both"))
            for key in ("original", "edited")
        )
        cases.append(
            Case(
                label["id"],
                "real",
                pair["source"],
                hashlib.sha256((folder / pair["original"]).read_bytes()).hexdigest(),
                source,
                edited,
                tuple(map(float, label["box"])),
                label["frame"],
                {"yes": True, "no": False}.get(label["valid"]),
                label["reason"],
            )
        )
    return cases


def _cropped(pixels: NDArray[np.uint8], box: Sequence[int] | None) -> NDArray[np.uint8]:
    if box is None:
        return pixels
    x0, y0, x1, y1 = box
    return np.ascontiguousarray(pixels[y0:y1, x0:x1])


def tuning_groups(cases: Iterable[Case]) -> set[tuple[str, str]]:
    """Choose every other photograph for tuning, editor by editor, in the order of a hash."""
    strata: dict[tuple[str, str], set[str]] = {}
    for case in cases:
        # A planted photograph carries all kinds of edits: there the photograph is the stratum.
        key = (case.origin, case.stratum if case.origin == "real" else "")
        strata.setdefault(key, set()).add(case.group)
    chosen, take = set(), True
    for (origin, _), groups in sorted(strata.items()):
        for group in sorted(groups, key=lambda name: hashlib.sha256(name.encode()).digest()):
            if take:
                chosen.add((origin, group))
            take = not take
    return chosen


def prepare(case: Case, settings: Settings, *, tuned: bool) -> Prepared:
    """Fit, segment and align a case."""
    fitted = size.fit(case.edited, case.source.shape, aspect_tolerance=settings.aspect_tolerance)
    if fitted is None:
        return Prepared(case, tuned, np.zeros(case.source.shape[:2], dtype=bool), None)
    image, box = (case.source, case.box) if case.frame == "original" else (fitted, _scaled(case))
    boxes = (Box(x0=box[0], y0=box[1], x1=box[2], y1=box[3]),)
    found = asyncio.run(GrabCut().segment(Picture.of(image), boxes)).mask
    target = mask.dilate(found, radius_share=settings.dilation_share)
    comparison = localization.compare(case.source, fitted, target, settings=settings)
    return Prepared(case, tuned, target, comparison)


def _scaled(case: Case) -> tuple[float, ...]:
    fx = case.source.shape[1] / case.edited.shape[1]
    fy = case.source.shape[0] / case.edited.shape[0]
    # A planted place is given in pixels of the photograph.
    if case.origin == "planted":
        fx = fy = 1.0
    x0, y0, x1, y1 = case.box
    return (x0 * fx, y0 * fy, x1 * fx, y1 * fy)


def judge(prepared: Prepared, settings: Settings, taus: Taus) -> Result:
    """Say what the gate says."""
    if prepared.comparison is None:
        return Result("size_mismatch", None, None, 0.0, "-")
    measured = localization.count(prepared.comparison, prepared.mask, settings=settings)
    outcome = localization.verdict(
        measured.r_in,
        measured.r_out,
        measured.mask_share,
        tau_in=taus.tau_in,
        tau_out=taus.tau_out,
        max_mask_share=settings.max_mask_share,
    )
    return Result(
        outcome, measured.r_in, measured.r_out, measured.mask_share, measured.registration
    )


def agreements(
    prepared: Iterable[Prepared], settings: Settings, taus: Taus
) -> list[tuple[Prepared, Result, bool]]:
    """Compare gate and label wherever the label is sure."""
    rows = []
    for item in prepared:
        if item.case.valid is not None:
            result = judge(item, settings, taus)
            rows.append((item, result, result.accepted == item.case.valid))
    return rows


def tune(prepared: Sequence[Prepared], settings: Settings, taus: Taus) -> Settings:
    """Choose the two thresholds of change on the tuning half.

    Real and planted edits weigh the same however many there are. Of settings that agree equally
    well, the one nearest to the middle of them is taken.
    """
    half = [item for item in prepared if item.tuned]
    grid: dict[tuple[int, int], float] = {}
    for (i, structure), (j, pixel) in product(enumerate(SSIM_GRID), enumerate(PIXEL_GRID)):
        trial = replace(settings, ssim_threshold=structure, pixel_threshold=pixel)
        shares = []
        for origin in ("planted", "real"):
            rows = agreements((p for p in half if p.case.origin == origin), trial, taus)
            if rows:
                shares.append(sum(agrees for *_, agrees in rows) / len(rows))
        grid[i, j] = sum(shares) / len(shares)
        print(
            f"  ssim {structure:.2f}  pixel {pixel:.2f}  " + "  ".join(f"{s:.3f}" for s in shares)
        )

    best = [at for at in grid if round(grid[at], 6) == round(max(grid.values()), 6)]
    centre = np.mean(best, axis=0)
    i, j = min(best, key=lambda at: float(np.hypot(*(np.array(at) - centre))))
    return replace(settings, ssim_threshold=SSIM_GRID[i], pixel_threshold=PIXEL_GRID[j])


def report(prepared: Sequence[Prepared], settings: Settings, taus: Taus) -> None:
    """Print agreement with its interval, then every disagreement."""
    rows = agreements(prepared, settings, taus)
    print("\n| edits | half | agree | of | share | 95 % Wilson |")
    print("| --- | --- | --- | --- | --- | --- |")
    for origin in ("planted", "real"):
        for half, wanted in (("tuning", (True,)), ("held out", (False,)), ("all", (True, False))):
            hits = [ok for p, _, ok in rows if p.case.origin == origin and p.tuned in wanted]
            if hits:
                interval = binomtest(sum(hits), len(hits)).proportion_ci(method="wilson")
                print(
                    f"| {origin} | {half} | {sum(hits)} | {len(hits)} | {np.mean(hits):.3f} "
                    f"| {interval.low:.3f} to {interval.high:.3f} |"
                )
    print("\nDisagreements:")
    for item, result, agrees in rows:
        if not agrees:
            label = "valid" if item.case.valid else "invalid"
            print(
                f"- {item.case.name} ({'tuning' if item.tuned else 'held out'}): label {label}, "
                f"gate {result.outcome}; r_in {_share(result.r_in)}, r_out {_share(result.r_out)}, "
                f"mask {result.mask_share:.2f}, {result.registration}. {item.case.reason}"
            )


def _share(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def panel(item: Prepared, settings: Settings) -> NDArray[np.uint8]:
    """Source, edited image, mask and Δ side by side, ``(h, w, 3)`` RGB."""
    source = item.case.source
    fitted = size.fit(item.case.edited, source.shape, aspect_tolerance=1.0)
    seen = np.zeros(source.shape[:2], dtype=bool)
    if item.comparison is not None:
        seen = localization.count(item.comparison, item.mask, settings=settings).delta
    outlined = source.copy()
    outlined[item.mask] = outlined[item.mask] // 2 + np.array([0, 127, 0], dtype=np.uint8)
    change = np.repeat((seen * np.uint8(255))[..., None], 3, axis=2)
    row = np.hstack([source, fitted if fitted is not None else source, outlined, change])
    factor = 300 / source.shape[0]
    return np.asarray(cv2.resize(row, None, fx=factor, fy=factor), dtype=np.uint8)


def read_section(path: Path) -> tuple[Settings, Taus]:
    """Read settings and τ from the ``verify`` section of the configuration."""
    section: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return Settings.from_section(section), Taus(section["tau_in"], section["tau_out"])


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--samples", type=Path, default=os.environ.get("EDCT_SAMPLES"))
    parser.add_argument("--seed", type=int, default=0, help="of the planted edits")
    parser.add_argument("--tune", action="store_true", help="choose the thresholds of change")
    parser.add_argument("--panels", type=Path, help="folder for pictures of disagreements")
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE", help="try a value")
    options = parser.parse_args()
    settings, taus = read_section(SECTION)
    section = dict(assignment.split("=", 1) for assignment in options.set)
    try:
        settings = Settings.from_section(
            {**asdict(settings), **{key: yaml.safe_load(text) for key, text in section.items()}}
        )
    except ValueError as error:
        raise UserError("--set", str(error), f"The fields are those of {SECTION.name}.") from None

    cv2.setNumThreads(1)
    cases = list(planted(seed=options.seed))
    if options.samples is not None and (options.samples / "edit_pairs" / "labels.json").exists():
        cases += real(options.samples / "edit_pairs")
    else:
        print("no folder of real samples (--samples or EDCT_SAMPLES): planted edits only")
    chosen = tuning_groups(cases)
    prepared = [
        prepare(case, settings, tuned=(case.origin, case.group) in chosen) for case in cases
    ]
    if options.tune:
        settings = tune(prepared, settings, taus)
        print(f"chosen: ssim {settings.ssim_threshold}, pixel {settings.pixel_threshold}")
    report(prepared, settings, taus)
    if options.panels is not None:
        options.panels.mkdir(parents=True, exist_ok=True)
        for item, _, agrees in agreements(prepared, settings, taus):
            if not agrees:
                name = item.case.name.replace("/", "_") + ".png"
                (options.panels / name).write_bytes(codec.encode_png(panel(item, settings)))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
