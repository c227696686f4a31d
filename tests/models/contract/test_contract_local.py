"""What the store and the stages expect of a chat model, asked of those with weights here."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from stages import baseline
from stages.models.calls import Calls
from stages.models.chat.transformers_chat import TransformersChat
from stages.models.picture import Picture
from stages.models.protocol import CallError, Chat, Conversation, Turn
from stages.models.store import Store
from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.sample import Sample
from stages.workflow import adapters

pytestmark = pytest.mark.local
ROOT = Path(__file__).parents[3]
FILES = sorted(
    path
    for path in (ROOT / "conf").glob("*/*.yaml")
    if "models.chat.transformers_" in str((yaml.safe_load(path.read_text()) or {}).get("_target_"))
)
PICTURE = Picture.of(np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8))


def built(kind: str, folder: Path, **values: Any) -> TransformersChat:
    name = {"vlm": "TransformersVlm", "llm": "TransformersLlm"}[kind]
    target = f"stages.models.chat.transformers_{kind}.{name}"
    config = {"_target_": target, "model": str(folder), "device": "cpu", **values}
    made = adapters.build({"targets": {"own": config}}, "targets.own", Chat)
    assert isinstance(made, TransformersChat)
    return made


@pytest.fixture(params=["qwen3_vl", "llava", "causal_lm"])
def model(request: pytest.FixtureRequest) -> TransformersChat:
    folder = request.getfixturevalue(f"tiny_{request.param}")
    return built("llm" if request.param == "causal_lm" else "vlm", folder)


def asked(model: TransformersChat, words: str = "what is it ?") -> Conversation:
    shown = () if model.auto_class == "AutoModelForCausalLM" else (PICTURE,)
    return Conversation((Turn("user", words, shown),), max_tokens=64)


WORDS = ("what is it ?", "why ?", "is there a car ?", "count the red ball", "a", "see")


async def through(store: Store, model: TransformersChat, words: Sequence[str] = WORDS) -> Any:
    calls = Calls(store)
    rows = (calls.chat("target", model, asked(model, each), read=str) for each in words)
    done = await asyncio.gather(*rows, return_exceptions=True)
    return calls, [row if isinstance(row, Exception) else row.value.text for row in done]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_fits_its_adapter_pins_by_comment_and_trusts_no_code(path: Path) -> None:
    values = yaml.safe_load(path.read_text())
    group = path.parent.name
    one = group in ("detector", "segmenter", "verifier")  # of which a study has one
    key = group if one else f"{group}s.{path.stem}"
    assert path.read_text().startswith(f"# @package {key}\n")
    params = {group: values} if one else {f"{group}s": {path.stem: values}}
    built = adapters.build(params, key, Chat)
    assert isinstance(built, TransformersChat)
    assert built.checkpoint.trust_remote_code is False
    assert "pin it" in path.read_text()


def test_an_identity_is_json_without_a_path(model: TransformersChat) -> None:
    text = json.dumps(model.identity())
    assert model.checkpoint.model not in text
    assert "tmp" not in text


def test_one_adapter_serves_several_event_loops(model: TransformersChat) -> None:
    async def ask() -> list[Any]:
        return await asyncio.gather(model.complete(asked(model)), return_exceptions=True)

    first, second = asyncio.run(ask()), asyncio.run(ask())
    assert str(first) == str(second)


def test_good_replies_are_kept_others_are_not_and_a_replay_loads_no_weights(
    model: TransformersChat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, first = asyncio.run(through(Store(tmp_path), model))
    good = [reply for reply in first if isinstance(reply, str)]
    assert good
    assert all(isinstance(reply, str | CallError) for reply in first)
    assert calls.made["target"] == len(good)
    assert len(list(Store(tmp_path).keys())) == len(good)

    def no_weights(*_: Any) -> Any:
        raise AssertionError("weights were loaded")

    monkeypatch.setattr(TransformersChat, "_copy", no_weights)
    kind = "llm" if model.auto_class == "AutoModelForCausalLM" else "vlm"
    again = built(kind, Path(model.checkpoint.model), batch_size=2)
    calls, replayed = asyncio.run(through(Store(tmp_path, replay=True), again))
    assert [reply for reply in replayed if isinstance(reply, str)] == good
    assert all(isinstance(r, UserError) for r in replayed if not isinstance(r, str))
    assert calls.made["target"] == 0


def test_a_baseline_ends_complete_with_every_loss_on_its_row(
    tiny_qwen3_vl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDCT_STORE", str(tmp_path / "store"))
    (tmp_path / "prompts").symlink_to(ROOT / "prompts")
    image = PICTURE.save(tmp_path / "data/prepare/images")
    samples = [
        Sample(id=f"s{n}", domain="d", image=image, width=64, height=48, question=words)
        for n, words in enumerate(WORDS)
    ]
    jsonl.write(tmp_path / "data/prepare/samples.jsonl", samples)
    target = "stages.models.chat.transformers_vlm.TransformersVlm"
    params = {
        "targets": {"own": {"_target_": target, "model": str(tiny_qwen3_vl), "device": "cpu"}},
        "prompts": "default",
        "generation": {"max_tokens": 64, "graded_max_tokens": 64},
        "limits": {"max_failed_share": 1.0},
    }
    baseline.run(tmp_path, params, target="own", seed="0")
    rows = jsonl.read(tmp_path / "data/baseline/own-0/answers.jsonl", Answer)
    assert len(rows) == len(WORDS)
    for row in rows:
        assert (row.status is Status.OK) == (row.explanation is not None) == (not row.reason)
    text = (tmp_path / "data/baseline/own-0/answers.jsonl").read_text()
    assert str(tiny_qwen3_vl) not in text
