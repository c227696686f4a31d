"""A checkpoint in the form of Transformers: Qwen3-VL of about two million parameters.

Configuration, a tokenizer of whole words, a chat template and the image processor; weights are
random until they are trained.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stages.models.fingerprint import fingerprint
from stages.training import lessons
from stages.training.scenery import SMALL

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3VLForConditionalGeneration

PATCH, MERGE = 16, 2
SPECIAL = (
    "<pad>",
    "<unk>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
ROLES = ("system", "user", "assistant")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }} "
    "{% if message.content is string %}{{ message.content }}"
    "{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
)


def words() -> tuple[str, ...]:
    """The vocabulary: special tokens, roles, and all words and marks of the lessons."""
    found: dict[str, None] = {}
    for text in lessons.all_words():
        found.update(dict.fromkeys(re.findall(r"\w+|[^\w\s]", text.lower())))
    return (*SPECIAL, *ROLES, *sorted(set(found) - set(ROLES)))


def tokenizer() -> PreTrainedTokenizerFast:
    """Whole words, without case."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(words())}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.normalizer = normalizers.Lowercase()
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        unk_token="<unk>",
        pad_token="<pad>",
        eos_token="<|im_end|>",
        extra_special_tokens={
            "image_token": "<|image_pad|>",
            "video_token": "<|video_pad|>",
            "vision_start_token": "<|vision_start|>",
            "vision_end_token": "<|vision_end|>",
            "turn_start_token": "<|im_start|>",
        },
        chat_template=TEMPLATE,
        padding_side="left",
    )


def new_model(*, hidden: int, layers: int, seed: int) -> Qwen3VLForConditionalGeneration:
    """The model with random weights."""
    import torch
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    vocabulary = words()
    ids = {word: number for number, word in enumerate(vocabulary)}
    heads, head = 4, hidden // 4
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(vocabulary),
            "hidden_size": hidden,
            "intermediate_size": 3 * hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": 2,
            "head_dim": head,
            "max_position_embeddings": 512,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": _thirds(head // 2),
                "mrope_interleaved": True,
            },
            "initializer_range": 0.04,
            "pad_token_id": ids["<pad>"],
            "bos_token_id": ids["<|im_start|>"],
            "eos_token_id": ids["<|im_end|>"],
            "tie_word_embeddings": True,
        },
        vision_config={
            "depth": 3,
            "hidden_size": hidden,
            "intermediate_size": 3 * hidden,
            "num_heads": heads,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": 2,
            "out_hidden_size": hidden,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1],
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=True,
    )
    torch.manual_seed(seed)
    return Qwen3VLForConditionalGeneration(config).float()


def code_digest() -> str:
    """Digest of all code that shapes a small model: changed code goes on from no earlier state."""
    parts = ("checkpoint", "encoder", "lessons", "scenery", "speaker")
    return fingerprint(*(f"stages.training.{part}" for part in parts), "stages.models.demo")


def _thirds(count: int) -> list[int]:
    """Time, height and width get a third of the rotary frequencies each."""
    return [count - 2 * (count // 3), count // 3, count // 3]


def save(model: Qwen3VLForConditionalGeneration, folder: Path) -> None:
    """Write a folder that `AutoProcessor` and `AutoModelForImageTextToText` load."""
    from transformers import (
        GenerationConfig,
        Qwen2VLImageProcessor,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    words_ = tokenizer()
    area = SMALL[0] * SMALL[1]
    sizes: dict[str, Any] = {
        "size": {"shortest_edge": area, "longest_edge": area},
        "patch_size": PATCH,
        "temporal_patch_size": 2,
        "merge_size": MERGE,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
    processor = Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(**sizes),
        tokenizer=words_,
        video_processor=Qwen3VLVideoProcessor(),
        chat_template=TEMPLATE,
    )
    model.generation_config = GenerationConfig(
        eos_token_id=words_.eos_token_id, pad_token_id=words_.pad_token_id, do_sample=False
    )
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    _without_path(folder / "tokenizer_config.json")


def _without_path(path: Path) -> None:
    """Take the place where a tokenizer came from out of its file: it is a path of this machine."""
    held = json.loads(path.read_text(encoding="utf-8"))
    held.pop("name_or_path", None)
    path.write_text(json.dumps(held, indent=2, sort_keys=True) + "\n", encoding="utf-8")
