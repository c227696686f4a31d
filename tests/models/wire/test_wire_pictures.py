"""Pictures in requests: whole, made once, and kept no longer than they are shown."""

import asyncio
import base64
import gc
import json
import weakref
from pathlib import Path

import numpy as np
import pytest

from stages.imaging import codec
from stages.models.calls import Calls
from stages.models.chat.openai_compatible import OpenAICompatible
from stages.models.dialogue import Interviewer
from stages.models.picture import Picture
from stages.models.prompt import Prompt
from stages.models.protocol import Completion, Conversation
from stages.models.store import Store
from stages.models.wire import parts
from stages.models.wire.endpoint import CALLS_A_CLIENT, Endpoint
from stages.models.wire.parts import Encoding, Shown, data_url, written
from stages.records.base import Status
from stages.records.sample import Sample

JPEG = Encoding("jpeg", max_side=32)


def picture(seed: int = 0) -> Picture:
    pixels = np.random.default_rng(seed).integers(0, 255, (48, 64, 3))
    return Picture.of(pixels.astype(np.uint8))


@pytest.mark.parametrize("text", ["", 'a "quote" \\ and ü', "\u2028 line", "x" * 40])
def test_a_body_is_the_json_that_a_data_url_would_give(text: str) -> None:
    first, second = picture(0), picture(1)
    body = {"messages": [Shown(first, Encoding()), {"text": text}, Shown(second, JPEG)], "n": 1}
    urls = [data_url(first, Encoding()), data_url(second, JPEG)]
    expected = {"messages": [urls[0], {"text": text}, urls[1]], "n": 1}
    assert json.loads(written(body)) == expected
    assert (
        written({"text": text})
        == json.dumps({"text": text}, ensure_ascii=False, separators=(",", ":")).encode()
    )


def test_what_is_no_json_is_not_written() -> None:
    with pytest.raises(TypeError, match="Path is no JSON"):
        written({"a": Path()})
    with pytest.raises(ValueError, match="Out of range"):
        written({"a": float("nan")})


def test_a_png_is_sent_as_it_is_and_never_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = picture()
    monkeypatch.setattr(codec, "decode", lambda *_, **__: pytest.fail("decoded"))
    assert shown.size == (64, 48)
    assert Encoding(max_side=64).encode(shown) == shown.png
    assert base64.b64encode(shown.png) in Shown(shown, Encoding()).url()


def test_a_picture_is_encoded_once_for_both_turns_and_then_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, made = len(parts._ENCODED), list[object]()
    encode = Encoding._encode
    monkeypatch.setattr(
        Encoding, "_encode", lambda self, shown: made.append(self) or encode(self, shown)
    )
    target = OpenAICompatible(
        "m", "http://127.0.0.1:9/v1", api_key_env=None, images={"format": "jpeg", "max_side": 32}
    )
    sent: list[bytes] = []

    async def complete(conversation: Conversation) -> Completion:
        sent.append(written(target.request(conversation)))
        return Completion("a disc")

    monkeypatch.setattr(target, "complete", complete)
    asked = Prompt("{{question}}", ("question",), "0" * 64)
    why = Prompt("Why?", (), "0" * 64)
    interviewer = Interviewer(Calls(Store(tmp_path)), target, asked, why, 64, 0)
    shown = picture()
    sample = Sample(
        id="s", domain="d", image=shown.sha256, width=64, height=48, question="What is it?"
    )
    row = asyncio.run(interviewer.ask(sample, shown, position=0))
    assert row.status is Status.OK
    assert len(sent) == 2
    assert len(made) == 1
    left = weakref.ref(shown)
    del shown
    gc.collect()
    assert left() is None, "somebody keeps the picture of a sample that is done"
    assert len(parts._ENCODED) <= kept


def test_connections_are_shared_out_among_clients() -> None:
    async def clients(concurrency: int) -> int:
        endpoint = Endpoint(
            provider="p",
            base_url="http://127.0.0.1:9/v1",
            model="m",
            api_key_env=None,
            concurrency=concurrency,
            timeout_s=1,
        )
        return len({id(await endpoint.client()) for _ in range(4 * concurrency)})

    assert asyncio.run(clients(CALLS_A_CLIENT)) == 1
    assert asyncio.run(clients(8 * CALLS_A_CLIENT)) == 8
