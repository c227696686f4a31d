"""The fine-tuning study's numbers: the published ratio, pairing, and the sign of a change."""

from collections.abc import Callable

import pytest

from stages.analysis.measures import Resampling
from stages.analysis.tuning import Tuned, conclude
from stages.records.finding import Comparison, Measured, Part
from stages.records.tuning import AttentionRow, Images, Reading, TuningRow

RESAMPLING = Resampling(500, 0.95, 0)


def reading(sample: int, images: Images, loss: float, *, correct: bool = True) -> Reading:
    return Reading(
        target="tuned",
        epoch=0,
        split="held_out",
        images=images,
        sample_id=f"s-{sample:03d}",
        position=0 if images == "original" else 1,
        label="2",
        loss=loss,
        correct=correct,
    )


def found(rows: list[TuningRow], quantity: str, images: Images | None = None) -> Measured:
    (row,) = [row for row in rows if row.quantity == quantity and row.images == images]
    return row.measured


def test_the_published_numbers_come_back() -> None:
    n = 200
    rows = [reading(i, "original", 0.1792, correct=i < 138) for i in range(n)]
    rows += [reading(i, "counterfactual", 0.7124, correct=i < 69) for i in range(n)]
    made = list(conclude([Tuned("tuned", rows, [])], "base", [], RESAMPLING))
    assert found(made, "accuracy", "original").mean == pytest.approx(0.69)
    assert found(made, "accuracy", "counterfactual").mean == pytest.approx(0.345)
    assert found(made, "loss_ratio").mean == pytest.approx(3.975, abs=0.01)
    accuracy = found(made, "accuracy", "original")
    assert accuracy.low is not None
    assert accuracy.high is not None
    assert 0.6 < accuracy.low < 0.69 < accuracy.high < 0.77


def test_the_ratio_is_on_samples_with_both() -> None:
    rows = [reading(0, "original", 1.0), reading(0, "counterfactual", 3.0)]
    rows += [reading(1, "original", 100.0)]
    rows += [reading(2, "original", 1.0), reading(2, "counterfactual", 5.0)]
    ratio = found(list(conclude([Tuned("tuned", rows, [])], "base", [], RESAMPLING)), "loss_ratio")
    assert ratio.mean == pytest.approx(4)
    assert ratio.n_samples == 2


def test_edits_of_a_sample_are_one_sample() -> None:
    rows = [reading(0, "original", 1.0)]
    rows += [reading(0, "counterfactual", x).model_copy(update={"position": x}) for x in (1, 3)]
    made = list(conclude([Tuned("tuned", rows, [])], "base", [], RESAMPLING))
    assert found(made, "loss", "counterfactual").mean == pytest.approx(2)
    assert found(made, "loss", "counterfactual").n_samples == 1
    assert found(made, "loss", "counterfactual").low is None


def test_attention_is_held_against_an_even_map() -> None:
    shown = [
        AttentionRow(
            target="tuned",
            epoch=0,
            images="original",
            sample_id=f"s-{i}",
            position=0,
            image="0" * 64,
            rows=1,
            columns=2,
            values=(1.0, 0.0),
            inside=inside,
            mask_share=0.1,
        )
        for i, inside in enumerate([0.2, 0.4, None])
    ]
    made = list(conclude([Tuned("tuned", [], shown)], "base", [], RESAMPLING))
    assert found(made, "attention_inside", "original").mean == pytest.approx(0.3)
    gain = found(made, "attention_gain", "original")
    assert gain.mean == pytest.approx(3)
    assert gain.n_samples == 2


def change(first: str, second: str, domain: str | None) -> Comparison:
    return Comparison(
        axis="target",
        first=first,
        second=second,
        part=Part(),
        metric="ccs_binary",
        domain=domain,
        difference=Measured(
            mean=-0.6, low=-0.7, high=-0.4, confidence=0.95, method="m", n_samples=9, n=9
        ),
        p=0.01,
        p_holm=0.02,
        test="sign flip",
        n_left_out=0,
        sd=0.1,
    )


@pytest.mark.parametrize(
    ("names", "ends"),
    [(("base", "tuned"), (0.6, 0.4, 0.7)), (("tuned", "base"), (-0.6, -0.7, -0.4))],
)
def test_a_change_is_after_minus_before(
    names: tuple[str, str], ends: tuple[float, float, float]
) -> None:
    compared = [
        change(*names, "held_out"),
        change(*names, None),
        change("base", "control", "held_out"),
    ]
    made = list(conclude([Tuned("tuned", [], [])], "base", compared, RESAMPLING))
    (row,) = made
    assert row.split == "held_out"
    assert (row.measured.mean, row.measured.low, row.measured.high) == ends


def test_a_study_without_tuning_has_no_rows(cell: Callable[..., object]) -> None:
    assert list(conclude([], "", [change("a", "b", "held_out")], RESAMPLING)) == []
