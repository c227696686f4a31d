"""Parameters: `params.yaml` as typed sections, each checked before anything is spent.

A section is what one or more stages read. A stage that depends on a key says so in `dvc.yaml`.
"""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from stages.imaging.settings import VERDICT_KEYS, Settings
from stages.records.errors import UserError
from stages.workflow.sections import Thresholds

S = TypeVar("S", bound=BaseModel)


def load(path: Path) -> dict[str, Any]:
    """Read a params file as it is."""
    try:
        params = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(str(path), "the file is missing", "Make it: `make params`.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
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


def value(
    params: Mapping[str, Any],
    name: str,
    kind: type[S] | type[str] | type[list[Any]] | type[dict[str, Any]],
) -> Any:
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
    missing = sorted({field.name for field in fields(Settings)} - set(given))
    if missing:
        raise UserError(f"params.yaml: verify.{missing[0]}", "is missing", "`make params`.")
    taus = {key: given[key] for key in VERDICT_KEYS if key in given}
    thresholds = section({"verify": taus}, "verify", Thresholds)
    try:
        return thresholds, Settings.from_section(given)
    except (ValueError, TypeError) as error:
        raise UserError(
            "params.yaml: verify", str(error), "Set it in conf/verify.yaml, or by `-S verify.…=…`."
        ) from None
