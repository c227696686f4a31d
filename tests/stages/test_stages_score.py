"""The score stage as a whole: its files, its bytes, people's labels, empty studies."""

import csv
import json
import time
from dataclasses import fields

import pytest

from stages import score
from stages.records import jsonl
from stages.records.annotation import Annotation
from stages.records.errors import UserError
from stages.records.score import Intervention
from stages.reporting.study import Findings
from tests.stages.drawn import DESIGN, cell, write_study


def written(root):
    return {path.name: path.read_bytes() for path in sorted((root / "data" / "score").iterdir())}


def test_writes_every_file_that_the_report_reads_and_equal_bytes_again(tmp_path):
    params = write_study(tmp_path, {cell("a"): 0.7, cell("b"): 0.4})
    score.run(tmp_path, params)
    first = written(tmp_path)
    names = {field.name for field in fields(Findings)} | {"interventions", "estimates", "panel"}
    assert set(first) == {f"{name}.jsonl" for name in names}
    score.run(tmp_path, params)
    assert written(tmp_path) == first
    assert b"NaN" not in b"".join(first.values())


def test_another_seed_of_resampling_moves_ends_and_no_mean(tmp_path):
    params = write_study(tmp_path, {cell("a"): 0.7, cell("b"): 0.4})
    score.run(tmp_path, params)
    before = [json.loads(line) for line in written(tmp_path)["estimates.jsonl"].splitlines()]
    params["score"]["seed"] = 1
    score.run(tmp_path, params)
    after = [json.loads(line) for line in written(tmp_path)["estimates.jsonl"].splitlines()]
    assert [row["mean"] for row in before] == [row["mean"] for row in after]
    assert [row["low"] for row in before] != [row["low"] for row in after]


def test_labels_are_read_counted_and_used(tmp_path, capsys):
    params = write_study(tmp_path, {cell("a"): 0.7})
    score.run(tmp_path, params)
    assert "0 human labels" in capsys.readouterr().out
    rows = jsonl.read(tmp_path / "data" / "score" / "interventions.jsonl", Intervention)
    folder = tmp_path / "data" / "annotations"
    folder.mkdir()
    with (folder / "ann.csv").open("w", newline="") as file:
        out = csv.DictWriter(file, Annotation.model_fields)
        out.writeheader()
        for row in [r for r in rows if r.ccs_binary is not None][:30]:
            names = {k: getattr(row.cell, k) for k in ("target", "extractor", "editor", "seed")}
            said = {"annotator": "ann", "valid": "yes", "ac": row.ac == 1, "ef": row.ef == 1}
            said = {k: int(v) if isinstance(v, bool) else v for k, v in said.items()}
            out.writerow({"sample_id": row.sample_id, "position": row.position, **names, **said})
        out.writerow({**names, **said, "sample_id": "elsewhere", "position": 1})
    score.run(tmp_path, params)
    assert "30 human labels, 1 about other studies, 0 out of date" in capsys.readouterr().out
    found = written(tmp_path)
    assert found["people.jsonl"]
    assert found["gate.jsonl"]
    assert json.loads(found["corrected.jsonl"].splitlines()[0])["n_labelled"] == 30
    labels = [json.loads(line) for line in found["labels.jsonl"].splitlines()]
    assert len(labels) == 30
    assert all(label["attempt"] >= 1 and label["edited"] for label in labels)
    point = json.loads(found["sensitivity.jsonl"].splitlines()[0])
    assert point["agreement"]["n"] == 30


def test_a_study_without_cells_writes_empty_files(tmp_path):
    params = write_study(tmp_path, {cell("a"): 0.7})
    (tmp_path / "data" / "plan" / "cells.json").write_text("[]")
    score.run(tmp_path, params)
    assert set(written(tmp_path).values()) == {b""}


@pytest.mark.parametrize(("key", "value"), [("grid_tau_in", [1.5]), ("power", 1.0), ("gaps", [0])])
def test_settings_that_can_t_be_are_named(tmp_path, key, value):
    params = write_study(tmp_path, {cell("a"): 0.7})
    params["score"][key] = value
    with pytest.raises(UserError, match=f"score.{key}"):
        score.run(tmp_path, params)


def test_the_paper_s_main_study_is_scored_in_seconds(tmp_path):
    targets = {cell(f"t{i}"): 0.4 + 0.04 * i for i in range(6)}
    params = write_study(tmp_path, targets, DESIGN._replace(n_samples=300))
    params["score"]["resamples"] = 10_000
    start = time.process_time()
    score.run(tmp_path, params)
    assert time.process_time() - start < 10  # about 3 s on a quiet core; the bound is 5 s
