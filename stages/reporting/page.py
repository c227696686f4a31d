"""The report page: one HTML file that opens from disk, its pictures in a folder beside it.

It has no script. Its numbers lead to the gallery (`case_page`), filtered to the cases behind them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stages.reporting import forest, links, words
from stages.reporting.all_tables import all_tables
from stages.reporting.cases import name_of
from stages.reporting.figures import Size
from stages.reporting.funnel import gate, verdicts
from stages.reporting.gallery import Case, Verified
from stages.reporting.prints import Prints
from stages.reporting.protocol_tables import funnels
from stages.reporting.provenance import configuration, digest, verifier_rule
from stages.reporting.study import Study, adapters_of, simulated, use_by_role
from stages.reporting.tables import Column, Quantity, Table, Value, is_text, readable, text
from stages.reporting.templating import environment


def render(
    study: Study,
    *,
    title: str,
    cases: Sequence[Case],
    verified: Sequence[Verified],
    figures: Mapping[str, Size],
    settings: Sequence[str],
    prints: Prints,
) -> str:
    """Make the page.

    Parameters
    ----------
    cases, verified
        What the cards and the panels show.
    figures
        Sizes of the PNG figures that were written, by name.
    settings
        Sections of the parameters that the page prints.
    prints
        The images beside the page.
    """
    tables = {table.name: table for table in all_tables(study)}
    by_label = funnels(study)
    return (
        environment()
        .get_template("page.html")
        .render(
            study=study,
            title=title,
            simulated=_simulated_parts(study),
            all_simulated=bool(study.cells) and _all_simulated(study.params),
            tables=tables,
            forest=forest,
            table_forests={name: _forests(study, tables[name]) for name in ("table1", "table3")},
            figures=figures,
            funnel=by_label["all"],
            funnels={label: steps for label, steps in by_label.items() if label != "all"},
            gate=gate(study.interventions),
            verdicts=verdicts(study.interventions),
            cases=cases,
            verified=verified,
            verifier_rule=verifier_rule(study),
            prints=prints,
            n_cases=len(study.interventions) + sum(len(pairs.attempts) for pairs in study.pairs),
            card_link=_card_link,
            links=links,
            main_links=links.main_table(study),
            domain_links=links.domain_table(study),
            attrition_links=links.attrition_table(study),
            configuration=configuration(study),
            main_columns=_main_columns(tables["table1"]),
            domain_columns=_domain_columns(tables["table3"]),
            scope=_scope(study),
            table1_has_published=any(
                c.key.startswith("published") for c in tables["table1"].columns
            ),
            table1_keys=[column.key for column in tables["table1"].columns],
            describe=_describe,
            settings=list(
                _flat({key: study.params[key] for key in settings if key in study.params})
            ),
            digest=digest({key: study.params[key] for key in settings if key in study.params}),
            use=use_by_role(study),
            served=lambda use: use.served or adapters_of(study.params, use.role) or words.DASH,
            share=words.share,
            findings=_sections(tables, figures),
            figure_words=FIGURES,
            table_words=TABLES,
            readable=readable,
            is_text=is_text,
            is_quantity=lambda value: isinstance(value, Quantity),
            quantity_parts=_parts,
        )
    )


FIGURES = {
    "differences": "Paired differences of rows with intervals",
    "sensitivity": "Heat maps over the thresholds: accepted attempts, CCS, edits to make anew",
    "recovered": "Recovered against planted CCS",
    "calibration": "Simulated studies: recovered against planted CCS, coverage, bias",
    "finetune_curves": "Accuracy and loss by epoch of fine-tuning, on held-out scenes",
    "attention": "Attention of the answer over the image, by epoch of fine-tuning",
    "capability": "CCS against scores published elsewhere (data/reference/capability.csv)",
}
TABLES = {
    "table2": "Extractor, judge and editor (Table 2)",
    "effects": "Effects of extractor, judge and editor",
    "table5": "Runs with different seeds (Table 5)",
    "published": "Beside the published numbers",
    "comparisons": "Paired differences of targets",
    "comparisons_by_part": "Paired differences by domain and position",
    "ranks": "Probability of each rank",
    "power": "Samples needed to tell targets apart",
    "rates": "Pass rates and losses",
    "bounds": "Bounds of the scores",
    "sensitivity": "Every pair of thresholds",
    "gate_verifier": "Agreement of gate and verifier",
    "judges": "Agreement of judges",
    "judge_scores": "Several judges together",
    "table4": "Agreement with people (Table 4)",
    "corrected": "Scores corrected by people's labels",
    "calibration_table": "Simulated studies",
    "cost": "What the calls used and cost",
    "finetune_ccs": "CCS before and after fine-tuning",
    "finetune": "Answers, losses and attention before and after fine-tuning",
}
SECTIONS = (
    ("models", "Models of the pipeline", ("table2", "effects")),
    ("runs", "Runs", ("table5",)),
    (
        "compared",
        "Comparisons",
        (
            "differences",
            "comparisons",
            "comparisons_by_part",
            "ranks",
            "power",
            "published",
            "capability",
        ),
    ),
    (
        "tuned",
        "Fine-tuning",
        ("finetune_ccs", "finetune_curves", "attention", "finetune"),
    ),
    ("losses", "What losses could hide", ("bounds", "rates")),
    ("thresholds", "Thresholds", ("sensitivity",)),
    ("verifiers", "Gate and verifier", ("gate_verifier",)),
    ("judging", "Judges", ("judges", "judge_scores")),
    ("people", "People", ("table4", "corrected")),
    ("costs", "Cost", ("cost",)),
    ("calibrated", "Calibration", ("recovered", "calibration", "calibration_table")),
)


def _sections(
    tables: Mapping[str, Table], figures: Iterable[str]
) -> list[tuple[str, str, tuple[str, ...]]]:
    """Sections of findings that have something to show: id, title, figures and tables."""
    present = {*tables, *figures}
    return [(name, title, parts) for name, title, parts in SECTIONS if present & {*parts}]


def _parts(value: Value, column: Column) -> tuple[str, str]:
    """Mean and interval apart, so that the page can set them apart."""
    shown = text(value, column)
    mean, bracket, interval = shown.partition(" [")
    return mean, interval.rstrip("]") if bracket else ""


def _forests(study: Study, table: Table) -> list[list[forest.Mark]]:
    """The marks of each row: binary and graded CCS, planted and published values."""
    names = [column.key for column in table.columns]

    def mark(kind: str, key: str, row: tuple[Value, ...]) -> forest.Mark | None:
        value = row[names.index(key)] if key in names else None
        if isinstance(value, Quantity):
            return forest.Mark(kind, *value) if value.mean is not None else None
        return forest.Mark(kind, value) if isinstance(value, float) else None

    kinds = (
        ("binary", "ccs_binary"),
        ("graded", "ccs_graded"),
        ("planted", "planted_ccs"),
        ("published", "published_ccs_binary"),
    )
    return [[m for kind, key in kinds if (m := mark(kind, key, row))] for row in table.rows]


def _card_link(case: Case) -> str:
    """The first step of a case in the gallery, among the steps of its chain."""
    position = case.steps[0].position if case.steps else 0
    return links.gallery(case=name_of(case.cell, case.sample.id, position))


def _main_columns(table: Table) -> list[str]:
    """Columns of the page's main table in the order of the page; None stands for the plot."""
    keys = [column.key for column in table.columns]
    axes = [key for key in keys if key in words.AXES]
    steps = [key for key in keys if key.startswith(("ac_", "ef_"))]
    planted = [key for key in keys if key == "planted_ccs"]
    return [*axes, "plot", "ccs_binary", "ccs_graded", *planted, *steps, "n_interventions"]


