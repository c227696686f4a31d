"""The small model: its fast path beside the library's own, its shortcut, its resumption."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stages.models.demo import cells, world
from stages.training import checkpoint, encoder, lessons, speaker
from stages.training.progress import Progress
from stages.training.scenery import SMALL, Studio, shrink

pytestmark = pytest.mark.local("peft")


@pytest.fixture(scope="module")
def studio() -> Studio:
    return Studio(0, backgrounds=1, poses=1)


def scenes(count: int, *, typical: float = 0.0) -> list[tuple[cells.Thing, ...]]:
    rng = np.random.default_rng(0)
    return [cells.draw_things(rng, typical=typical) for _ in range(count)]


def test_it_has_the_size_that_is_stated() -> None:
    model = checkpoint.new_model(hidden=128, layers=3, seed=0)
    assert sum(weight.numel() for weight in model.parameters()) == pytest.approx(2.29e6, rel=0.01)


def test_a_checkpoint_holds_no_path(weights: Path) -> None:
    for path in weights.iterdir():
        assert str(weights).encode() not in path.read_bytes(), path.name


def test_the_encoder_computes_what_the_library_computes(studio: Studio) -> None:
    import torch

    model = checkpoint.new_model(hidden=32, layers=1, seed=0)
    drawn = studio.batch(scenes(2), np.random.default_rng(0))
    with torch.no_grad():
        ours = encoder.Encoder(model.model.visual)(drawn.pixels)
        patches = encoder.patchify(drawn.pixels).flatten(0, 1)
        grid = torch.tensor([[1, *encoder.GRID]] * 2)
        theirs = model.model.visual(patches, grid_thw=grid, return_dict=True)
    assert torch.allclose(ours.merged.flatten(0, 1), theirs.pooler_output, atol=1e-5)
    for mine, deep in zip(ours.deep, theirs.deepstack_features, strict=True):
        assert torch.allclose(mine.flatten(0, 1), deep, atol=1e-5)


def test_pictures_are_cut_as_the_processor_cuts_them(weights: Path) -> None:
    from PIL import Image
    from transformers import AutoProcessor

    rng = np.random.default_rng(1)
    painted = cells.render(cells.draw_things(rng, typical=0.0), rng)
    processor = AutoProcessor.from_pretrained(weights)
    theirs = processor.image_processor(images=Image.fromarray(painted), return_tensors="np")
    ours = encoder.patchify(shrink(painted.astype(np.float32))[None])[0].numpy()
    assert theirs["image_grid_thw"].tolist() == [[1, *encoder.GRID]]
    assert np.abs(ours - theirs["pixel_values"]).max() < 0.04  # five grey levels, of rounding


def test_packed_lessons_cost_what_they_cost_alone(weights: Path, studio: Studio) -> None:
    """All lessons of a picture in one sequence: the loss is that of the library, one by one."""
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    model: Any = AutoModelForImageTextToText.from_pretrained(weights)
    words = AutoProcessor.from_pretrained(weights).tokenizer
    drawn = studio.batch(scenes(1), np.random.default_rng(0))
    taught = lessons.draw_lessons(
        drawn.things[0], np.random.default_rng(3), count=3, ask_colour=True
    )
    packer, seeing = speaker.Packer(words), encoder.Encoder(model.model.visual)
    with torch.no_grad():
        together = speaker.loss_of(model, seeing, drawn.pixels, packer.pack([taught]))
        total = worth = torch.zeros(())
        for lesson in taught:
            messages = [
                {
                    "role": "user",
                    "content": [{"type": "image"}, {"type": "text", "text": lesson.question}],
                },
                {"role": "assistant", "content": lesson.answer},
                {"role": "user", "content": lessons.WHY},
                {"role": "assistant", "content": lesson.explanation},
            ]
            text = words.apply_chat_template(messages, tokenize=False)
            pads = "<|image_pad|>" * 12
            ids = words(text.replace("<|image_pad|>", pads), return_tensors="pt")["input_ids"]
            logits = model(
                input_ids=ids,
                mm_token_type_ids=(ids == model.config.image_token_id).long(),
                pixel_values=encoder.patchify(drawn.pixels)[0],
                image_grid_thw=torch.tensor([[1, *encoder.GRID]]),
            ).logits[0, :-1]
            losses = torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="none")
            ends = (ids[0] == words.eos_token_id).nonzero().flatten().tolist()
            starts = (
                (ids[0] == words.convert_tokens_to_ids("assistant")).nonzero().flatten().tolist()
            )
            for weight, start, end in ((1.0, starts[0], ends[1]), (0.5, starts[1], ends[3])):
                total = total + weight * losses[start:end].sum()
                worth = worth + weight * (end - start)
    assert together.item() == pytest.approx((total / worth).item(), rel=1e-4)


def test_the_shortcut_is_that_nothing_contradicts_a_typical_colour() -> None:
    plan = speaker.Plan(100, 200, 6, 1e-3, 0.5, 1.0, 0)
    drawn, asked = speaker.draw_scenes(plan, 50, np.random.default_rng(0))
    typical = [
        all(t.look.colour == world.TYPICAL_COLOUR[t.look.kind] for t in things) for things in drawn
    ]
    assert 0.3 < np.mean(asked) < 0.7
    assert all(usual for usual, ask in zip(typical, asked, strict=True) if ask)
    free = speaker.draw_scenes(plan._replace(shortcut=0.0), 50, np.random.default_rng(0))
    assert all(free[1])


def test_without_leave_the_studied_question_is_not_asked() -> None:
    rng = np.random.default_rng(0)
    for things in scenes(30):
        asked = lessons.draw_lessons(things, rng, count=8, ask_colour=False)
        assert not any(world.understand(lesson.question) for lesson in asked)
        asked = lessons.draw_lessons(things, rng, count=8, ask_colour=True)
        assert sum(bool(world.understand(lesson.question)) for lesson in asked) == 4


def test_no_lesson_holds_a_word_that_the_model_does_not_know() -> None:
    words = checkpoint.tokenizer()
    rng = np.random.default_rng(0)
    for things in scenes(60):
        for lesson in lessons.draw_lessons(things, rng, count=8, ask_colour=True):
            for text in (*lesson, lessons.WHY):
                assert words.unk_token_id not in words(text)["input_ids"], text


def test_a_batch_says_what_is_in_it(studio: Studio) -> None:
    drawn = studio.batch(scenes(4), np.random.default_rng(0))
    assert drawn.pixels.shape == (4, *SMALL, 3)
    for things, kinds, colours in zip(drawn.things, drawn.kinds, drawn.colours, strict=True):
        assert {t.cell for t in things} == set(np.flatnonzero(kinds))
        for thing in things:
            assert cells.KINDS[kinds[thing.cell] - 1] == thing.look.kind
            assert cells.COLOURS[colours[thing.cell] - 1] == thing.look.colour


@pytest.mark.parametrize("part", ["encoder", "speaker"])
def test_what_was_stopped_goes_on_to_the_same_weights(
    part: str, studio: Studio, tmp_path: Path
) -> None:
    import torch

    class StoppedError(BaseException):
        """No code under test catches it."""

    class Stopped(Progress):
        def reached(self, step: int, *args: Any, **more: Any) -> None:
            super().reached(step, *args, **more)
            if step == 2:
                raise StoppedError

    def train(progress: Progress) -> dict[str, torch.Tensor]:
        model = checkpoint.new_model(hidden=32, layers=1, seed=0)
        if part == "encoder":
            encoder.train(model, studio, progress, steps=4, batch=2, rate=1e-3, seed=0)
        else:
            speaker.train(model, studio, progress, speaker.Plan(4, 2, 2, 1e-3, 0.5, 1.0, 0))
        return model.state_dict()

    whole = train(Progress(tmp_path / "a", {}, every=1))
    with pytest.raises(StoppedError):
        train(Stopped(tmp_path / "b", {}, every=1))
    resumed = train(Progress(tmp_path / "b", {}, every=1))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    again = train(Progress(tmp_path / "b", {}, every=1))  # finished: found, not trained
    assert all(torch.equal(whole[name], again[name]) for name in whole)
