"""What the first stage refuses before anything is spent."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from stages import plan
from stages.records.errors import UserError
from stages.workflow import runner
from stages.workflow.compose import compose

ROOT = Path(__file__).parents[2]


def params(*overrides: str) -> dict[str, Any]:
    composed: dict[str, Any] = yaml.safe_load(compose(ROOT, list(overrides)))
    return composed


@pytest.mark.parametrize("mode", ["and", "or"])
def test_a_verifier_that_is_to_decide_must_be_there(mode: str) -> None:
    with pytest.raises(UserError, match=r"verify\.with_verifier.*no verifier"):
        plan.check_settings(params(f"verify.with_verifier={mode}"))
    plan.check_settings(params(f"verify.with_verifier={mode}", "verifier=demo"))
    plan.check_settings(params("verify.with_verifier=report_only"))


def test_a_budget_that_is_no_amount_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDCT_BUDGET_USD", "abc")
    with pytest.raises(UserError, match="'abc' is no amount"):
        plan.check_settings(params())
    monkeypatch.setenv("EDCT_BUDGET_USD", "3")
    plan.check_settings(params())


def test_an_error_that_names_its_stage_is_not_named_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(root: Path, params: Any, *, target: str, seed: str) -> None:
        raise UserError(f"baseline {target}-{seed}", "1 of 4 rows got no reply", "Mend it.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_STAGE", raising=False)
    (tmp_path / "params.yaml").write_text("{}")
    monkeypatch.setattr("sys.argv", ["baseline", "--target", "a", "--seed", "0"])
    with pytest.raises(SystemExit):
        runner.main("baseline", fail, axes=("target", "seed"))
    said = capsys.readouterr().err.strip()
    assert said == "baseline a-0: 1 of 4 rows got no reply. Mend it."
