"""Tiny checkpoints of detectors and segmenters: the real architectures with random weights.

Each function writes a folder such as `from_pretrained` reads; nothing is downloaded. Weights are
seeded, and heads are scaled so that boxes and scores spread over the picture.
"""

from pathlib import Path
from typing import Any

SIDE = 64
"""Pixels a side that the detectors see."""
WORDS = ("a photo of the red cup car tree dog visual . , - _").split()  # noqa: SIM905


def tokenizer(special: dict[str, str], template: str, length: int = 32) -> Any:
    """A tokenizer of whole words and single letters, so that any phrase has tokens."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocab = {word: number for number, word in enumerate(dict.fromkeys([*special.values(), *WORDS]))}
    made = Tokenizer(models.WordLevel(vocab, unk_token=special["unk_token"]))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single=template,
        special_tokens=[(word, vocab[word]) for word in template.split() if word in vocab],
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=length, **special)


def clip_tokenizer(length: int) -> Any:
    """As CLIP's: the padding is token 0."""
    special = {
        "pad_token": "!",
        "bos_token": "<|startoftext|>",
        "eos_token": "<|endoftext|>",
        "unk_token": "<unk>",
    }
    return tokenizer(special, "<|startoftext|> $A <|endoftext|>", length)


def bert_tokenizer() -> Any:
    """As BERT's."""
    special = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    return tokenizer(special, "[CLS] $A [SEP]")


def owlv2(folder: Path, *, seed: int = 0) -> Path:
    """OWLv2: 16 candidate boxes of a padded square of 64 pixels."""
    return _owl(folder, "Owlv2", seed)


def owlvit(folder: Path, *, seed: int = 0) -> Path:
    """OWL-ViT: the same on the stretched picture."""
    return _owl(folder, "OwlViT", seed)


