"""What the fine-tuning study records: readings of examples, attention, and what follows."""

from typing import Literal

from stages.records.base import Record
from stages.records.finding import Measured

Images = Literal["original", "counterfactual"]
Split = Literal["train", "held_out"]


class Reading(Record):
    """How a model at one epoch does on one example."""

    target: str
    """Name of the tuned target."""
    epoch: int
    """Epochs of training; 0: the model as it was."""
    split: Split
    """Whether the scene was trained on."""
    images: Images
    """What the model was shown."""
    sample_id: str
    """The sample."""
    position: int
    """0 for the original; j for the image after edit j."""
    label: str
    """The right answer."""
    loss: float
    """Mean negative log-likelihood of the answer's tokens, in nats."""
    correct: bool
    """Whether greedy decoding gives exactly the answer."""


class Curve(Record):
    """One epoch of a training."""

    target: str
    """Name of the tuned target."""
    epoch: int
    """Epochs done."""
    loss: float
    """Mean loss of the examples in this epoch, as they were trained on, in nats."""
    correct: float
    """Share of them whose every token was the likeliest."""


class AttentionRow(Record):
    """The attention of the answer over one image, at one epoch."""

    target: str
    """Name of the tuned target."""
    epoch: int
    """Epochs of training; 0: the model as it was."""
    images: Images
    """What the model was shown."""
    sample_id: str
    """The sample."""
    position: int
    """0 for the original; j for the image after edit j."""
    image: str
    """SHA-256 of the PNG that was shown."""
    rows: int
    """Image tokens from top to bottom."""
    columns: int
    """Image tokens from left to right."""
    values: tuple[float, ...]
    """The map on the grid of tokens, row by row, before enlargement; at least 0, the sum is 1."""
    sinks: tuple[int, ...] = ()
    """Tokens that were set aside as attention sinks."""
    inside: float | None
    """Share of the enlarged map inside the mask of the edit, in [0, 1]; None without a map."""
    mask_share: float
    """Share of the image that the mask covers: what an even map would have inside."""


class TuningRow(Record):
    """A number of the fine-tuning study."""

    quantity: str
    """accuracy, loss, loss_ratio (counterfactual over original, paired), attention_inside,
    attention_gain (over an even map), or ccs_change (against the base, on the samples of both)."""
    target: str
    """Name of the tuned target."""
    base: str
    """Name of the target that it was made from."""
    split: str
    """train or held_out; for ccs_change the domain."""
    images: Images | None
    """What was shown; None for what takes both together."""
    epoch: int
    """Epochs of training."""
    measured: Measured
    """The number with its interval."""
