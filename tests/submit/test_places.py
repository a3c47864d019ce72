"""Checking folders: one result, a results folder, and what does not belong there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.errors import ResultError, UsageError
from bench.submit.archive import pack, written
from bench.submit.check import Verdict
from bench.submit.places import archive_name, check_place


@pytest.fixture
def results(made: Any, tmp_path: Path) -> Path:
    """A folder of results with one of them."""
    root = tmp_path / "in-git"
    shutil.copytree(made.result.folder, root / "starter" / made.result.folder.name)
    (root / "README.md").write_text("results of ours")
    return root


@pytest.fixture
def verdicts(load: Any) -> Callable[[Path], list[Verdict]]:
    return lambda path: list(check_place(path, load))


Verdicts = Callable[[Path], list[Verdict]]


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
    assert "is there already" in refused.reasons[0]


def test_a_result_under_another_name_is_refused(made: Any, results: Path, verdicts: Verdicts) -> None:
    folder = results / "starter" / made.result.folder.name
    folder.rename(folder.with_name("tgr-0123456789ab"))
    (verdict,) = verdicts(results)
    assert verdict.outcome == "refused"
    assert "does not stand where it belongs" in verdict.reasons[0]


def test_what_is_no_part_of_a_result_is_refused(made: Any, results: Path, verdicts: Verdicts) -> None:
    folder = results / "starter" / made.result.folder.name
    (folder / "corpus.jsonl").write_text("upstream text")
    (verdict,) = verdicts(results)
    assert (verdict.outcome, verdict.reasons) == (
        "refused",
        ("it holds 'corpus.jsonl', which is no part of a result.",),
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
    found = verdicts(results)
    assert [verdict.outcome for verdict in found] == ["unreadable", "accepted"]


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
    assert "not made again" in verdict.note
    (folder / "run.parquet").symlink_to("/etc/passwd")
    (verdict,) = check_place(results, load, without_runs=True)
    assert verdict.outcome == "unreadable"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [("mean", 0.9, "recall@5 mean 0.9"), ("low", 0.0, "low 0"), ("high", None, "high none"), ("n", 5, "n 5")],
)
def test_without_its_run_a_mean_must_follow_from_the_values(
    made: Any, results: Path, load: Any, name: str, value: Any, reason: str
) -> None:
    def edited(raw: Any) -> None:
        raw["metrics"]["recall@5"][name] = value
        raw["n_failed"] = 3

    folder = results / "starter" / made.result.folder.name
    for part, data in made.members(metrics=edited).items():
        if part in made.parts and part != "run.parquet":
            (folder / part).write_bytes(data)
    (folder / "run.parquet").unlink()
    (verdict,) = check_place(results, load, without_runs=True)
    assert verdict.outcome == "refused"
    assert reason in verdict.reasons[1]
    assert "n_failed 3" in verdict.reasons[0]


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

    data = written(made.members(metrics=edited))
    (results / "a.zip").write_bytes(data[:10] + b"\x01" + data[11:])  # another time of the first member
    found = verdicts(results)[0]
    assert found.outcome == "unreadable" or len(found.reasons) > 1


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
