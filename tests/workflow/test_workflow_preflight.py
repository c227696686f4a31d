"""What would fail is found before anything is spent: keys, servers, models, images, dates."""

import asyncio
import datetime
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from stages.models.account import Account, Budget
from stages.models.ledger import Ledger
from stages.models.local.checkpoint import Checkpoint
from stages.models.local.presence import presence
from stages.models.store import Store
from stages.models.wire.secrets import Secret
from stages.records.errors import UserError
from stages.workflow import preflight
from tests.models.contract.cases import EDITED, MODEL, OBJECTS
from tests.models.wire.loopback import KEY, QUICK, Act, Seen, Server, bfl_route, chat_reply

KEYS = ("OPENROUTER_API_KEY", "BFL_API_KEY", "OPENAI_API_KEY", "MOONDREAM_API_KEY")
CHAT = "stages.models.chat.openai_compatible.OpenAICompatible"
FLUX = "stages.models.editor.black_forest_labs.BlackForestLabs"
MOONDREAM = "stages.models.detector.moondream_http.MoondreamHttp"
GRABCUT = {"_target_": "stages.models.segmenter.grabcut.GrabCut"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EDCT_REPLAY", raising=False)
    for name in KEYS:
        monkeypatch.setenv(name, KEY)
    with Server() as running:
        yield running


def listed(**more: Any) -> dict[str, Any]:
    """A model as OpenRouter lists it."""
    return {
        "id": MODEL,
        "expiration_date": None,
        "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
        "supported_parameters": ["temperature", "seed", "structured_outputs", "reasoning"],
        "pricing": {"prompt": "0.0000003", "completion": "0.0000025"},
        **more,
    }


def route(server: Server, *models: Any, **paths: Any) -> Callable[[Seen], Act]:
    taken = bfl_route(server, EDITED.png)

    def answer(seen: Seen) -> Act:
        path = seen.path.removeprefix("/v1")
        if path == "/models":
            return Act({"data": list(models)})
        if path == "/credits":
            return Act({"credits": paths.get("credits", 500.0)})
        if path == "/detect":
            return Act(OBJECTS)
        if path == "/chat/completions":
            return Act(chat_reply('{"ready": true}'))
        return taken(seen)

    return answer


def study(server: Server, **values: Any) -> dict[str, Any]:
    chat = {"_target_": CHAT, "model": MODEL, "base_url": f"{server.url}/v1", "patience": QUICK}
    params: dict[str, Any] = {
        "targets": {"seen": {**chat, **values}},
        "extractors": {"text": {**chat, "structured": "json_schema"}},
        "editors": {"flux": {"_target_": FLUX, "base_url": server.url, "poll_s": 0.005}},
        "judges": {"text": {**chat, "structured": "json_schema"}},
        "detector": {"_target_": MOONDREAM, "base_url": f"{server.url}/v1"},
        "segmenter": GRABCUT,
    }
    for role in ("target", "extractor", "editor", "judge"):
        params[f"{role}_names"] = list(params[f"{role}s"])
    return params


def states(rows: list[preflight.Row], role: str) -> list[str]:
    return [row.finding.state for row in rows if row.part.role == role]


def look(params: dict[str, Any], account: Account | None = None) -> list[preflight.Row]:
    return asyncio.run(preflight.look(params, account))


def test_a_study_that_would_run_has_a_good_line_for_every_model(
    server: Server, tmp_path: Path
) -> None:
    server.route = route(server, listed())
    account = Account.of(Store(tmp_path), "s")
    rows = look(study(server), account)
    assert {row.finding.state for row in rows} == {"ok"}
    assert {row.part.role for row in rows} == {
        "target",
        "extractor",
        "editor",
        "judge",
        "detector",
        "segmenter",
    }
    charges = list(Ledger(tmp_path / "ledger.jsonl").charges())
    assert sorted(charge.role for charge in charges) == [
        "detector",
        "editor",
        "extractor",
        "judge",
        "target",
    ]
    assert {charge.stage for charge in charges} == {"preflight"}
    assert list(Store(tmp_path).keys()) == []
    assert KEY not in preflight.written(rows)


def test_without_calls_nothing_is_posted(server: Server) -> None:
    server.route = route(server, listed())
    assert {row.finding.state for row in look(study(server))} == {"ok"}
    assert {seen.method for seen in server.seen} == {"GET"}
    assert sum(seen.path.endswith("/models") for seen in server.seen) == 1


def test_a_target_is_shown_an_image_and_a_judge_the_schema(server: Server, tmp_path: Path) -> None:
    server.route = route(server, listed())
    look(study(server), Account.of(Store(tmp_path), "s"))
    bodies = [seen.json for seen in server.seen if seen.path.endswith("/chat/completions")]
    shown = [json.dumps(body) for body in bodies]
    assert ["image_url" in text for text in shown] == [True, False, False]
    assert ["response_format" in body for body in bodies] == [False, True, True]


@pytest.mark.parametrize(
    ("models", "values", "wrong"),
    [
        ([], {}, "does not list maker/model-1"),
        ([listed(id="maker/model-2")], {"successor": "maker/model-9"}, "Nearest: maker/model-9"),
        ([listed(expiration_date="2020-01-01")], {}, "ended there on 2020-01-01"),
        (
            [listed(architecture={"input_modalities": ["text"]})],
            {},
            "maker/model-1 takes no images",
        ),
        (
            [listed(supported_parameters=["temperature"])],
            {"extra_body": {"provider": {"require_parameters": True}}},
            "does not know seed",
        ),
    ],
    ids=["unlisted", "successor", "ended", "blind", "parameters"],
)
def test_a_model_that_would_fail_is_wrong_and_says_why(
    server: Server, models: list[Any], values: dict[str, Any], wrong: str
) -> None:
    server.route = route(server, *models)
    rows = [row for row in look(study(server, **values)) if row.part.role == "target"]
    (found,) = [row.finding for row in rows if row.finding.state == "wrong"]
    assert wrong in f"{found.what}. {found.remedy}"
    with pytest.raises(UserError, match=r"targets\.seen"):
        preflight.check(study(server, **values))


def test_a_model_that_ends_soon_is_a_note(server: Server) -> None:
    soon = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=20)).date().isoformat()
    server.route = route(server, listed(expiration_date=soon))
    assert states(look(study(server)), "target") == ["ok", "note"]
    preflight.check(study(server))


