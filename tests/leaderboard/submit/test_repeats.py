"""Submissions of results with repeats: packed, accepted, and refused for what is wrong in any of the repeats."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit.results import seal
from kit.submit_changes import at, column, put, reasons

from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.leaderboard.submit.archive import MEMBERS, open_archive, pack
from bench.leaderboard.submit.check import CheckedSubmission
from bench.leaderboard.submit.check_path import check_archive, check_folder
from bench.leaderboard.submit.submission import Submission
from bench.leaderboard.zips import write_archive
from bench.registry import build_method, load_dataset
from bench.results.store import StoredResult

Checked = Callable[..., CheckedSubmission]
TABLES = ("run.parquet", "per_query.parquet", "repeats.parquet")
QUERIES = 134


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> StoredResult:
    """Three random orders of starter, cut to sets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_CACHE", str(shared_cache))
        patch.setenv("BENCH_OFFLINE", "1")
        runner = Runner(tmp_path_factory.mktemp("results"), load_dataset, build_method)
        plan = Plan(Spec.of("starter"), Spec.of("random"), depth=20, repeats=3, cut="size")
        (result,) = runner.run([plan])
    assert isinstance(result, StoredResult)
    return result


@pytest.fixture
def members(repeated: StoredResult) -> Callable[..., dict[str, bytes]]:
    """The members of an archive after changes, with hashes that fit: what a cheater would submit."""

    def members(**changes: Callable[[Any], Any]) -> dict[str, bytes]:
        parts = {path.name: path.read_bytes() for path in repeated.folder.iterdir()}
        for name in TABLES:
            change = changes.get(name.partition(".")[0])
            if change is not None:
                buffer = io.BytesIO()
                pq.write_table(change(pq.ParquetFile(pa.BufferReader(parts[name])).read()), buffer)
                parts[name] = buffer.getvalue()
        metrics, manifest = json.loads(parts["metrics.json"]), json.loads(parts["manifest.json"])
        changes.get("metrics", lambda raw: None)(metrics)
        parts["metrics.json"] = json.dumps(metrics).encode()
        manifest["files"] = {name: _sha256(data) for name, data in parts.items() if name != "manifest.json"}
        changes.get("manifest", lambda raw: None)(manifest)
        seal(manifest)
        parts["manifest.json"] = json.dumps(manifest).encode()
        about = json.loads(open_archive(pack(repeated))[0]["submission.json"])
        about["files"] = {name: _sha256(data) for name, data in parts.items()}
        return {**parts, "submission.json": json.dumps(about).encode()}

    return members


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def checked(tmp_path: Path, starter: Dataset) -> Checked:
    """Check a submission with repeats."""

    def checked(data: bytes | dict[str, bytes]) -> CheckedSubmission:
        path = tmp_path / "handed-in.zip"
        path.write_bytes(data if isinstance(data, bytes) else write_archive(data))
        return check_archive(path, lambda spec: starter)

    return checked


def test_a_packed_result_with_repeats_is_accepted_and_has_six_members(repeated: StoredResult, checked: Checked) -> None:
    data = pack(repeated)
    result, problems = open_archive(data)
    assert not problems
    assert list(result) == sorted([*MEMBERS, "repeats.parquet"])
    submission = Submission.model_validate_json(result["submission.json"])
    assert submission.files.keys() == result.keys() - {"submission.json"}
    verdict = checked(data)
    assert (verdict.outcome, verdict.note) == ("accepted", ""), verdict.reasons


def test_a_folder_is_accepted_with_its_rankings_and_without(
    repeated: StoredResult, starter: Dataset, tmp_path: Path
) -> None:
    folder = tmp_path / "starter" / repeated.folder.name
    folder.mkdir(parents=True)
    for path in repeated.folder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    assert check_folder(folder, lambda spec: starter, tmp_path).outcome == "accepted"
    (folder / "run.parquet").unlink()
    verdict = check_folder(folder, lambda spec: starter, tmp_path, without_run=True)
    assert verdict.outcome == "accepted", verdict.reasons
    assert "has no run.parquet" in verdict.note
    (folder / "repeats.parquet").unlink()
    assert "lacks repeats.parquet" in reasons(check_folder(folder, lambda spec: starter, tmp_path, without_run=True))


def test_the_members_as_they_are_are_accepted(members: Any, checked: Checked) -> None:
    assert checked(members()).outcome == "accepted"


def raised(place: int) -> Callable[[list[Any]], None]:
    """A change of a value to 1, or of 1 to 0."""

    def change(values: list[Any]) -> None:
        values[place] = 0.0 if values[place] == 1 else 1.0

    return change


