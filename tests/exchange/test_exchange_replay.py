"""Back again: an export gives the numbers of its run, and other targets meet its edits."""

import asyncio
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stages.exchange import replay
from stages.exchange.__main__ import main
from stages.exchange.export import export
from stages.models.artefact.layout import EDITS
from stages.models.artefact.reading import Artefact
from stages.models.chat.bench_target import BenchTarget
from stages.models.chat.demo_extractor import DemoExtractor
from stages.models.chat.demo_judge import DemoJudge
from stages.models.chat.demo_target import DemoTarget
from stages.models.chat.demo_verifier import DemoVerifier
from stages.models.detector.demo import DemoDetector
from stages.models.editor.demo import DemoEditor
from stages.models.picture import Picture
from stages.models.protocol import CallError, Completion, Conversation, Turn
from stages.records import jsonl
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.score import Intervention
from tests.exchange.conftest import ROOT, SMALL, Run, composed, fresh, run

SCORES = ("data/score/interventions.jsonl", "data/score/estimates.jsonl")


def importing(folder: Path, root: Path) -> Path:
    """A fresh workspace with an artefact in it, and configuration of its own."""
    fresh(root)
    (root / "conf").unlink()
    shutil.copytree(ROOT / "conf", root / "conf")
    (root / "data" / "recorded").mkdir(parents=True)
    shutil.copytree(folder, root / "data" / "recorded" / "edct_bench")
    return root


def replayed(folder: Path, root: Path, monkeypatch: pytest.MonkeyPatch, *overrides: str) -> Run:
    monkeypatch.chdir(importing(folder, root))
    replay.write_study(Path(), Path("data/recorded/edct_bench"), "replay")
    return run(composed(root, "study=replay", *overrides))


