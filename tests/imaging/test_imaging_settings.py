"""Settings: validated, and the configuration holds all of them at the calibrated values."""

from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from stages.imaging.settings import Settings

SECTION = Path(__file__).parents[2] / "conf" / "verify.yaml"


@pytest.mark.parametrize(
    "bad",
    [
        {"ssim_threshold": 1.5},
        {"pixel_threshold": -0.1},
        {"pixel_threshold": float("nan")},
        {"max_mask_share": 0.0},
        {"working_side_px": 8},
        {"orb_features": 500.5},
        {"denoise_px": "1"},
        {"flow_max_share": True},
    ],
)
def test_values_out_of_range_are_named(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Settings(**bad)


def test_every_field_has_a_range():
    for field in fields(Settings):
        with pytest.raises(ValueError, match=field.name):
            Settings(**{field.name: -1e9})


def test_the_configuration_holds_every_field_at_its_default():
    section = yaml.safe_load(SECTION.read_text(encoding="utf-8"))
    assert Settings.from_section(section) == Settings()
    rules = {"tau_in", "tau_out", "with_verifier"}
    assert section.keys() == {field.name for field in fields(Settings)} | rules
    assert (section["tau_in"], section["tau_out"]) == (0.10, 0.30)  # the paper's


def test_unknown_keys_are_named():
    with pytest.raises(ValueError, match="ssim_treshold"):
        Settings.from_section({"tau_in": 0.1, "ssim_treshold": 0.4})
