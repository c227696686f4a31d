"""Where a stage's items are worked on: in its own process, or by workers of Ray on many machines.

A stage names a recipe: a function of its module that makes, in whatever process, the models and
what is done with one item. It is called here by the executor `local`, and in every worker by
`ray`; items and rows cross as JSON of their records. So both give the same rows in the same order.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

from stages.models.calls import Calls
from stages.records.errors import UserError
from stages.workflow import params as parameters
from stages.workflow import sections
from stages.workflow.mapping import for_each

I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")


@dataclass(frozen=True)
class Crew(Generic[I, R]):
    """What works on items in one process."""

    work: Callable[[I], Awaitable[R]]
    """From an item to its row or rows."""
    at_once: int
    """Items that may be under way together."""
    calls: Calls
    """The way to models, which counts."""


Recipe = Callable[..., Crew[I, R]]
"""Called as ``recipe(root, params, **axes)``. A function at the top of an importable module, whose
return annotation ``Crew[I, R]`` names records, or lists and named tuples of them."""


@dataclass(frozen=True)
class Done(Generic[R]):
    """What came of all items."""

    rows: Sequence[R]
    """In the order of the items."""
    summary: str
    """One line: calls made, answered from the store, failed, and their cost, over all workers."""


def over(
    items: Sequence[I],
    recipe: Recipe[I, R],
    root: Path,
    params: Mapping[str, Any],
    *,
    label: str,
    **axes: str,
) -> Done[R]:
    """Work on every item where the parameters say.

    Parameters
    ----------
    items : sequence
        Records.
    recipe : callable
        Makes models and work, called with the same ``root``, ``params`` and ``axes``.
    label : str
        What the progress line begins with.

    Raises
    ------
    Exception
        The first that came up, after what was under way has ended; no further item is begun.
    """
    chosen = settings(params)
    if isinstance(chosen, sections.Ray) and items:
        from stages.workflow import executor_ray

        return executor_ray.over(items, recipe, root, params, chosen, label=label, axes=axes)
    crew = recipe(root, params, **axes)
    rows = asyncio.run(for_each(items, crew.work, at_once=crew.at_once, label=label))
    return Done(rows, crew.calls.summary())


def settings(params: Mapping[str, Any]) -> sections.Local | sections.Ray:
    """The executor of the parameters; older ones have the local one."""
    given = params.get("executor", {"name": "local"})
    name = given.get("name") if isinstance(given, Mapping) else None
    if name == "local":
        return parameters.section({"executor": given}, "executor", sections.Local)
    if name != "ray":
        raise UserError(
            "params.yaml: executor.name", f"is {name!r}", "There are local and ray (conf/executor)."
        )
    chosen = parameters.section(params, "executor", sections.Ray)
    if find_spec("ray") is None:
        raise UserError(
            "params.yaml: executor",
            "needs a package that is not installed (ray)",
            "`make extras EXTRAS=ray` brings it.",
        )
    if not re.fullmatch(r"auto|[^/\s]+:\d+", "auto" if chosen.address is None else chosen.address):
        raise UserError(
            "params.yaml: executor.address",
            f"{chosen.address!r} is no auto and no HOST:PORT",
            "Run the stage on a machine of the cluster: Ray's client (ray://) does not do.",
        )
    return chosen
