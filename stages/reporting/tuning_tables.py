"""Tables of the fine-tuning study: before and after, and what became of CCS."""

from collections.abc import Sequence

from stages.records.finding import Measured
from stages.records.tuning import Curve, TuningRow
from stages.reporting.notes import how_made, joined
from stages.reporting.study import Study
from stages.reporting.tables import Column, Quantity, Table, Value

_SPLITS = {"train": "trained on", "held_out": "held out"}
_COLUMNS = (
    ("accuracy", "original", "accuracy, originals", 2),
    ("accuracy", "counterfactual", "accuracy, counterfactuals", 2),
    ("loss", "original", "loss, originals", 4),
    ("loss", "counterfactual", "loss, counterfactuals", 4),
    ("loss_ratio", None, "loss ratio", 1),
    ("attention_inside", "original", "attention inside, originals", 2),
    ("attention_inside", "counterfactual", "attention inside, counterfactuals", 2),
    ("attention_gain", "counterfactual", "against an even map", 2),
)


def answers(study: Study) -> Table | None:
    """Accuracy, loss and attention of each adapter at each kept epoch; published values on top."""
    rows = study.findings.tuning
    if not rows:
        return None
    columns = tuple(
        Column(key(quantity, images), head, digits=digits, quantity=True)
        for quantity, images, head, digits in _COLUMNS
    )
    places = dict.fromkeys((row.target, row.split, row.epoch) for row in rows if row.images)
    found: dict[tuple[str, str, int, str, str | None], Measured] = {
        (r.target, r.split, r.epoch, r.quantity, r.images): r.measured for r in rows
    }
    body: list[tuple[Value, ...]] = []
    shown: list[Measured | None] = []
    for target, split, epoch in places:
        cells = [found.get((target, split, epoch, q, images)) for q, images, *_ in _COLUMNS]
        shown += cells
        values = [quantity_of(cell) for cell in cells]
        body.append((target, _SPLITS.get(split, split), epoch, *values))
    return Table(
        "finetune",
        "Answers to originals and to verified counterfactuals, before (epoch 0) and after "
        "fine-tuning. Loss: mean over the tokens of the right answer, in nats; the ratio is that "
        "of counterfactuals over originals, on samples with both.",
        (
            Column("target", "Target"),
            Column("scenes", "Scenes"),
            Column("epoch", "Epoch"),
            *columns,
        ),
        tuple(body),
        joined(published_note(study), how_made(shown)),
    )


def ccs(study: Study) -> Table | None:
    """CCS of base and adapters by domain, and the paired change."""
    changes = [row for row in study.findings.tuning if row.quantity == "ccs_change"]
    if not changes:
        return None
    body: list[tuple[Value, ...]] = []
    shown: list[Measured | None] = []
    for row in changes:
        before, after = (_ccs(study, name, row.split) for name in (row.base, row.target))
        shown.append(row.measured)
        body.append(
            (
                row.target,
                _SPLITS.get(row.split, row.split),
                before,
                after,
                quantity_of(row.measured),
                row.measured.n_samples,
            )
        )
    return Table(
        "finetune_ccs",
        "CCS before and after fine-tuning: each target is tested on its own explanations. The "
        "change is paired, on the samples that both have scores for.",
        (
            Column("target", "Target"),
            Column("scenes", "Scenes"),
            Column("before", f"CCS of {changes[0].base}", quantity=True),
            Column("after", "CCS after", quantity=True),
            Column("change", "change", quantity=True, signed=True),
            Column("n", "n"),
        ),
        tuple(body),
        how_made(shown),
    )


def _ccs(study: Study, target: str, domain: str) -> Quantity:
    found = [
        e
        for e in study.estimates
        if e.cell.target == target
        and e.domain == domain
        and e.position is None
        and e.metric == "ccs_binary"
        and e.estimand == "sample_mean"
    ]
    return Quantity(found[0].mean, found[0].low, found[0].high) if found else Quantity(None)


def published_note(study: Study) -> str:
    """The paper's own numbers, in a sentence; empty where the file is not there."""
    held = study.reference.tuning
    needed = ("zero_shot_accuracy", "initial_training_loss", "samples")
    if not all(name in held for name in needed):
        return ""
    (accuracy, loss, n) = (held[name] for name in needed)
    return (
        f"Published for Qwen3-VL-8B on {n[0]:.0f} samples about wheel axles: accuracy "
        f"{accuracy[0]:.3f} on originals and {accuracy[1]:.3f} on counterfactuals, initial loss "
        f"{loss[0]:.4f} and {loss[1]:.4f}, a ratio of {loss[1] / loss[0]:.1f}."
    )


def plot_table(rows: Sequence[TuningRow], curves: Sequence[Curve]) -> Table:
    """Accuracy and loss by epoch, one row a mark, for DVC: of kept epochs, and as trained."""
    trained = [
        (f"{c.target}, as trained", c.target, "train", None, c.epoch, name, value, None, None)
        for c in curves
        for name, value in (("accuracy", c.correct), ("loss", c.loss))
    ]
    return Table(
        "tuning",
        "",
        (
            Column("line", "line"),
            Column("target", "target"),
            Column("scenes", "scenes"),
            Column("images", "images"),
            Column("epoch", "epoch"),
            Column("quantity", "quantity"),
            Column("mean", "mean"),
            Column("low", "low"),
            Column("high", "high"),
        ),
        tuple(
            (
                f"{row.target}, {row.split}, {row.images}",
                row.target,
                row.split,
                row.images,
                row.epoch,
                row.quantity,
                row.measured.mean,
                row.measured.low,
                row.measured.high,
            )
            for row in rows
            if row.quantity in ("accuracy", "loss")
        )
        + tuple(trained),
    )


def key(quantity: str, images: str | None) -> str:
    """Name of a column in CSV."""
    return f"{quantity}_{images}" if images else quantity


def quantity_of(found: Measured | None) -> Quantity:
    """A measured number as a table holds it."""
    return Quantity(found.mean, found.low, found.high) if found else Quantity(None)
