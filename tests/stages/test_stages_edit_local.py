"""A whole study with a detector, a segmenter and an editor that hold (random) weights here."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stages import edit
from stages.models.editor.diffusion import Diffusion
from stages.models.local import looking
from stages.records import jsonl
from stages.records.attempt import Attempt
from stages.records.base import Status
from stages.records.score import Estimate
from tests.exchange.conftest import Run, composed, fresh, run
from tests.models.contract.sighted import Tiny

pytestmark = pytest.mark.local("diffusers")
EDITOR = "flux_2_klein_4b_local"
CELL = {"target": "demo_looks", "extractor": "demo", "editor": EDITOR, "seed": "0"}
ATTEMPTS = f"data/edit/demo_looks-demo-{EDITOR}-0/attempts.jsonl"
MEASURED = {Status.OUTSIDE_CHANGED, Status.INSIDE_UNCHANGED, Status.MASK_TOO_LARGE}


@pytest.fixture(scope="module")
def study(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The demo study with the shipped files, tiny weights in the place of real ones."""
    editor = f"editors.{EDITOR}"
    chosen = (
        "target=[demo_looks]",
        "benchmarks.demo.samples=4",
        "score.resamples=100",
        "detector=owlv2_local",
        f"detector.model={tiny('owlv2')}",
        "detector.device=cpu",
        "detector.top_k=1",
        "segmenter=sam2",
        f"segmenter.model={tiny('sam2')}",
        "segmenter.device=cpu",
        f"editor=[{EDITOR}]",
        f"{editor}.model={tiny('flux2_klein')}",
        f"+{editor}.device=cpu",
        f"{editor}.dtype=float32",
        f"{editor}.max_pixels=20000",
        f"{editor}.call.num_inference_steps=1",
        f"+{editor}.call.text_encoder_out_layers=[1]",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("EDCT_STORE", raising=False)
        root = fresh(tmp_path_factory.mktemp("local") / "edct")
        yield run(composed(root, *chosen))


def attempts(study: Run) -> list[Attempt]:
    return jsonl.read(study.root / ATTEMPTS, Attempt)


def test_every_attempt_ends_with_a_reason_and_what_was_measured(study: Run) -> None:
    rows = attempts(study)
    assert {row.sample_id for row in rows} == {row.sample_id for row in rows if row.attempt}
    tried = [row for row in rows if row.attempt]
    assert len(tried) == 8
    for row in tried:
        assert row.status in MEASURED
        assert row.reason
        assert row.measurement is not None
        assert len(row.boxes) == 1
        assert row.boxes[0].score is not None
        assert {note.role for note in row.calls} >= {"detector", "segmenter", "editor"}
        assert row.returned_width
        assert row.returned_width % 16 == 0
    assert len({row.edited for row in tried}) == len(tried)
    assert {row.status for row in rows if not row.attempt} == {Status.NOT_REACHED}


def test_nothing_is_scored_where_nothing_was_accepted(study: Run) -> None:
    estimates = jsonl.read(study.root / "data/score/estimates.jsonl", Estimate)
    assert estimates
    assert all(each.n_interventions == 0 and each.mean is None for each in estimates)


def test_no_path_of_a_checkpoint_is_in_an_output(study: Run, tiny: Tiny) -> None:
    for name in ("owlv2", "sam2", "flux2_klein"):
        for file in study.root.rglob("data/*/**/*.json*"):
            assert tiny(name) not in file.read_text(encoding="utf-8")


def test_weights_are_loaded_once_a_stage(
    study: Run,
    tiny: Tiny,
    tiny_qwen3_vl: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Detector and segmenter are one SAM 3, the verifier is another model, and so is the editor."""
    from diffusers import DiffusionPipeline
    from transformers import PreTrainedModel

    loads: Counter[str] = Counter()
    for base in (PreTrainedModel, DiffusionPipeline):
        load = base.from_pretrained.__func__

        def counted(cls: Any, *rest: Any, load: Any = load, **more: Any) -> Any:
            loads[cls.__name__] += 1
            return load(cls, *rest, **more)

        monkeypatch.setattr(base, "from_pretrained", classmethod(counted))
    # Copies, so that no other test holds these weights already.
    here = {
        name: str(shutil.copytree(folder, tmp_path / name))
        for name, folder in (
            ("sam3", tiny("sam3")),
            ("qwen", tiny_qwen3_vl),
            ("kontext", tiny("flux_kontext")),
        )
    }
    monkeypatch.setenv("EDCT_STORE", str(tmp_path / "store"))
    root = tmp_path / "edct"
    for part in ("prompts", "conf", "data/prepare", "data/instructions"):
        shutil.copytree(study.root / part, root / part)
    sam3 = {
        "_target_": "stages.models.sam3.Sam3",
        "model": here["sam3"],
        "device": "cpu",
        "threshold": 0.0,
        "min_iou": 0.0,
        "top_k": 2,
    }
    call = {"num_inference_steps": 1, "_auto_resize": False, "max_sequence_length": 128}
    params = {
        **study.params,
        "detector": {**sam3, "batch_size": 2},
        "segmenter": {**sam3, "batch_size": 1},
        "verifier": {
            "_target_": "stages.models.chat.transformers_vlm.TransformersVlm",
            "model": here["qwen"],
            "device": "cpu",
        },
        "editors": {
            EDITOR: {
                "_target_": "stages.models.editor.diffusion.Diffusion",
                "model": here["kontext"],
                "pipeline": "FluxKontextPipeline",
                "call": call,
                "max_pixels": 20_000,
                "device": "cpu",
                "dtype": "float32",
                "batch_size": 2,
            }
        },
        "limits": {**study.params["limits"], "max_failed_share": 1.0},
    }
    edit.run(root, params, **CELL)
    rows = [row for row in jsonl.read(root / ATTEMPTS, Attempt) if row.edited]
    assert len(rows) > 1
    assert {note.role for row in rows for note in row.calls} >= {"detector", "segmenter", "editor"}
    assert any(row.inspection for row in rows)
    assert loads == {
        "Sam3Model": 1,
        "Qwen3VLForConditionalGeneration": 1,
        "FluxKontextPipeline": 1,
        "CLIPTextModel": 1,
        "T5EncoderModel": 1,
    }


def test_a_replay_loads_no_weights_and_gives_equal_bytes(
    study: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("weights were loaded")

    monkeypatch.setenv("EDCT_REPLAY", "1")
    monkeypatch.delenv("EDCT_STORE", raising=False)
    monkeypatch.setattr(looking, "pretrained", never)
    monkeypatch.setattr(Diffusion, "_load", never)
    before = (Path(study.root) / ATTEMPTS).read_bytes()
    (Path(study.root) / ATTEMPTS).unlink()
    edit.run(study.root, study.params, **CELL)
    assert (Path(study.root) / ATTEMPTS).read_bytes() == before
