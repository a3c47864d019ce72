"""`bench submit`: pack, check, exit codes, JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.results import seal

from bench.base.paths import results_folder
from bench.leaderboard.submit import numbers
from bench.metrics import parse_metric
from bench.results.store import StoredResult, find_results, result_folder, write_result

Bench = Callable[..., Any]


@pytest.fixture
def packed(bench: Bench) -> Path:
    """bm25 on a few queries of starter, as an archive in the working folder."""
    bench("run", "-m", "bm25", "-d", "starter", "--limit", 20, "-q")
    said = bench("submit", "pack", "bm25@starter", "--json").json
    return Path(said["archive"])


def test_pack_names_the_archive_by_dataset_method_and_id(bench: Bench, packed: Path) -> None:
    (manifest,) = results_folder().glob("*/*/manifest.json")
    assert packed.name == f"starter-{manifest.parent.name}.zip"
    assert "KiB" in bench("submit", "pack", "bm25@starter", "--out", "deep/er/mine.zip").out
    assert Path("deep/er/mine.zip").read_bytes() == packed.read_bytes()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_an_archive_takes_the_place_of_a_file_only(bench: Bench, packed: Path, kind: str) -> None:
    place = Path("out.zip")
    if kind == "link":
        place.symlink_to(packed)
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    before = place.lstat().st_mode
    assert "choose another --out" in bench("submit", "pack", "bm25@starter", "--out", place, code=7).err
    assert place.lstat().st_mode == before


def test_a_metric_of_a_package_that_is_not_installed_is_told_before_packing(
    bench: Bench, packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "parse_metric", lambda name: parse_metric(name.replace("recall@5", "early@5")))
    said = bench("submit", "pack", "bm25@starter", "--out", "other.zip", code=6)
    assert "metrics.json has the metric 'recall@5', which this bench does not know" in said.err
    assert not Path("other.zip").exists()


def test_an_honest_submission_is_accepted(bench: Bench, packed: Path) -> None:
    assert bench("submit", "check", packed).out.startswith(f"accepted  {packed}  bm25 @ starter")
    assert bench("submit", "check", results_folder()).out.startswith("accepted")
    (result,) = bench("submit", "check", packed, "--json").json
    assert result["outcome"] == "accepted"
    assert result["reasons"] == []
    assert result["label"] == "bm25 @ starter"


def test_a_refused_submission_has_exit_code_1_and_every_reason(bench: Bench, packed: Path) -> None:
    (metrics,) = results_folder().glob("*/*/metrics.json")
    raw = json.loads(metrics.read_text())
    raw["metrics"]["recall@5"]["mean"] = 0.99
    raw["n_failed"] = 3
    metrics.write_text(json.dumps(raw))
    said = bench("submit", "check", results_folder(), code=1)
    assert said.out.startswith("refused")
    for part in ("sha256", "recall@5 mean 0.99", "n_failed 3"):
        assert part in said.out
    assert "the submission is not accepted" in said.err
    (result,) = bench("submit", "check", results_folder(), "--json", code=1).json
    assert len(result["reasons"]) == 3


def test_a_submission_does_not_replace_a_result_of_the_board(bench: Bench, packed: Path) -> None:
    # The same method on the same data, of this version and a later date: on a board it would be shown instead.
    values, older = results_folder(), "0" * 12
    (ours,) = find_results(values)
    assert isinstance(ours, StoredResult)
    forged = ours.manifest.model_copy(update={"result_id": older})
    metrics = ours.metrics.model_copy(update={"result_id": older})
    board = Path("board")
    write_result(result_folder(board, "starter", "bm25", older), forged, metrics, ours.run, ours.per_query)
    assert bench("submit", "check", packed).out.startswith("accepted")
    said = bench("submit", "check", packed, "--board", board, code=1).out
    assert f"the board already has bm25 @ starter, as {older}, which this would replace" in said
    # A result does not replace itself; a method that gives the same answers again may replace an older result.
    assert bench("submit", "check", packed, "--board", values).out.startswith("accepted")
    if shutil.which("bwrap"):
        said = bench("submit", "check", packed, "--board", board, "--rerun").out
        assert f"it would replace {older} on the board, and a re-run of its method gave the same answers" in said


def test_an_unreadable_submission_has_exit_code_6(bench: Bench, packed: Path) -> None:
    packed.write_bytes(packed.read_bytes()[:-30])
    assert "unreadable" in bench("submit", "check", packed, code=6).out
    assert "cannot read none.zip: No such file" in bench("submit", "check", "none.zip", code=6).out


def test_a_submission_of_data_that_is_not_here_has_exit_code_4(
    bench: Bench, packed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # The tests' own cache may hold the dataset by now.
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "empty-cache"))
    (manifest,) = results_folder().glob("*/*/manifest.json")
    raw = json.loads(manifest.read_text())
    assert raw["dataset"]["spec"] == raw["settings"]["dataset"] == "starter"
    raw["dataset"]["spec"] = raw["settings"]["dataset"] = "toolbench-i3-inst"
    raw["environment"]["command"] = raw["environment"]["command"].replace("starter", "toolbench-i3-inst")
    seal(raw)
    manifest.write_text(json.dumps(raw))
    said = bench("submit", "check", manifest.parent, "--mirror", "nowhere", "--offline", code=4)
    assert "the dataset 'toolbench-i3-inst' is not available, so nothing was scored: " in said.out
    assert "toolbench" in said.out


def test_nothing_to_check_and_nothing_to_pack_are_wrong_commands(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "nothing to check" in bench("submit", "check", tmp_path / "empty", code=2).err
    bench("submit", "pack", "bm25@nothing", code=2)


def test_names_from_outside_do_not_reach_the_terminal_as_they_are(bench: Bench, packed: Path) -> None:
    (manifest,) = results_folder().glob("*/*/manifest.json")
    raw = json.loads(manifest.read_text())
    raw["method"]["spec"] = "\x1b[2J\u202eevil"
    manifest.write_text(json.dumps(raw))
    said = bench("submit", "check", manifest.parent, code=1)
    assert "\x1b" not in said.out
    assert "\u202e" not in said.out


def test_help_of_submit_imports_no_model(bench: Bench) -> None:
    said = bench("submit", "check", "--help")
    assert "re-scores the ranking" in said.out
    assert "evil" not in sys.modules
