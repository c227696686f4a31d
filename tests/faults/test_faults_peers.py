"""The faults on which other harnesses lose calls or invent scores, at their size and larger.

A baseline of 150 samples, two calls each, at 32 calls at once; every good answer is the same, so
that whatever a fault turns into shows. docs/faults.md has the peers' figures beside these.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from stages.models.replies import Unparsed, read_grade, read_verdict
from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.base import Status
from stages.records.sample import Sample
from stages.workflow.tally import CALL_FAILURES
from tests.faults import book
from tests.models.contract.cases import MODEL, SOURCE
from tests.models.wire.loopback import KEY, Act, Seen, Server, chat_reply

ROOT = Path(__file__).parents[2]
SAMPLES = 150 if book.LONG else 30
OUTPUT = "data/baseline/served-0/answers.jsonl"
PATIENCE = {"tries": 4, "total_s": 2.0, "first_wait_s": 0.01, "max_wait_s": 0.1}


class Peer(Server):
    """Answers every question alike, after a while, with faults by the question's number."""

    def __init__(self, faults: dict[int, Act], *, sticky: bool, delay_s: float = 0.0) -> None:
        super().__init__()
        self._http.socket.listen(256)
        self.faults, self.sticky, self.delay_s = faults, sticky, delay_s
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.route = self.reply
        self.reached = threading.Event()
        self.mark = 10**9

    def reply(self, seen: Seen) -> Act:
        """Called under the server's lock."""
        text = json.dumps(seen.json["messages"])
        self.asked[text] += 1
        number = int(text.split("number ")[1].split("?")[0])
        fault = self.faults.get(number % 20)
        if fault is not None and (self.sticky or self.asked[text] == 1):
            return fault
        self.answered[text] += 1
        if self.answered.total() == self.mark:
            self.reached.set()
        return Act(chat_reply("ok"), delay_s=self.delay_s)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "prompts", tmp_path / "prompts")
    (tmp_path / "conf").symlink_to(ROOT / "conf")
    image = SOURCE.save(tmp_path / "data/prepare/images")
    samples = [
        Sample(id=f"s-{n}", domain="d", image=image, width=64, height=48, question=f"number {n}?")
        for n in range(SAMPLES)
    ]
    jsonl.write(tmp_path / "data/prepare/samples.jsonl", samples)
    return tmp_path


