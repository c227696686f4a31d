"""Examples as a model reads them: a conversation, an image, and the answer's tokens as labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from stages.models.picture import Picture
from stages.training.examples import Example

if TYPE_CHECKING:
    from torch import Tensor

IGNORED = -100


class Encoded(NamedTuple):
    """One example as tensors, without a batch axis but for pixels and grid."""

    ids: Tensor
    """``(L,)``: prompt, answer, end of turn."""
    types: Tensor
    """``(L,)``: 1 at image tokens."""
    labels: Tensor
    """``(L,)``: the ids of the answer and its end, -100 before."""
    pixels: Tensor
    grid: Tensor
    """``(1, 3)``: time, height and width in patches."""
    prompt: int
    """Length of the prompt."""
    query: int
    """The place whose output is the first token of the label: the last of what stands before it."""


class Prompting:
    """How a processor turns examples into tensors.

    Parameters
    ----------
    processor
        That of the checkpoint.
    ask : callable
        The question as the target is asked it.
    say : str
        How a label is said, with ``{label}``, e.g. ``It is {label}.``
    load : callable
        Loads an image by example.
    """

    def __init__(
        self,
        processor: Any,
        ask: Callable[[str], str],
        say: str,
        load: Callable[[Example], Picture],
    ) -> None:
        self._processor, self._ask, self._say, self._load = processor, ask, say, load
        self._tokenizer = processor.tokenizer
        self._held: dict[tuple[str, str, str], Encoded] = {}

    def encode(self, example: Example) -> Encoded:
        """Encode an example; what was encoded is kept."""
        key = (example.sample.id, example.image, example.label)
        if key not in self._held:
            self._held[key] = self._encode(example)
        return self._held[key]

    def _encode(self, example: Example) -> Encoded:
        import torch
        from PIL import Image

        picture = Image.fromarray(self._load(example).pixels)
        told = example.sample.system_prompt
        system = [{"role": "system", "content": [{"type": "text", "text": told}]}] if told else []
        content = [
            {"type": "image", "image": picture},
            {"type": "text", "text": self._ask(example.sample.question)},
        ]
        inputs = self._processor.apply_chat_template(
            [*system, {"role": "user", "content": content}],
            tokenize=True,
            add_generation_prompt=True,
            return_dict=True,
            return_tensors="pt",
        )
        prompt = inputs["input_ids"][0]
        before = self._say.split("{label}")[0]
        answer = self._tokens(self._say.format(label=example.label))
        said = torch.tensor([*answer, self._tokenizer.eos_token_id])
        lead = _common(self._tokens(before), answer)
        return Encoded(
            ids=torch.cat([prompt, said]),
            types=torch.cat([inputs["mm_token_type_ids"][0], torch.zeros_like(said)]),
            labels=torch.cat([torch.full_like(prompt, IGNORED), said]),
            pixels=inputs["pixel_values"],
            grid=inputs["image_grid_thw"],
            prompt=len(prompt),
            query=len(prompt) + lead - 1,
        )

    def _tokens(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids


def collate(encoded: Sequence[Encoded], pad: int, device: Any) -> dict[str, Tensor]:
    """A batch, padded on the right."""
    from torch import cat
    from torch.nn.utils.rnn import pad_sequence

    ids = pad_sequence([e.ids for e in encoded], batch_first=True, padding_value=pad)
    types = pad_sequence([e.types for e in encoded], batch_first=True)
    labels = pad_sequence([e.labels for e in encoded], batch_first=True, padding_value=IGNORED)
    seen = pad_sequence([e.ids * 0 + 1 for e in encoded], batch_first=True)
    batch = {
        "input_ids": ids,
        "attention_mask": seen,
        "mm_token_type_ids": types,
        "pixel_values": cat([e.pixels for e in encoded]),
        "image_grid_thw": cat([e.grid for e in encoded]),
        "labels": labels,
    }
    return {name: value.to(device) for name, value in batch.items()}


def _common(first: list[int], second: list[int]) -> int:
    """How many tokens two texts begin alike."""
    count = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        count += 1
    return count
