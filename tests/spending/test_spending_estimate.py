"""The dry run: calls counted where they can be, bounded where not, and no price made up."""

import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image
from rich.console import Console

from stages import baseline, concepts
from stages.models.segmenter.sam2 import Sam2
from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.sample import Sample
from stages.spending import __main__ as command
from stages.spending.estimate import Estimate, Line, estimate
from stages.workflow.compose import compose
from tests.models.contract.cases import MODEL, SOURCE
from tests.models.wire.loopback import KEY, QUICK, Act, Server, chat_reply

ROOT = Path(__file__).parents[2]
CHAT = "stages.models.chat.openai_compatible.OpenAICompatible"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        running.route = lambda seen: Act(chat_reply("Yes."))
        yield running


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("EDCT_STORE", "EDCT_REPLAY", "EDCT_BUDGET_USD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    shutil.copytree(ROOT / "prompts", tmp_path / "prompts")
    (tmp_path / "conf").mkdir()
    shutil.copy(ROOT / "conf" / "prices.yaml", tmp_path / "conf" / "prices.yaml")
    return tmp_path


def params(server: Server | None = None, *overrides: str, **limits: Any) -> dict[str, Any]:
    """The demo, its targets replaced by one over HTTP."""
    composed: dict[str, Any] = yaml.safe_load(compose(ROOT, list(overrides)))
    if server is not None:
        served = {"_target_": CHAT, "model": MODEL, "base_url": server.url, "patience": QUICK}
        composed |= {"targets": {"served": served}, "target_names": ["served"]}
    composed["limits"] |= {"max_failed_share": 1.0, **limits}
    return composed


def prepare(root: Path, n: int) -> None:
    image = SOURCE.save(root / "data/prepare/images")
    samples = [
        Sample(id=f"s-{i}", domain="d", image=image, width=64, height=48, question=f"q{i}?")
        for i in range(n)
    ]
    jsonl.write(root / "data/prepare/samples.jsonl", samples)


def lines(found: Estimate, stage: str, role: str) -> list[Line]:
    return [x for x in found.lines if (x.need.post.stage, x.need.post.role) == (stage, role)]


def test_before_any_call_the_parameters_bound_all_of_them(root: Path) -> None:
    found = estimate(root, params(None, "chain.k=3", "seeds=[0,1]", "judge.replicates=2"))
    n = 60 * 2  # samples, seeds
    one = {(x.need.post.stage, x.need.post.role): x.need.calls for x in found.lines}
    assert found.n_samples == 60
    assert one["baseline", "target"] == 2 * n  # of one of four targets
    assert one["concepts", "extractor"] == 4 * n
    assert one["instructions", "extractor"] == 4 * (1 + 3) * n
    assert one["edit", "editor"] == one["edit", "detector"] == 4 * 3 * 2 * n
    assert one["requery", "target"] == 2 * 3 * n
    assert one["judge", "judge"] == 4 * 2 * 3 * 2 * n
    assert found.known_usd == 0
    assert found.unknown == ()


def test_the_papers_table_has_a_price_without_a_key(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("OPENROUTER_API_KEY", "BFL_API_KEY", "MOONDREAM_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    found = estimate(root, params(None, "study=table1"))
    (editor,) = lines(found, "edit", "editor")
    assert (found.n_samples, editor.images) == (300, 6 * 300 * 2 * 2)
    assert editor.cost_usd == pytest.approx(7200 * 0.10)
    assert found.known_usd > 700


def test_an_unknown_price_is_said_and_makes_the_total_a_lower_bound(
    root: Path, server: Server
) -> None:
    found = estimate(root, params(server))
    (line,) = lines(found, "baseline", "target")
    assert line.cost_usd is None
    assert found.unknown == (MODEL,)
    said = " ".join(command.sums(found))
    assert "at least $0.00" in said
    assert f"the price of {MODEL} is unknown" in said
    screen = io.StringIO()
    command.show_estimate(found, Console(file=screen, width=160))
    assert "unknown" in screen.getvalue()


def test_questions_are_counted_one_by_one_against_the_store(root: Path, server: Server) -> None:
    prepare(root, 5)
    study = params(server, budget_calls=3)
    before = lines(estimate(root, study), "baseline", "target")[0]
    assert (before.need.calls, before.to_make, before.assumed) == (10, 10, True)
    with pytest.raises(UserError, match="budget_calls"):
        baseline.run(root, study, target="served", seed="0")
    after = lines(estimate(root, study), "baseline", "target")[0]
    assert after.to_make == 7
    baseline.run(root, params(server), target="served", seed="0")
    done = lines(estimate(root, params(server)), "baseline", "target")[0]
    assert (done.to_make, done.cost_usd) == (0, 0.0)


def test_what_several_targets_ask_alike_is_answered_for_each(root: Path) -> None:
    prepare(root, 2)
    study = params(None, "target=[demo_looks,demo_prior]", "benchmark=[demo]")
    for target in ("demo_looks", "demo_prior"):
        answers = [
            Answer(
                sample_id=f"s-{i}",
                position=0,
                image="0" * 64,
                status=Status.OK,
                answer="red",
                explanation="the bus",
            )
            for i in range(2)
        ]
        jsonl.write(root / f"data/baseline/{target}-0/answers.jsonl", answers)
        concepts.run(root, study, target=target, extractor="demo", seed="0")
    (line,) = lines(estimate(root, study), "concepts", "extractor")
    assert (line.need.calls, line.to_make) == (4, 0)


def test_what_was_paid_before_tells_the_price_of_what_is_left(root: Path, server: Server) -> None:
    prepare(root, 3)
    baseline.run(root, params(server), target="served", seed="0")
    found = estimate(root, params(server) | {"seeds": [0, 1]})
    (line,) = lines(found, "baseline", "target")
    assert (line.need.calls, line.to_make) == (12, 6)
    assert line.cost_usd == pytest.approx(6 * 0.0125)  # as the server reported
    assert (line.input_tokens, line.output_tokens) == (6 * 11, 6 * 7)
    assert not line.assumed


def test_another_model_by_the_same_name_is_not_answered_by_the_store(
    root: Path, server: Server
) -> None:
    prepare(root, 3)
    baseline.run(root, params(server), target="served", seed="0")
    other = params(server)
    other["targets"]["served"]["sampling"] = {"temperature": 0.5}
    assert lines(estimate(root, other), "baseline", "target")[0].to_make == 6


def test_prices_of_the_day_come_before_the_tables(root: Path, server: Server) -> None:
    price = {"prompt": "0.000001", "completion": "0.00001"}
    server.route = lambda seen: Act({"data": [{"id": MODEL, "pricing": price}]})
    found = estimate(root, params(server), live=True)
    (line,) = lines(found, "baseline", "target")
    each = (1400 * 1.0 + 200 * 10.0) / 1e6
    assert line.cost_usd == pytest.approx(line.to_make * each)
    assert found.unknown == ()


def test_without_prices_of_the_day_the_tables_stand_and_that_is_said(
    root: Path, server: Server
) -> None:
    server.route = lambda seen: Act({"detail": "not found"}, 404)
    said = " ".join(command.sums(estimate(root, params(server), live=True)))
    assert f"No price of the day was had for {MODEL}" in said
    assert "price of the day" not in " ".join(command.sums(estimate(root, params(server))))


def test_a_number_of_samples_that_nobody_names_is_that_of_the_files(root: Path) -> None:
    table = "stages.benchmarks.table.QuestionTable"
    study = params(None)
    study["benchmarks"] = {
        "own": {"_target_": table, "folder": "own", "file": "own.csv", "domain": "own"}
    }
    with pytest.raises(UserError, match=r"own\.csv: the file is missing"):
        estimate(root, study)
    (root / "own").mkdir()
    rows = [f"{n},What is it?,{n}.png" for n in range(7)]
    for n in range(7):
        Image.new("RGB", (64, 64), (n, 0, 0)).save(root / f"own/{n}.png")
    (root / "own/own.csv").write_text("\n".join(["id,question,image", *rows]) + "\n")
    assert estimate(root, study).n_samples == 7


def test_weights_that_the_study_makes_or_that_are_not_here_are_counted_without_the_store(
    root: Path,
) -> None:
    found = estimate(root, params(None, "study=finetune_demo"))
    assert {x.to_make for x in lines(found, "baseline", "target")} == {2 * 96}
    said = " ".join(command.sums(found))
    assert "Counted without a look at the store: tiny_shortcut (this study trains it)" in said


def test_calls_of_a_model_whose_weights_or_packages_are_missing_are_counted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(self: Sam2) -> None:
        raise UserError("maker/sam", "is not on this disk", "Get it.")

    monkeypatch.setattr("stages.models.local.looking.installed", lambda *packages: None)
    monkeypatch.setattr(Sam2, "identity", unknown)
    found = estimate(root, params(None, "segmenter=sam2"))
    (line,) = lines(found, "edit", "segmenter")
    assert line.to_make == line.need.calls == 4 * 60 * 2 * 2
    assert line.model == "facebook/sam2.1-hiera-large"
    assert "facebook/sam2.1-hiera-large (is not on this disk)" in " ".join(command.sums(found))


def test_a_cost_beyond_the_budget_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(**limits: float) -> str:
        return " ".join(command.sums(estimate(root, params(None, "study=table1", **limits))))

    monkeypatch.setattr(Sam2, "identity", lambda self: {"model": "sam"})
    assert "More than the budget" not in said()
    assert "More than the budget" not in said(budget_usd=10_000.0)
    assert "More than the budget of $25.00" in said(budget_usd=25.0)
    monkeypatch.setenv("EDCT_BUDGET_USD", "3")
    assert "More than the budget of $3.00" in said(budget_usd=10_000.0)


def test_a_ledger_without_a_charge_is_a_line(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["spent"]) == 0
    assert capsys.readouterr().out.strip() == "No charged calls yet."
    assert command.main(["spent", "--study", "x"]) == 0
    assert capsys.readouterr().out.strip() == "No charged calls of x."


def test_an_error_begins_with_the_name_of_the_command(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["estimate"]) == 1
    assert capsys.readouterr().err.startswith("dry-run: params.yaml")


def test_what_was_spent_is_told_by_stage_role_and_model(root: Path, server: Server) -> None:
    prepare(root, 2)
    server.will(Act(chat_reply("cut", finish="length")))
    baseline.run(root, params(server), target="served", seed="0")
    from stages.models.ledger import Ledger

    screen = io.StringIO()
    charges = list(Ledger(root / ".store/ledger.jsonl").charges())
    command.show_spent(charges, None, Console(file=screen, width=160))
    assert "demo: $0.0375 in 3 calls, 1 of them failed" in screen.getvalue()
    assert MODEL in screen.getvalue()
