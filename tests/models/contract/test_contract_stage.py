"""A stage with its model over HTTP: what it leaves on the disk, and how it ends."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from stages import baseline
from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.sample import Sample
from stages.workflow import runner
from tests.models.contract.cases import MODEL, SOURCE
from tests.models.contract.test_contract_run import FINAL, FREE, Faulty
from tests.models.wire.loopback import KEY, QUICK, Act, Server, chat_reply

PROMPTS = Path(__file__).parents[3] / "prompts"
OUTPUT = "data/baseline/served-0/answers.jsonl"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("EDCT_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(PROMPTS, tmp_path / "prompts")
    image = SOURCE.save(tmp_path / "data/prepare/images")
    samples = [
        Sample(id=f"s-{n}", domain="d", image=image, width=64, height=48, question=f"q{n}?")
        for n in range(40)
    ]
    jsonl.write(tmp_path / "data/prepare/samples.jsonl", samples)
    return tmp_path


def params(server: Server, **values: Any) -> dict[str, Any]:
    target = {
        "_target_": "stages.models.chat.openai_compatible.OpenAICompatible",
        "model": MODEL,
        "base_url": server.url,
        "patience": {**QUICK, "tries": 8},
        **values,
    }
    return {
        "targets": {"served": target},
        "prompts": "default",
        "generation": {"max_tokens": 64, "graded_max_tokens": 64},
        "limits": {"max_failed_share": 0.5},
    }


def run(root: Path, server: Server, **values: Any) -> list[Answer]:
    baseline.run(root, params(server, **values), target="served", seed="0")
    return jsonl.read(root / OUTPUT, Answer)


def everything(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())


def test_a_run_with_faults_ends_complete_and_leaves_the_key_nowhere(
    root: Path, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    server.route = faulty = Faulty(chat_reply("Yes."), FINAL + FREE)
    answers = run(root, server)
    assert len(answers) == 40
    failed = [answer for answer in answers if answer.status is not Status.OK]
    assert 0 < len(failed) == faulty.met["final"]
    assert all(answer.reason and answer.explanation is None for answer in failed)
    assert all(
        (answer.answer, answer.explanation) == ("Yes.", "Yes.")
        for answer in answers
        if answer.status is Status.OK
    )
    assert KEY.encode() not in everything(root)
    assert KEY not in "".join(capfd.readouterr())


def test_an_outage_in_mid_run_ends_the_stage_and_what_was_answered_stays(
    root: Path, server: Server
) -> None:
    seen: list[int] = []

    def route(_: Any) -> Act:
        seen.append(1)
        return Act({"detail": f"no credit {KEY}"}, 402) if len(seen) > 20 else Act(chat_reply("Y."))

    server.route = route
    with pytest.raises(UserError, match="payment") as caught:
        run(root, server, concurrency=2)
    assert KEY not in str(caught.value)
    assert len(server.seen) <= 22
    assert not (root / OUTPUT).exists()
    server.route = lambda _: Act(chat_reply("Y."))
    before = len(server.seen)
    assert all(answer.status is Status.OK for answer in run(root, server))
    assert len(server.seen) - before == 80 - 20


def test_a_missing_key_is_one_line_and_nothing_is_sent(
    root: Path,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    import yaml

    monkeypatch.delenv("OPENROUTER_API_KEY")
    (root / "params.yaml").write_text(yaml.safe_dump(params(server)))
    monkeypatch.setattr(sys, "argv", ["baseline", "--target", "served", "--seed", "0"])
    with pytest.raises(SystemExit) as caught:
        runner.main("baseline", baseline.run, axes=("target", "seed"))
    assert caught.value.code == 1
    line = capfd.readouterr().err.strip()
    assert "OPENROUTER_API_KEY" in line
    assert "\n" not in line
    assert server.seen == []


def test_a_recorded_run_replays_without_a_key(
    root: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.route = lambda _: Act(chat_reply("Yes."))
    first = run(root, server)
    monkeypatch.delenv("OPENROUTER_API_KEY")
    monkeypatch.setenv("EDCT_REPLAY", "1")
    before = len(server.seen)
    assert run(root, server) == first
    assert len(server.seen) == before
