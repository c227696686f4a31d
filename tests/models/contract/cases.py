"""Every adapter over HTTP: how it is made, called, and answered when all is well."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stages.models.chat.openai_compatible import OpenAICompatible
from stages.models.detector.chat_boxes import ChatBoxes
from stages.models.detector.moondream_http import MoondreamHttp
from stages.models.editor.black_forest_labs import BlackForestLabs
from stages.models.editor.chat_images import ChatImages
from stages.models.editor.http import HttpEditor
from stages.models.editor.openai_images import OpenAIImages
from stages.models.editor.openrouter_images import OpenRouterImages
from stages.models.picture import Picture
from stages.models.protocol import Adapter, Conversation, Turn
from tests.models.wire.loopback import (
    QUICK,
    Act,
    Seen,
    Server,
    bfl_route,
    chat_reply,
    image_reply,
)

SOURCE = Picture.of(np.full((48, 64, 3), 90, np.uint8))
EDITED = Picture.of(np.full((48, 64, 3), 200, np.uint8))
ASKED = Conversation((Turn("user", "What is it?", (SOURCE,)),), max_tokens=64, seed=3)
MODEL = "maker/model-1"


@dataclass(frozen=True)
class Case:
    """One adapter."""

    role: str
    make: Callable[..., Adapter]
    route: Callable[[Server], Callable[[Seen], Act]]
    paid: bool
    key: str | None
    base: str = "/v1"

    def adapter(self, server_url: str, **values: Any) -> Adapter:
        return self.make(server_url + self.base, **{"patience": QUICK, **values})

    async def call(self, adapter: Any) -> Any:
        if self.role == "chat":
            return (await adapter.complete(ASKED)).text
        if self.role == "editor":
            return (await adapter.edit(SOURCE, "Make it brighter.", seed=0, attempt=1)).data
        return [box.x1 for box in (await adapter.detect(SOURCE, "cup")).boxes]

    @property
    def good(self) -> Any:
        return {"chat": "A cup.", "editor": EDITED.png, "detector": [32.0]}[self.role]


def _say(body: Any) -> Callable[[Server], Callable[[Seen], Act]]:
    return lambda server: lambda seen: Act(body)


def _chat(url: str, **values: Any) -> dict[str, Any]:
    return {"model": MODEL, "base_url": url, **values}


BOXES = json.dumps([{"bbox_2d": [0, 0, 500, 1000], "label": "cup"}])
OBJECTS = {
    "request_id": "r-1",
    "objects": [{"x_min": 0.0, "y_min": 0.0, "x_max": 0.5, "y_max": 1.0}],
}
PICTURE = chat_reply(
    "", message={"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]}
)
PICTURE["choices"][0]["message"]["images"][0]["image_url"]["url"] += image_reply(EDITED.png)[
    "data"
][0]["b64_json"]

CASES = {
    "openrouter chat": Case(
        "chat",
        lambda url, **v: OpenAICompatible(**_chat(url, **v)),
        _say(chat_reply("A cup.")),
        paid=False,
        key="OPENROUTER_API_KEY",
    ),
    "keyless chat": Case(
        "chat",
        lambda url, **v: OpenAICompatible(**_chat(url, provider="vllm", api_key_env=None, **v)),
        _say(chat_reply("A cup.", provider=None, usage=None)),
        paid=False,
        key=None,
    ),
    "black forest labs": Case(
        "editor",
        lambda url, **v: BlackForestLabs("flux-2-max", url, poll_s=0.005, **v),
        lambda server: bfl_route(server, EDITED.png),
        paid=True,
        key="BFL_API_KEY",
        base="",
    ),
    "openrouter images": Case(
        "editor",
        lambda url, **v: OpenRouterImages(MODEL, url, **v),
        _say(image_reply(EDITED.png)),
        paid=True,
        key="OPENROUTER_API_KEY",
    ),
    "openai images": Case(
        "editor",
        lambda url, **v: OpenAIImages("gpt-image-2", url, **v),
        _say(image_reply(EDITED.png)),
        paid=True,
        key="OPENAI_API_KEY",
    ),
    "chat images": Case(
        "editor",
        lambda url, **v: ChatImages(_chat(url, **v)),
        _say(PICTURE),
        paid=True,
        key="OPENROUTER_API_KEY",
    ),
    "http editor": Case(
        "editor",
        lambda url, **v: HttpEditor(
            url,
            "own",
            {"prompt": "{instruction}", "image": "{image}", "seed": "{seed}"},
            image_at="data.0.b64_json",
            api_key_env="OPENAI_API_KEY",
            headers={"Authorization": "Bearer {key}"},
            **v,
        ),
        _say(image_reply(EDITED.png)),
        paid=True,
        key="OPENAI_API_KEY",
    ),
    "moondream cloud": Case(
        "detector",
        lambda url, **v: MoondreamHttp(url, **v),
        _say(OBJECTS),
        paid=False,
        key="MOONDREAM_API_KEY",
    ),
    "moondream station": Case(
        "detector",
        lambda url, **v: MoondreamHttp(url, None, **v),
        _say(OBJECTS),
        paid=False,
        key=None,
    ),
    "chat boxes": Case(
        "detector",
        lambda url, **v: ChatBoxes(_chat(url, **v), "Find every {phrase}."),
        _say(chat_reply(f"```json\n{BOXES}\n```")),
        paid=False,
        key="OPENROUTER_API_KEY",
    ),
}
