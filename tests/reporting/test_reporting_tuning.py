"""Tables and figures of the fine-tuning study."""

from typing import Any

import numpy as np
import pytest

from stages.records.finding import Measured
from stages.records.tuning import AttentionRow, Curve, Images, TuningRow
from stages.reporting import figures, tuning_figures, tuning_tables
from stages.reporting.study import Findings, Reference, Study
from stages.reporting.tables import Quantity, to_csv, to_latex

PUBLISHED = {
    "samples": (48.0, 48.0),
    "zero_shot_accuracy": (0.690, 0.345),
    "initial_training_loss": (0.1792, 0.7124),
}


def row(quantity: str, images: Images | None, mean: float | None, epoch: int = 0) -> TuningRow:
    return TuningRow(
        quantity=quantity,
        target="tuned_50%",
        base="base",
        split="held_out",
        images=images,
        epoch=epoch,
        measured=Measured(
            mean=mean,
            low=None if mean is None else mean - 0.1,
            high=None if mean is None else mean + 0.1,
            confidence=0.95,
            method="percentile bootstrap over samples",
            n_samples=9,
            n=9,
        ),
    )


def study(*rows: TuningRow, **more: Any) -> Study:
    return Study(
        name="finetune",
        params={},
        cells=(),
        findings=Findings(tuning=rows),
        reference=Reference(tuning=PUBLISHED),
        **more,
    )


def attention(images: Images, epoch: int) -> AttentionRow:
    return AttentionRow(
        target="tuned",
        epoch=epoch,
        images=images,
        sample_id="s-1",
        position=0,
        image="0" * 64,
        rows=3,
        columns=4,
        values=(1.0, *([0.0] * 11)),
        inside=0.5,
        mask_share=0.1,
    )


def test_a_row_is_an_adapter_at_an_epoch_on_one_kind_of_scenes() -> None:
    table = tuning_tables.answers(
        study(
            row("accuracy", "original", 0.7),
            row("accuracy", "counterfactual", 0.4),
            row("loss", "original", 0.1792),
            row("loss_ratio", None, 3.98),
            row("accuracy", "original", 0.9, epoch=10),
        )
    )
    assert table is not None
    assert [r[:3] for r in table.rows] == [
        ("tuned_50%", "held out", 0),
        ("tuned_50%", "held out", 10),
    ]
    first = dict(zip([c.key for c in table.columns], table.rows[0], strict=True))
    assert first["accuracy_original"] == Quantity(0.7, pytest.approx(0.6), pytest.approx(0.8))
    assert first["loss_ratio"].mean == 3.98
    assert first["attention_gain_counterfactual"] == Quantity(None)
    assert "a ratio of 4.0" in table.note
    assert "nan" not in to_csv(table).lower()
    assert r"tuned\_50\%" in to_latex(table)


def test_a_change_carries_its_sign_and_is_no_row_of_the_answers() -> None:
    told = study(row("ccs_change", None, 0.83))
    table = tuning_tables.ccs(told)
    assert table is not None
    assert table.rows[0][4].mean == 0.83  # type: ignore[union-attr]
    assert table.column("change") == 4
    assert table.columns[4].signed
    answers = tuning_tables.answers(told)
    assert answers is not None
    assert answers.rows == ()


def test_without_a_study_there_is_nothing() -> None:
    assert tuning_tables.answers(study()) is None
    assert tuning_tables.ccs(study()) is None
    assert tuning_figures.curves(study()) is None
    assert tuning_figures.attention(study()) is None
    assert tuning_figures.attention(study(tuning=(attention("original", 0),))) is None
    assert tuning_tables.plot_table((), ()).rows == ()


def test_dvc_gets_kept_epochs_and_the_training_itself() -> None:
    curve = Curve(target="tuned", epoch=1, loss=0.5, correct=0.25)
    table = tuning_tables.plot_table((row("loss", "original", 0.2),), (curve,))
    lines = [(r[0], r[4], r[5], r[6]) for r in table.rows]
    assert lines == [
        ("tuned_50%, held_out, original", 0, "loss", 0.2),
        ("tuned, as trained", 1, "accuracy", 0.25),
        ("tuned, as trained", 1, "loss", 0.5),
    ]


def test_curves_leave_out_what_can_t_be_estimated() -> None:
    told = study(
        row("accuracy", "original", 0.7),
        row("accuracy", "original", None, epoch=10),
        row("loss", "counterfactual", 1.2),
    )
    with figures.style():
        figure = tuning_figures.curves(told)
        assert figure is not None
        lines = figure.axes[0].get_lines()
        assert [list(line.get_xdata()) for line in lines] == [[0], []]


def test_maps_stand_over_their_images_epoch_by_epoch() -> None:
    rows = tuple(attention(images, e) for images in ("original", "counterfactual") for e in (0, 10))
    pixels = np.full((30, 40, 3), 128, np.uint8)
    told = study(tuning=rows, tuning_pixels=lambda _: pixels)
    with figures.style():
        figure = tuning_figures.attention(told)
        assert figure is not None
        assert len(figure.axes) == 2 * 3
        heat = figure.axes[1].get_images()[1].get_array()
        assert heat is not None
        assert np.unravel_index(np.argmax(heat), heat.shape)[0] < 10
        again = tuning_figures.attention(told)
        assert again is not None
        assert figures.save(figure, dpi=72) == figures.save(again, dpi=72)
