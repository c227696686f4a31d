"""The repository's shape: one word opens every door, and a stage depends on what it imports."""

import ast
import re
from pathlib import Path

import pytest
import yaml

from stages.workflow.compose import compose

ROOT = Path(__file__).parent.parent
DVC = yaml.safe_load((ROOT / "dvc.yaml").read_text())
STAGES = sorted(path.stem for path in (ROOT / "stages").glob("[!_]*.py"))
ROOMS = sorted(path.parent.name for path in (ROOT / "stages").glob("*/__init__.py"))
# What a room may import, itself aside.
ALLOWED = {
    "records": set(),
    "imaging": set(),
    "stats": set(),
    "analysis": {"records", "stats"},
    "models": {"records", "imaging"},
    "training": {"records", "imaging", "models"},
    "benchmarks": {"records", "imaging", "models"},
    "reporting": {"records", "imaging", "models", "workflow"},
    "workflow": {"records", "imaging", "models"},
    "annotation": {"records", "models", "stats", "reporting", "workflow"},
    "exchange": {"records", "imaging", "models", "benchmarks", "workflow"},
    "spending": {"records", "imaging", "models", "benchmarks", "workflow"},
    "status": {"records", "spending", "workflow"},
}


def imported(path: Path) -> set[str]:
    """All names under ``stages`` that a file imports, as dotted paths."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.split(".")[0] == "stages"}


def rooms_of(names: set[str]) -> set[str]:
    return {name.split(".")[1] for name in names if name.count(".")} & set(ROOMS)


def closure(path: Path) -> set[str]:
    """All rooms that a file needs, directly or through other rooms."""
    found: set[str] = set()
    waiting = rooms_of(imported(path))
    while waiting:
        room = waiting.pop()
        found.add(room)
        for file in (ROOT / "stages" / room).rglob("*.py"):
            waiting |= rooms_of(imported(file)) - found
    return found


def test_modules_are_stages_and_stages_are_modules() -> None:
    # `weights` writes one word a target: a module would take longer to start than to do that
    assert sorted(DVC["stages"]) == sorted([*STAGES, "weights"])


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_depends_on_its_file_and_on_the_rooms_that_it_imports(stage: str) -> None:
    path = ROOT / "stages" / f"{stage}.py"
    declared = {dep for dep in DVC["stages"][stage]["deps"] if dep.startswith("stages/")}
    needed = {f"stages/{stage}.py"} | {f"stages/{room}" for room in closure(path)}
    assert declared == needed


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_says_what_it_is_for_and_runs_as_a_module(stage: str) -> None:
    stanza = DVC["stages"][stage]
    assert len(stanza["desc"]) > 20
    assert stanza["cmd"].startswith(f"python -m stages.{stage}")
    axes = stanza.get("matrix", {})
    assert re.findall(r"--(\w+) \$\{item\.(\w+)\}", stanza["cmd"]) == [(a, a) for a in axes]


@pytest.mark.parametrize("stage", STAGES)
def test_stages_import_no_stage(stage: str) -> None:
    others = {f"stages.{other}" for other in STAGES}
    assert not imported(ROOT / "stages" / f"{stage}.py") & others


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_the_rooms_beneath_it(room: str) -> None:
    for file in (ROOT / "stages" / room).rglob("*.py"):
        names = imported(file)
        assert not names & {f"stages.{stage}" for stage in STAGES}, file
        assert rooms_of(names) - {room} <= ALLOWED[room], file


def test_brief_prompts_are_the_default_ones_but_for_what_a_target_is_asked() -> None:
    own = {"target_question.txt", "target_why.txt"}
    brief, default = (ROOT / "prompts" / name for name in ("brief", "default"))
    assert {p.name for p in brief.iterdir()} == {p.name for p in default.iterdir()}
    for path in brief.iterdir():
        assert (path.read_bytes() == (default / path.name).read_bytes()) == (path.name not in own)


def test_params_are_what_conf_composes_to() -> None:
    assert (ROOT / "params.yaml").read_text() == compose(ROOT, [])


@pytest.mark.parametrize("study", sorted(p.stem for p in (ROOT / "conf" / "study").glob("*.yaml")))
def test_every_study_composes(study: str) -> None:
    assert yaml.safe_load(compose(ROOT, [f"study={study}"]))["study"] == study


def test_an_unknown_choice_is_one_line_that_lists_the_known_ones() -> None:
    from stages.records.errors import UserError

    with pytest.raises(UserError) as caught:
        compose(ROOT, ["editor=nobody"])
    assert "editor/nobody" in str(caught.value)
    assert "demo" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("stage", sorted(set(STAGES) - {"plan", "report"}))
def test_a_budget_makes_no_stage_run_again(stage: str) -> None:
    read = DVC["stages"][stage].get("params", [])
    assert not [key for key in read if key == "limits" or str(key).startswith("limits.budget")]
    assert "conf/prices.yaml" not in DVC["stages"][stage]["deps"]


@pytest.mark.parametrize("stage", sorted(set(STAGES) - {"plan", "report"}))
def test_who_works_makes_no_stage_run_again(stage: str) -> None:
    read = DVC["stages"][stage].get("params", [])
    assert not [key for key in read if key == {"params.yaml": None}]
    assert not [key for key in read if str(key).startswith("executor")]


def test_every_executor_composes_and_has_all_its_values() -> None:
    from stages.workflow import executor, sections

    kinds = {"local": sections.Local, "ray": sections.Ray}
    files = {path.stem for path in (ROOT / "conf" / "executor").glob("*.yaml")}
    assert files == set(kinds)
    for name, kind in kinds.items():
        given = yaml.safe_load(compose(ROOT, [f"executor={name}"]))["executor"]
        assert set(given) == set(kind.model_fields)
        assert kind.model_validate(given).name == name
    assert executor.settings(yaml.safe_load(compose(ROOT, []))).name == "local"
