"""What the score stage concludes from the interventions, a kind of row for each kind of table.

A number that does not exist is None, and ``method`` says why; it is never 0 and never NaN.
"""

from stages.records.base import Record
from stages.records.score import Cell


class Measured(Record):
    """A number with its interval and what it rests on."""

    mean: float | None
    """The number; None where there is nothing to make it from."""
    low: float | None
    """Lower end of the interval; None where it is not estimable."""
    high: float | None
    """Upper end; None where it is not estimable."""
    confidence: float
    """Nominal coverage, e.g. 0.95."""
    method: str
    """How the interval was made, or ``not estimable: <why>``."""
    n_samples: int
    """Independent units behind it: samples, or trials of a Wilson interval."""
    n: int
    """Scores behind it."""


class Part(Record):
    """A part of the study: the axes that are held. None: varied, or taken together."""

    target: str | None = None
    """Name of the target."""
    extractor: str | None = None
    """Name of the extractor."""
    editor: str | None = None
    """Name of the editor."""
    judge: str | None = None
    """Name of the judge."""


class RunSpread(Record):
    """One metric over several runs (seeds) of the same models."""

    part: Part
    """The models."""
    metric: str
    """ac, ef, ccs_binary or ccs_graded."""
    seeds: tuple[int, ...]
    """The runs with a score."""
    run_means: tuple[float, ...]
    """Mean of per-sample means of each."""
    sd: float | None
    """Standard deviation of the run means (n − 1); None below two runs."""
    over_runs: Measured
    """Mean with Student's t interval over runs: the samples' own variance is not in it."""
    two_level: Measured
    """Mean with a bootstrap interval over runs and samples."""


class Comparison(Record):
    """A paired difference: first minus second level of one axis, on common samples."""

    axis: str
    """``target``, ``extractor``, ``judge``, ``editor``, or interaction ``extractor × judge``."""
    first: str
    """The one level."""
    second: str
    """The other."""
    part: Part
    """What is held; axes that vary besides are averaged over."""
    metric: str
    """ac, ef, ccs_binary or ccs_graded."""
    domain: str | None = None
    """Restricted to this domain; None: all."""
    position: int | None = None
    """Restricted to this step of the chain; None: the whole chain."""
    difference: Measured
    """Mean per-sample difference with its interval."""
    p: float | None
    """Two-sided sign-flip p; None where there is nothing to test."""
    p_holm: float | None
    """p corrected for all pairs of the same axis, part, metric, domain and position (Holm)."""
    test: str
    """How p was made."""
    n_left_out: int
    """Samples that one of the two has and the other has not."""
    sd: float | None
    """Standard deviation of the per-sample difference; None below two samples."""


class RankRow(Record):
    """How probable each rank of a target is, over resamples of the samples."""

    part: Part
    """What is held."""
    metric: str
    """ccs_binary or ccs_graded."""
    target: str
    """The target."""
    expected: float | None
    """Mean rank, 1 the best; None without scores."""
    probabilities: tuple[float, ...]
    """Probability of rank 1, 2, …; all 0 without scores."""
    n_samples: int
    """Samples that the target has scores for."""


class PowerRow(Record):
    """Samples that a study needs to tell two targets apart."""

    part: Part
    """What is held."""
    first: str
    """The one target."""
    second: str
    """The other."""
    metric: str
    """ccs_binary or ccs_graded."""
    gap: float | None
    """The true difference to be found; None: the one observed."""
    power: float
    """Probability with which it is to be found, e.g. 0.8."""
    sd: float | None
    """Standard deviation of per-sample differences at hand."""
    common_share: float | None
    """Share of the study's samples that both targets have scores for."""
    n_common: int | None
    """Common samples needed; None where it can't be said."""
    n_planned: int | None
    """Samples to plan, with as much attrition as here; None where it can't be said."""
    reason: str | None = None
    """Why not."""
    detectable: float | None
    """Smallest true difference that the common samples at hand find with that power."""


class RateRow(Record):
    """How much came through, of one group of edits."""

    measure: str
    """``accepted``: by verification, of the edits that were tried. ``accepted at attempt``: of the
    attempts with that number. ``scored``: of the planned edits. ``lost``: samples or planned edits
    lost for that reason."""
    by: str
    """What the group is: target, extractor, editor, judge, domain, position, attempt, reason; or
    two of them with × between."""
    group: str
    """The group."""
    unit: str
    """``edits``, ``attempts`` or ``samples``."""
    rate: Measured
    """The share, with Wilson ends."""
    count: int
    """How many."""


class BoundsRow(Record):
    """What the lost edits could have done to a score."""

    cell: Cell
    """The models."""
    metric: str
    """ccs_binary or ccs_graded."""
    worst: Measured
    """Every lost edit counted as unfaithful."""
    observed: Measured
    """The scored edits alone."""
    best: Measured
    """Every lost edit counted as faithful."""
    n_lost: int
    """Planned edits without a score."""
    n_planned: int
    """Planned edits."""
    correlation: float | None
    """Over samples: share of edits lost against mean score of the others; None: not estimable."""
    p: float | None
    """Permutation p of that correlation."""
    n_with_both: int
    """Samples behind the correlation."""
    test: str
    """How p was made, or why there is none."""


