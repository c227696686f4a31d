"""What the gallery is made of: its cases, the ways that lead to them, and what a report is of."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from stages.records import jsonl
from stages.records.annotation import Annotation
from stages.records.attempt import Attempt, Inspection
from stages.records.base import Status
from stages.records.judgement import Judgement
from stages.records.score import PANELS, Intervention
from stages.reporting import cases, links, provenance, words
from stages.reporting.case_page import embedded
from stages.reporting.funnel import funnel
from stages.reporting.prints import Prints
from stages.reporting.reading import read_study
from stages.reporting.study import Study

Workspace = Callable[..., tuple[Path, dict[str, Any]]]
ROOT = Path(__file__).parents[2]


def data_of(root: Path, study: Study) -> dict[str, Any]:
    prints = Prints(root / "reports", view_px=100, thumbnail_px=40)
    prints.make(study)
    return cases.gallery_data(study, prints)


def chosen(data: dict[str, Any], href: str) -> list[dict[str, Any]]:
    """The cases that a link stands for, worked out apart from the page's script."""

    def fits(case: dict[str, Any], facet: str, values: list[str]) -> bool:
        models = data["cells"][case["cell"]] if "cell" in case else {}
        grade = f"none: {case['no_grade']}" if "no_grade" in case else None
        own = {
            "domain": data["samples"][case["sample"]]["domain"],
            "grade": grade,
            "status": case["status"],
            "stage": case["stage"],
            "position": case["position"],
            "case": case["id"],
            **models,
        }
        if facet == "through":
            return bool({*values} & {*case.get("through", ())})
        return str(own[facet]) in values

    facets = parse_qs(href.partition("#")[2])
    return [c for c in data["cases"] if all(fits(c, f, v) for f, v in facets.items())]


def test_every_intervention_is_a_case_and_no_name_is_taken_twice(workspace: Workspace) -> None:
    root, params = workspace(n=12, judges=("demo", "other"), pairs=("photos",))
    study = read_study(root, params)
    data = data_of(root, study)
    assert len(data["cases"]) == len(study.interventions) + 3
    assert len({case["id"] for case in data["cases"]}) == len(data["cases"])
    assert len(data["samples"]) == 12 + 3
    assert len(data["starts"]) == 12 * 2  # a target answers once for both judges
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_links_lead_to_as_many_cases_as_their_number_says(workspace: Workspace) -> None:
    root, params = workspace(n=12, judges=("demo", "other"))
    study = read_study(root, params)
    data = data_of(root, study)
    steps = funnel(study.interventions)
    for step in steps:
        if href := links.kept(step):
            assert len(chosen(data, href)) == step.kept, step.key
        for status, n in step.lost.items():
            assert len(chosen(data, links.lost(step, status))) == n, (step.key, status)
    assert sum(bool(step.lost) for step in steps) >= 4
    for cell, row in zip(study.cells, links.main_table(study), strict=True):
        scored = study.estimate(cell, "ccs_binary")
        assert scored
        assert len(chosen(data, row["ccs_binary"])) == scored.n_interventions
        assert len(chosen(data, row["head"])) == scored.n_planned
        at_two = study.estimate(cell, "ac", position=2)
        assert at_two
        assert len(chosen(data, row["ac_2"])) == at_two.n_interventions > 0
    ways = iter(links.domain_table(study))
    for cell in study.cells:
        for domain in study.domains:
            found = study.estimate(cell, "ccs_graded", domain=domain)
            assert found
            assert len(chosen(data, next(ways)["ccs_graded"])) == found.n_interventions


def test_numbers_of_a_panel_lead_nowhere(workspace: Workspace) -> None:
    root, params = workspace(judges=("demo", "other"))
    rows = jsonl.read(root / "data" / "score" / "interventions.jsonl", Intervention)
    panel = [
        row.model_copy(update={"cell": row.cell.model_copy(update={"judge": PANELS["vote"]})})
        for row in rows
        if row.cell.judge == "demo"
    ]
    jsonl.write(root / "data" / "score" / "panel.jsonl", panel)
    study = read_study(root, params)
    for cell, row in zip(study.scored, links.main_table(study), strict=True):
        assert any(row.values()) == (cell.judge != PANELS["vote"]), cell
    assert sum(not any(row.values()) for row in links.domain_table(study)) == 2 * 3


