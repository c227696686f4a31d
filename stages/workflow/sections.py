"""The sections of `params.yaml`: what each may hold. Unknown keys and wrong values are errors."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from stages.models.local.placement import Placement
from stages.records.attempt import Mode

Share = Annotated[float, Field(ge=0, le=1)]
Tokens = Annotated[int, Field(ge=16)]
Shown = Annotated[int, Field(ge=0, le=10_000)]
Count = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A section of params: closed, so that a misspelt key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class Chain(Section):
    """How long a chain is and how it goes on."""

    k: Annotated[int, Field(ge=1, le=10)]
    """Concepts, hence edits, per sample, at most."""
    max_attempts: Annotated[int, Field(ge=1, le=10)]
    """Attempts per edit, the first included."""
    on_rejection: Literal["stop", "skip"]
    """After an edit that failed for good: end the chain, or go on from the last accepted image."""


class Thresholds(Section):
    """When an edit is accepted: r_in > tau_in and r_out < tau_out (paper: 0.10 and 0.30)."""

    tau_in: Share
    """Share of the target region that must have changed."""
    tau_out: Share
    """Share of the rest that may have changed."""
    with_verifier: Mode = "report_only"
    """What the word of a verifier does, where the study has one; as it was before there were any
    where parameters are older."""


class Generation(Section):
    """Limits of text generation."""

    max_tokens: Tokens
    """Tokens of a reply, thinking included."""
    graded_max_tokens: Tokens
    """Tokens of a graded verdict, which is reasoned at length."""


class JudgeSettings(Section):
    """How verdicts are asked for."""

    replicates: Annotated[int, Field(ge=1, le=32)]
    """Samples of each verdict; their mean is scored."""
    sees_images: bool = False
    """Whether the judge is shown the original and the edited image; parameters that are older than
    this choice have a judge that reads text alone."""


class ScoreSettings(Section):
    """How estimates are made."""

    resamples: Annotated[int, Field(ge=100, le=1_000_000)]
    """Bootstrap resamples."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """Nominal coverage of intervals."""
    interval: Literal["adaptive", "expanded", "percentile", "bca", "t", "wilson"]
    """How intervals of means are made."""
    seed: Annotated[int, Field(ge=0)]
    """Seed of the resampling."""
    grid_tau_in: list[Share]
    """Thresholds on r_in that the sensitivity table tries."""
    grid_tau_out: list[Share]
    """Thresholds on r_out that it tries."""
    gaps: list[Annotated[float, Field(gt=0, lt=1)]]
    """True differences between two targets for which samples are planned."""
    power: Annotated[float, Field(gt=0, lt=1)]
    """Probability with which such a difference is to be found."""
    panel: Literal["none", "vote", "mean"] = "none"
    """Whether several judges also make a row together, and how; older parameters have none."""


class Limits(Section):
    """When a stage gives up rather than go on with too little."""

    max_failed_share: Share
    """Largest share of a stage's rows that may lack a reply."""
    budget_usd: Annotated[float | None, Field(ge=0)] = None
    """US dollars that the study may spend on models, failed calls included; None: no bound."""
    budget_calls: Annotated[int | None, Field(ge=0)] = None
    """Calls that may be charged; None: no bound."""


class Local(Section):
    """Work in the stage's own process."""

    name: Literal["local"] = "local"
    """Which executor this is."""


class Ray(Section):
    """Work in processes of Ray, on one machine or on many."""

    name: Literal["ray"]
    """Which executor this is."""
    address: str | None
    """``auto`` or ``HOST:PORT`` of a cluster that runs; None: one of this machine's own."""
    workers: Annotated[int, Field(ge=1, le=10_000)]
    """Processes, each with its own models."""
    cpus: Annotated[float, Field(gt=0, le=4096)]
    """CPUs that Ray sets aside for a worker."""
    gpus: Annotated[float, Field(ge=0, le=4096)]
    """GPUs of a worker, which sees no others; 0: it sees all that there are."""
    deaths: Annotated[int, Field(ge=1, le=100)]
    """How often one item's worker may die, and how many may die in a row without an item between,
    before the stage gives up."""
    start_s: Annotated[float, Field(gt=0)]
    """Seconds until the first worker has a place on the cluster."""
    object_store_mb: Annotated[int, Field(ge=76)]
    """MB of shared memory of a cluster of its own."""


class Report(Section):
    """How much the report shows, and how."""

    title: str
    """Title of the page."""
    gallery: Shown
    """Chains that the page picks out of the gallery, which has them all."""
    panels: Shown
    """Verified attempts that are drawn in four views."""
    examples: Shown
    """Chains that are printed as figures."""
    image_px: Annotated[int, Field(ge=64, le=2048)]
    """Width of the pages' pictures in pixels."""
    thumbnail_px: Annotated[int, Field(ge=32, le=512)]
    """Width of the pictures in lists in pixels."""
    dpi: Annotated[int, Field(ge=72, le=600)]
    """Resolution of the figures in dots an inch."""
    settings: list[str]
    """Sections of the parameters that the page prints and takes the digest of."""


class AnnotationSettings(Section):
    """Which edits people judge, and how the forms are written."""

    size: Annotated[int, Field(ge=1, le=10_000)]
    """Edits in a form."""
    rejected: Share
    """Share of them that verification rejected."""
    strata: list[Literal["target", "extractor", "editor", "seed", "domain", "position"]]
    """What the draw is stratified by."""
    annotators: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64)]]
    """Whom a form is written for."""
    seed: Annotated[int, Field(ge=0)]
    """Seed of the draw, the opaque names and the orders."""
    max_mb: Annotated[float, Field(ge=1, le=200)]
    """Largest size of a form in MB."""
    label_studio_images: Literal["files", "inline"]
    """How the Label Studio project holds its images."""


