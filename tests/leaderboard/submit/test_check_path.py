"""Checking folders: one result, a results folder, and what does not belong there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.submit_changes import at, column, named_as, put, reasons

from bench.base.errors import ResultError, UsageError
from bench.base.spec import Spec, parse
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.leaderboard.submit.archive import pack
from bench.leaderboard.submit.check import CheckedSubmission
from bench.leaderboard.submit.check_path import archive_name, check_place
from bench.leaderboard.zips import write_archive
from bench.registry import build_method, load_dataset
from bench.results.store import StoredResult


@pytest.fixture
def results(made: Any, tmp_path: Path) -> Path:
    """A folder of results with one of them."""
    root = tmp_path / "in-git"
    shutil.copytree(made.result.folder, root / "starter" / made.result.folder.name)
    (root / "README.md").write_text("results of ours")
    return root


@pytest.fixture
def verdicts(load: Any) -> Callable[[Path], list[CheckedSubmission]]:
    """The verdicts on a path."""
    return lambda path: list(check_place(path, load))


Verdicts = Callable[[Path], list[CheckedSubmission]]


def test_a_folder_a_result_and_a_part_of_a_folder_are_checked_alike(
    made: Any, results: Path, verdicts: Verdicts
) -> None:
    folder = results / "starter" / made.result.folder.name
    for path in (results, results / "starter", folder):
        (verdict,) = verdicts(path)
        assert (verdict.outcome, verdict.place, verdict.reasons) == ("accepted", folder, ())


def test_archives_among_results_are_checked_too_and_an_id_counts_once(
    made: Any, results: Path, verdicts: Verdicts
) -> None:
    (results / archive_name(made.result.manifest)).write_bytes(pack(made.result))
    first, second = verdicts(results)
    assert {first.outcome, second.outcome} == {"accepted", "refused"}
    refused = first if first.outcome == "refused" else second
    assert " already exists in " in refused.reasons[0]


def test_a_result_under_another_name_is_refused(made: Any, results: Path, verdicts: Verdicts) -> None:
    folder = results / "starter" / made.result.folder.name
    folder.rename(folder.with_name("tgr-0123456789ab"))
    (verdict,) = verdicts(results)
    assert verdict.outcome == "refused"
    assert "is in the wrong place" in verdict.reasons[0]


def test_what_is_no_part_of_a_result_is_refused(made: Any, results: Path, verdicts: Verdicts) -> None:
    folder = results / "starter" / made.result.folder.name
    (folder / "corpus.jsonl").write_text("upstream text")
    (verdict,) = verdicts(results)
    assert (verdict.outcome, verdict.reasons) == (
        "refused",
        ("it contains 'corpus.jsonl', which is not part of a result.",),
    )


def test_links_are_not_followed(made: Any, results: Path, verdicts: Verdicts, tmp_path: Path) -> None:
    folder = results / "starter" / made.result.folder.name
    shutil.move(folder, tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    (results / "other").symlink_to("/etc")
    assert {verdict.outcome for verdict in verdicts(results)} == {"refused"}
    folder.unlink()
    shutil.move(tmp_path / "elsewhere", folder)
    (folder / "metrics.json").unlink()
    (folder / "metrics.json").symlink_to("/etc/passwd")
    (verdict,) = verdicts(folder)
    assert verdict.outcome == "unreadable"
    assert "not a regular file" in verdict.reasons[0]


def test_a_folder_without_its_files_is_unreadable_and_does_not_stop_the_rest(
    made: Any, results: Path, verdicts: Verdicts
) -> None:
    (results / "starter" / "a-half").mkdir()
    result = verdicts(results)
    assert [verdict.outcome for verdict in result] == ["unreadable", "accepted"]


def test_edited_values_in_a_folder_are_refused(made: Any, results: Path, verdicts: Verdicts) -> None:
    folder = results / "starter" / made.result.folder.name
    path = folder / "metrics.json"
    path.write_text(path.read_text().replace('"n_failed": 0', '"n_failed": 1'))
    (verdict,) = verdicts(results)
    assert verdict.outcome == "refused"
    assert len(verdict.reasons) == 2


def test_nothing_to_check_is_said(tmp_path: Path, verdicts: Verdicts) -> None:
    with pytest.raises(UsageError, match="nothing to check"):
        verdicts(tmp_path)


def test_a_folder_may_lack_its_run_only_where_that_is_allowed(made: Any, results: Path, load: Any) -> None:
    folder = results / "starter" / made.result.folder.name
    (folder / "run.parquet").unlink()
    (verdict,) = check_place(results, load)
    assert verdict.outcome == "unreadable"
    (verdict,) = check_place(results, load, without_runs=True)
    assert (verdict.outcome, verdict.reasons) == ("accepted", ())
    assert "not recomputed" in verdict.note
    (folder / "run.parquet").symlink_to("/etc/passwd")
    (verdict,) = check_place(results, load, without_runs=True)
    assert verdict.outcome == "unreadable"


def test_hidden_folders_are_those_being_written(made: Any, results: Path, verdicts: Verdicts) -> None:
    (results / ".locks").mkdir()
    (results / "starter" / ".bm25.partial").mkdir()
    assert len(verdicts(results)) == 1


def test_an_archive_s_name_cannot_lead_anywhere(made: Any) -> None:
    manifest = made.result.manifest
    evil = manifest.model_copy(
        update={"method": manifest.method.model_copy(update={"spec": "../../x/../y", "run_file": "a sha256:b"})}
    )
    assert archive_name(evil) == f"starter-x-y-{manifest.result_id}.zip"
    assert os.sep not in archive_name(manifest)


def test_a_hostile_archive_among_results_is_told_with_the_rest_of_its_faults(
    made: Any, results: Path, verdicts: Verdicts
) -> None:
    def edited(raw: Any) -> None:
        raw["n_failed"] = 5

    data = write_archive(made.members(metrics=edited))
    (results / "a.zip").write_bytes(data[:10] + b"\x01" + data[11:])  # another time of the first member
    verdict = verdicts(results)[0]
    assert verdict.outcome == "unreadable" or len(verdict.reasons) > 1


def test_an_archive_in_capitals_is_checked_too(made: Any, tmp_path: Path, verdicts: Verdicts) -> None:
    (tmp_path / "A.ZIP").write_bytes(b"no archive")
    (verdict,) = verdicts(tmp_path)
    assert verdict.outcome == "unreadable"


@pytest.mark.parametrize("name", ["pipe", "a" * 300, "none.zip"])
def test_what_is_no_file_and_no_folder_is_unreadable(tmp_path: Path, verdicts: Verdicts, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (verdict,) = verdicts(tmp_path / name)
    assert verdict.outcome == "unreadable"
    assert "not a regular file" in verdict.reasons[0] or "cannot read" in verdict.reasons[0]


def test_a_folder_that_cannot_be_listed_is_said(
    made: Any, results: Path, verdicts: Verdicts, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = results / "starter" / made.result.folder.name
    listed = Path.iterdir

    def refused(self: Path) -> Any:
        if self == hidden:
            raise PermissionError(13, "Permission denied", str(self))
        return listed(self)

    monkeypatch.setattr(Path, "iterdir", refused)
    hidden = folder
    (verdict,) = verdicts(results)
    assert verdict.outcome == "unreadable"
    assert "cannot list" in verdict.reasons[0]
    hidden = results / "starter"
    with pytest.raises(ResultError, match="cannot list"):
        verdicts(results)


def test_a_path_may_lead_up_and_down_again(made: Any, results: Path, verdicts: Verdicts) -> None:
    (verdict,) = verdicts(results / "starter" / made.result.folder.name / "..")
    assert verdict.outcome == "accepted", verdict.reasons


# Without runs -------------------------------------------------------------------------------------------------------


@pytest.fixture
def without_run(made: Any, results: Path, load: Any) -> Callable[..., str]:
    """Why the result is refused without its ranking, after changes."""

    def refused(**changes: Any) -> str:
        folder = results / "starter" / made.result.folder.name
        for part, data in made.members(**changes).items():
            if part in made.parts and part != "run.parquet":
                (folder / part).write_bytes(data)
        (folder / "run.parquet").unlink(missing_ok=True)
        (verdict,) = check_place(results, load, without_runs=True)
        assert verdict.outcome == "refused"
        return reasons(verdict)

    return refused


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [("mean", 0.9, "recall@5 mean 0.9"), ("low", 0.0, "low 0"), ("high", None, "high none"), ("n", 5, "n 5")],
)
def test_without_its_run_a_mean_must_follow_from_the_values(
    without_run: Any, name: str, value: Any, reason: str
) -> None:
    assert reason in without_run(metrics=put("metrics", "recall@5", name, value=value))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"metrics": put("n_failed", value=3)}, "has 0 failed queries, and the result states 3"),
        ({"metrics": put("n_no_gold", value=3)}, "unjudged queries, and the result states 3"),
        ({"metrics": put("lenient", "queries", value=3)}, "has lenient queries 3; counted again it is 0"),
        ({"metrics": put("lenient", "code", value="0" * 64)}, "has lenient means of other code"),
        ({"per_query": column("n_gold", at(0, 3))}, "has another n_gold than the data"),
        ({"per_query": column("unit", at(0, "other"))}, "has another unit than scored again on 1 of"),
        ({"per_query": column("ndcg@5", at(0, 7.0))}, "has a value of ndcg@5 that the metric cannot have"),
        ({"per_query": lambda table: table.drop_columns(["recall@1"])}, "lacks the values of recall@1"),
    ],
)
def test_without_its_run_counts_and_values_must_fit_the_data(without_run: Any, changes: Any, reason: str) -> None:
    assert reason in without_run(**changes)


@pytest.mark.parametrize("digest", [None, "", "x"])
def test_without_its_run_a_result_has_the_run_s_sha256(without_run: Any, digest: str | None) -> None:
    def other(raw: Any) -> None:
        raw["files"]["run.parquet"] = digest
        if digest is None:
            del raw["files"]["run.parquet"]

    assert "no sha256 of run.parquet" in without_run(manifest=other)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("bm25", {"depth": 3}),
        ("bm25", {"limit": 5, "cut": "size"}),
        ("oracle", {"split": "all"}),
        ("nearest-bundle(base=bm25)", {}),
        ("random", {}),
    ],
)
def test_an_honest_result_is_accepted_with_and_without_its_run(
    tmp_path: Path, load: Any, method: str, settings: dict[str, Any]
) -> None:
    runner = Runner(tmp_path, load_dataset, build_method)
    (result,) = runner.run([Plan(Spec.of("starter"), parse(method), **settings)])
    assert isinstance(result, StoredResult)
    for name in ("run.parquet", "README"):
        (verdict,) = check_place(tmp_path, load, without_runs=True)
        assert (verdict.outcome, verdict.reasons) == ("accepted", ())
        (result.folder / name).unlink(missing_ok=True)
    assert "not recomputed" in verdict.note


# What is noted ------------------------------------------------------------------------------------------------------


def test_an_oracle_under_another_name_and_a_copied_ranking_are_noted(
    made: Any, of_result: Any, tmp_path: Path, load: Any
) -> None:
    runner = Runner(tmp_path / "runs", load_dataset, build_method)
    (oracle,) = runner.run([Plan(Spec.of("starter"), Spec.of("oracle"))])

    def renamed(raw: Any) -> None:
        raw["result_id"] = "0123456789ab"
        named_as("mine", oracle=False)(raw)

    root = tmp_path / "handed-in"
    root.mkdir()
    for name, source in (("a", made), ("b", of_result(oracle))):
        (root / f"{name}.zip").write_bytes(pack(source.result))
    copied = made.members(manifest=renamed, metrics=renamed)
    hidden = of_result(oracle).members(manifest=renamed, metrics=renamed)
    assert check_archive_of(tmp_path, hidden, load).note == (
        "it answers every query with exactly its gold, but is not marked as an oracle"
    )
    (root / "c.zip").write_bytes(write_archive(copied))
    notes = [(verdict.outcome, verdict.note) for verdict in check_place(root, load)]
    assert notes == [
        ("accepted", ""),
        ("accepted", ""),
        ("accepted", f"its ranking is byte for byte that of {root / 'a.zip'}"),
    ]


def check_archive_of(folder: Path, members: dict[str, bytes], load: Any) -> CheckedSubmission:
    path = folder / "one.zip"
    path.write_bytes(write_archive(members))
    (verdict,) = check_place(path, load)
    return verdict
