"""The whole study with every role over HTTP, under faults: it ends complete, and the books balance.

Shipped YAML files of real providers, only their addresses moved to loopback. The segmenter has no
HTTP form (GrabCut stays). `make soak-http` (EDCT_SOAK=300) runs it at the size of the paper's
study, and then with boxes from a vision-language model.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from stages.models.replies import read_grade, read_verdict
from stages.models.store import Store, Stored
from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.attempt import Attempt
from stages.records.base import Record, Status
from stages.records.concept import ConceptList
from stages.records.instruction import InstructionChain
from stages.records.judgement import Judgement
from stages.records.score import Intervention
from stages.records.usage import CallNote
from stages.workflow.tally import CALL_FAILURES
from tests.faults import book
from tests.models.wire.loopback import KEY
from tests.pipeline.conftest import Outcome, Workspace, fresh
from tests.pipeline.faults import PAID, Plan
from tests.pipeline.providers import MODELS, Entry, Providers, digest

pytestmark = pytest.mark.pipeline
SOAK = "EDCT_SOAK" in os.environ
SAMPLES = int(os.environ.get("EDCT_SOAK", "24"))
soak = pytest.mark.skipif(not SOAK, reason="part of `make soak-http`")
KEYS = ("OPENROUTER_API_KEY", "BFL_API_KEY", "MOONDREAM_API_KEY")
TARGET, EXTRACTOR, JUDGE = "qwen3_vl_8b", "gpt_5_2", "qwen3_235b_a22b"
EDITORS = ("flux_2_pro", "gemini_3_pro_image")
TIMEOUT_S = 30.0 if SOAK else 10.0
PATIENCE = {"tries": 8, "total_s": 120, "first_wait_s": 0.02, "max_wait_s": 0.5}
ROLES = ("target", "extractor", "detector", "editor", "judge")


def study(url: str, detector: str) -> dict[str, Any]:
    """The study: which YAML files, and what is other than in them."""
    here = {"timeout_s": TIMEOUT_S, "patience": PATIENCE}
    # Few at once, so that no answer is late because this machine is at work on many others.
    v1 = {"base_url": f"{url}/v1", "concurrency": 4, **here}
    return {
        "defaults": [
            {"override /target": [TARGET]},
            {"override /extractor": [EXTRACTOR]},
            {"override /editor": list(EDITORS)},
            {"override /detector": detector},
            {"override /judge": [JUDGE]},
        ],
        "study": "soak",
        "targets": {TARGET: v1},
        "extractors": {EXTRACTOR: v1},
        "judges": {JUDGE: v1},
        "editors": {
            EDITORS[0]: {"base_url": url, "poll_s": 0.1, **here},
            EDITORS[1]: v1,
        },
        "detector": {"chat": v1} if detector == "qwen3_vl_boxes" else v1,
        "benchmarks": {"demo": {"samples": SAMPLES}},
        "report": {"gallery": 2, "panels": 1, "examples": 1},
        "score": {"resamples": 500},
    }


@dataclass(frozen=True)
class Run:
    """A finished run, and what the providers know of it."""

    workspace: Workspace
    providers: Providers
    first: Outcome
    """Until the account was empty."""
    second: Outcome
    """From there to the end."""

    @property
    def keys(self) -> dict[str, str]:
        return dict.fromkeys(KEYS, KEY)

    @property
    def store(self) -> Store:
        return Store(self.workspace.root / ".store")

    def rows(self, stage: str, name: str, model: type[Any]) -> Iterator[tuple[str, Any]]:
        """All records of a stage, each with its cell's folder."""
        for folder in sorted((self.workspace.root / "data" / stage).glob("*/")):
            for row in jsonl.read(folder / f"{name}.jsonl", model):
                yield folder.name, row

    @property
    def logged(self) -> list[Entry]:
        return self.providers.log