class Calibration(Section):
    """The simulated studies."""

    replications: Annotated[int, Field(ge=0)]
    """Studies of each design; 0: none."""
    n_samples: list[Count]
    """Samples of a study."""
    k: list[Annotated[int, Field(ge=1, le=10)]]
    """Edits planned per sample."""
    planted: list[Share]
    """True CCS."""
    icc: Share
    """How alike a sample's edits are."""
    accept: Share
    """Probability that an attempt is accepted."""
    max_attempts: Count
    """Attempts of an edit."""
    no_concepts: Share
    """Share of samples without a concept."""
    judge_error: list[Share]
    """Error rates of the judge."""
    labelled: Share
    """Share of samples with human labels."""
    loss_slope: list[Annotated[float, Field(ge=-1, le=1)]]
    """How much likelier edits of faithful samples are accepted."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """Nominal coverage of intervals."""
    resamples: Annotated[int, Field(ge=100)]
    """Bootstrap resamples of each interval."""
    seed: Annotated[int, Field(ge=0)]
    """Seed of the simulation."""


class Pretrain(Section):
    """A small model that is trained from nothing."""

    hidden: Annotated[int, Field(ge=32, le=512, multiple_of=32)]
    """Width of encoder and language model."""
    layers: Annotated[int, Field(ge=1, le=12)]
    """Layers of the language model."""
    encoder_steps: Count
    """Steps of the encoder, 32 scenes each."""
    language_steps: Count
    """Steps of the language model, 8 scenes with 6 questions each."""
    tied: Share
    """Share of scenes in which all things have typical colours."""
    shortcut: Share
    """Share of the other scenes about which the studied question is never asked."""
    seed: Annotated[int, Field(ge=0)]
    """Of weights and scenes."""


class Tuning(Section):
    """What all adapters of a study have in common."""

    base: str
    """Name of the target that is tuned; empty: the study has no tuning."""
    model: str
    """Its weights: a folder of the workspace, or a model id."""
    revision: str
    """Commit, tag or branch of a model id; without meaning for a folder."""
    cell: str
    """The cell, target-extractor-editor-seed, whose edits are trained on."""
    train: list[str]
    """Domains that are trained on."""
    held_out: list[str]
    """Domains that are only looked at."""
    say: str
    """How an answer is said, with {label}."""
    device: str
    """cpu, cuda, cuda:1 …"""
    dtype: str
    """Type of the weights, or auto."""
    max_pixels: Count | None
    """Area of a picture as the model sees it, in pixels; null: as the checkpoint says."""

    @field_validator("say")
    @classmethod
    def _says_the_label(cls, say: str) -> str:
        words = say.replace("{label}", "")
        if words == say or set(words) & set("{}"):
            raise ValueError("it must hold {label}, and no other braces")
        return say

    @field_validator("device")
    @classmethod
    def _is_a_device(cls, device: str) -> str:
        Placement(device=device)
        return device

    @field_validator("dtype")
    @classmethod
    def _is_a_precision(cls, dtype: str) -> str:
        Placement(dtype=dtype)
        return dtype


class Finetune(Section):
    """One adapter."""

    teach: Literal["edits", "originals", "unverified"]
    """Originals with verified counterfactuals, originals alone, or originals with every first
    attempt, whatever the gate said of it."""
    labels: str | None
    """CSV with the right answers to edited images (sample_id, position, answer); null: they follow
    from the edits, in the built-in world."""
    rank: Count
    """Rank of the adapter."""
    alpha: Count
    """Its scale is alpha / rank."""
    dropout: Annotated[float, Field(ge=0, lt=1)]
    """Share of its inputs dropped in training."""
    modules: str
    """Regular expression over module names: which get an adapter."""
    quantization: Mapping[str, Any] | None
    """Values of BitsAndBytesConfig for the base (Q-LoRA); null: full precision."""
    epochs: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=2)]
    """Epochs that are kept and looked at, from 0 on; the last one ends the training."""
    examples_per_epoch: Count | None
    """Examples drawn in an epoch; null: each once."""
    batch: Count
    """Examples that go through the model together."""
    accumulate: Count
    """Such batches to a step."""
    rate: Annotated[float, Field(gt=0)]
    """Largest learning rate."""
    seed: Annotated[int, Field(ge=0)]
    """Of weights, order and dropout."""
    layers: Annotated[list[Count], Field(min_length=1)]
    """Text layers of the attention maps, from 1 (paper: 7 to 12)."""
    sink_ratio: Annotated[float, Field(gt=1)] | None
    """An image token is a sink where text gives it this many times the median; null: none is."""
    drop: Annotated[float, Field(ge=0, le=100)]
    """Percentile below which values of a map are dropped (paper: 25)."""

    @field_validator("epochs")
    @classmethod
    def _ascend(cls, epochs: list[int]) -> list[int]:
        if epochs[0] != 0 or any(a >= b for a, b in pairwise(epochs)):
            raise ValueError("epochs must ascend from 0")
        return epochs

    def recipe(self) -> dict[str, Any]:
        """The values that shape the training."""
        names = ("rank", "alpha", "dropout", "modules", "examples_per_epoch", "batch")
        held = {name: getattr(self, name) for name in (*names, "accumulate", "rate", "seed")}
        return {**held, "epochs": tuple(self.epochs)}


SECTIONS: Mapping[str, type[Section]] = {
    "chain": Chain,
    "generation": Generation,
    "judge": JudgeSettings,
    "score": ScoreSettings,
    "limits": Limits,
    "report": Report,
    "calibration": Calibration,
    "annotation": AnnotationSettings,
    "tuning": Tuning,
}