def test_a_parameter_that_is_dropped_in_silence_is_a_note(server: Server) -> None:
    server.route = route(server, listed(supported_parameters=["structured_outputs"]))
    assert states(look(study(server)), "target") == ["ok", "note"]


def test_a_judge_needs_no_eyes(server: Server) -> None:
    blind = listed(architecture={"input_modalities": ["text"], "output_modalities": ["text"]})
    server.route = route(server, blind)
    assert states(look(study(server)), "judge") == ["ok"]
    seeing = study(server) | {"judge": {"sees_images": True}}
    assert "wrong" in states(look(seeing), "judge")


@pytest.mark.parametrize("missing", ["OPENROUTER_API_KEY", "BFL_API_KEY", "MOONDREAM_API_KEY"])
def test_a_missing_key_is_named(
    server: Server, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    server.route = route(server, listed())
    monkeypatch.delenv(missing)
    said = [row.finding.what for row in look(study(server)) if row.finding.state == "wrong"]
    assert said
    assert all(missing in what for what in said)


def test_a_key_that_is_not_accepted_is_named_and_not_shown(server: Server) -> None:
    server.route = lambda seen: Act({"error": {"message": f"bad key {KEY}", "code": 401}}, 401)
    rows = look(study(server))
    text = preflight.written(rows)
    assert "Mend OPENROUTER_API_KEY." in text
    assert "Mend BFL_API_KEY." in text
    assert KEY not in text


def test_a_server_that_is_not_there_is_one_line(server: Server) -> None:
    params = study(server, base_url="http://127.0.0.1:9/v1")
    server.route = route(server, listed())
    (found,) = [row.finding for row in look(params) if row.finding.state == "wrong"]
    assert "can't be reached" in found.what
    assert "Start the server" in found.remedy


def test_an_empty_account_is_wrong(server: Server) -> None:
    server.route = route(server, listed(), credits=0)
    assert states(look(study(server)), "editor") == ["wrong"]


def test_a_server_that_gives_no_list_is_a_note(server: Server) -> None:
    server.route = lambda seen: Act({"detail": "Not Found"}, 404)
    assert states(look(study(server)), "target") == ["note"]


def test_a_call_that_fails_is_wrong_and_one_that_is_cut_off_is_not(
    server: Server, tmp_path: Path
) -> None:
    good = route(server, listed())
    cut, refused = (Act(chat_reply("x", finish=end)) for end in ("length", "content_filter"))
    server.route = lambda seen: cut if seen.path.endswith("completions") else good(seen)
    account = Account.of(Store(tmp_path), "s")
    assert states(look(study(server), account), "target") == ["ok", "ok"]
    server.route = lambda seen: refused if seen.path.endswith("completions") else good(seen)
    assert states(look(study(server), account), "target") == ["ok", "wrong"]


def test_no_probe_passes_the_budget(server: Server, tmp_path: Path) -> None:
    server.route = route(server, listed())
    account = Account.of(Store(tmp_path), "s", budget=Budget(usd=0.0))
    rows = look(study(server), account)
    assert "limits.budget_usd" in preflight.written(rows) or states(rows, "target")[-1] == "wrong"
    assert {seen.method for seen in server.seen} == {"GET"}


def test_replay_asks_nobody(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDCT_REPLAY", "1")
    preflight.check(study(server))
    assert server.seen == []


def test_a_key_may_lie_in_a_file_that_git_ignores(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BFL_API_KEY")
    (tmp_path / ".env").write_text(
        "# keys\nexport BFL_API_KEY='from the file'\nOPENAI_API_KEY=no\n"
    )
    assert Secret("BFL_API_KEY", "x").value == "from the file"
    assert Secret("OPENAI_API_KEY", "x").value == KEY  # the environment comes first
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    found = preflight.dot_env(tmp_path)
    assert found is not None
    assert found.state == "wrong"
    (tmp_path / ".gitignore").write_text(".env\n")
    assert preflight.dot_env(tmp_path) == preflight.Finding("ok", "git ignores it")


def test_the_command_fails_where_calls_would(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import yaml

    server.route = route(server)
    params = study(server) | {"limits": {"max_failed_share": 0.0, "budget_usd": 4.0}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    assert preflight.main(["--no-calls"]) == 1
    shown = capsys.readouterr().out
    assert "wrong  target     seen" in shown
    server.route = route(server, listed())
    assert preflight.main(["--no-calls"]) == 0
    assert "$0.00 of $4.00 are spent or put aside" in capsys.readouterr().out
    monkeypatch.setenv("EDCT_BUDGET_USD", "0")
    assert preflight.main(["--no-calls"]) == 1
    assert "wrong  budget" in capsys.readouterr().out


def test_weights_that_are_not_here_are_a_note_only_where_they_can_be_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, away = Checkpoint(str(tmp_path)), Checkpoint("maker/name", "0" * 40)
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr(Checkpoint, "on_disk", lambda self: tmp_path if self is here else None)
    assert [finding.state for finding in presence(here)] == ["ok"]
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    api = pytest.importorskip("huggingface_hub").HfApi
    asked = []
    monkeypatch.setattr(api, "model_info", lambda self, *given, **more: asked.append((given, more)))
    assert [finding.state for finding in presence(away)] == ["note"]
    ((given, more),) = asked
    assert (given, more["revision"]) == (("maker/name",), "0" * 40)
    assert more["timeout"] <= 10

    for error in (type("ConnectError", (Exception,), {})(), TimeoutError(), Exception("proxy")):
        monkeypatch.setattr(api, "model_info", Mock(side_effect=error))
        (found,) = presence(away)
        assert found.state == "wrong"
        assert "not on this disk; maker/name" in found.what
        assert "hf download maker/name" in found.remedy
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert [finding.state for finding in presence(away)] == ["wrong"]
