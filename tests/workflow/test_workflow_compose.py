"""What can't be composed is answered with the names that there are, and with no path."""

import shutil
from pathlib import Path

import pytest

from stages.records.errors import UserError
from stages.workflow.compose import compose

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("target=[nosuch]", "there is no target/nosuch.yaml. There are: demo_looks,"),
        ("study=tabel1", "Nearest: table1"),
        ("detector=demos", "there is no detector/demos.yaml. Nearest: demo."),
        ("verify.tau_inn=0.2", "there is no verify.tau_inn. Nearest: verify.tau_in,"),
        ("targt=[demo_looks]", "there is no targt. Nearest: target"),
        ("targets.demo_look.seed=1", "there is no targets.demo_look.seed. Nearest: targets.demo_l"),
        ("chain.k=[", "no viable alternative"),
    ],
)
def test_a_wrong_override_is_one_line_with_near_names(override: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        compose(ROOT, ["chain.k=1", override])
    line = str(caught.value)
    assert said in line
    assert "\n" not in line
    assert "use +" not in line
    assert "search path" not in line
    assert str(ROOT) not in line


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("  - override /nothing: x\n", "there is no nothing"),  # once it was sought without end
        ("  - judge: [demo\n", "conf/config.yaml:"),
        ("  - \ud800\n", "conf/"),
    ],
)
def test_a_fault_in_conf_itself_is_one_line(change: str, said: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    path = tmp_path / "conf" / "config.yaml"
    path.write_bytes(path.read_bytes() + change.encode("utf-8", "surrogatepass"))
    with pytest.raises(UserError) as caught:
        compose(tmp_path, [])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
