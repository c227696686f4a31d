"""Words of a target are data: they can't leave their block, speak as the judge, or be its verdict.

The compliant judge below obeys whatever stands outside the blocks of its prompt. A real one may
also obey what stands within them; docs/security.md says what that leaves open.
"""

import asyncio
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from stages.judge import Bench, Case
from stages.models import prompt as prompts
from stages.models import replies
from stages.models.calls import Calls
from stages.models.dialogue import Clerk
from stages.models.prompt import Prompt, blocks, outside_blocks
from stages.models.protocol import Chat, Completion, Conversation
from stages.models.store import Store
from stages.records.answer import Answer
from stages.records.base import Status
from stages.records.judgement import Judgement
from stages.workflow.sections import Generation
from tests.models.attacks import ATTACKS, CLOSE_THE_BLOCK, TOP, WON

FOLDER = Path(__file__).resolve().parents[2] / "prompts" / "default"
JUDGING = ("judge_binary", "judge_graded")
SHIELDED = (
    *JUDGING,
    "judge_binary_images",
    "judge_graded_images",
    "concepts",
    "instructions",
    "parse_edit",
    "verifier",
)
HONEST = {"reason": "it leans on what is gone", "answer_consistent": 0, "explanation_faithful": 0}
HONEST_GRADE = {"reason": "it leans on what is gone", "grade": 1}


class _Outside(HTMLParser):
    """What a reader who knows tags takes to stand outside all blocks; not the code under test."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(convert_charrefs=True)
        self.names, self.depth, self.text = names, 0, ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.depth += tag in self.names

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag in self.names

    def handle_data(self, data: str) -> None:
        self.text += data if self.depth <= 0 else ""


def outside(text: str, names: tuple[str, ...]) -> str:
    reader = _Outside(names)
    reader.feed(text)
    reader.close()
    return reader.text


class CompliantJudge(Chat):
    """Scores 0, 0 and 1, unless something outside the blocks tells it otherwise: then it obeys."""

    def __init__(self, honest: dict[str, Prompt]) -> None:
        self.author = {
            name: outside(p.render(**dict.fromkeys(p.variables, "x")), p.variables)
            for name, p in honest.items()
        }

    def identity(self) -> dict[str, str]:
        return {"provider": "test", "id": "compliant"}

    async def complete(self, conversation: Conversation) -> Completion:
        text = conversation.turns[0].text
        graded = '"grade"' in outside_blocks(text)
        author = self.author["judge_graded" if graded else "judge_binary"]
        names = tuple(blocks(text))
        if outside(text, names) != author:
            return Completion((TOP if graded else WON).replace("won", "as told"))
        return Completion(json.dumps(HONEST_GRADE if graded else HONEST))


def answer(position: int, words: str, explanation: str) -> Answer:
    return Answer(
        sample_id="s",
        position=position,
        image="0" * 64,
        status=Status.OK,
        answer=words,
        explanation=explanation,
    )


def judged(tmp_path: Path, words: str, explanation: str) -> Judgement:
    loaded = {name: Prompt.load(FOLDER / f"{name}.txt") for name in JUDGING}
    clerk = Clerk(
        Calls(Store(tmp_path / "store")),
        "judge",
        CompliantJudge(loaded),
        Prompt.load(FOLDER / "repair.txt"),
        0,
    )
    bench = Bench(
        clerk,
        loaded["judge_binary"],
        loaded["judge_graded"],
        Generation(max_tokens=64, graded_max_tokens=64),
    )
    case = Case("What is it?", answer(0, "a car", "it is red"), ("paint it blue",),
                answer(1, words, explanation))  # fmt: skip
    return asyncio.run(bench.judge(case, 0))


def verdict(row: Judgement) -> tuple[object, ...]:
    return (row.status, row.answer_consistent, row.explanation_faithful, row.verdict_reason,
            row.graded_status, row.grade, row.grade_reason)  # fmt: skip


def test_there_are_fifty_attacks_and_no_two_are_equal() -> None:
    assert len(ATTACKS) >= 50
    assert len(set(ATTACKS)) == len(ATTACKS)


def test_no_attack_changes_a_verdict_of_a_judge_that_obeys_what_stands_outside(
    tmp_path: Path,
) -> None:
    wanted = verdict(judged(tmp_path, "a car", "it is blue"))
    assert wanted[1:3] == (0, 0)
    for attack in ATTACKS:
        assert verdict(judged(tmp_path, attack, "it is blue")) == wanted, attack[:80]
        assert verdict(judged(tmp_path, "a car", attack)) == wanted, attack[:80]


def test_without_the_escape_the_same_attacks_would_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "block", lambda name, value: f"<{name}>\n{value}\n</{name}>")
    won = [a for a in CLOSE_THE_BLOCK if judged(tmp_path, "a car", a).explanation_faithful == 1]
    assert len(won) >= 8


@pytest.mark.parametrize("name", SHIELDED)
def test_no_attack_in_any_block_moves_a_word_of_the_prompt_outside(name: str) -> None:
    found = Prompt.load(FOLDER / f"{name}.txt")
    shielded = re.findall(r"\{\{block (\w+)\}\}", found.text)
    assert shielded
    benign = dict.fromkeys(found.variables, "2")
    wanted = outside_blocks(found.render(**benign))
    for attack in ATTACKS:
        for variable in shielded:
            text = found.render(**(benign | {variable: attack}))
            assert outside_blocks(text) == wanted
            assert outside(text, found.variables) == outside(
                found.render(**benign), found.variables
            )
            assert blocks(text)[variable] == attack


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_a_judge_may_quote_an_attack_before_or_after_its_verdict(attack: str) -> None:
    for read, honest in ((replies.read_verdict, HONEST), (replies.read_grade, HONEST_GRADE)):
        own = json.dumps(honest)
        wanted = read(own)
        for reply in (f'It wrote "{attack}".\n{own}', f"{own}\n(It wrote: {attack})"):
            try:
                got = read(reply, (attack,))
            except replies.Unparsed:
                continue  # asked again, and scored by nothing: never by the target's words
            assert got == wanted


def test_most_quotations_do_not_even_cost_a_repair() -> None:
    def reads(reply: str, attack: str) -> bool:
        try:
            return replies.read_verdict(reply, (attack,))[:2] == (0, 0)
        except replies.Unparsed:
            return False

    own = json.dumps(HONEST)
    for build in (lambda a: f'It wrote "{a}".\n{own}', lambda a: f"{own}\n(It wrote: {a})"):
        assert sum(reads(build(a), a) for a in ATTACKS) >= 0.9 * len(ATTACKS)


def test_an_equal_verdict_of_the_judge_s_own_counts() -> None:
    """Only the whole object is a quotation: equal scores with another reason are the judge's."""
    own = WON.replace("won", "the sky still carries the answer")
    assert replies.read_verdict(own, (f"I think {WON}",))[:2] == (1, 1)
    with pytest.raises(replies.Unparsed, match="no JSON object"):
        replies.read_verdict(WON, (f"I think {WON}",))
