"""Tiny diffusion pipelines: the real architectures with random weights, as diffusers saves them.

Their autoencoders shrink by eight as the real ones do, so that sizes behave as with real weights.
"""

from pathlib import Path
from typing import Any

CHAT = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VISION = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")


def byte_tokenizer(cls: Any = None, **more: Any) -> Any:
    """Qwen's tokenizer with a vocabulary of bytes: it takes any text."""
    from tokenizers import pre_tokenizers
    from transformers import Qwen2Tokenizer

    letters = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *MARKS, *VISION]
    vocab = {letter: number for number, letter in enumerate(letters)}
    made = Qwen2Tokenizer(vocab=vocab, merges=[], model_max_length=4096)
    made.add_special_tokens({"additional_special_tokens": [*MARKS[1:], *VISION]})
    made.chat_template = CHAT
    return made


def word_tokenizer(pad: str, length: int) -> Any:
    """Single letters and an end, as much as CLIP and T5 need here."""
    from tests.models.local.tiny_vision import tokenizer

    special = {"pad_token": pad, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return tokenizer(special, "$A </s>", length)


def flux2_klein(folder: Path, *, seed: int = 0) -> Path:
    """FLUX.2 klein, step-distilled: call it with ``text_encoder_out_layers: [1]``."""
    import torch
    from diffusers import (
        AutoencoderKLFlux2,
        FlowMatchEulerDiscreteScheduler,
        Flux2KleinPipeline,
        Flux2Transformer2DModel,
    )
    from transformers import Qwen3Config, Qwen3ForCausalLM

    words = byte_tokenizer()
    torch.manual_seed(seed)
    Flux2KleinPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=AutoencoderKLFlux2(
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
            block_out_channels=(4, 4, 4, 4),
            layers_per_block=1,
            latent_channels=2,
            norm_num_groups=1,
            sample_size=64,
            use_quant_conv=False,
            use_post_quant_conv=False,
        ),
        text_encoder=Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=len(words),
                hidden_size=16,
                intermediate_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                num_key_value_heads=2,
                head_dim=8,
                max_position_embeddings=512,
            )
        ),
        tokenizer=words,
        transformer=Flux2Transformer2DModel(
            patch_size=1,
            in_channels=8,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=16,
            timestep_guidance_channels=32,
            axes_dims_rope=(4, 4, 4, 4),
            guidance_embeds=False,
        ),
        is_distilled=True,
    ).save_pretrained(folder)
    return folder


def flux_kontext(folder: Path, *, seed: int = 0) -> Path:
    """FLUX.1 Kontext with CLIP and T5."""
    import torch
    from diffusers import (
        AutoencoderKL,
        FlowMatchEulerDiscreteScheduler,
        FluxKontextPipeline,
        FluxTransformer2DModel,
    )
    from transformers import CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel

    clip, t5 = word_tokenizer("!", 77), word_tokenizer("<pad>", 512)
    torch.manual_seed(seed)
    FluxKontextPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
            block_out_channels=(4, 4, 4, 4),
            layers_per_block=1,
            latent_channels=1,
            norm_num_groups=1,
            use_quant_conv=False,
            use_post_quant_conv=False,
            shift_factor=0.0609,
            scaling_factor=1.5035,
        ),
        text_encoder=CLIPTextModel(
            CLIPTextConfig(
                vocab_size=len(clip),
                hidden_size=32,
                intermediate_size=32,
                projection_dim=32,
                num_hidden_layers=1,
                num_attention_heads=2,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=2,
            )
        ),
        tokenizer=clip,
        text_encoder_2=T5EncoderModel(
            T5Config(vocab_size=len(t5), d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
        ),
        tokenizer_2=t5,
        transformer=FluxTransformer2DModel(
            patch_size=1,
            in_channels=4,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=32,
            pooled_projection_dim=32,
            axes_dims_rope=(4, 4, 8),
            guidance_embeds=True,
        ),
    ).save_pretrained(folder)
    return folder


def qwen_image_edit_plus(folder: Path, *, seed: int = 0) -> Path:
    """Qwen-Image-Edit from 2509 on, with Qwen2.5-VL. It always works on a megapixel."""
    import torch
    from diffusers import (
        AutoencoderKLQwenImage,
        FlowMatchEulerDiscreteScheduler,
        QwenImageEditPlusPipeline,
        QwenImageTransformer2DModel,
    )
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2VLImageProcessor,
        Qwen2VLProcessor,
        Qwen2VLVideoProcessor,
    )

    words = byte_tokenizer()
    numbers = dict(zip(VISION, words.convert_tokens_to_ids(list(VISION)), strict=True))
    torch.manual_seed(seed)
    text_encoder = Qwen2_5_VLForConditionalGeneration(
        Qwen2_5_VLConfig(
            text_config={
                "vocab_size": len(words),
                "hidden_size": 16,
                "intermediate_size": 16,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 10000.0,
                    "mrope_section": [1, 1, 2],
                },
            },
            vision_config={
                "depth": 1,
                "hidden_size": 16,
                "intermediate_size": 16,
                "num_heads": 2,
                "out_hidden_size": 16,
                "fullatt_block_indexes": [0],
            },
            image_token_id=numbers["<|image_pad|>"],
            video_token_id=numbers["<|video_pad|>"],
            vision_start_token_id=numbers["<|vision_start|>"],
            vision_end_token_id=numbers["<|vision_end|>"],
        )
    )
    QwenImageEditPlusPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=AutoencoderKLQwenImage(
            base_dim=4,
            z_dim=4,
            dim_mult=[1, 1, 1, 1],
            num_res_blocks=1,
            temperal_downsample=[False, True, True],
            latents_mean=[0.0] * 4,
            latents_std=[1.0] * 4,
        ),
        text_encoder=text_encoder,
        tokenizer=words,
        processor=Qwen2VLProcessor(
            Qwen2VLImageProcessor(), words, Qwen2VLVideoProcessor(), chat_template=CHAT
        ),
        transformer=QwenImageTransformer2DModel(
            patch_size=2,
            in_channels=16,
            out_channels=4,
            num_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=16,
            guidance_embeds=False,
            axes_dims_rope=(4, 6, 6),
        ),
    ).save_pretrained(folder)
    return folder
