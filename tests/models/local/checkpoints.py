"""Tiny checkpoints with random weights, written in the layout of real ones and loaded as these are.

Each builder makes a folder that `from_pretrained` takes: weights, config, tokenizer, processor and
chat template. Weights follow from a seed. Texts are words of a small vocabulary; several of its
words end a reply, so that some replies end within the limit and some do not.
"""

from pathlib import Path
from typing import Any

import pytest

TEXT = """
a the is it of on in to and because red green blue yellow car ball box tree cup house road
sky left right top bottom what which why colour shape count one two three four yes no not there you
big small round square see shows image object answer question edited user assistant system
. , ? ! : ; ' " - ( ) { } [ ] 0 1 2 3 4 5 6 7 8 9
"""
WORDS = ("Ċ", *(space + word for word in TEXT.split() for space in ("", "Ġ")))
"""Words as byte-level tokenizers write them: a line's end, and each word bare or after a space."""
MARKS = ("<unk>", "<pad>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")
QWEN_MARKS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
ENDS = ("<|im_end|>", *("!", "Ġ!", ";", "Ġ;", "Ġ(", "(", "{", "Ġ{", "]", "Ġ]", "-", "Ġ-"))
"""Tokens that end a reply: the chat's own mark, and words that random weights say often enough."""

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}IMAGE"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# As LLaVA's: parts alone count, a plain string would vanish; and no system turn.
PARTS_ONLY = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% for part in message.content | selectattr('type', 'equalto', 'image') %}IMAGE{% endfor %}"
    "{% for part in message.content | selectattr('type', 'equalto', 'text') %}{{ part.text }}"
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# As older text models': strings alone, and a system turn is an error.
STRINGS_ONLY = (
    "{% for message in messages %}{% if message.role == 'system' %}"
    "{{ raise_exception('no system role') }}{% endif %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="session")
def tiny_qwen3_vl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return qwen3_vl(tmp_path_factory.mktemp("qwen3_vl"))


@pytest.fixture(scope="session")
def tiny_llava(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return llava(tmp_path_factory.mktemp("llava"))


@pytest.fixture(scope="session")
def tiny_causal_lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return causal_lm(tmp_path_factory.mktemp("causal_lm"))


def qwen3_vl(folder: Path, *, seed: int = 0) -> Path:
    """Qwen3-VL with 0.2 M parameters: images of any size, 32 x 32 pixels a token."""
    import torch
    from transformers import (
        Qwen2VLImageProcessor,
        Qwen3VLConfig,
        Qwen3VLForConditionalGeneration,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    tokenizer, ids = _tokenizer((*MARKS, *QWEN_MARKS))
    config = Qwen3VLConfig(
        text_config={**_text(len(ids)), "head_dim": 8},
        vision_config={
            "depth": 3,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 4,
            "out_hidden_size": 32,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1],
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration(config)
    processor = Qwen3VLProcessor(
        Qwen2VLImageProcessor(
            patch_size=16, size={"shortest_edge": 32 * 32, "longest_edge": 256 * 256}
        ),
        tokenizer,
        Qwen3VLVideoProcessor(patch_size=16),
        chat_template=CHATML.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>"),
    )
    return _save(folder, model, processor, ids)


def llava(folder: Path, *, seed: int = 0) -> Path:
    """LLaVA with a CLIP tower: images of one size, and a template that takes parts alone."""
    import torch
    from transformers import (
        CLIPImageProcessor,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    tokenizer, ids = _tokenizer((*MARKS, "<image>"))
    config = LlavaConfig(
        text_config={**_text(len(ids)), "model_type": "llama"},
        vision_config={
            "model_type": "clip_vision_model",
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 32,
            "patch_size": 8,
            "projection_dim": 32,
        },
        image_token_index=ids["<image>"],
        image_seq_length=16,
    )
    torch.manual_seed(seed)
    model = LlavaForConditionalGeneration(config)
    processor = LlavaProcessor(
        CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
        tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=PARTS_ONLY.replace("IMAGE", "<image>\n"),
    )
    return _save(folder, model, processor, ids)


def causal_lm(folder: Path, *, seed: int = 0, template: str = CHATML) -> Path:
    """Qwen3 with 0.03 M parameters: text alone."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer, ids = _tokenizer(MARKS)
    tokenizer.chat_template = template
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(Qwen3Config(**_text(len(ids)), head_dim=8))
    return _save(folder, model, tokenizer, ids)


def _text(vocabulary: int) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "initializer_range": 0.5,  # so that texts vary: the usual 0.02 gives one word without end
    }


def _tokenizer(marks: tuple[str, ...]) -> tuple[Any, dict[str, int]]:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    ids = {token: n for n, token in enumerate((*marks, *WORDS))}
    words = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words,
        unk_token="<unk>",
        pad_token="<pad>",
        eos_token="<|im_end|>",
        additional_special_tokens=[m for m in marks[2:] if "think" not in m],
    )
    tokenizer.add_tokens([mark for mark in marks if "think" in mark])
    return tokenizer, ids


def _save(folder: Path, model: Any, processor: Any, ids: dict[str, int]) -> Path:
    from transformers import GenerationConfig

    model.generation_config = GenerationConfig(
        do_sample=True,  # as many checkpoints say; the adapter goes by its YAML
        temperature=0.7,
        eos_token_id=[ids[token] for token in ENDS],
        pad_token_id=ids["<pad>"],
    )
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
