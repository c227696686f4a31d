"""Parameters: `params.yaml` as typed sections, each checked before anything is spent.

A section is what one or more stages read. A stage that depends on a key says so in `dvc.yaml`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stages.imaging.settings import VERDICT_KEYS, Settings
from stages.records.errors import UserError

Share = Annotated[float, Field(ge=0, le=1)]
Tokens = Annotated[int, Field(ge=16)]
S = TypeVar("S", bound=BaseModel)


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


class Limits(Section):
    """When a stage gives up rather than go on with too little."""

    max_failed_share: Share
    """Largest share of a stage's rows that may lack a reply."""


SECTIONS: Mapping[str, type[Section]] = {
    "chain": Chain,
    "generation": Generation,
    "judge": JudgeSettings,
    "score": ScoreSettings,
    "limits": Limits,
}


def load(path: Path) -> dict[str, Any]:
    """Read a params file as it is."""
    try:
        params = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(str(path), "the file is missing", "Make it: `make params`.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(
            str(path), f"no YAML ({' '.join(str(error).split())})", "Compose it: `make params`."
        ) from None
    if not isinstance(params, dict):
        raise UserError(str(path), "holds no mapping", "Compose it: `make params`.")
    return params


def section(params: Mapping[str, Any], name: str, model: type[S]) -> S:
    """Read one section; an error names the key, the value and the rule that it breaks."""
    if name not in params:
        raise UserError(f"params.yaml: {name}", "the section is missing", "`make params`.")
    try:
        return model.model_validate(params[name])
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join([name, *(str(part) for part in first["loc"])])
        what = "is missing" if first["type"] == "missing" else f"is {first['input']!r}"
        raise UserError(
            f"params.yaml: {key}",
            f"{what}: {first['msg'].lower()}",
            f"Set it in conf/, or give `-S {key}=…`.",
        ) from None


def value(params: Mapping[str, Any], name: str, kind: type[S] | type[str] | type[list[Any]]) -> Any:
    """Read a top-level value of a given type."""
    if not isinstance(params.get(name), kind):
        raise UserError(
            f"params.yaml: {name}", f"must be a {kind.__name__}", "Compose it: `make params`."
        )
    return params[name]


def verification(params: Mapping[str, Any]) -> tuple[Thresholds, Settings]:
    """Read the section `verify`: the thresholds on r_in and r_out, and how they are measured."""
    given = params.get("verify")
    if not isinstance(given, Mapping):
        raise UserError("params.yaml: verify", "the section is missing", "`make params`.")
    taus = {key: given[key] for key in VERDICT_KEYS if key in given}
    thresholds = section({"verify": taus}, "verify", Thresholds)
    try:
        return thresholds, Settings.from_section(given)
    except (ValueError, TypeError) as error:
        raise UserError(
            "params.yaml: verify", str(error), "Set it in conf/verify.yaml, or by `-S verify.…=…`."
        ) from None
