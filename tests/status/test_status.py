"""Where a study stands: by DVC's own word, the rows on disk, and notes of what did not end well."""

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from stages.records.errors import UserError
from stages.status.__main__ import REASONS, SCREEN, main, show, words
from stages.status.graph import Asked, Node, changes, nodes
from stages.status.look import Line, Standing, look
from stages.workflow import endings

ROOT = Path(__file__).parents[2]
PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text())
CELL = "demo_looks-demo-demo-demo-0"


def shown(found: Standing, *, cells: bool = False) -> str:
    console = Console(file=io.StringIO(), width=140)
    show(found, console, cells=cells)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def ask(root: Path, monkeypatch: pytest.MonkeyPatch, out: str, err: str = "") -> None:
    """Put a `dvc` on the path that says this."""
    tools = root / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "out").write_text(out)
    (tools / "err").write_text(err)
    (tools / "dvc").write_text(f"#!/bin/sh\ncat {tools}/out\ncat {tools}/err >&2\n")
    (tools / "dvc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("dvc.yaml", "params.yaml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / ".dvc").mkdir()
    (tmp_path / "prompts").symlink_to(ROOT / "prompts")
    (tmp_path / "conf").symlink_to(ROOT / "conf")
    monkeypatch.delenv("EDCT_STORE", raising=False)
    ask(tmp_path, monkeypatch, "{}")
    return tmp_path


