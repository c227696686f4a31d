"""Every table that a study supports, in the order of the report."""

from stages.reporting import (
    agreement_tables,
    cost,
    finding_tables,
    pair_tables,
    paper_tables,
    protocol_tables,
    tuning_tables,
)
from stages.reporting.study import Study
from stages.reporting.tables import Table


def all_tables(study: Study) -> tuple[Table, ...]:
    """The protocol's own always; the others where the study has rows for them."""
    published = protocol_tables.published_table(study)
    optional = (
        paper_tables.table2(study),
        paper_tables.table4(study),
        paper_tables.table5(study),
        published if published.rows else None,
        pair_tables.crossed_table(study) if study.pairs else None,
        pair_tables.raters_table(study),
        pair_tables.pairs_table(study) if study.pairs else None,
        finding_tables.comparisons(study),
        finding_tables.comparisons_by_part(study),
        finding_tables.effects(study),
        finding_tables.ranks(study),
        finding_tables.power(study),
        finding_tables.rates(study),
        finding_tables.bounds(study),
        finding_tables.sensitivity(study),
        agreement_tables.gate_and_verifier(study),
        agreement_tables.judges(study),
        agreement_tables.judge_scores(study),
        agreement_tables.corrected(study),
        finding_tables.coverage(study),
        cost.cost_table(study),
        tuning_tables.answers(study),
        tuning_tables.ccs(study),
    )
    return (
        protocol_tables.table1(study),
        protocol_tables.table3(study),
        protocol_tables.funnel_table(study),
        protocol_tables.attrition_table(study),
        *(table for table in optional if table is not None),
    )
