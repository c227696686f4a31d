"""The export: equal bytes for equal runs, what Hugging Face reads, and what it refuses."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from stages.exchange import card, shards
from stages.exchange.export import export
from stages.models.artefact import schema
from stages.models.artefact.layout import EDITS, SAMPLES, TABLES
from stages.models.artefact.reading import Artefact
from stages.records.errors import UserError
from tests.exchange.conftest import Run


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def copy_of(run: Run, root: Path) -> Path:
    shutil.copytree(run.root, root, symlinks=True)
    return root


def test_equal_runs_give_equal_bytes(finished: Run, exported: Path, tmp_path: Path) -> None:
    made = export(copy_of(finished, tmp_path / "elsewhere"), tmp_path / "again")
    assert files(tmp_path / "again") == files(exported)
    assert made.rows["samples/test"] == 6
    assert made.rows["edits/accepted"] >= 6
    assert made.rows["edits/rejected"] >= 1
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_parquet_carries_the_features_that_datasets_reads(exported: Path, table: object) -> None:
    for path in sorted((exported / "data" / table.name).iterdir()):
        found = pq.read_schema(path)
        features = json.loads(found.metadata[b"huggingface"])["info"]["features"]
        assert list(features) == found.names
        for column in table.pictures:
            assert features[column] == {"_type": "Image"}
            assert str(found.field(column).type) == "struct<bytes: binary, path: string>"
        assert features["status" if "status" in features else "id"] == {
            "dtype": "string",
            "_type": "Value",
        }
    assert b'"List"' not in found.metadata[b"huggingface"]  # unknown to `datasets` before 4


def test_pictures_are_files_named_by_their_hash(exported: Path) -> None:
    (path,) = (exported / "data" / "samples").iterdir()
    rows = pq.read_table(path).to_pylist()
    assert len(rows) == 6
    for row in rows:
        assert row["picture"]["path"] == f"{row['image']}.png"
        assert row["picture"]["bytes"].startswith(b"\x89PNG")


def test_front_matter_describes_the_files(exported: Path) -> None:
    _, front, body = (exported / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    meta = yaml.safe_load(front)
    assert [c["config_name"] for c in meta["configs"] if c.get("default")] == ["edits"]
    for config in meta["configs"]:
        for split in config["data_files"]:
            assert list(exported.glob(split["path"]))
    for table, info in zip(TABLES, meta["dataset_info"], strict=True):
        (path, *_) = sorted((exported / "data" / table.name).iterdir())
        assert [f["name"] for f in info["features"]] == pq.read_schema(path).names
        rows = {s["name"]: s["num_examples"] for s in info["splits"]}
        assert rows == {
            split: sum(pq.ParquetFile(p).metadata.num_rows for p in path.parent.glob(f"{split}-*"))
            for split in table.splits
        }
        for name in schema.columns(table):
            assert f"| `{name}` | " in body
    assert "another estimand" in body
    assert "targets.demo_mixture" in body  # simulated, and says so
    assert "Apache-2.0" in body


def test_the_licence_of_a_source_is_found_by_its_class() -> None:
    assert "nuScenes" in card.licence({"_target_": "stages.benchmarks.drivelm.DriveLM"})
    assert "does not know" in card.licence({"_target_": "somebody.Else"})


def test_without_rejected_pictures_all_records_stay(finished: Run, tmp_path: Path) -> None:
    export(finished.root, tmp_path / "out", accepted_only=True)
    artefact = Artefact(tmp_path / "out")
    rejected = [row for row in artefact.rows(EDITS) if row.split == "rejected"]
    assert rejected
    (path,) = (tmp_path / "out" / "data" / "edits").glob("rejected-*")
    shown = pq.read_table(path).to_pylist()
    assert all(row["edited_picture"] is None and row["change_picture"] is None for row in shown)
    assert any(row["mask_picture"] is not None for row in shown)
    assert any(row.record.edited for row in rejected)


def test_small_groups_and_shards_hold_the_same_rows(
    finished: Run, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "GROUP_BYTES", 200_000)
    monkeypatch.setattr(shards, "SHARD_BYTES", 1_000_000)
    export(finished.root, tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out" / "data" / "samples").iterdir())
    assert len(names) > 1
    assert names[0] == f"test-00000-of-{len(names):05d}.parquet"
    cut, whole = Artefact(tmp_path / "out"), Artefact(exported)
    for table in TABLES:
        assert [r.record for r in cut.rows(table)] == [r.record for r in whole.rows(table)]
    row, same = cut.rows(SAMPLES)[-1], whole.rows(SAMPLES)[-1]
    assert row.place.file != cut.rows(SAMPLES)[0].place.file
    assert cut.picture(row, "picture", row.record.image) == whole.picture(
        same, "picture", row.record.image
    )


def test_places_of_the_machine_stay_at_home(finished: Run, tmp_path: Path) -> None:
    root = copy_of(finished, tmp_path / "edct")
    params = finished.params | {"benchmarks": {"mine": {"folder": "/home/quetzal/secret/vqa"}}}
    (root / "params.yaml").write_text(yaml.safe_dump(params))
    lock = {"stages": {"report": {"params": {"params.yaml": params}}}}
    (root / "dvc.lock").write_text(yaml.safe_dump(lock))
    made = export(root, tmp_path / "out")
    assert made.params["benchmarks"] == {"mine": {"folder": "vqa"}}
    assert "quetzal" not in "".join(
        data.decode("utf-8", "replace") for data in files(tmp_path / "out").values()
    )


def test_an_unfinished_or_changed_run_is_refused(finished: Run, tmp_path: Path) -> None:
    root = copy_of(finished, tmp_path / "edct")
    (root / "data" / "judge" / "demo_mixture-demo-demo-demo-0" / "judgements.jsonl").unlink()
    with pytest.raises(UserError, match=r"judgements.jsonl: the file is missing"):
        export(root, tmp_path / "out")
    (root / "params.yaml").write_text(yaml.safe_dump(finished.params | {"seeds": [1]}))
    with pytest.raises(UserError, match="has changed since the last run"):
        export(root, tmp_path / "out")
    (root / "dvc.lock").unlink()
    with pytest.raises(UserError, match="knows of no finished run"):
        export(root, tmp_path / "out")
    (root / "params.yaml").write_text(yaml.safe_dump(finished.params | {"target_names": []}))
    with pytest.raises(UserError, match="study of pairs"):
        export(root, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["edct"]  # nothing half done stays


def test_a_folder_in_use_is_left_alone(finished: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty"):
        export(finished.root, tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"
