"""One worker of the executor `ray`: a process with its own models, to which text comes and goes.

Nothing here knows of Ray: it makes an actor of the class. What is sent and returned is JSON. Keys
of providers are in neither: a worker has them from its environment.
"""

import asyncio
import fcntl
import importlib
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, TypeAdapter

from stages.models.account import BUDGET, on_behalf_of
from stages.records.errors import UserError
from stages.workflow import adapters
from stages.workflow.executor import Crew, Recipe

ENVIRONMENT = ("EDCT_STORE", "EDCT_REPLAY", BUDGET, "EDCT_TRACE")
"""Settings of the stage's process that hold in its workers too. None is a secret."""


class Plan(BaseModel):
    """What a worker is told before it begins."""

    recipe: tuple[str, str]
    """Module and function."""
    workspace: str
    """Absolute path of the folder that the stage runs in."""
    root: str
    """The recipe's first argument."""
    params: dict[str, Any]
    """Its second."""
    axes: dict[str, str]
    """The others."""
    stage: str
    """On whose behalf calls are made."""
    workers: int
    """Processes that do the same work."""
    environment: dict[str, str]
    """Those of ENVIRONMENT that are set."""
    probes: tuple[str, ...]
    """Files that the stage has made and locked: absolute paths."""


class Fault(BaseModel):
    """An exception, for another process."""

    kind: str
    """``user``, ``os``, or the name of an exception's class."""
    said: tuple[str, ...]
    """The arguments that it is made of again."""
    number: int = 0
    """The number of an error of the operating system."""
    trace: str = ""
    """Where it arose."""

    @classmethod
    def of(cls, error: Exception) -> "Fault":
        """Describe an exception."""
        trace = "".join(traceback.format_exception(error))
        if isinstance(error, UserError):
            return cls(kind="user", said=(error.where, error.what, error.remedy), trace=trace)
        if isinstance(error, OSError) and error.errno is not None:
            said = (error.strerror or str(error), str(error.filename or ""))
            return cls(kind="os", said=said, number=error.errno, trace=trace)
        return cls(kind=type(error).__name__, said=(str(error),), trace=trace)

    def error(self) -> Exception:
        """The exception, as it would have come up in the stage's process."""
        made: Exception
        if self.kind == "user":
            made = UserError(*self.said)
        elif self.kind == "os":
            made = OSError(self.number, self.said[0], self.said[1] or None)
        else:
            made = type(self.kind, (RuntimeError,), {})(*self.said)
        made.add_note(f"In a worker:\n{self.trace}")
        return made


class Reply(BaseModel):
    """What a worker returns: a value, or what went wrong; and the calls that it has made since."""

    value: int | str | None = None
    """A number, or a row's JSON."""
    fault: Fault | None = None
    counts: dict[str, Any] | None = None


def kinds(recipe: Recipe[Any, Any]) -> tuple[TypeAdapter[Any], TypeAdapter[Any]]:
    """How its items and its rows are read and written, by its return annotation."""
    crew = get_type_hints(recipe)["return"]
    item, row = get_args(crew)
    return TypeAdapter(item), TypeAdapter(row)


def named(recipe: Recipe[Any, Any]) -> tuple[str, str]:
    """Module and name of a recipe, also where its module is the one that was started."""
    module = recipe.__module__
    if module == "__main__" and (spec := sys.modules["__main__"].__spec__) is not None:
        module = spec.name
    return module, recipe.__qualname__


class Worker:
    """A process's crew; Ray makes an actor of it, whose methods share one event loop."""

    def __init__(self) -> None:
        self._crew: Crew[Any, Any] | None = None
        self._stage = ""

    async def look(self, plan: str) -> str:
        """Take over the stage's surroundings; say what of them is not here, or this process."""
        told = Plan.model_validate_json(plan)
        try:
            _enter(told)
        except Exception as error:
            return Reply(fault=Fault.of(error)).model_dump_json()
        return Reply(value=os.getpid()).model_dump_json()

    async def open(self, plan: str) -> str:
        """Make the models; say how many items may be under way."""
        told = Plan.model_validate_json(plan)
        try:
            module, name = told.recipe
            recipe: Recipe[Any, Any] = getattr(importlib.import_module(module), name)
            self._item, self._row = kinds(recipe)
            self._stage = told.stage
            with on_behalf_of(told.stage), adapters.shared_by(told.workers):
                self._crew = await asyncio.to_thread(
                    recipe, Path(told.root), told.params, **told.axes
                )
        except Exception as error:
            return Reply(fault=Fault.of(error)).model_dump_json()
        return Reply(value=self._crew.at_once).model_dump_json()

    async def work(self, item: str) -> str:
        """Work on one item."""
        crew = self._crew
        assert crew is not None
        try:
            with on_behalf_of(self._stage):
                row = await crew.work(self._item.validate_json(item))
            reply = Reply(value=self._row.dump_json(row).decode())
        except Exception as error:
            reply = Reply(fault=Fault.of(error))
        reply.counts = crew.calls.take_counts().as_json()
        return reply.model_dump_json()


def _enter(plan: Plan) -> None:
    """Be where the stage is: its folder, its settings; see its files and its locks."""
    remedy = "Workers need the workspace and EDCT_STORE at the same paths: on a shared file system."
    where = f"worker on {os.uname().nodename}"
    try:
        os.chdir(plan.workspace)
    except OSError as error:
        raise UserError(where, f"{plan.workspace}: {error.strerror}", remedy) from None
    for path in plan.probes:
        try:
            handle = os.open(path, os.O_RDWR)
        except OSError as error:
            what = f"does not see the stage's file {path} ({error.strerror})"
            raise UserError(where, what, remedy) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        finally:
            os.close(handle)
        raise UserError(
            where,
            f"{Path(path).parent} does not carry locks from machine to machine",
            "Mount it so that flock holds everywhere (NFS 4; Lustre: -o flock).",
        )
    _set(plan.environment)


def _set(environment: Mapping[str, str]) -> None:
    for name in ENVIRONMENT:
        os.environ.pop(name, None)
    os.environ.update(environment)
