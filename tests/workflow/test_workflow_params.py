"""Parameters and adapters: a wrong value is named with its key and its remedy."""

from typing import Any

import pytest

from stages.imaging.settings import Settings
from stages.models.protocol import Chat, Segmenter
from stages.records.errors import UserError
from stages.workflow import adapters, cells, params, sections

BASE: dict[str, Any] = {
    "target_names": ["a"],
    "extractor_names": ["x"],
    "editor_names": ["e", "f"],
    "judge_names": ["j"],
    "pair_names": [],
    "seeds": [0, 3],
    "chain": {"k": 2, "max_attempts": 2, "on_rejection": "stop"},
    "verify": {"tau_in": 0.1, "tau_out": 0.3, **vars(Settings())},
    "segmenter": {"_target_": "stages.models.segmenter.grabcut.GrabCut"},
}


def changed(key: str, value: Any) -> dict[str, Any]:
    section, _, name = key.partition(".")
    return {**BASE, section: {**BASE[section], name: value} if name else value}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("chain.k", 0),
        ("chain.k", "two"),
        ("chain.k", True),
        ("chain.k", 1.5),
        ("chain.max_attempts", 0),
        ("chain.on_rejection", "go"),
        ("chain.extra", 1),
    ],
)
def test_a_wrong_chain_names_its_key(key: str, value: Any) -> None:
    with pytest.raises(UserError) as caught:
        params.section(changed(key, value), "chain", sections.Chain)
    assert f"params.yaml: {key}" in str(caught.value)


@pytest.mark.parametrize("key", ["verify.tau_in", "verify.tau_out"])
@pytest.mark.parametrize("value", [-0.01, 1.01, "ten", None, float("nan"), True])
def test_thresholds_are_shares(key: str, value: Any) -> None:
    with pytest.raises(UserError, match=key):
        params.verification(changed(key, value))


@pytest.mark.parametrize("value", [0, 1, 0.5])
def test_both_ends_of_a_share_are_shares(value: float) -> None:
    thresholds, _ = params.verification(changed("verify.tau_in", value))
    assert thresholds.tau_in == value


@pytest.mark.parametrize(
    ("key", "value"),
    [("ssim_threshold", 7), ("no_such_setting", 1), ("pixel_threshold", float("inf"))],
)
def test_a_wrong_setting_of_measurement_is_named(key: str, value: Any) -> None:
    with pytest.raises(UserError, match=key):
        params.verification(changed(f"verify.{key}", value))


def test_cells_are_the_product_of_the_axes_in_order() -> None:
    found = cells.study_cells(BASE)
    assert [(cell.editor, cell.seed) for cell in found] == [("e", 0), ("e", 3), ("f", 0), ("f", 3)]


def test_a_study_without_targets_has_no_cells() -> None:
    assert cells.study_cells({**BASE, "target_names": [], "judge_names": []}) == []


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("target_names", ["A-b"], "can't name a folder"),
        ("editor_names", [], "is empty"),
        ("seeds", [], "is empty"),
        ("seeds", [-1], "no whole number"),
        ("seeds", [True], "no whole number"),
        ("judge_names", "j", "must be a list"),
        ("target_names", ["a", "a"], "twice"),
        ("seeds", [0, 0], "twice"),
    ],
)
def test_a_wrong_axis_is_named(key: str, value: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        cells.study_cells({**BASE, key: value})
    assert key in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"_target_": "stages.models.segmenter.nowhere.X"}, "can't be imported"),
        ({"_target_": "GrabCut"}, "can't be imported"),
        ({"_target_": "pathlib.Path"}, "is no Segmenter"),
        ({"_target_": "stages.models.segmenter.grabcut.GrabCut", "colour": 1}, "It takes:"),
        ({}, "has no _target_"),
    ],
)
def test_a_wrong_adapter_is_named(config: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        adapters.build({"segmenter": config}, "segmenter", Segmenter)
    assert "params.yaml: segmenter" in str(caught.value)
    assert said in str(caught.value)


def test_an_unknown_name_is_answered_with_near_ones() -> None:
    given = {"targets": {"demo_looks": {}, "demo_prior": {}}}
    with pytest.raises(UserError, match="Known: demo_looks"):
        adapters.build(given, "targets.demo_look", Chat)


TUNING = {
    "base": "",
    "model": "weights",
    "revision": "main",
    "cell": "",
    "train": [],
    "held_out": [],
    "say": "It is {label}.",
    "device": "cuda:1",
    "dtype": "float32",
    "max_pixels": None,
}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("say", "It is.", "must hold {label}"),
        ("say", "It is {lable}.", "must hold {label}"),
        ("say", "{{label}}", "no other braces"),
        ("say", "{label} {", "no other braces"),
        ("dtype", "float99", "one of auto, checkpoint, bfloat16, float16, float32"),
        ("device", "gpu", "none of auto, all, cpu, cuda, cuda:n, mps"),
    ],
)
def test_a_tuning_that_can_not_be_is_named(key: str, value: str, said: str) -> None:
    params.section({"tuning": TUNING}, "tuning", sections.Tuning)
    with pytest.raises(UserError, match=said) as caught:
        params.section({"tuning": {**TUNING, key: value}}, "tuning", sections.Tuning)
    assert str(caught.value).startswith(f"params.yaml: tuning.{key}: is '{value}'")


def test_a_missing_setting_of_measurement_is_named() -> None:
    with pytest.raises(UserError, match=r"verify\.\w+: is missing"):
        params.verification({"verify": {"tau_in": 0.1, "tau_out": 0.3}})


def test_an_adapter_s_own_complaint_carries_the_key() -> None:
    config = {
        "_target_": "stages.models.chat.demo_target.DemoTarget",
        "behaviour": "stares",
    }
    with pytest.raises(UserError, match=r"params.yaml: targets\.x") as caught:
        adapters.build({"targets": {"x": config}}, "targets.x", Chat)
    assert "\n" not in str(caught.value)
