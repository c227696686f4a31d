"""Every adapter that sees with weights of its own: how it is made, from tiny checkpoints."""

from collections.abc import Callable
from typing import Any

import numpy as np

from stages.models.detector.demo import DemoDetector
from stages.models.detector.zero_shot import ZeroShot
from stages.models.editor.demo import DemoEditor
from stages.models.editor.diffusion import Diffusion
from stages.models.picture import Picture
from stages.models.sam3 import Sam3
from stages.models.segmenter.grabcut import GrabCut
from stages.models.segmenter.sam2 import Sam2
from stages.models.segmenter.sam2_package import Sam2Package

Tiny = Callable[[str], str]
Make = Callable[..., Any]
CPU = {"device": "cpu"}


def _package(tiny: Tiny, **values: Any) -> Sam2Package:
    folder = tiny("sam2_package")
    return Sam2Package(folder, "tiny.pt", f"{folder}/tiny.yaml", **{**CPU, **values})


def _few(**call: Any) -> dict[str, Any]:
    return {"call": {"num_inference_steps": 2, **call}, "dtype": "float32", **CPU}


DETECTORS: dict[str, Make] = {
    "owlv2": lambda tiny, **v: ZeroShot(tiny("owlv2"), **{"threshold": 0.3, **CPU, **v}),
    "owlvit": lambda tiny, **v: ZeroShot(tiny("owlvit"), **{"threshold": 0.3, **CPU, **v}),
    "grounding dino": lambda tiny, **v: ZeroShot(
        tiny("grounding_dino"), **{"threshold": 0.6, **CPU, **v}
    ),
    "sam3": lambda tiny, **v: Sam3(tiny("sam3"), **{"threshold": 0.2, **CPU, **v}),
}
SEGMENTERS: dict[str, Make] = {
    "sam2": lambda tiny, **v: Sam2(tiny("sam2"), **{**CPU, **v}),
    "sam2 package": _package,
    "sam3 tracker": lambda tiny, **v: Sam2(
        tiny("sam3_tracker"), **{"kind": "sam3_tracker", **CPU, **v}
    ),
    "sam3": lambda tiny, **v: Sam3(tiny("sam3"), **{"threshold": 0.1, "min_iou": 0.0, **CPU, **v}),
}
EDITORS: dict[str, Make] = {
    "flux2 klein": lambda tiny, **v: Diffusion(
        tiny("flux2_klein"),
        "Flux2KleinPipeline",
        **{**_few(text_encoder_out_layers=[1], guidance_scale=1.0), **v},
    ),
    "flux kontext": lambda tiny, **v: Diffusion(
        tiny("flux_kontext"),
        "FluxKontextPipeline",
        **{**_few(guidance_scale=2.5, _auto_resize=False, max_sequence_length=128), **v},
    ),
}
PACKAGES = {"sam2 package": ["sam2"], "flux2 klein": ["diffusers"], "flux kontext": ["diffusers"]}
"""What a case needs besides torch, torchvision and transformers."""
BUILT_IN: dict[str, Make] = {
    "demo detector": lambda tiny, **v: DemoDetector(),
    "grabcut": lambda tiny, **v: GrabCut(),
    "demo editor": lambda tiny, **v: DemoEditor(name="demo", faults={}),
}


def noise(height: int, width: int, seed: int = 0) -> Picture:
    """A picture of random pixels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Picture.of(pixels)