def _owl(folder: Path, kind: str, seed: int) -> Path:
    import torch
    import transformers

    words = clip_tokenizer(16)
    layers = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    config = getattr(transformers, f"{kind}Config")(
        text_config={
            **layers,
            "vocab_size": len(words),
            "max_position_embeddings": 16,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
        vision_config={**layers, "image_size": SIDE, "patch_size": 16},
        projection_dim=16,
    )
    torch.manual_seed(seed)
    model = getattr(transformers, f"{kind}ForObjectDetection")(config)
    _scale(model.box_head, 0.3)
    _scale(model.class_head, 0.3)
    model.save_pretrained(folder)
    size = {"height": SIDE, "width": SIDE}
    images = getattr(transformers, f"{kind}ImageProcessor")(
        size=size, **({} if kind == "Owlv2" else {"crop_size": size})
    )
    getattr(transformers, f"{kind}Processor")(images, words).save_pretrained(folder)
    return folder


def grounding_dino(folder: Path, *, seed: int = 0) -> Path:
    """Grounding DINO on a Swin backbone and BERT: 12 queries."""
    import torch
    from transformers import (
        BertConfig,
        GroundingDinoConfig,
        GroundingDinoForObjectDetection,
        GroundingDinoImageProcessor,
        GroundingDinoProcessor,
        SwinConfig,
    )

    words = bert_tokenizer()
    torch.manual_seed(seed)
    model = GroundingDinoForObjectDetection(
        GroundingDinoConfig(
            backbone_config=SwinConfig(
                window_size=7,
                image_size=SIDE,
                embed_dim=8,
                depths=[1, 1, 1, 1],
                num_heads=[1, 1, 1, 1],
                out_features=["stage2", "stage3", "stage4"],
                out_indices=[2, 3, 4],
            ),
            text_config=BertConfig(
                vocab_size=len(words),
                hidden_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=32,
                max_position_embeddings=64,
            ),
            d_model=32,  # its group norms have 32 groups
            encoder_layers=1,
            decoder_layers=2,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            num_queries=12,
            max_text_len=32,
            disable_custom_kernels=True,
        )
    )
    model.save_pretrained(folder)
    images = GroundingDinoImageProcessor(size={"shortest_edge": 128, "longest_edge": 256})
    GroundingDinoProcessor(images, words).save_pretrained(folder)
    return folder


def sam2(folder: Path, *, seed: int = 0) -> Path:
    """SAM 2 as Transformers has it, on 128 pixels a side."""
    import torch
    from transformers import (
        Sam2Config,
        Sam2HieraDetConfig,
        Sam2ImageProcessor,
        Sam2MaskDecoderConfig,
        Sam2Model,
        Sam2Processor,
        Sam2PromptEncoderConfig,
        Sam2VisionConfig,
    )

    side = 128
    torch.manual_seed(seed)
    model = Sam2Model(
        Sam2Config(
            vision_config=Sam2VisionConfig(
                backbone_config=Sam2HieraDetConfig(
                    image_size=[side, side],
                    hidden_size=8,
                    embed_dim_per_stage=[8, 16, 32, 64],
                    num_attention_heads_per_stage=[1, 1, 2, 2],
                    blocks_per_stage=[1, 1, 2, 1],
                    global_attention_blocks=[3],
                    window_size_per_stage=[8, 4, 4, 4],
                ),
                backbone_channel_list=[64, 32, 16, 8],
                backbone_feature_sizes=[[side // n, side // n] for n in (4, 8, 16)],
                fpn_hidden_size=32,
            ),
            prompt_encoder_config=Sam2PromptEncoderConfig(hidden_size=32, image_size=side),
            mask_decoder_config=Sam2MaskDecoderConfig(
                hidden_size=32, iou_head_hidden_dim=32, mlp_dim=32, num_attention_heads=2
            ),
        )
    )
    model.save_pretrained(folder)
    sizes = {"size": {"height": side, "width": side}, "mask_size": {"height": 32, "width": 32}}
    Sam2Processor(Sam2ImageProcessor(**sizes)).save_pretrained(folder)
    return folder


def sam3(folder: Path, *, seed: int = 0) -> Path:
    """SAM 3 for concepts: 8 queries on 112 pixels a side."""
    import torch
    from transformers import Sam3Config, Sam3ImageProcessor, Sam3Model, Sam3Processor

    words = clip_tokenizer(32)
    part = {"hidden_size": 32, "num_attention_heads": 2}
    layers = {**part, "intermediate_size": 32, "num_layers": 1, "dropout": 0.0}
    torch.manual_seed(seed)
    model = Sam3Model(
        Sam3Config(
            vision_config={
                "model_type": "sam3_vision_model",
                "backbone_config": _sam3_backbone(),
                "fpn_hidden_size": 32,
                "backbone_feature_sizes": [[32, 32], [16, 16], [8, 8]],
            },
            text_config={
                **part,
                "vocab_size": len(words),
                "intermediate_size": 32,
                "projection_dim": 32,
                "num_hidden_layers": 1,
                "max_position_embeddings": 32,
                "pad_token_id": 0,
                "bos_token_id": 1,
                "eos_token_id": 2,
            },
            geometry_encoder_config=layers,
            detr_encoder_config=layers,
            detr_decoder_config={**layers, "num_queries": 8},
            mask_decoder_config=part,
        )
    )
    model.detr_decoder.reference_points.weight.data.normal_(0, 1.5)
    _scale(model.dot_product_scoring, 4.0)
    _scale(model.vision_encoder, 4.0)
    _scale(model.detr_decoder.box_head, 10.0)
    model.save_pretrained(folder)
    Sam3Processor(Sam3ImageProcessor(**_sam3_sizes()), words).save_pretrained(folder)
    return folder


def sam3_tracker(folder: Path, *, seed: int = 0) -> Path:
    """SAM 3 for single objects: boxes to masks as SAM 2 does it."""
    import torch
    from transformers import (
        Sam3ImageProcessor,
        Sam3TrackerConfig,
        Sam3TrackerModel,
        Sam3TrackerProcessor,
    )

    torch.manual_seed(seed)
    model = Sam3TrackerModel(
        Sam3TrackerConfig(
            vision_config={
                "model_type": "sam3_vision_model",
                "backbone_config": _sam3_backbone(),
                "fpn_hidden_size": 32,
                "backbone_feature_sizes": [[32, 32], [16, 16], [8, 8]],
            },
            prompt_encoder_config={"hidden_size": 32, "image_size": 112, "patch_size": 14},
            mask_decoder_config={
                "hidden_size": 32,
                "iou_head_hidden_dim": 32,
                "mlp_dim": 32,
                "num_attention_heads": 2,
            },
        )
    )
    model.save_pretrained(folder)
    Sam3TrackerProcessor(Sam3ImageProcessor(**_sam3_sizes())).save_pretrained(folder)
    return folder


def _sam3_backbone() -> dict[str, Any]:
    return {
        "model_type": "sam3_vit_model",
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 112,
        "patch_size": 14,
        "window_size": 4,
        "global_attn_indexes": [1],
        "pretrain_image_size": 56,
    }


def _sam3_sizes() -> dict[str, Any]:
    return {
        "size": {"height": 112, "width": 112},
        "mask_size": {"height": 32, "width": 32},
    }


def _scale(module: Any, factor: float) -> None:
    for weight in module.parameters():
        weight.data.mul_(factor)