class SensitivityRow(Record):
    """What one pair of thresholds would have made of the run's attempts."""

    cell: Cell
    """The models."""
    warped: bool
    """Whether Δ was taken after the optical-flow warp."""
    tau_in: float
    """Threshold on r_in."""
    tau_out: float
    """Threshold on r_out."""
    used: bool
    """Whether these are the thresholds of the run."""
    acceptance: Measured
    """Share of measured attempts that pass."""
    agreement: Measured | None
    """Agreement of the gate with people on edit validity; None without labels."""
    ccs_binary: float | None
    """Mean of per-sample means over the interventions that stand; None without any."""
    n_scored: int
    """Interventions behind it."""
    n_samples: int
    """Samples behind it."""
    n_to_requery: int
    """Interventions with an edit that exists but was never asked about."""
    n_to_edit: int
    """Interventions that need an edit that was never made, at most."""
    n_planned: int
    """Interventions planned."""


class AgreementRow(Record):
    """Whether raters (judges, replies of one judge, people, the gate) say the same."""

    comparison: str
    """Name of the row, e.g. ``human_1_vs_edct``."""
    what: str
    """What is rated: ac, ef, ccs_binary, grade or edit_validity."""
    part: Part
    """The models whose interventions were rated."""
    raters: tuple[str, ...]
    """Who rated."""
    subset: str = "all"
    """``all``, or ``strict``: only edits that every annotator marked valid and judged in full."""
    agree: int
    """Units on which all say the same."""
    n_missing: int
    """Units that somebody left out, or could not tell; they are not counted."""
    share: Measured
    """Their share with Wilson ends."""
    clustered: Measured
    """The same share with a bootstrap over samples."""
    kappa: Measured | None
    """Cohen's kappa (two raters); of grades with quadratic weights."""
    alpha: Measured | None
    """Krippendorff's alpha; of grades ordinal, else nominal."""
    categories: tuple[float, ...] = ()
    """Categories in use, ascending."""
    confusion: tuple[tuple[int, ...], ...] = ()
    """Counts by first rater (rows) and second (columns); empty for more than two."""


class JudgeScore(Record):
    """A score made of several judges."""

    part: Part
    """The models whose interventions were judged."""
    metric: str
    """ac, ef, ccs_binary or ccs_graded."""
    judges: tuple[str, ...]
    """The judges."""
    mean: Measured
    """Mean over judges, with an interval over judges and samples."""
    mean_samples_only: Measured
    """The same number with an interval over samples alone."""
    vote: Measured
    """What most judges say, with an interval over samples; ties are missing."""
    n_ties: int
    """Interventions without a majority."""


class CorrectedRow(Record):
    """A judge's mean corrected by human labels, and whether the labelled part is a random one."""

    cell: Cell
    """The models."""
    metric: str
    """ac, ef or ccs_binary."""
    corrected: Measured
    """Prediction-powered mean."""
    labels_only: Measured
    """Mean of the human labels alone."""
    judge_only: Measured
    """Mean of the judge's scores, uncorrected."""
    tuning: float
    """λ in [0, 1]: how far the judge is used."""
    n_labelled: int
    """Interventions with a label and a score."""
    n_unlabelled: int
    """Interventions with a score alone."""
    imbalance_score: float | None
    """Standardised difference of the judge's score, labelled less unlabelled."""
    p_score: float | None
    """Permutation p of that balance."""
    imbalance_position: float | None
    """The same of the chain position."""
    p_position: float | None
    """Permutation p of that balance."""
    looks_random: bool | None
    """No imbalance beyond 0.25 and no p below 0.05; None where it can't be told."""


class CoverageRow(Record):
    """How well an interval holds the planted CCS, over simulated studies."""

    experiment: str
    """``coverage``: an exact judge. ``judge``: a judge that errs. ``loss``: loss that goes with the
    score."""
    estimator: str
    """``sample_mean`` and ``intervention_mean`` as the tables have them; ``percentile``: the former
    with the interval as published; ``corrected`` by human labels; ``bounds``: from the lower end
    with all lost edits unfaithful to the upper end with all of them faithful."""
    n_samples: int
    """Samples of each study."""
    k: int
    """Edits planned per sample."""
    planted: float | None
    """The planted CCS; None: all between 0 and 1 together."""
    judge_error: float
    """Share of verdicts with AC flipped, and apart from that EF."""
    loss_slope: float
    """How much more often edits of faithful samples are accepted."""
    replications: int
    """Simulated studies."""
    n_estimable: int
    """Those with an interval."""
    mean: float | None
    """Mean of the estimates."""
    bias: float | None
    """Mean of estimate less planted value."""
    bias_error: float | None
    """Standard error of the bias over replications."""
    covered: Measured
    """Share of intervals that hold the planted value, with Wilson ends."""
    width: float | None
    """Mean width of the intervals."""
    scored: float
    """Mean number of scored edits."""
