"""Checking folders: one result, a results folder, and what does not belong there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.submit_changes import at, column, put, reasons

from bench.errors import ResultError, UsageError
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.metrics import Metric, Scores, parse_metric
from bench.registry import build_method, load_dataset
from bench.results.intervals import means_and_intervals
from bench.results.store import Result
from bench.specs.spec import Spec, parse
from bench.submit.archive import pack, written
from bench.submit.check import CheckedSubmission
from bench.submit.check_path import archive_name, check_place


@pytest.fixture
def results(made: Any, tmp_path: Path) -> Path:
    """A folder of results with one of them."""
    root = tmp_path / "in-git"
    shutil.copytree(made.result.folder, root / "starter" / made.result.folder.name)
    (root / "README.md").write_text("results of ours")
    return root


@pytest.fixture
def verdicts(load: Any) -> Callable[[Path], list[CheckedSubmission]]:
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


# Without runs -------------------------------------------------------------------------------------------------------


@pytest.fixture
def without_run(made: Any, results: Path, load: Any) -> Callable[..., CheckedSubmission]:
    """What becomes of the result without its ranking, after changes; means and intervals follow from its values."""

    def checked(change: Any = None, metrics: Any = None, manifest: Any = None) -> CheckedSubmission:
        changes: dict[str, Any] = {"manifest": manifest} if manifest else {}
        if change is not None:
            table = change(made.result.per_query)
            names = [
                metric for metric in map(parse_metric, made.result.metrics.metrics) if str(metric) in table.schema.names
            ]
            values = np.array([table[str(metric)].to_pylist() for metric in names], dtype=np.float64).T
            if np.nanmin(values) < 0 or np.nanmax(values) > 5:
                # Values that no ranking has, which intervals refuse.
                names = [Metric(replace(metric.measure, span=None), metric.cutoff) for metric in names]
            means = means_and_intervals(Scores(tuple(names), values), made.result.units)

            def follow(raw: Any) -> None:
                for name, value in means.items():
                    raw["metrics"][name].update(value.model_dump(include={"mean", "low", "high", "n"}))
                    # As somebody would who invents them.
                    ends = [raw["metrics"][name][end] for end in ("tie_low", "tie_high")]
                    if None not in ends:
                        raw["metrics"][name]["tie_low"] = min(ends[0], value.mean)
                        raw["metrics"][name]["tie_high"] = max(ends[1], value.mean)
                if metrics is not None:
                    metrics(raw)

            changes |= {"per_query": lambda _: table, "metrics": follow}
        elif metrics is not None:
            changes["metrics"] = metrics
        folder = results / "starter" / made.result.folder.name
        for part, data in made.members(**changes).items():
            if part in made.parts and part != "run.parquet":
                (folder / part).write_bytes(data)
        (folder / "run.parquet").unlink(missing_ok=True)
        (verdict,) = check_place(results, load, without_runs=True)
        return verdict

    return checked


def each(value: Callable[[float | None], float | None]) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [None if old is None else value(old) for old in values]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (column("ndcg@5", each(lambda _: 7.0)), "ndcg@5 that are below 0 or above those"),
        (column("ndcg@5", each(lambda _: -0.5)), "ndcg@5 that are below 0 or above those"),
        (column("recall@5", each(lambda old: old or None)), "recall@5 for other queries than those that are judged"),
        (column("recall@5", lambda values: [value or 0.0 for value in values]), "recall@5 for other queries"),
        (lambda table: table.append_column("mine", table["recall@5"]), "values of 'mine', which metrics.json does not"),
    ],
)
def test_without_its_run_no_value_may_be_one_that_no_ranking_has(without_run: Any, change: Any, reason: str) -> None:
    assert reason in reasons(without_run(change))


def test_without_its_run_a_failed_query_scores_nothing(made: Any, without_run: Any) -> None:
    values, counts = made.result.values("recall@100"), made.result.per_query["n_gold"].to_pylist()
    place = next(i for i, (value, n) in enumerate(zip(values, counts, strict=True)) if value and n)

    def failed(raw: Any) -> None:
        raw["n_failed"] = 1

    found = reasons(without_run(column("failed", at(place, True)), failed))
    assert "values of recall@100 other than 0 for queries that failed" in found


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda raw: raw["metrics"].pop("recall@1") and None, "lacks the metric recall@1"),
        (put("metrics", "recall@5", "tie_low", value=0.99), "a tie band that does not contain its mean"),
        (put("metrics", "recall@5", "tie_high", value=None), "a tie band that does not contain its mean"),
        (put("n_tied", value=10**6), "n_tied 1000000 of 126"),
        (put("tokens", "top_5", value=-1.0), "fewer than 0 tokens"),
        (put("tokens", "free", value=1.0), "tokens of other things"),
        (put("tokens", "answer", value=-1.0), "fewer than 0 tokens"),
    ],
)
def test_without_its_run_no_number_beside_the_means_is_free(without_run: Any, change: Any, reason: str) -> None:
    assert reason in reasons(without_run(metrics=change))


def test_without_its_run_metrics_are_no_deeper_than_the_ranking(without_run: Any) -> None:
    assert "'recall@5', which its ranking cannot have" in reasons(without_run(manifest=put("depth", value=3)))


@pytest.mark.parametrize("digest", [None, "", "x"])
def test_without_its_run_a_result_has_the_run_s_sha256(without_run: Any, digest: str | None) -> None:
    def other(raw: Any) -> None:
        raw["files"]["run.parquet"] = digest
        if digest is None:
            del raw["files"]["run.parquet"]

    assert "no sha256 of run.parquet" in reasons(without_run(manifest=other))


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
    assert isinstance(result, Result)
    for name in ("run.parquet", "README"):
        (verdict,) = check_place(tmp_path, load, without_runs=True)
        assert (verdict.outcome, verdict.reasons) == ("accepted", ())
        (result.folder / name).unlink(missing_ok=True)
    assert "not made again" in verdict.note


# What is noted ------------------------------------------------------------------------------------------------------


def test_an_oracle_under_another_name_and_a_copied_ranking_are_noted(
    made: Any, of_result: Any, tmp_path: Path, load: Any
) -> None:
    runner = Runner(tmp_path / "runs", load_dataset, build_method)
    (oracle,) = runner.run([Plan(Spec.of("starter"), Spec.of("oracle"))])

    def renamed(raw: Any) -> None:
        raw["result_id"] = "0123456789ab"
        if "method" in raw:
            raw["method"].update(spec="mine", full_spec="mine", oracle=False)

    root = tmp_path / "handed-in"
    root.mkdir()
    for name, source in (("a", made), ("b", of_result(oracle))):
        (root / f"{name}.zip").write_bytes(pack(source.result))
    copied = made.members(manifest=renamed, metrics=renamed)
    hidden = of_result(oracle).members(manifest=renamed, metrics=renamed)
    assert check_archive_of(tmp_path, hidden, load).note == (
        "it answers every query with exactly its gold, but is not marked as an oracle"
    )
    (root / "c.zip").write_bytes(written(copied))
    notes = [(verdict.outcome, verdict.note) for verdict in check_place(root, load)]
    assert notes == [
        ("accepted", ""),
        ("accepted", ""),
        ("accepted", f"its ranking is byte for byte that of {root / 'a.zip'}"),
    ]


def check_archive_of(folder: Path, members: dict[str, bytes], load: Any) -> CheckedSubmission:
    path = folder / "one.zip"
    path.write_bytes(written(members))
    (verdict,) = check_place(path, load)
    return verdict