def swapped(repeat: int, dataset: Dataset) -> Callable[[pa.Table], pa.Table]:
    """Move a gold tool of a repeat one rank up, past a tool that is not gold."""

    def change(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        gold = [row["tool_id"] in dataset.queries[dataset.query_codes[row["query_id"]]].gold for row in rows]
        place = next(
            i
            for i, row in enumerate(rows)
            if row["repeat"] == repeat and 1 < row["rank"] <= 5 and gold[i] and not gold[i - 1]
        )
        names = [row["tool_id"] for row in rows]
        names[place - 1 : place + 1] = names[place], names[place - 1]
        return table.set_column(table.column_names.index("tool_id"), "tool_id", pa.array(names))

    return change


def first_judged(table: pa.Table) -> int:
    counts: list[int] = table["n_gold"].to_pylist()
    return next(i for i, count in enumerate(counts) if count)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"metrics": put("repeats", "n_failed", value=[0, 0])}, "does not describe the 3 repeats"),
        ({"metrics": put("repeats", value=None)}, "does not describe the 3 repeats"),
        ({"manifest": put("repeats", value=2)}, "does not describe the 2 repeats"),
        ({"manifest": put("repeats", value=101)}, "manifest.json does not follow its schema"),
        ({"repeats": column("recall@10", raised(QUERIES * 2 + 5))}, "repeats.parquet has another recall@10 than"),
        ({"repeats": column("failed", at(QUERIES + 3, True))}, "repeat 2: run.parquet has tools for"),
        ({"repeats": column("repeat", at(0, 2))}, "repeats.parquet does not hold the repeats 1 to 3, each after"),
        ({"run": column("repeat", at(-1, 9))}, "run.parquet does not hold the repeats 1 to 3, each after"),
        ({"repeats": lambda table: table.slice(1)}, "repeat 1: repeats.parquet does not contain the 134 queries"),
        ({"run": lambda table: table.drop_columns(["repeat"])}, "run.parquet lacks the column repeat"),
        ({"run": column("tool_id", at(25, "no such tool"))}, "repeat 1: run.parquet names 'no such tool'"),
        ({"run": column("rank", at(-1, 7))}, "repeat 3: run.parquet is not in the order of query ids"),
        ({"repeats": column("recommended", at(QUERIES, ["x"]))}, "repeat 2: the column recommended of repeats.parquet"),
    ],
)
def test_what_does_not_follow_from_the_rankings_of_the_repeats_is_refused(
    members: Any, checked: Checked, changes: dict[str, Any], said: str
) -> None:
    assert said in reasons(checked(members(**changes)))


def test_every_number_of_the_variation_is_made_again(members: Any, checked: Checked) -> None:
    def change(raw: Any) -> None:
        metrics = raw["repeats"]["metrics"]
        metrics["recall@5"]["within"] *= 2
        metrics["recall@10"]["between"] += 0.1
        metrics["ndcg@5"]["means"][1] += 0.1
        metrics["ndcg@10"]["share"] /= 2
        metrics["pass@5"]["error"] = None
        raw["repeats"]["n_failed"][2] += 1

    said = reasons(checked(members(metrics=change)))
    for name in ("recall@5", "recall@10", "ndcg@5", "ndcg@10", "pass@5"):
        assert f"another variation of {name} over the repeats than scored again" in said
    assert "has other failed queries in the repeats" in said
    assert len(said.splitlines()) == 6


@pytest.mark.parametrize("repeat", [1, 3])
def test_a_ranking_of_any_repeat_that_was_changed_is_found(
    members: Any, checked: Checked, starter: Dataset, repeat: int
) -> None:
    sentences = reasons(checked(members(run=swapped(repeat, starter))))
    assert "repeats.parquet has another" in sentences
    assert "per_query.parquet has another" in sentences
    assert "another variation of" in sentences


def test_repeats_that_were_exchanged_are_found(members: Any, checked: Checked) -> None:
    def exchanged(table: pa.Table) -> pa.Table:
        numbers = table["repeat"].to_pylist()
        order = [*(i for i, n in enumerate(numbers) if n == 2), *(i for i, n in enumerate(numbers) if n == 1)]
        order += [i for i, n in enumerate(numbers) if n == 3]
        return table.take(order).set_column(0, "repeat", pa.array(sorted(numbers), pa.int32()))

    # All of it follows from the rankings, but for the order in which the repeats have their means.
    said = reasons(checked(members(run=exchanged, repeats=exchanged)))
    assert "per_query.parquet has another recommended" in said


def test_without_rankings_the_means_must_follow_from_the_repeats(
    repeated: StoredResult, members: Any, starter: Dataset, tmp_path: Path
) -> None:
    def verdict(**changes: Any) -> str:
        parts = members(**changes)
        folder = tmp_path / "folder"
        folder.mkdir(exist_ok=True)
        for name in parts.keys() - {"submission.json", "run.parquet"}:
            (folder / name).write_bytes(parts[name])
        result = check_folder(folder, lambda spec: starter, without_run=True)
        return "\n".join(result.reasons)

    assert verdict() == ""
    place = first_judged(repeated.per_query)
    said = verdict(repeats=column("recall@10", raised(QUERIES + place)))
    assert "values of recall@10 that are not the means of the repeats" in said
    assert "another variation of recall@10" in said
    said = verdict(repeats=column("failed", at(QUERIES + place, True)), per_query=column("failed", at(place, True)))
    assert "has 1 failed queries, and the result states 0" in said
    assert "does not have the columns of per_query.parquet" in verdict(
        repeats=lambda table: table.drop_columns(["recall@5"])
    )
    said = verdict(repeats=column("recall@10", at(place, 1.5)))
    assert said == "repeats.parquet has a value of recall@10 that the metric cannot have."
    said = verdict(
        repeats=column("recall@10", at(QUERIES + place, None)), per_query=column("recall@10", at(place, None))
    )
    assert said == "repeats.parquet has values for other queries than per_query.parquet."


def test_an_ordinary_result_has_no_table_of_repeats(made: Any, repeated: StoredResult, checked: Checked) -> None:
    parts = made.members()
    parts["repeats.parquet"] = (repeated.folder / "repeats.parquet").read_bytes()
    said = reasons(checked(parts))
    assert "it has repeats.parquet, but its manifest has no repeats" in said
    parts = made.members(run=lambda table: table.append_column("repeat", pa.array([1] * len(table), pa.int32())))
    assert "run.parquet has the column 'repeat', which is not part of the format" in reasons(checked(parts))
    parts = made.members(metrics=put("repeats", value={"n_failed": [0], "metrics": {}}))
    assert "does not describe the 1 repeats" in reasons(checked(parts))