def test_attrition_rows_have_their_links(workspace: Workspace) -> None:
    from stages.reporting.protocol_tables import attrition_table

    root, params = workspace(n=12)
    study = read_study(root, params)
    data = data_of(root, study)
    table = attrition_table(study)
    ways = links.attrition_table(study)
    assert len(ways) == len(table.rows)
    for row, href in zip(table.rows, ways, strict=True):
        assert (href is None) == (row[1] == "prepare")
        if href:
            assert len(chosen(data, href)) == row[table.column("n")], row


def test_who_differs_is_marked(workspace: Workspace) -> None:
    root, params = workspace(targets=("demo_looks",), n=6, judges=("demo", "other"))
    folder = root / "data" / "judge" / "demo_looks-demo-demo-demo-0"
    rows = jsonl.read(folder / "judgements.jsonl", Judgement)
    again = rows[0].model_copy(update={"replicate": 1, "explanation_faithful": 0, "ccs_binary": 0})
    jsonl.write(folder / "judgements.jsonl", [rows[0], again, *rows[1:]])
    key = {"target": "demo_looks", "extractor": "demo", "editor": "demo"}
    about = {**key, "sample_id": rows[0].sample_id, "position": rows[0].position, "attempt": 1}
    labels = [
        Annotation(**about, annotator="a", valid="yes", ac=0, ef=1, note="odd"),
        Annotation(**about, annotator="b", valid="no"),
    ]
    jsonl.write(root / "data" / "score" / "labels.jsonl", labels)
    data = data_of(root, read_study(root, params))
    mine = [
        case
        for case in data["cases"]
        if data["samples"][case["sample"]]["id"] == rows[0].sample_id
        and case["position"] == rows[0].position
    ]
    assert len(mine) == 2
    for case in mine:
        judge = data["cells"][case["cell"]]["judge"]
        expected = {"gate_people", "people", "judge_people"}
        assert set(case["differ"]) == expected | ({"replicates"} if judge == "demo" else set())
        assert case["labelled"]
    people = data["edits"][mine[0]["edit"]]["people"]
    assert people[0] == {
        "who": "a", "attempt": 1, "valid": "yes", "ac": 0, "ef": 1, "ccs": 0, "note": "odd",
    }  # fmt: skip
    assert people[1] == {"who": "b", "attempt": 1, "valid": "no"}
    others = [case for case in data["cases"] if case not in mine]
    assert not any("differ" in case or "labelled" in case for case in others)


def test_fields_that_the_page_does_not_know_are_listed() -> None:
    class Checked(Attempt):
        verifier: dict[str, Any]

    attempt = Checked(
        sample_id="s", position=1, attempt=1, status=Status.OK, instruction="-", edit_type="add",
        target_object="x", verifier={"verdict": "yes", "why": "\x1b[0m", "calls": [1], "n": [2, 3]},
    )  # fmt: skip
    assert cases._more(attempt) == [
        ["verifier.verdict", "yes"],
        ["verifier.why", "␛[0m"],
        ["verifier.n.1", "2"],
        ["verifier.n.2", "3"],
    ]


def test_a_verifier_that_differs_from_the_gate_is_marked(workspace: Workspace) -> None:
    root, params = workspace(targets=("demo_looks",))
    path = root / "data" / "edit" / "demo_looks-demo-demo-0" / "attempts.jsonl"
    rows = jsonl.read(path, Attempt)
    said = {"status": Status.OK, "change_present": True, "rest_unchanged": False, "accepted": False}
    seen = Inspection(**said, words="A \x1b lamp went.", gate=Status.OK)
    at = next(i for i, row in enumerate(rows) if row.status is Status.OK)
    rows[at] = rows[at].model_copy(update={"status": Status.REST_CHANGED, "inspection": seen})
    jsonl.write(path, rows)
    data = data_of(root, read_study(root, params))
    differing = [case for case in data["cases"] if "gate_verifier" in case.get("differ", ())]
    assert len(differing) == 1
    attempt = data["edits"][differing[0]["edit"]]["attempts"][-1]
    told = {"present": True, "rest": False, "words": "A ␛ lamp went.", "gate": "ok"}
    assert attempt["verifier"] == told