def test_a_replay_gives_the_same_scores_and_calls_no_built_in_model(
    finished: Run,
    exported: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for model, call in (
        (DemoTarget, "complete"),
        (DemoExtractor, "complete"),
        (DemoJudge, "complete"),
        (DemoEditor, "edit"),
        (DemoDetector, "detect"),
    ):
        monkeypatch.setattr(model, call, None)
    again = replayed(exported, tmp_path / "again", monkeypatch)
    for path in SCORES:
        assert again.text(path) == finished.text(path)
    assert "measurement" in capsys.readouterr().out  # verification ran on the imported pairs
    # Pictures, masks and change maps come out bit for bit.
    edit = Path("data/edit/demo_mixture-demo-demo-0/images")
    names = {path.name for path in (again.root / edit).iterdir()}
    assert names == {path.name for path in (finished.root / edit).iterdir()}


def test_a_replay_hears_the_exported_verifier_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDCT_STORE", raising=False)
    clumsy = ("editor=[demo_clumsy]", "verifier=demo", "verify.with_verifier=and")
    made = run(composed(fresh(tmp_path / "made"), *SMALL, *clumsy))
    attempts = "data/edit/demo_mixture-demo-demo_clumsy-0/attempts.jsonl"
    rows = jsonl.read(made.root / attempts, Attempt)
    ruled = [row for row in rows if row.status is Status.REST_CHANGED]
    assert ruled  # the gate let them pass
    assert all(row.gate is Status.OK and row.inspection for row in ruled)
    export(made.root, tmp_path / "bench")
    monkeypatch.setattr(DemoVerifier, "complete", None)
    again = replayed(tmp_path / "bench", tmp_path / "again", monkeypatch)
    assert again.params["verifier"]["_target_"].endswith("BenchVerifier")
    for path in (*SCORES, "data/score/verifier.jsonl", "data/score/sensitivity.jsonl"):
        assert again.text(path) == made.text(path)
    heard = jsonl.read(again.root / attempts, Attempt)
    assert [row.inspection for row in heard] == [row.inspection for row in rows]


def test_a_replay_of_a_judge_that_saw_the_images_is_shown_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDCT_STORE", raising=False)
    made = run(composed(fresh(tmp_path / "made"), *SMALL, "judge.sees_images=true"))
    export(made.root, tmp_path / "bench")
    monkeypatch.setattr(DemoJudge, "complete", None)
    again = replayed(tmp_path / "bench", tmp_path / "again", monkeypatch)
    for path in SCORES:
        assert again.text(path) == made.text(path)
    with pytest.raises(UserError, match="saw the images"):
        replayed(tmp_path / "bench", tmp_path / "blind", monkeypatch, "judge.sees_images=false")


def test_a_judge_that_read_text_alone_is_shown_no_images(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="can't be shown images"):
        replayed(exported, tmp_path / "again", monkeypatch, "judge.sees_images=true")


def test_a_replay_without_rejected_pictures_gives_the_same_scores(
    finished: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(finished.root, tmp_path / "small", accepted_only=True)
    again = replayed(tmp_path / "small", tmp_path / "again", monkeypatch)
    for path in SCORES:
        assert again.text(path) == finished.text(path)


def test_what_failed_fails_again_in_the_same_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run in which something of everything goes wrong keeps its attrition, reasons included."""
    calls: Counter[str] = Counter()

    def failing(model: Any, call: str, every: int, status: Status) -> None:
        real = getattr(model, call)

        async def sometimes(self: Any, *given: Any, **named: Any) -> Any:
            calls[call + model.__name__] += 1
            if calls[call + model.__name__] % every == 0:
                raise CallError(status, f"{model.__name__} failed")
            return await real(self, *given, **named)

        patch.setattr(model, call, sometimes)

    with pytest.MonkeyPatch.context() as patch:
        failing(DemoTarget, "complete", 7, Status.REFUSED)
        failing(DemoExtractor, "complete", 9, Status.UNPARSED)
        failing(DemoDetector, "detect", 5, Status.API_ERROR)
        failing(DemoEditor, "edit", 6, Status.REFUSED)
        failing(DemoJudge, "complete", 3, Status.TRUNCATED)
        origin = run(
            composed(
                fresh(tmp_path / "origin"),
                *SMALL,
                "benchmarks.demo.samples=12",
                "limits.max_failed_share=1.0",
            )
        )
    rows = jsonl.read(origin.root / SCORES[0], Intervention)
    stages = {"baseline", "concepts", "instructions", "edit", "requery", "judge"}
    assert {row.stage for row in rows if row.status is not Status.OK} == stages
    export(origin.root, tmp_path / "bench")
    again = replayed(tmp_path / "bench", tmp_path / "again", monkeypatch)
    for path in SCORES:
        assert again.text(path) == origin.text(path)


def bench(folder: Path, root: Path, monkeypatch: pytest.MonkeyPatch, *overrides: str) -> Run:
    monkeypatch.chdir(importing(folder, root))
    return run(
        composed(
            root, "study=bench", "target=[demo_prior]", "judge=[demo]", "score.resamples=200",
            *overrides,
        )
    )  # fmt: skip


def test_another_target_meets_exactly_the_accepted_edits(
    finished: Run, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DemoExtractor, "complete", None)
    monkeypatch.setattr(DemoEditor, "edit", None)
    mine = bench(exported, tmp_path / "mine", monkeypatch)
    (before,) = (finished.root / "data" / "edit").glob("*/attempts.jsonl")
    (after,) = (mine.root / "data" / "edit").glob("*/attempts.jsonl")

    def accepted(path: Path) -> list[tuple[Any, ...]]:
        rows = [row for row in jsonl.read(path, Attempt) if row.status is Status.OK]
        return [(r.sample_id, r.position, r.edited, r.mask, r.measurement) for r in rows]

    assert accepted(after) == accepted(before)
    scored = jsonl.read(mine.root / SCORES[0], Intervention)
    assert sum(row.status is Status.OK for row in scored) == len(accepted(before))
    # It never looks, so its words can't fit edits of what mattered to somebody else either.
    assert any(row.ccs_binary == 0 for row in scored)
    answers = mine.text("data/baseline/demo_prior-0/answers.jsonl")
    assert answers != finished.text("data/baseline/demo_mixture-0/answers.jsonl")


def test_the_beginning_of_a_chain_is_a_chain(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = bench(exported, tmp_path / "mine", monkeypatch, "chain.k=1")
    rows = jsonl.read(mine.root / SCORES[0], Intervention)
    assert {row.position for row in rows} == {1}
    assert all(row.status is Status.OK for row in rows)


def test_samples_that_cannot_be_scored_are_not_asked_about(exported: Path, tmp_path: Path) -> None:
    from stages.benchmarks.edct_bench import EDCTBench

    folder = tmp_path / "bench"
    shutil.copytree(exported, folder)
    artefact = Artefact(folder)
    lonely = artefact.rows(EDITS)[0].record.sample_id
    kept = tuple(row for row in artefact.rows(EDITS) if row.record.sample_id != lonely)
    some = EDCTBench(str(folder))
    some._artefact._rows[EDITS.name] = kept
    selection = some.select()
    assert lonely not in {item.id for item in selection.items}
    assert selection.left_out == {"no_accepted_edit": 1}
    assert len(EDCTBench(str(folder), accepted_only=False).select().items) == 6


def test_new_words_need_a_judge_that_can_be_asked(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="Choose a judge that can"):
        bench(exported, tmp_path / "mine", monkeypatch, "judge=[edct_bench]")


def test_a_new_target_is_no_replay(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = DemoTarget.complete

    async def wordy(self: DemoTarget, conversation: Conversation) -> Completion:
        return Completion("Well: " + (await real(self, conversation)).text)

    monkeypatch.setattr(DemoTarget, "complete", wordy)
    with pytest.raises(UserError, match="never read this explanation"):
        bench(exported, tmp_path / "mine", monkeypatch, "extractors.edct_bench.fixed=false")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("benchmarks.edct_bench.target=nobody", "holds no target 'nobody'. Choose one of: demo_mi"),
        ("seeds=[3]", "holds no run with seed 3. It has: 0"),
        ("benchmarks.edct_bench.folder=data/nowhere", "provenance.json: the file is missing"),
    ],
)
def test_a_wrong_choice_is_one_line(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, override: str, said: str
) -> None:
    with pytest.raises(UserError) as caught:
        bench(exported, tmp_path / "mine", monkeypatch, override)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_of_two_questions_the_longer_one_is_meant() -> None:
    target = object.__new__(BenchTarget)
    target.name = "t"
    picture = Picture.of(__import__("numpy").zeros((4, 4, 3), "uint8"))
    from stages.models.recorded import pixel_digest
    from stages.records.answer import Answer

    def answer(text: str) -> Answer:
        return Answer(
            sample_id="a", position=0, image="x", status=Status.OK, answer=text, explanation="why"
        )

    replies = {"is it red?": answer("short"), "what is it, is it red?": answer("long")}
    target._replies = {(0, pixel_digest(picture.pixels), ""): replies}

    def ask(text: str) -> str:
        turns = (Turn("user", text, (picture,)),)
        return asyncio.run(target.complete(Conversation(turns, max_tokens=16))).text

    assert ask("What is it, is it red?\n\nAnswer briefly.") == "long"
    assert ask("Is it red?\n\nAnswer briefly.") == "short"
    with pytest.raises(CallError, match="no answer of t"):
        ask("Is it blue?")


def test_the_commands_say_what_they_did(
    finished: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(finished.root)
    assert main(["export", str(tmp_path / "out")]) == 0
    assert "6 samples/test" in capsys.readouterr().out
    assert main(["check", str(tmp_path / "out")]) == 0
    assert "whole" in capsys.readouterr().out
    assert main(["export", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.chdir(importing(tmp_path / "out", tmp_path / "ws"))
    assert main(["replay", "data/recorded/edct_bench", "--name", "bench"]) == 1
    assert "is there already" in capsys.readouterr().err
    assert main(["replay", "data/recorded/edct_bench", "--name", "../x"]) == 1
    assert main(["replay", "data/recorded/edct_bench"]) == 0
    assert main(["replay", "data/recorded/edct_bench"]) == 0  # its own file it may overwrite


def test_other_prompts_are_an_error(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bench"
    shutil.copytree(exported, folder)
    made = json.loads((folder / "provenance.json").read_text())
    made["prompts"]["edit.txt"] = "0" * 64
    (folder / "provenance.json").write_text(json.dumps(made))
    monkeypatch.chdir(importing(folder, tmp_path / "ws"))
    with pytest.raises(UserError, match="prompts that this workspace does not have"):
        replay.write_study(Path(), Path("data/recorded/edct_bench"), "replay")
