"""The parameters of localized edit verification, in one frozen and validated place."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

VERDICT_KEYS = frozenset({"tau_in", "tau_out", "with_verifier"})
"""Keys of the ``verify`` section that judge a measurement and do not change it."""


@dataclass(frozen=True)
class Settings:
    """All that shapes a measurement; the thresholds on r_in and r_out are not among it.

    Shares of the diagonal make images of different sizes comparable. Pixels, where a field
    speaks of them, are pixels of the working image (see ``working_side_px``). Colours are
    scaled to [0, 1].
    """

    dilation_share: float = 0.01
    """Radius by which masks are widened, as a share of the image diagonal, in [0, 0.5]."""
    max_mask_share: float = 0.97
    """Largest share of the image that a mask may cover and r_out still mean something, (0, 1]."""
    aspect_tolerance: float = 0.02
    """Largest relative difference of aspect ratios that resampling may undo, in [0, 1]."""
    working_side_px: int = 512
    """Images with a longer side are measured at this length of it; at least 16."""
    orb_features: int = 500
    """Keypoints sought in each image, at least 4."""
    min_matches: int = 12
    """Agreeing keypoints below which no transform is believed, at least 3."""
    ransac_px: float = 2.0
    """Reprojection error up to which a match agrees with a transform, in pixels, above 0."""
    max_shift_share: float = 0.10
    """Largest mean displacement by the global transform, as a share of the diagonal, [0, 1]."""
    max_rotation_deg: float = 10.0
    """Largest rotation of the global transform, in degrees, in [0, 180]."""
    max_scale: float = 1.15
    """Largest magnification of the global transform; its inverse bounds shrinking; at least 1."""
    flow_side_px: int = 256
    """Dense flow is estimated at this length of the longer side; at least 16."""
    flow_smooth_share: float = 0.03
    """Standard deviation of the smoothing of the flow, as a share of the diagonal, (0, 1]."""
    flow_max_share: float = 0.01
    """Largest displacement by the flow, as a share of the diagonal, in [0, 0.1]; 0: no flow."""
    denoise_px: float = 1.0
    """Standard deviation of the blur before all comparison, in pixels, in [0, 10]."""
    ssim_window_px: float = 1.5
    """Standard deviation of the Gaussian window of SSIM, in pixels, in [0.5, 10]."""
    ssim_threshold: float = 0.4
    """Structure has changed where local SSIM is below this, in [-1, 1]."""
    rgb_weight: float = 0.5
    """Weight of the RGB distance in the pixel score, at least 0."""
    hsv_weight: float = 0.5
    """Weight of the distance in the HSV cone in the pixel score, at least 0."""
    gradient_weight: float = 0.5
    """Weight of the difference of gradient magnitudes in the pixel score, at least 0."""
    pixel_threshold: float = 0.06
    """A pixel has changed where the weighted score is above this, at least 0."""

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{name} must be a number, not {value!r}")
            if not (low <= value <= high and math.isfinite(value)):
                raise ValueError(f"{name} must lie in [{low:g}, {high:g}], not {value!r}")
            if name in _WHOLE and value != int(value):
                raise ValueError(f"{name} must be a whole number, not {value!r}")

    @classmethod
    def from_section(cls, section: Mapping[str, Any]) -> "Settings":
        """Read the ``verify`` section of the parameters, whose τ are left to the verdict.

        Raises
        ------
        ValueError
            For an unknown key, or a value outside its range.
        """
        values = {key: value for key, value in section.items() if key not in VERDICT_KEYS}
        unknown = sorted(values.keys() - {field.name for field in fields(cls)})
        if unknown:
            raise ValueError(f"unknown settings: {', '.join(unknown)}")
        return cls(**values)


_INFINITY = float("inf")
_SMALLEST = 1e-9
_RANGES: dict[str, tuple[float, float]] = {
    "dilation_share": (0.0, 0.5),
    "max_mask_share": (_SMALLEST, 1.0),
    "aspect_tolerance": (0.0, 1.0),
    "working_side_px": (16, 1 << 16),
    "orb_features": (4, 100_000),
    "min_matches": (3, 100_000),
    "ransac_px": (_SMALLEST, 100.0),
    "max_shift_share": (0.0, 1.0),
    "max_rotation_deg": (0.0, 180.0),
    "max_scale": (1.0, 10.0),
    "flow_side_px": (16, 1 << 16),
    "flow_smooth_share": (_SMALLEST, 1.0),
    "flow_max_share": (0.0, 0.1),
    "denoise_px": (0.0, 10.0),
    "ssim_window_px": (0.5, 10.0),
    "ssim_threshold": (-1.0, 1.0),
    "rgb_weight": (0.0, _INFINITY),
    "hsv_weight": (0.0, _INFINITY),
    "gradient_weight": (0.0, _INFINITY),
    "pixel_threshold": (0.0, _INFINITY),
}
_WHOLE = frozenset({"working_side_px", "orb_features", "min_matches", "flow_side_px"})