@pytest.mark.parametrize(
    ("mode", "gate", "rule"),
    [
        ("report_only", "an edit counts where r_in", "its word decides nothing"),
        ("and", "accepts where r_in", "gate and verifier both accept"),
        ("or", "accepts where r_in", "the gate or the verifier accepts"),
    ],
)
def test_the_page_says_what_the_word_of_a_verifier_does(
    workspace: Workspace, mode: str, gate: str, rule: str
) -> None:
    root, params = workspace()
    assert "Verifier" not in dict(provenance.configuration(read_study(root, params)))
    params["verifier"] = {"_target_": "stages.models.chat.demo_verifier.DemoVerifier"}
    params["verify"] = {**params["verify"], "with_verifier": mode}
    study = read_study(root, params)
    told = dict(provenance.configuration(study))
    assert told["Gate"].startswith(gate)
    assert told["Verifier"].startswith("DemoVerifier (simulated): ")
    assert rule in told["Verifier"]


def test_names_of_cases_stay(workspace: Workspace) -> None:
    root, params = workspace()
    cell = read_study(root, params).cells[0]
    assert cases.name_of(cell, "s-000", 1) == "8000d5ecf22c"
    assert cases.name_of(cell, "s-000", 2) != cases.name_of(cell, "s-000", 1)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain – 红宝石 é", "plain – 红宝石 é"),
        ("two\r\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x00\x07\x1b[31m\r", "␀␇␛[31m␍"),
        ("\u202eevil\u2066\x85\ufeff", "⟨U+202E⟩evil⟨U+2066⟩⟨U+0085⟩⟨U+FEFF⟩"),
        ("hidden \U000e0041\U000e0042", "hidden ⟨U+E0041⟩⟨U+E0042⟩"),
        ("👩\u200d🔬 क्\u200dष", "👩\u200d🔬 क्\u200dष"),
        ("a\u2028b\ud800", "a\nb\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_what_cannot_be_seen_is_made_visible(text: str, shown: str) -> None:
    assert words.shown(text) == shown
    assert words.shown(shown) == shown


def test_json_cannot_end_the_element_it_stands_in() -> None:
    data = {"</script><script>": ["<!--", "&lt;", "\u2028\u2029", "\\u003c", 0.25, None]}
    text = embedded(data)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == data


def test_code_is_named_as_git_names_it(tmp_path: Path) -> None:
    folder = tmp_path / "stages"
    (folder / "a").mkdir(parents=True)
    (folder / "a.py").write_text("one\n")
    (folder / "a" / "b.py").write_text("two\n")
    (folder / "run").write_text("#!/bin/sh\n")
    (folder / "run").chmod(0o755)
    (folder / "link").symlink_to("a.py")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    told = subprocess.run(
        [*git, "rev-parse", "HEAD:stages"], check=True, capture_output=True, text=True
    )
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.pyc").write_bytes(b"\0")
    assert provenance.git_tree(folder) == told.stdout.strip()
    (folder / "a" / "b.py").write_text("three\n")
    assert provenance.git_tree(folder) != told.stdout.strip()
    assert provenance.git_tree(tmp_path / "nothing") is None


def test_configuration_says_what_was_chosen(workspace: Workspace) -> None:
    root, params = workspace(judges=("demo", "other"))
    params["chain"] = {"k": 2, "max_attempts": 2, "on_rejection": "stop"}
    told = dict(provenance.configuration(read_study(root, params)))
    assert told["Samples"] == "6: 2 objects, 2 driving, 2 spatial"
    assert told["Targets"] == "demo_looks, demo_prior (served: demo)"
    assert told["Judges"] == "demo, other"
    assert told["Gate"] == "an edit counts where r_in > 0.1 and r_out < 0.3"
    assert told["Chain"] == "at most 2 edits, 2 attempts each, ends at an edit that failed"


def test_the_gallerys_script_calls_nothing_that_could_make_markup_of_text() -> None:
    for path in (ROOT / "stages" / "reporting" / "templates" / "gallery").glob("*.js"):
        code = path.read_text(encoding="utf-8")
        unsafe = (
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|fetch\("
        )
        assert not re.search(unsafe, code), path.name