def start(root: Path, server: Server) -> "subprocess.Popen[str]":
    target = {
        "_target_": "stages.models.chat.openai_compatible.OpenAICompatible",
        "model": MODEL,
        "base_url": server.url,
        "patience": PATIENCE,
        "concurrency": 32,
    }
    params = {
        "study": "peers",
        "targets": {"served": target},
        "prompts": "default",
        "generation": {"max_tokens": 64, "graded_max_tokens": 64},
        "limits": {"max_failed_share": 1.0},
    }
    (root / "params.yaml").write_text(yaml.safe_dump(params))
    return subprocess.Popen(
        [sys.executable, "-m", "stages.baseline", "--target", "served", "--seed", "0"],
        cwd=root,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "EDCT_STORE": str(root / "store"),
            "OPENROUTER_API_KEY": KEY,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(root: Path, server: Server) -> list[Answer]:
    running = start(root, server)
    said = running.communicate(timeout=300)[0]
    assert running.returncode == 0, said
    return jsonl.read(root / OUTPUT, Answer)


def test_killed_at_half_no_finished_call_is_made_again(root: Path) -> None:
    with Peer({}, sticky=False, delay_s=0.05) as server:
        server.mark = SAMPLES
        running = start(root, server)
        assert server.reached.wait(120)
        running.send_signal(signal.SIGKILL)
        running.communicate()
        time.sleep(0.2)
        stored = len(list((root / "store").glob("replies/*/*.json")))
        before = server.asked.copy()
        answers = run(root, server)
        again = {text: n for text, n in server.asked.items() if text in before and n > before[text]}
    assert [answer.status for answer in answers] == [Status.OK] * SAMPLES
    assert len(list((root / "store").glob("replies/*/*.json"))) == 2 * SAMPLES
    # Whatever was stored is not asked for again; what was under way at the kill is.
    assert (server.asked - before).total() == 2 * SAMPLES - stored
    assert len(again) <= 32
    book.beside(
        f"SIGKILL at {SAMPLES} of {2 * SAMPLES} calls: finished ones made again",
        "1 to 18; 85 to 125 with five calls a sample",
        "154 to 160, all of them",
        f"stored ones: 0; under way at the kill: {len(again)}",
    )


def test_killed_after_the_last_answer_no_stored_call_is_made_again(root: Path) -> None:
    """All is answered, and the stage has not written its output yet: the worst moment."""
    with Peer({}, sticky=False, delay_s=0.05) as server:
        server.mark = 2 * SAMPLES
        running = start(root, server)
        assert server.reached.wait(120)
        running.send_signal(signal.SIGKILL)
        running.communicate()
        stored = len(list((root / "store").glob("replies/*/*.json")))
        before = server.asked.total()
        assert not (root / OUTPUT).exists() or stored == 2 * SAMPLES
        answers = run(root, server)
        again = server.asked.total() - before
    assert [answer.status for answer in answers] == [Status.OK] * SAMPLES
    assert again == 2 * SAMPLES - stored <= 32
    book.beside(
        f"SIGKILL after all {2 * SAMPLES} answers, before the output",
        "not measured",
        "all; 199 of 300 with its run id fixed by hand",
        f"stored ones: 0; under way at the kill: {again}",
    )


def stored_texts(root: Path) -> list[str]:
    files = (root / "store").glob("replies/*/*.json")
    return [json.loads(path.read_bytes())["reply"]["text"] for path in files]


ERROR = {"error": {"message": "upstream failed", "code": 502}}
MIX = {
    3: Act(ERROR), 8: Act(ERROR),
    5: Act(chat_reply(None, finish="length")), 11: Act(chat_reply(None, finish="length")),
    13: Act({"error": {"message": "slow down", "code": 429}}, 429, {"retry-after": "0"}),
    17: Act({"error": {"message": "slow down", "code": 429}}, 429, {"retry-after": "0"}),
    19: Act(drop="before"),
}  # fmt: skip


FAULTS = "200 with an error, null at the token limit, 429, dropped"
THERE = {
    "mixed": (
        ("stops at the first; 0.76 to 0.86 when told to go on", "0.857, without a warning"),
        ("0.877: 37 bad replies replayed", "all asked again: its cache never hits"),
    ),
    "sticky": (
        ("0.867; stuck at 166 of 300 by default", "0.650, without a warning"),
        ("0.900: 30 bad replies replayed", "0.650 to 0.750: 75 to 105 bad replies replayed"),
    ),
}


@pytest.mark.parametrize("sticky", [False, True], ids=["mixed", "sticky"])
def test_faults_are_rows_with_a_reason_and_never_a_score_or_a_stored_reply(
    root: Path, sticky: bool
) -> None:
    with Peer(MIX, sticky=sticky) as server:
        answers = run(root, server)
        texts = stored_texts(root)
        # The same server, well again: what was lost is asked for, and nothing else.
        server.faults, before = {}, server.asked.total()
        again = run(root, server)
        asked = server.asked.total() - before
    lost = [answer for answer in answers if answer.status is not Status.OK]
    kept = [answer for answer in answers if answer.status is Status.OK]
    assert all((one.answer, one.explanation) == ("ok", "ok") for one in kept)
    for one in lost:
        assert one.status in CALL_FAILURES
        assert one.reason
        assert one.explanation is None
    assert set(texts) == {"ok"}
    bad = [n for n in range(SAMPLES) if n % 20 in (MIX if sticky else (5, 11))]
    assert len(lost) == len(bad)
    assert [one.status for one in again] == [Status.OK] * SAMPLES
    assert asked == 2 * SAMPLES - len(texts)
    kind = "sticky" if sticky else "mixed"
    here = f"{len(kept)} of {SAMPLES} right, {len(lost)} missing with a reason, 0 wrong"
    book.beside(f"{FAULTS}, {kind}: score where 1.000 is true", *THERE[kind][0], here)
    here = f"all {SAMPLES} right; bad replies replayed: 0 of {len(texts)} stored"
    book.beside(f"the run after {kind} faults, on a healthy server", *THERE[kind][1], here)


REPLIES = {
    "no grade": "I find the answer convincing.",
    "another grade": '{"reason": "r", "grade": "X"}',
    "nothing": "",
    "an error code": "I cannot grade this (error 401)",
    "out of range": '{"reason": "r", "grade": 10, "answer_consistent": 2}',
    "half": '{"reason": "r", "grade": 4',
    "two, the last is broken": '{"reason": "r", "grade": 4} no, {"reason": "r", "grade": }',
}


unread: set[str] = set()


@pytest.mark.parametrize("name", REPLIES)
def test_a_judges_reply_that_can_not_be_read_scores_nothing(name: str) -> None:
    readers: tuple[Any, ...] = (read_grade, read_verdict)
    for read in readers:
        with pytest.raises(Unparsed):
            read(REPLIES[name])
    unread.add(name)
    book.beside(
        "a judge's reply that can't be read: no grade, a grade out of range, nothing, half of one",
        "NaN, left out; its summary does not say how many",
        '0, the least; "error 401" scores 10',
        f"{len(unread)} of {len(REPLIES)}: no score, `unparsed`",
    )
