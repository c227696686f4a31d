"""One tiny SAM 2 as both packages store it: the `sam2` package's own, and Transformers'.

The package's decoder fixes some widths and its predictor the side of 1024 pixels, so the rest is
small. Names are translated as Meta's and Hugging Face's sources have them.
"""

import re
from pathlib import Path
from typing import Any

CONFIG, CHECKPOINT = "tiny.yaml", "tiny.pt"
RENAMED = (
    (r"^image_encoder\.trunk\.", "vision_encoder.backbone."),
    (r"^image_encoder\.neck\.convs\.(\d)\.conv\.", r"vision_encoder.neck.convs.\1."),
    (r"^sam_prompt_encoder\.", "prompt_encoder."),
    (r"^sam_mask_decoder\.", "mask_decoder."),
    (r"^no_mem_embed$", "no_memory_embedding"),
    (r"patch_embed\.proj\.", "patch_embed.projection."),
    (r"\bnorm(\d)\.", r"layer_norm\1."),
    (r"norm_final_attn", "layer_norm_final_attn"),
    (r"\bout_proj\b", "o_proj"),
    (r"(blocks\.\d+)\.proj\.", r"\1.proj."),
    (r"(blocks\.\d+|layers\.\d+)\.mlp\.layers\.0\.", r"\1.mlp.proj_in."),
    (r"(blocks\.\d+|layers\.\d+)\.mlp\.layers\.1\.", r"\1.mlp.proj_out."),
    (r"(mlps\.\d|head)\.layers\.0\.", r"\1.proj_in."),
    (r"(mlps\.\d|head)\.layers\.1\.", r"\1.layers.0."),
    (r"(mlps\.\d|head)\.layers\.2\.", r"\1.proj_out."),
    (r"output_upscaling\.0", "upscale_conv1"),
    (r"output_upscaling\.1", "upscale_layer_norm"),
    (r"output_upscaling\.3", "upscale_conv2"),
    (r"mask_downscaling\.0", "mask_embed.conv1"),
    (r"mask_downscaling\.1", "mask_embed.layer_norm1"),
    (r"mask_downscaling\.3", "mask_embed.conv2"),
    (r"mask_downscaling\.4", "mask_embed.layer_norm2"),
    (r"mask_downscaling\.6", "mask_embed.conv3"),
    (r"pe_layer\.positional_encoding_gaussian_matrix", "shared_embedding.positional_embedding"),
)
VIDEO = ("memory_", "maskmem_", "mask_downsample", "no_mem_pos", "no_obj", "obj_ptr")


def package(folder: Path, *, seed: int = 0) -> Path:
    """Write ``tiny.yaml`` and ``tiny.pt`` for the `sam2` package."""
    import sam2
    import torch
    from hydra.core.global_hydra import GlobalHydra
    from hydra.utils import instantiate
    from omegaconf import OmegaConf

    GlobalHydra.instance().clear()  # importing sam2 has filled it
    folder.mkdir(parents=True)
    shipped = Path(sam2.__path__[0]) / "configs" / "sam2.1" / "sam2.1_hiera_t.yaml"
    config = OmegaConf.load(shipped)
    small: dict[str, Any] = {
        "image_encoder.trunk": {
            "embed_dim": 8,
            "stages": [1, 1, 2, 1],
            "global_att_blocks": [3],
            "window_spec": [8, 4, 4, 4],
        },
        "image_encoder.neck": {
            "d_model": 32,
            "backbone_channel_list": [64, 32, 16, 8],
            "position_encoding": {"num_pos_feats": 32},
        },
        "memory_attention": {
            "d_model": 32,
            "num_layers": 1,
            "layer": {
                "d_model": 32,
                "dim_feedforward": 32,
                "self_attention": {"embedding_dim": 32},
                "cross_attention": {"embedding_dim": 32, "kv_in_dim": 8},
            },
        },
        "memory_encoder": {
            "in_dim": 32,
            "out_dim": 8,
            "position_encoding": {"num_pos_feats": 8},
            "mask_downsampler": {"embed_dim": 32},
            "fuser": {"num_layers": 1, "layer": {"dim": 32}},
        },
    }
    for where, values in small.items():
        OmegaConf.update(config, f"model.{where}", values, merge=True)
    OmegaConf.save(config, folder / CONFIG)
    torch.manual_seed(seed)
    model = instantiate(config.model, _recursive_=True)
    torch.save({"model": model.state_dict()}, folder / CHECKPOINT)
    return folder


def as_transformers(checkpoint: Path, folder: Path) -> Path:
    """Write the same weights as a folder that Transformers reads."""
    import torch
    from transformers import (
        Sam2Config,
        Sam2HieraDetConfig,
        Sam2ImageProcessor,
        Sam2Model,
        Sam2Processor,
        Sam2VisionConfig,
    )

    model = Sam2Model(
        Sam2Config(
            vision_config=Sam2VisionConfig(
                backbone_config=Sam2HieraDetConfig(
                    hidden_size=8,
                    embed_dim_per_stage=[8, 16, 32, 64],
                    num_attention_heads_per_stage=[1, 2, 4, 8],
                    blocks_per_stage=[1, 1, 2, 1],
                    global_attention_blocks=[3],
                    window_size_per_stage=[8, 4, 4, 4],
                ),
                backbone_channel_list=[64, 32, 16, 8],
                fpn_hidden_size=32,
            ),
            prompt_encoder_config={"hidden_size": 32},
            mask_decoder_config={"hidden_size": 32},
        )
    )
    weights = torch.load(checkpoint, map_location="cpu", weights_only=True)["model"]
    model.load_state_dict(renamed(weights), strict=True)
    model.save_pretrained(folder)
    Sam2Processor(Sam2ImageProcessor()).save_pretrained(folder)
    return folder


def renamed(weights: dict[str, Any]) -> dict[str, Any]:
    """The package's weights under Transformers' names, those for video left out."""
    import torch

    made: dict[str, Any] = {}
    points = []
    for old, weight in weights.items():
        if old.startswith(VIDEO):
            continue
        if "point_embeddings" in old:
            points.append(weight)
            continue
        name = old
        for pattern, new in RENAMED:
            name = re.sub(pattern, new, name)
        made[name] = weight
    made["prompt_encoder.point_embed.weight"] = torch.cat(points)
    shared = made["prompt_encoder.shared_embedding.positional_embedding"]
    made["shared_image_embedding.positional_embedding"] = shared
    return made
