"""Report: tables, figures, DVC metrics and plots, and two pages, from what the others wrote.

Reads the records of every cell in `data/plan/cells.json` and of every study of pairs in
`pair_names`, people's labels and the published numbers. Writes `reports/`: `tables/`, `figures/`,
`plots/`, `images/`, `metrics.json`, `index.html` and `gallery.html` (every intervention). It
estimates nothing and calls no model; equal records give equal files.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stages.reporting import (
    capability,
    case_page,
    figures,
    finding_figures,
    gallery,
    page,
    plots,
    protocol_tables,
    tables,
    tuning_figures,
)
from stages.reporting.all_tables import all_tables
from stages.reporting.prints import Prints
from stages.reporting.published import read_capability
from stages.reporting.reading import read_study
from stages.reporting.study import Study
from stages.workflow import params as parameters
from stages.workflow import sections
from stages.workflow.folders import Folders
from stages.workflow.runner import main


def run(root: Path, params: Mapping[str, Any]) -> None:
    """Write the report of a study."""
    settings = parameters.section(params, "report", sections.Report)
    study = read_study(root, params)
    reports = Folders(root).reports
    cases = gallery.all_cases(study)
    shown = gallery.choose(cases, settings.gallery)
    told = gallery.choose(gallery.told_in_full(cases), settings.examples)
    verified = gallery.verified(study, settings.panels)
    known = read_capability(Folders(root).reference)
    names = write_figures(study, told, verified, known, reports / "figures", dpi=settings.dpi)
    for table in all_tables(study):
        for ending, form in (
            ("csv", tables.to_csv),
            ("md", tables.to_markdown),
            ("tex", tables.to_latex),
        ):
            _write(reports / "tables" / f"{table.name}.{ending}", form(table).encode())
    for table in plots.plot_tables(study):
        _write(reports / "plots" / f"{table.name}.csv", tables.to_csv(table).encode())
    prints = Prints(reports, view_px=settings.image_px, thumbnail_px=settings.thumbnail_px)
    prints.make(study)
    html = page.render(
        study,
        title=settings.title,
        cases=shown,
        verified=verified,
        figures=names,
        settings=settings.settings,
        prints=prints,
    )
    _write(reports / "index.html", html.encode())
    _write(reports / "gallery.html", case_page.render(study, prints).encode())
    metrics = json.dumps(plots.metrics(study), indent=2, ensure_ascii=False, allow_nan=False)
    _write(reports / "metrics.json", f"{metrics}\n".encode())
    print(
        f"report: {len(study.cells)} rows, {len(names)} figures, {len(cases)} chains in the gallery"
    )


def write_figures(
    study: Study,
    told: list[gallery.Case],
    verified: list[gallery.Verified],
    known: tuple[capability.OtherScore, ...],
    folder: Path,
    *,
    dpi: int,
) -> dict[str, figures.Size]:
    """Draw what the study supports, as PNG and SVG; returns the sizes of the PNG by name."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {}
    with figures.style():
        for name, figure in _draw(study, told, verified, known):
            files = figures.save(figure, dpi=dpi)
            for ending, data in files.items():
                _write(folder / f"{name}.{ending}", data)
            sizes[name] = figures.size_of(files["png"])
    return sizes


def _draw(
    study: Study,
    told: list[gallery.Case],
    verified: list[gallery.Verified],
    known: tuple[capability.OtherScore, ...],
) -> Iterator[tuple[str, Any]]:
    if estimates := figures.estimates(study):
        yield "estimates", estimates
    if positions := figures.positions(study):
        yield "positions", positions
    if study.cells:
        yield "funnel", figures.funnel(protocol_tables.funnels(study)["all"])
    if verified:
        yield "verification", figures.panels(verified, study.tau_in, study.tau_out)
    for name, figure in (
        ("differences", finding_figures.differences(study)),
        ("sensitivity", finding_figures.sensitivity(study)),
        ("recovered", finding_figures.recovered(study)),
        ("calibration", finding_figures.calibration(study)),
        ("finetune_curves", tuning_figures.curves(study)),
        ("attention", tuning_figures.attention(study)),
        ("capability", capability.beside(study, known)),
    ):
        if figure:
            yield name, figure
    for number, case in enumerate(told, 1):
        yield f"example_{number}", figures.example(case)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


if __name__ == "__main__":
    main("report", run)
