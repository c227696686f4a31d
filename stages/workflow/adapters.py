"""From YAML to models: `_target_` and its values make an adapter; errors say how to mend them."""

import difflib
import importlib
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from stages.models.protocol import Adapter
from stages.records.errors import UserError

A = TypeVar("A")
_EXTRAS = {
    "openai": "api",
    "httpx2": "api",
    "pyarrow": "hf",
    "sam2": "sam2",
    "diffusers": "diffusers",
    "peft": "finetune",
    "bitsandbytes": "finetune",
    "moondream": "moondream",
    "kestrel": "moondream",
}
_PROCESSES: ContextVar[int] = ContextVar("processes", default=1)


@contextmanager
def shared_by(processes: int) -> Iterator[None]:
    """Models made within are one process's of so many that do the same work."""
    token = _PROCESSES.set(processes)
    try:
        yield
    finally:
        _PROCESSES.reset(token)


def build(params: Mapping[str, Any], key: str, kind: type[A]) -> A:
    """Make the object that ``params`` describes at a dotted key such as ``targets.demo_looks``."""
    config = lookup(params, key)
    constructor = check(config, key, kind)
    values = {name: value for name, value in config.items() if name != "_target_"}
    try:
        made = constructor(**values)
    except UserError as error:
        where = f"params.yaml: {key}"
        raise UserError(where, f"{error.where}: {error.what}", error.remedy) from None
    except ImportError as error:
        raise UserError(
            f"params.yaml: {key}",
            f"needs a package that is not installed ({error.name or error})",
            f"`make extras EXTRAS={_EXTRAS.get(error.name or '', 'local')}` brings it.",
        ) from None
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise UserError(
            f"params.yaml: {key}", str(error), f"See `{config['_target_']}` for its values."
        ) from None
    if isinstance(made, Adapter):
        made.share(_PROCESSES.get())
    return made


def lookup(params: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The mapping at a dotted key; an unknown last part is answered with near matches."""
    node: Any = params
    path: list[str] = []
    for part in key.split("."):
        if not isinstance(node, Mapping) or part not in node:
            known = sorted(node) if isinstance(node, Mapping) else []
            near = difflib.get_close_matches(part, known, n=3) or known[:5]
            raise UserError(
                f"params.yaml: {key}",
                f"there is no {part!r} under {'.'.join(path) or 'params.yaml'}",
                f"Known: {', '.join(near) or 'none'}." if near else "Compose it: `make params`.",
            )
        node = node[part]
        path.append(part)
    if not isinstance(node, Mapping) or "_target_" not in node:
        raise UserError(f"params.yaml: {key}", "has no _target_", "Name the adapter's class there.")
    return node


def check(config: Mapping[str, Any], key: str, kind: type[A]) -> type[A]:
    """Check, without making it, that a description names a class of the kind and fits it."""
    target = str(config["_target_"])
    module_name, _, class_name = target.rpartition(".")
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError, TypeError):
        raise UserError(
            f"params.yaml: {key}._target_",
            f"{target!r} can't be imported",
            "Name a class as package.module.Class.",
        ) from None
    if not (inspect.isclass(found) and issubclass(found, kind)):
        raise UserError(
            f"params.yaml: {key}._target_", f"{target!r} is no {kind.__name__}", "Name one."
        )
    values = {name: value for name, value in config.items() if name != "_target_"}
    try:
        inspect.signature(found).bind(**values)
    except TypeError as error:
        allowed = ", ".join(inspect.signature(found).parameters)
        raise UserError(f"params.yaml: {key}", str(error), f"It takes: {allowed}.") from None
    return found
