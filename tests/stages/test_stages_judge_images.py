"""A judge that is shown the images: which ones, in which order, and who can be shown any."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stages import judge, plan
from stages.models.chat.demo_judge import DemoJudge
from stages.models.demo import scene, world
from stages.models.picture import Picture
from stages.models.prompt import Prompt
from stages.models.protocol import Completion, Conversation
from stages.records import jsonl
from stages.records.answer import Answer
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.judgement import Judgement
from stages.records.sample import Sample
from tests.exchange.conftest import composed, fresh

PROMPTS = Path(__file__).parents[2] / "prompts" / "default"
BINARY = {"reason": "as seen", "answer_consistent": 1, "explanation_faithful": 0}
GRADED = {"reason": "as seen", "grade": 2}
CELL = {"target": "demo_looks", "extractor": "demo", "editor": "demo", "judge": "demo", "seed": "0"}


def painted(seed: int) -> Picture:
    brief = world.compose("sport", 0, np.random.default_rng([0, 0]))
    rng = np.random.default_rng(seed)
    return Picture.of(scene.render(brief, driving=False, width=640, height=480, rng=rng).pixels)


@pytest.fixture(scope="module")
def shown() -> tuple[Picture, Picture]:
    return painted(1), painted(2)


@pytest.fixture
def root(tmp_path: Path, shown: tuple[Picture, Picture], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace in which one edit waits for its verdict."""
    monkeypatch.delenv("EDCT_STORE", raising=False)
    data = fresh(tmp_path / "edct") / "data"
    before, after = shown
    image = before.save(data / "prepare" / "images")
    edited = after.save(data / "edit" / "demo_looks-demo-demo-0" / "images")
    sample = Sample(
        id="s", domain="d", image=image, width=640, height=480, question="Which sport is it?"
    )
    said = {"sample_id": "s", "status": Status.OK, "answer": "golf", "explanation": "the ball"}
    attempt = Attempt(
        sample_id="s", position=1, attempt=1, status=Status.OK, instruction="remove the ball",
        edit_type="remove", target_object="ball", source=image, edited=edited,
    )  # fmt: skip
    rows: dict[str, Any] = {
        "prepare/samples": sample,
        "baseline/demo_looks-0/answers": Answer(position=0, image=image, **said),
        "edit/demo_looks-demo-demo-0/attempts": attempt,
        "requery/demo_looks-demo-demo-0/answers": Answer(position=1, image=edited, **said),
    }
    for name, row in rows.items():
        jsonl.write(data / f"{name}.jsonl", [row])
    return data.parent


def judged(root: Path, monkeypatch: pytest.MonkeyPatch, *overrides: str) -> list[Conversation]:
    heard: list[Conversation] = []

    async def complete(self: DemoJudge, conversation: Conversation) -> Completion:
        heard.append(conversation)
        graded = (conversation.reply_schema or {})["title"] == "grade"
        return Completion(json.dumps(GRADED if graded else BINARY))

    monkeypatch.setattr(DemoJudge, "complete", complete)
    judge.run(root, composed(root, *overrides).params, **CELL)
    return heard


def test_both_questions_come_with_the_original_first_and_the_edited_image_second(
    root: Path, shown: tuple[Picture, Picture], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = judged(root, monkeypatch, "judge.sees_images=true")
    assert len(heard) == 2
    for conversation in heard:
        (turn,) = conversation.turns
        assert turn.pictures == shown
        assert "The first is the original." in turn.text
        assert "You do not see the images" not in turn.text
    path = root / "data" / "judge" / "demo_looks-demo-demo-demo-0" / "judgements.jsonl"
    (row,) = jsonl.read(path, Judgement)
    assert (row.answer_consistent, row.explanation_faithful, row.grade) == (1, 0, 2)


def test_by_default_the_judge_reads_text_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = judged(root, monkeypatch)
    assert [turn.pictures for conversation in heard for turn in conversation.turns] == [(), ()]
    assert all("You do not see the images" in c.turns[0].text for c in heard)


def test_text_and_images_are_different_requests(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(judged(root, monkeypatch)) == 2
    assert len(judged(root, monkeypatch, "judge.sees_images=true")) == 2
    assert len(judged(root, monkeypatch, "judge.sees_images=true")) == 0  # from the store
    other = painted(3)
    other.save(root / "data" / "edit" / "demo_looks-demo-demo-0" / "images")
    path = root / "data" / "requery" / "demo_looks-demo-demo-0" / "answers.jsonl"
    (answer,) = jsonl.read(path, Answer)
    jsonl.write(path, [answer.model_copy(update={"image": other.sha256})])
    assert len(judged(root, monkeypatch, "judge.sees_images=true")) == 2
    assert len(judged(root, monkeypatch)) == 0  # text alone knows no other image


@pytest.mark.parametrize("name", ["judge_binary", "judge_graded"])
def test_the_prompts_for_eyes_differ_in_one_paragraph(name: str) -> None:
    plain, seeing = (Prompt.load(PROMPTS / f"{n}.txt") for n in (name, f"{name}_images"))
    assert plain.variables == seeing.variables
    pairs = zip(plain.text.split("\n"), seeing.text.split("\n"), strict=True)
    (differing,) = [pair for pair in pairs if pair[0] != pair[1]]
    assert "You do not see the images" in differing[0]
    assert "The second is the edited one" in differing[1]


@pytest.mark.parametrize(
    ("override", "key"),
    [("judge=[own_server]", "judges.own_server"), ("judge=[demo,own_server]", "judges.own_server")],
)
def test_the_plan_names_a_judge_that_can_t_see(tmp_path: Path, override: str, key: str) -> None:
    pytest.importorskip("openai")
    root = fresh(tmp_path / "edct")
    with pytest.raises(UserError, match="can't be shown images") as caught:
        plan.check_sight(composed(root, override, "judge.sees_images=true").params)
    assert caught.value.where == f"params.yaml: {key}"
    plan.check_sight(composed(root, override).params)
    plan.check_sight(composed(root, "judge.sees_images=true").params)


def test_the_plan_names_a_verifier_that_can_t_see(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    root = fresh(tmp_path / "edct")
    with pytest.raises(UserError, match="can't be shown images"):
        plan.check_sight(
            composed(root, "verifier=own_server", "+verifier.sees_pictures=false").params
        )
