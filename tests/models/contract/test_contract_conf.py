"""The YAML files that are shipped: each makes its adapter, and says what it must."""

from pathlib import Path

import pytest
import yaml

from stages.models.protocol import Adapter, Chat, Detector, Editor
from stages.workflow import adapters
from tests.models.wire.loopback import KEY, Server

CONF = Path(__file__).parents[3] / "conf"
KINDS = {
    "target": Chat,
    "extractor": Chat,
    "judge": Chat,
    "verifier": Chat,
    "editor": Editor,
    "detector": Detector,
}
HTTP = (
    "openai_compatible",
    "black_forest_labs",
    "openrouter_images",
    "openai_images",
    "chat_images",
    "editor.http",
    "moondream_http",
    "chat_boxes",
)
FILES = sorted(
    path
    for group in KINDS
    for path in (CONF / group).glob("*.yaml")
    if any(module in yaml.safe_load(path.read_text()).get("_target_", "") for module in HTTP)
)
NAMED = {
    "target": "pixtral_12b gemma3_27b qwen3_vl_30b_a3b qwen3_vl_8b glm_4_6v gemini_2_5_flash",
    "extractor": "qwen3_235b_a22b gpt_5_2",
    "judge": "qwen3_235b_a22b gpt_5_2",
    "editor": "flux_2_max flux_2_pro flux_2_flex flux_kontext_max gemini_3_pro_image gpt_image_2",
    "detector": "moondream_cloud moondream_station qwen3_vl_boxes",
}


def build(path: Path) -> Adapter:
    group = path.parent.name
    params = {group: {path.stem: yaml.safe_load(path.read_text())}}
    key = f"{group}.{path.stem}"
    adapters.check(adapters.lookup(params, key), key, KINDS[group])
    return adapters.build(params, key, KINDS[group])


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_makes_its_adapter_and_hangs_where_the_study_looks(
    path: Path, server: Server
) -> None:
    identity = build(path).identity()
    assert KEY not in str(identity)
    head = path.read_text().splitlines()[0]
    group = path.parent.name
    alone = group in ("detector", "verifier")
    assert head == f"# @package {group if alone else f'{group}s.{path.stem}'}"


@pytest.mark.parametrize("group", NAMED)
def test_the_models_of_the_paper_have_a_file_each(group: str) -> None:
    have = {path.stem for path in FILES if path.parent.name == group}
    assert set(NAMED[group].split()) <= have


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.stem.startswith("flux")], ids=lambda path: path.stem
)
def test_flux_never_rewrites_the_instruction(path: Path) -> None:
    text = path.read_text()
    assert "disable_pup: true" in text or "prompt_upsampling: false" in text or "klein" in path.stem


def test_extractors_and_judges_ask_for_structured_replies_as_their_providers_offer() -> None:
    for path in FILES:
        if path.parent.name in ("extractor", "judge", "verifier"):
            assert yaml.safe_load(path.read_text())["structured"] == "json_schema", path


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_hosted_model_says_when_it_ends_there(path: Path) -> None:
    config = yaml.safe_load(path.read_text())
    config = config.get("chat", config)
    hosted = "127.0.0.1" not in str(config.get("base_url", config.get("url", "")))
    assert not hosted or "ends" in config
