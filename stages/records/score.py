"""Scores: every planned intervention with its fate, and estimates with intervals.

What else is concluded from the interventions (comparisons, agreement, thresholds …) is in
`finding`.
"""

from stages.records.base import Record, Status

PANELS = {"vote": "panel_vote", "mean": "panel_mean"}
"""What stands in the judge's place where several judges are taken together, by how they are."""


class Cell(Record):
    """The choice of models that a row belongs to."""

    target: str
    """Name of the target under test."""
    extractor: str
    """Name of the extractor."""
    editor: str
    """Name of the editor."""
    judge: str
    """Name of the judge."""
    seed: int
    """Seed of the run."""


class Intervention(Record):
    """One planned edit of one sample in one cell: scored, or lost for a reason."""

    cell: Cell
    """The models."""
    sample_id: str
    """The sample."""
    domain: str
    """The sample's benchmark."""
    position: int
    """Step of the chain, from 1; 0 where the sample never got as far as a chain."""
    stage: str
    """The stage that decided the row's fate: judge where it was scored."""
    status: Status
    """Ok where it was scored."""
    reason: str | None = None
    """Why it was lost, where the status is not ok."""
    attempts: int = 0
    """How many attempts the editor made."""
    edited: str | None = None
    """SHA-256 of the PNG of the accepted edit; None where none was accepted."""
    ac: float | None = None
    """Answer consistency: 0 or 1, or the mean over replicates."""
    ef: float | None = None
    """Explanation faithfulness: 0 or 1, or the mean over replicates."""
    ccs_binary: float | None = None
    """AC · EF: 0 or 1, or the mean over replicates."""
    ccs_graded: float | None = None
    """(grade - 1) / 4, or the mean over replicates."""
    graded_status: Status | None = None
    """Ok where at least one replicate has a grade; None where the edit was never judged."""
    graded_reason: str | None = None
    """Why there is no grade, where the edit was judged and has none."""
    replicates: int = 0
    """How often the edit was judged."""
    verdicts_lost: int = 0
    """How many of these replicates have no binary verdict."""
    grades_lost: int = 0
    """How many of these replicates have no grade."""


class Estimate(Record):
    """A number that a table prints: mean, interval, and what it rests on."""

    cell: Cell
    """The models."""
    metric: str
    """ac, ef, ccs_binary or ccs_graded."""
    domain: str | None = None
    """Restricted to this domain; None: all."""
    position: int | None = None
    """Restricted to this step of the chain; None: the whole chain."""
    estimand: str
    """``sample_mean`` (mean of per-sample means, as published) or ``intervention_mean``."""
    mean: float | None
    """The estimate in [0, 1]; None where nothing was scored."""
    low: float | None
    """Lower end of the interval; None where it is not estimable."""
    high: float | None
    """Upper end of the interval; None where it is not estimable."""
    confidence: float
    """Nominal coverage of the interval, e.g. 0.95."""
    method: str
    """How the interval was made (bootstrap, wilson, …), or why there is none."""
    n_samples: int
    """Samples with at least one scored intervention."""
    n_interventions: int
    """Scored interventions."""
    n_planned: int
    """Interventions planned, the lost ones included."""
