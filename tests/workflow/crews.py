"""Recipes and a model for the executor's tests, importable by the workers of Ray."""

import asyncio
import hashlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from stages.models.calls import Calls
from stages.models.editor.demo import DemoEditor
from stages.models.picture import Picture
from stages.models.protocol import EditedImage
from stages.models.store import Store
from stages.records.errors import UserError
from stages.workflow.executor import Crew
from stages.workflow.sections import Ray

KEY = "EDCT_TEST_KEY"
SECRET = "sk-4f1c0d5b7a9e2836-of-no-provider"
"""What the cluster's environment holds under KEY."""


def ray_settings(**given: Any) -> Ray:
    """The executor `ray` as small as it gets."""
    values = {"address": None, "workers": 2, "cpus": 1.0, "gpus": 0.0, "deaths": 3}
    return Ray(**{"name": "ray", **values, "start_s": 120.0, "object_store_mb": 80, **given})


class Item(BaseModel):
    """Something to work on."""

    name: str
    does: str = ""
    """What goes wrong with it."""


class Row(BaseModel):
    """What came of it."""

    name: str
    length: int
    share: float
    key: str


def dies() -> None:
    """End this process as the kernel does when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)


def once(path: Path) -> bool:
    """Whether nobody was here before, in any process."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def counting(root: Path, params: Mapping[str, Any], *, case: str) -> Crew[Item, list[Row]]:
    """A crew that measures the length of a name, writes down that it did, and fails as told."""
    if case == "unmade":
        raise UserError("params.yaml: targets.x", "has no key", "export X=…")
    store = Store.open(root)
    calls = Calls(store)
    at_once = 1 if case == "one" else 3

    async def work(item: Item) -> list[Row]:
        def compute() -> tuple[dict[str, Any], bytes]:
            with (root / "computed").open("a", encoding="utf-8") as log:
                log.write(f"{item.name}\n")
            return {"length": len(item.name)}, b""

        measured = await calls.measure({"name": item.name}, compute)
        match item.does:
            case "die":
                dies()
            case "die once" if once(root / "died"):
                dies()
            case "user":
                raise UserError("samples.jsonl:3", "a name is too long", "Shorten it.")
            case "bug":
                raise ZeroDivisionError("division of a name")
        key = hashlib.sha256(os.environ.get(KEY, "").encode()).hexdigest()
        length = int(measured.value[0]["length"])
        return [Row(name=item.name, length=length, share=length / 7, key=key)]

    return Crew(work, at_once, calls)


def sleeping(root: Path, params: Mapping[str, Any]) -> Crew[Item, Row]:
    """A crew that is never done."""

    async def work(item: Item) -> Row:
        (root / "begun").touch()
        await asyncio.sleep(3600)
        raise AssertionError

    return Crew(work, 1, Calls(Store.open(root)))


class DyingEditor(DemoEditor):
    """The demo's editor, in a process that is killed once, after some edits."""

    def __init__(self, died: str, **values: Any) -> None:
        super().__init__(**values)
        self._died, self._edits = Path(died), 0

    async def edit(
        self, picture: Picture, instruction: str, *, seed: int, attempt: int
    ) -> EditedImage:
        """As the demo's."""
        edited = await super().edit(picture, instruction, seed=seed, attempt=attempt)
        self._edits += 1
        if self._edits == 3 and once(self._died):
            replies = Store.open(self._died.parent).root / "replies"
            there = [f"{path} {path.stat().st_ino}" for path in replies.glob("*/*.json")]
            self._died.write_text("\n".join(there), encoding="utf-8")
            dies()
        return edited
