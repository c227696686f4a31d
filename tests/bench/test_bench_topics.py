"""The measurements run, in their short form; what they find is theirs to say."""

from pathlib import Path

import pytest

from bench import apart, samples, study
from bench.calls import KEY
from bench.loopback import serving
from stages.models.store import Store
from stages.records import jsonl
from stages.records.base import Status
from stages.records.judgement import Judgement
from stages.workflow.folders import Folders


def hold(mib: int) -> int:
    """Take up memory, and say how much."""
    return len(bytes(range(256)) * (mib << 12)) >> 20


def test_work_apart_gives_its_result_and_its_peak() -> None:
    small, large = (apart.run("tests.bench.test_bench_topics:hold", mib=n) for n in (1, 64))
    assert (small.result, large.result) == (1, 64)
    assert 40 < large.peak_mib - small.peak_mib < 90


def test_work_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="no_such"):
        apart.run("bench.study:no_such")


def test_growth_is_between_the_sizes() -> None:
    found = samples.figure("judge", (300, 3000, 30000), [50.0, 100.0, 1000.0])
    assert found.met is False
    assert found.series is not None
    assert found.series.slope == 1.0
    assert "32.8 kB a sample" in found.note


def test_both_clients_are_seen_whole_by_the_provider(tmp_path: Path) -> None:
    with serving(0.01) as server:
        for side, given in (("our", {"root": str(apart.ROOT)}), ("bare", {})):
            values = {"url": server.url, "calls": 12, "concurrency": 4, **given}
            env = {**KEY, "EDCT_STORE": str(tmp_path / "store")}
            apart.run(f"bench.clients:{side}_words", env=env, **values)
            seen = server.seen()
            assert seen.requests == 12
            assert 0 < seen.mean <= seen.peak <= 4
    assert len(list(Store(tmp_path / "store").keys())) == 12


def test_a_stage_runs_on_what_is_left_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDCT_STORE", str(tmp_path / "store"))
    study.furnish(tmp_path)
    for stage in samples.STAGES:
        samples.leave_for(tmp_path, stage)
        samples.run(str(tmp_path), stage, 3)
    folders = Folders(tmp_path)
    verdicts = jsonl.read(folders.judge(study.CELL) / "judgements.jsonl", Judgement)
    assert [row.status for row in verdicts] == [Status.OK] * 3
