"""One small call a role, to see that a model does what the role needs: sees, writes, draws, finds.

Its reply goes into no store. It is paid for like any other, so it is in the ledger.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import numpy as np

from stages.imaging import codec
from stages.models.picture import Picture
from stages.models.protocol import (
    CallError,
    Chat,
    Conversation,
    Detector,
    Editor,
    Finding,
    Segmenter,
    Turn,
)
from stages.records.attempt import Box
from stages.records.base import Status
from stages.records.errors import UserError

SIDE = 512
"""Side of the picture that is sent, in pixels."""
MAX_TOKENS = 512
WAIT_S = 180.0
"""Seconds after which a probe is given up."""
SCHEMA: Mapping[str, Any] = {
    "title": "ready",
    "type": "object",
    "properties": {"ready": {"type": "boolean"}},
    "required": ["ready"],
    "additionalProperties": False,
}


def picture() -> Picture:
    """A red square on grey, ``(512, 512, 3)`` RGB."""
    pixels = np.full((SIDE, SIDE, 3), 200, np.uint8)
    pixels[SIDE // 4 : SIDE // 2, SIDE // 4 : SIDE // 2] = (200, 30, 30)
    return Picture.of(pixels)


async def _sees(model: Chat) -> str:
    turn = Turn("user", "Which colour has the square? One word.", (picture(),))
    reply = await model.complete(Conversation((turn,), max_tokens=MAX_TOKENS))
    return f"answers about an image ({_short(reply.text)})"


async def _compares(model: Chat) -> str:
    turn = Turn("user", "Are these two images equal? One word.", (picture(), picture()))
    reply = await model.complete(Conversation((turn,), max_tokens=MAX_TOKENS))
    return f"answers about two images ({_short(reply.text)})"


async def _writes(model: Chat) -> str:
    turn = Turn("user", 'Reply with the JSON object {"ready": true} and nothing else.')
    asked = Conversation((turn,), max_tokens=MAX_TOKENS, reply_schema=SCHEMA)
    return f"answers ({_short((await model.complete(asked)).text)})"


async def _draws(model: Editor) -> str:
    edited = await model.edit(picture(), "Make the red square blue.", seed=0, attempt=1)
    height, width = codec.decode(edited.data).shape[:2]
    return f"returns an image of {width}×{height}"


async def _finds(model: Detector) -> str:
    found = await model.detect(picture(), "red square")
    return f"answers with {len(found.boxes)} boxes"


async def _cuts_out(model: Segmenter) -> str:
    found = await model.segment(picture(), (Box(x0=96.0, y0=96.0, x1=288.0, y1=288.0),))
    return f"answers with a mask of {found.mask.mean():.0%}"


PROBES: Mapping[str, Callable[[Any], Awaitable[str]]] = {
    "target": _sees,
    "verifier": _compares,
    "extractor": _writes,
    "judge": _writes,
    "editor": _draws,
    "detector": _finds,
    "segmenter": _cuts_out,
}
"""Role → a call, which says what came of it."""


async def probe(role: str, model: Any) -> tuple[Finding, str]:
    """Make the call; returns what came of it, and how it ended as the ledger says it."""
    try:
        async with asyncio.timeout(WAIT_S):
            return Finding("ok", await PROBES[role](model)), "ok"
    except CallError as error:
        if error.status is Status.TRUNCATED:
            return Finding("ok", f"answers, beyond {MAX_TOKENS} tokens"), str(error.status)
        wrong = Finding(
            "wrong", f"a call fails: {error.reason}", "Mend its YAML, or choose another."
        )
        return wrong, str(error.status)
    except UserError as error:
        return Finding("wrong", f"{error.where}: {error.what}", error.remedy), "stopped"
    except codec.ImageError as error:
        return Finding("wrong", f"returns no image ({error})", "Choose another."), "api_error"
    except TimeoutError:
        return Finding("wrong", f"gives no answer in {WAIT_S:g} s", "Try again later."), "stopped"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 30 else f"{words[:29]}…"