@pytest.fixture(scope="module")
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    plan = Plan(seed=1)
    with Providers(plan, timeout_s=TIMEOUT_S, broke_after=SAMPLES // 2) as providers:
        workspace = fresh(tmp_path_factory.mktemp("http") / "edct")
        workspace.timeout_s = 3600
        for name, detector in (("soak", "moondream_cloud"), ("boxes", "qwen3_vl_boxes")):
            text = "# @package _global_\n" + yaml.safe_dump(study(providers.url, detector))
            (workspace.root / "conf" / "study" / f"{name}.yaml").write_text(text)
        workspace.run("python", "-m", "stages.workflow.compose", "study=soak")
        keys = dict.fromkeys(KEYS, KEY)
        first = workspace.repro(fails=True, **keys)
        providers.refill()
        second = workspace.repro(**keys)
        made = Run(workspace, providers, first, second)
        told = figures(made) if SOAK else {}  # now: a test below runs a second study
        if SOAK:
            print(json.dumps(told, indent=1))
        failed = request.session.testsfailed
        yield made
        if SOAK and request.session.testsfailed == failed:
            book.rehearsed(told)


def figures(run: Run) -> dict[str, Any]:
    """What a run under faults is reported by."""
    log = run.logged
    faulty = [entry for entry in log if entry.fault is not None]
    lost = Counter(
        f"{stage}: {status}" for stage, status, _ in failures(run) if status in CALL_FAILURES
    )
    scored = [row for row in interventions(run) if row.status is Status.OK]
    charged = Counter(e.request for e in log if e.family in PAID and e.charged)
    return {
        "samples": SAMPLES,
        "requests": len(log),
        "requests by role": Counter(entry.role for entry in log),
        "faults": len(faulty),
        "share of requests": round(len(faulty) / len(log), 4),
        "faults by kind": dict(run.providers.met().most_common()),
        "passing (asked again)": sum(not entry.final for entry in faulty),
        "final": sum(entry.final for entry in faulty),
        "states of tasks": run.providers.states,
        "records lost by status": lost,
        "interventions": len(list(interventions(run))),
        "scored": len(scored),
        "replies in the store": len(list(run.store.keys())),
        "charged edits": sum(e.charged for e in log if e.family in PAID),
        "paid requests billed twice": sum(n > 1 for n in charged.values()),
    }


# --- reading the books ---------------------------------------------------------------------------


def interventions(run: Run) -> list[Intervention]:
    return jsonl.read(run.workspace.root / "data/score/interventions.jsonl", Intervention)


def failures(run: Run) -> Iterator[tuple[str, Status, str | None]]:
    """Every way in which a record says that a call gave nothing: stage, status and reason."""
    kinds: list[tuple[str, str, type[Record]]] = [
        ("baseline", "answers", Answer),
        ("concepts", "concepts", ConceptList),
        ("instructions", "instructions", InstructionChain),
        ("edit", "attempts", Attempt),
        ("requery", "answers", Answer),
        ("judge", "judgements", Judgement),
    ]
    for stage, name, model in kinds:
        for _, row in run.rows(stage, name, model):
            yield stage, row.status, row.reason
            if isinstance(row, Judgement):
                yield stage, row.graded_status, row.graded_reason


def stored(run: Run) -> dict[str, tuple[str, Stored]]:
    """All replies of models over HTTP: role and reply by key."""
    found = {}
    for key in list(run.store.keys()):
        path = run.store.root / "replies" / key[:2] / f"{key}.json"
        request = json.loads(path.read_bytes())["request"]
        kind = request["kind"]
        role = MODELS[request["model"]["model"]] if kind == "chat" else kind
        role = {"edit": "editor", "detect": "detector"}.get(role, role)
        if role in ROLES:
            reply = run.store.get(key)
            assert reply is not None
            found[key] = (role, reply)
    return found


STAGE_ROLES = {
    "target": ("baseline", "requery"),
    "extractor": ("concepts", "instructions"),
    "editor and detector": ("edit",),
    "judge": ("judge",),
}


# --- what must hold ------------------------------------------------------------------------------


def test_it_ends_complete_after_the_account_was_filled(run: Run) -> None:
    line = next(line for line in run.first.text.splitlines() if "wants payment" in line)
    assert re.match(r"judge \S+: ", line)
    assert "Traceback" not in run.first.text + run.second.text
    assert run.first.stages | run.second.stages >= {
        "plan", "prepare", "baseline", "concepts", "instructions", "edit", "requery", "judge",
        "score", "report",
    }  # fmt: skip
    assert not run.second.stages & {"prepare", "baseline", "concepts", "instructions", "edit"}
    assert (run.workspace.root / "reports" / "index.html").stat().st_size > 10_000


def test_a_tenth_of_all_requests_met_a_fault_and_every_kind_was_met(run: Run) -> None:
    faulty = sum(entry.fault is not None for entry in run.logged)
    assert 0.07 < faulty / len(run.logged) < 0.13
    assert {"Reasoning", "Generating", "Dreaming", "Ready"} <= set(run.providers.states)
    assert len(run.providers.met()) > 12
    if SAMPLES >= 300:
        assert run.providers.missing() == set()


def test_the_log_is_the_store_and_the_faults(run: Run) -> None:
    kept = Counter[str]()
    for role, reply in stored(run).values():
        # A reply that could not be read was followed by one repair request.
        kept[role] += 1 + len(reply.reply.get("unread", ()))
    late = max(entry.seconds for entry in run.logged if entry.good)
    assert late < 0.8 * TIMEOUT_S, "this machine is too busy: a good answer came too late to count"
    for role in ROLES:
        entries = [entry for entry in run.logged if entry.role == role]
        good = sum(entry.good for entry in entries)
        faulty = sum(entry.fault is not None for entry in entries)
        assert good == kept[role], role
        assert len(entries) == kept[role] + faulty, role
    images = sum(entry.role == "download" and entry.good for entry in run.logged)
    submitted = sum(entry.family == "submit" and entry.good for entry in run.logged)
    assert images == submitted > 0


def test_no_paid_call_is_made_twice(run: Run) -> None:
    answered, charged = Counter[str](), Counter[str]()
    for entry in run.logged:
        if entry.family in PAID:
            answered[entry.request] += entry.good
            charged[entry.request] += entry.charged
    assert max(charged.values()) == max(answered.values()) == 1
    edits = sum(role == "editor" for role, _ in stored(run).values())
    lost = sum(e.charged and not e.good for e in run.logged if e.family in PAID)
    assert sum(answered.values()) == edits
    assert sum(charged.values()) == edits + lost


def test_every_fault_that_was_final_is_on_a_record(run: Run) -> None:
    lost = Counter[str]()
    for stage, status, reason in failures(run):
        if status is not Status.OK:
            assert reason, (stage, status)
            assert "\n" not in reason
        lost[stage] += status in CALL_FAILURES
    last = {"judge": run.providers.epoch}  # what failed before the account was filled ran again
    for role, stages in STAGE_ROLES.items():
        final = sum(
            entry.final and entry.role in role and entry.epoch == last.get(role, entry.epoch)
            for entry in run.logged
        )
        assert final == sum(lost[stage] for stage in stages), role
    assert lost.total() > 0


def test_nothing_is_scored_that_was_not_answered(run: Run) -> None:
    replies, said = stored(run), run.providers.said
    before = {row.sample_id: row for _, row in run.rows("baseline", "answers", Answer)}
    chains = {
        row.sample_id: row for _, row in run.rows("instructions", "instructions", InstructionChain)
    }
    lists = {row.sample_id: row for _, row in run.rows("concepts", "concepts", ConceptList)}
    after = {(c, r.sample_id, r.position): r for c, r in run.rows("requery", "answers", Answer)}
    accepted = {
        (cell, row.sample_id, row.position): row
        for cell, row in run.rows("edit", "attempts", Attempt)
        if row.status is Status.OK
    }
    ruled = {
        (cell, row.sample_id, row.position): row
        for cell, row in run.rows("judge", "judgements", Judgement)
    }

    def asked(row: Any, *roles: str) -> list[str]:
        assert row.status is Status.OK
        assert Counter(note.role for note in row.calls if note.role in ROLES) == Counter(roles)
        return _texts(row.calls)

    def _texts(notes: Iterable[CallNote]) -> list[str]:
        texts = []
        for note in notes:
            if note.role in ROLES:
                role, reply = replies[note.key]
                assert role == note.role
                if "text" in reply.reply:
                    texts.append(str(reply.reply["text"]))
                    assert digest(texts[-1]) in said
        return texts

    scored = [row for row in interventions(run) if row.ccs_binary is not None]
    assert len(scored) == sum(row.status is Status.OK for row in ruled.values()) > SAMPLES
    for row in scored:
        assert row.status is Status.OK
        cell = f"{row.cell.target}-{row.cell.extractor}-{row.cell.editor}-{row.cell.seed}"
        whole = f"{cell.removesuffix('-0')}-{row.cell.judge}-0"
        place = (row.sample_id, row.position)
        first, second = before[row.sample_id], after[cell, *place]
        assert asked(first, "target", "target") == [first.answer, first.explanation]
        assert asked(second, "target", "target") == [second.answer, second.explanation]
        asked(lists[row.sample_id], "extractor")
        steps = chains[row.sample_id].steps
        asked(chains[row.sample_id], "extractor", *["extractor"] * len(steps))
        edit = accepted[cell, *place]
        asked(edit, "detector", "editor")
        assert second.image == edit.edited
        verdict = ruled[whole, *place]
        graded = verdict.graded_status is Status.OK
        texts = asked(verdict, "judge", *["judge"] * graded)
        found = read_verdict(texts[0])
        assert (row.ac, row.ef) == (found.answer_consistent, found.explanation_faithful)
        assert row.ccs_binary == found.answer_consistent * found.explanation_faithful
        assert row.ccs_graded == ((read_grade(texts[1]).grade - 1) / 4 if graded else None)


def test_the_keys_are_in_no_file_and_no_line(run: Run) -> None:
    assert KEY not in run.first.text + run.second.text
    assert "[key]" in "".join(reason or "" for _, _, reason in failures(run))
    files = [path for path in run.workspace.root.rglob("*") if path.is_file()]
    assert {"dvc.lock", "params.yaml", "metrics.json", "index.html", "answers.jsonl"} <= {
        path.name for path in files
    }
    assert [str(path) for path in files if KEY.encode() in path.read_bytes()] == []


@soak
def test_boxes_may_come_from_a_model_that_writes_them(run: Run, tmp_path: Path) -> None:
    there = run.workspace.copy(tmp_path / "edct")
    there.timeout_s = 3600
    there.run("python", "-m", "stages.workflow.compose", "study=boxes")
    seen = len(run.logged)
    cell = ["--target", TARGET, "--extractor", EXTRACTOR, "--editor", EDITORS[1], "--seed", "0"]
    outcome = there.run("python", "-m", "stages.edit", *cell, **run.keys)
    asked = [entry for entry in run.logged[seen:] if entry.role == "detector"]
    assert {entry.family for entry in asked} == {"chat"}
    assert sum(entry.good for entry in asked) == outcome.made["detector"] > SAMPLES
    folder = f"{TARGET}-{EXTRACTOR}-{EDITORS[1]}-0"
    rows = jsonl.read(there.root / "data" / "edit" / folder / "attempts.jsonl", Attempt)
    same = [row for row in rows if row.status is Status.OK]
    moondream = [r for c, r in run.rows("edit", "attempts", Attempt) if c == folder and r.boxes]
    assert len(same) > 0.8 * sum(row.status is Status.OK for row in moondream)