def judgements(root: Path, *rows: dict[str, Any]) -> None:
    folder = root / "data" / "judge" / CELL
    folder.mkdir(parents=True)
    (folder / "judgements.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def line(found: Standing, name: str) -> Line:
    return next(line for line in found.lines if line.node.name == name)


def test_the_nodes_are_dvcs_own() -> None:
    listed = [node.name for node in nodes(ROOT, PARAMS)]
    assert len(listed) == len(set(listed))
    assert f"judge@{CELL}" in listed
    assert listed[0] == "plan"
    assert listed[-1] == "report"
    assert sum(name.startswith("judge@") for name in listed) == len(PARAMS["target_names"])


def test_parameters_that_lack_an_axis_are_one_line() -> None:
    with pytest.raises(UserError, match="does not fit"):
        nodes(ROOT, {})


def test_dvcs_json_in_words() -> None:
    said = {
        "data/raw/x.dvc": ["frozen"],
        "score": [{"changed outs": {"data/score": "deleted"}}],
        "report": [
            "changed command",
            {"changed deps": {"params.yaml": {"report.dpi": "modified"}}},
        ],
        "plan": [{"changed deps": {"stages/models": "modified", "data/x": "deleted"}}, "always"],
    }
    assert changes(said) == {
        "score": ["missing data/score"],
        "report": ["changed command", "modified report.dpi"],
        "plan": ["modified stages/models", "deleted data/x", "always"],
    }


def test_a_finished_study_is_done_and_leaves_nothing_to_pay(root: Path) -> None:
    found = look(root, PARAMS)
    assert {line.state for line in found.lines} == {"done"}
    assert "nothing is left to pay" in shown(found)


def test_states_come_from_dvc_and_from_what_stages_left(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = {"changed outs": {f"data/judge/{CELL}": "deleted"}}
    fresh = {"changed deps": {"stages/models": "modified"}}
    names = [f"judge@{CELL}", "judge@demo_prior-demo-demo-demo-0", "plan", "score", "report"]
    said = {name: [gone] for name in names} | {"plan": [fresh], "score": [fresh]}
    ask(root, monkeypatch, json.dumps(said))
    endings.fail(root, names[1], "openrouter: wants payment. Fill the account.")
    endings.begin(root, "report")  # in this process, which lives
    endings.fail(root, "prepare", "of an earlier run, mended since")
    found = look(root, PARAMS)
    assert [line(found, name).state for name in names] == [
        "missing", "failed", "changed", "changed", "under way",
    ]  # fmt: skip
    assert line(found, "prepare").state == "done"
    text = shown(found)
    assert "failed: judge@demo_prior-demo-demo-demo-0: openrouter: wants payment" in text
    assert "changed in 2: modified stages/models" in text
    assert "calls to make" in text


def test_a_killed_stage_is_told_from_one_that_works(root: Path) -> None:
    began = [
        sys.executable, "-c",
        "from pathlib import Path; from stages.workflow import endings; "
        f"endings.begin(Path({str(root)!r}), 'score')",
    ]  # fmt: skip
    subprocess.run(began, check=True, cwd=ROOT)
    assert endings.read(root)["score"] == endings.Ending("killed", "")
    endings.succeed(root, "score")
    assert endings.read(root) == {}


@pytest.mark.parametrize("name", ["../out", "judge@../../out", "a/b"])
def test_a_note_stays_in_its_folder(root: Path, name: str) -> None:
    (root / endings.FOLDER / "judge@..").mkdir(parents=True)
    before = sorted(root.rglob("*.json"))
    endings.begin(root, name)
    endings.fail(root, name, "x")
    endings.succeed(root, name)
    assert sorted(root.rglob("*.json")) == before


@pytest.mark.parametrize("process", ["1e400", "1" + "0" * 20, "-1", "0", "NaN", '"x"', "null"])
def test_a_note_of_no_process_is_passed_over(root: Path, process: str) -> None:
    folder = root / endings.FOLDER
    folder.mkdir(parents=True)
    (folder / "score.json").write_text(f'{{"line": "", "process": {process}}}')
    (folder / "judge.json").write_text(f'{{"line": "", "process": {os.getpid()}}}')
    assert endings.read(root) == {"judge": endings.Ending("under way", "")}


def test_a_folder_in_the_place_of_a_file_is_one_line(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "data" / "prepare" / "samples.jsonl").mkdir(parents=True)
    monkeypatch.chdir(root)
    assert main([]) == 1
    said = capsys.readouterr().err
    assert said.startswith("status: ")
    assert "samples.jsonl" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("note", ["", "{", "[]", '{"line": 1}', '{"line": "", "process": "x"}'])
def test_a_note_that_is_none_is_passed_over(root: Path, note: str) -> None:
    folder = root / endings.FOLDER
    folder.mkdir(parents=True)
    (folder / "score.json").write_text(note)
    assert endings.read(root) == {}


def test_rows_are_counted_by_status_and_reasons_named(root: Path) -> None:
    failed = {"status": "api_error", "reason": "503\nagain [bold]", "graded_status": "ok"}
    judgements(
        root,
        *[failed] * 3,
        {"status": "ok", "graded_status": "unparsed", "graded_reason": "no object"},
        {"status": "not_reached", "reason": "earlier", "graded_status": "not_reached"},
    )
    found = look(root, PARAMS)
    assert line(found, f"judge@{CELL}").rows == {"api_error": 3, "ok": 1, "not_reached": 1}
    text = shown(found)
    assert "Without a reply: 4 rows" in text
    assert "3 × judge api_error: 503 again [bold]" in text
    assert "1 × judge (grade) unparsed: no object" in text
    assert "earlier" not in text


@pytest.mark.parametrize("content", [b"\xff\xfe\n", b"{\n", b"3\n", b'{"status": {}}\n'])
def test_rows_that_are_none_do_not_stop_the_look(root: Path, content: bytes) -> None:
    folder = root / "data" / "judge" / CELL
    folder.mkdir(parents=True)
    (folder / "judgements.jsonl").write_bytes(content)
    assert shown(look(root, PARAMS))


@pytest.mark.parametrize(
    ("complaint", "said"),
    [
        ("ERROR: 'data/score' is busy, it is being blocked by:\n  (PID 1): dvc", "is under way"),
        ("ERROR: Unable to acquire lock", "Unable to acquire lock"),
        ("", "nothing"),
    ],
)
def test_where_dvc_does_not_say_it_is_said(
    root: Path, monkeypatch: pytest.MonkeyPatch, complaint: str, said: str
) -> None:
    ask(root, monkeypatch, "", complaint)
    found = look(root, PARAMS)
    assert {line.state for line in found.lines} == {"unknown"}
    assert said in shown(found)


def test_an_empty_lock_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "dvc.lock").write_text("")
    ask(root, monkeypatch, "", "ERROR: validation failed")
    assert "dvc.lock is empty" in str(Asked(root).answer().unknown)


def test_a_large_study_is_one_screen() -> None:
    lines = [
        Line(Node(stage, f"t{n}-0"), state, "modified x", {"ok": 300, f"s{n % 3}": n})
        for stage in ("baseline", "concepts", "instructions", "edit", "requery", "judge")
        for n in range(40)
        for state in [("done", "changed", "missing")[n % 3]]
    ]
    reasons = {("judge", "api_error", f"r{n}"): n + 1 for n in range(50)}
    found = Standing("big", lines, type(Standing("", []).reasons)(reasons), "no count of samples")
    text = shown(found)
    assert len(text.splitlines()) < SCREEN + 25
    assert "14 cells" in text
    assert f"… and {50 - REASONS} more" in text
    assert len(shown(found, cells=True).splitlines()) > 240
    assert any("no count of samples" in said for said in words(found))


def test_nothing_is_written_and_it_is_quick(root: Path) -> None:
    before = sorted(root.rglob("*"))
    began = time.process_time()
    look(root, PARAMS)
    assert time.process_time() - began < 3
    assert sorted(root.rglob("*")) == before