def _domain_columns(table: Table) -> list[str]:
    """Columns of the page's table by domain."""
    keys = [column.key for column in table.columns]
    head = [key for key in keys if key in (*words.AXES, "domain")]
    published = [key for key in keys if key.startswith(("published", "difference"))]
    return [*head, "plot", "ccs_binary", "ccs_graded", *published, "n_interventions"]


def _scope(study: Study) -> str:
    """How large the study is, e.g. ``60 samples, 4 targets, 2 judges``."""
    parts = [f"{len(study.samples)} samples"] if study.cells else []
    for axis in words.varying_axes(study.cells) if study.cells else ():
        n = len({getattr(cell, axis) for cell in study.cells})
        parts.append(f"{n} {axis}{'' if n == 1 else 's'}")
    parts += [f"{len(pairs.attempts)} pairs of {pairs.name}" for pairs in study.pairs]
    return ", ".join(parts)


def _describe(row: tuple[Value, ...], table: Table) -> str:
    """A row's marks in words, for those who do not see them."""
    parts = [str(row[0])]
    for value, column in zip(row, table.columns, strict=True):
        if column.key in ("ccs_binary", "ccs_graded", "planted_ccs"):
            parts.append(f"{column.head} {text(value, column)}")
    return ", ".join(parts)


def _simulated_parts(study: Study) -> tuple[str, ...]:
    """Keys of the simulated parts; in a study of pairs only those that were really called."""
    parts = simulated(study.params)
    if study.cells:
        return parts
    called = {use.role for use in use_by_role(study)}
    return tuple(part for part in parts if part.split(".")[0].removesuffix("s") in called)


def _all_simulated(params: Mapping[str, Any]) -> bool:
    """Whether every target, extractor, editor and judge is a simulated one."""
    groups = ("targets.", "extractors.", "editors.", "judges.")
    built = [v for k, v in _flat(params) if k.startswith(groups) and k.endswith("._target_")]
    return bool(built) and all("demo" in value for value in built)


def _flat(value: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted keys and values of nested parameters, in the order of the file."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(v, Mapping | list) for v in value):
        for i, inner in enumerate(value):
            yield from _flat(inner, f"{prefix}.{i}")
    else:
        yield prefix, json.dumps(value, ensure_ascii=False)
