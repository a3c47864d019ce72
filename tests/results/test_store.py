"""Stored results: what is written is what is read, every file follows its schema, damage is refused in a sentence."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock, Timeout
from kit.results import rehash, seal

from bench.base.errors import ResultError, UsageError
from bench.cli.schemas import shipped_schema
from bench.data.dataset import Dataset
from bench.data.parquet import write_dataset
from bench.evaluation.experiment import Experiment
from bench.lookup.finding import find_result
from bench.registry import dataset_entries
from bench.results.manifest import SCHEMA_VERSION
from bench.results.store import (
    MANIFEST,
    PER_QUERY,
    RUN,
    StoredResult,
    find_results,
    is_complete,
    omit_ranking,
    result_lock,
    write_result,
)

Run = Callable[..., StoredResult]
FILES = ("manifest.json", "metrics.json", "run.parquet", "per_query.parquet")


# Round trip ---------------------------------------------------------------------------------------------------------


def test_what_is_read_is_what_was_written(run: Run) -> None:
    written = run("oracle")
    again = StoredResult.read(written.folder)
    assert sorted(path.name for path in written.folder.iterdir()) == sorted(FILES)
    assert again.manifest == written.manifest
    assert again.metrics == written.metrics
    assert again.run.equals(written.run)
    assert again.per_query.equals(written.per_query)
    assert set(again.manifest.files) == set(FILES) - {"manifest.json"}
    types = dict(zip(again.run.schema.names, again.run.schema.types, strict=True))
    assert types == {"query_id": "string", "rank": "int32", "tool_id": "string", "score": "double"}


def test_pandas_reads_the_tables_in_one_line(run: Run) -> None:
    result = run("bm25")
    table = pandas.read_parquet(result.folder / "per_query.parquet")
    assert table["ndcg@5"].mean() == pytest.approx(result.metrics.metrics["ndcg@5"].mean)
    ranking = pandas.read_parquet(result.folder / "run.parquet")
    assert list(ranking.columns) == ["query_id", "rank", "tool_id", "score"]
    first = ranking[ranking.query_id == "q00"]
    assert first["rank"].tolist() == list(range(1, len(first) + 1))
    assert first["score"].is_monotonic_decreasing


def test_values_of_a_metric_are_asked_for_by_name(run: Run) -> None:
    result = run("bm25")
    assert result.values("recall@5").shape == (22,)
    with pytest.raises(UsageError, match=f"the result {result.manifest.result_id} has no metric 'recall@7'"):
        result.values("recall@7")


def test_the_label_names_method_cut_and_dataset(run: Run) -> None:
    assert run("bm25(k1=2)").label == "bm25(k1=2.0) @ tiny"
    result = run("bm25", cut="size")
    assert result.label == f"bm25 + {result.manifest.method.cut} @ tiny"


# Schemas ------------------------------------------------------------------------------------------------------------


def check(name: str, value: Any) -> None:
    schema = shipped_schema(name)
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    kind(schema).validate(value)


@pytest.mark.parametrize(("method", "plan"), [("oracle", {}), ("random", {"limit": 3}), ("bm25", {"cut": "threshold"})])
def test_every_file_of_a_result_follows_its_schema(run: Run, method: str, plan: dict[str, object]) -> None:
    result = run(method, **plan)
    for name in ("manifest", "metrics"):
        check(name, json.loads((result.folder / f"{name}.json").read_text("utf-8")))
    for name, table in (("run.parquet", result.run), ("per_query.parquet", result.per_query)):
        rows = table.to_pylist()
        assert rows
        for row in rows:
            check(name, row)


def test_every_file_of_a_stored_dataset_follows_its_schema(tiny: Dataset, tmp_path: Path) -> None:
    write_dataset(tiny, tmp_path)
    check("dataset", json.loads((tmp_path / "dataset.json").read_text("utf-8")))
    for name in ("tools", "queries", "gold", "edges"):
        rows = pandas.read_parquet(tmp_path / f"{name}.parquet", dtype_backend="pyarrow").to_dict("records")
        assert rows
        for row in rows:
            check(f"{name}.parquet", json.loads(json.dumps(row, default=list)))


@pytest.mark.parametrize("name", sorted(dataset_entries()))
def test_every_card_follows_its_schema(name: str) -> None:
    check("card", dataset_entries()[name].card.model_dump(mode="json"))


def test_schemas_refuse_what_is_not_in_them() -> None:
    check("experiment", Experiment(methods=["bm25"], datasets=["starter"]).model_dump(mode="json"))
    check("run-line", {"query_id": "q", "tools": ["a"], "scores": [1.5]})
    wrong: list[tuple[str, object]] = [
        ("experiment", {"methods": ["bm25"]}),
        ("experiment", {"methods": ["bm25"], "datasets": ["starter"], "colour": "red"}),
        ("run-line", {"tools": ["a"]}),
        ("run-line", {"query_id": "q", "tools": "a"}),
        ("run.parquet", {"query_id": "q", "rank": "first", "tool_id": "t", "score": 1.0}),
        ("run.parquet", {"query_id": "q", "rank": 1, "tool_id": "t"}),
        ("manifest", {}),
    ]
    for name, value in wrong:
        with pytest.raises(jsonschema.ValidationError):
            check(name, value)


# Damage -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run.parquet", "per_query.parquet"])
@pytest.mark.parametrize("damage", ["cut", "edited", "empty"])
def test_a_damaged_table_is_refused(run: Run, name: str, damage: str) -> None:
    path = run("bm25").folder / name
    data = path.read_bytes()
    changed = {"cut": data[:-1], "edited": data[:100] + bytes([data[100] ^ 1]) + data[101:], "empty": b""}
    path.write_bytes(changed[damage])
    result = StoredResult.read(path.parent)
    with pytest.raises(ResultError) as caught:
        _ = result.run if name == "run.parquet" else result.per_query
    told = f"{path} is truncated or changed: its sha256 is not the one in manifest.json; run it again."
    assert str(caught.value) == told
    with pytest.raises(ResultError) as caught:
        StoredResult.read(path.parent).verify()
    assert str(caught.value) == told


def test_a_missing_table_is_refused(run: Run) -> None:
    result = run("bm25")
    (result.folder / "run.parquet").unlink()
    with pytest.raises(
        ResultError, match=r"run\.parquet is gone: manifest\.json lists it .*: bench run --method bm25 --dataset tiny"
    ):
        StoredResult.read(result.folder)


@pytest.mark.parametrize("edit", ["mean", "blank"])
def test_edited_metrics_are_refused(run: Run, edit: str) -> None:
    # docs/results.md: the manifest holds the sha256 of the other files; one that is truncated or edited is refused.
    path = run("bm25").folder / "metrics.json"
    stored = json.loads(path.read_text("utf-8"))
    if edit == "mean":
        stored["metrics"]["recall@5"]["mean"] = 0.99
    path.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n\n"[edit == "mean" :], "utf-8")
    with pytest.raises(ResultError) as caught:
        StoredResult.read(path.parent)
    assert str(caught.value) == (
        f"{path} is truncated or changed: its sha256 is not the one in manifest.json; run it again."
    )


def test_a_result_that_hides_what_code_computed_a_number_is_refused(run: Run) -> None:
    # Without it, its numbers would compare with those of any code.
    path = run("bm25").folder / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    del manifest["scoring"]["measures"]["recall"]
    seal(manifest)
    path.write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(ResultError) as caught:
        StoredResult.read(path.parent)
    assert str(caught.value) == f"{path} does not say which code computed 'recall@1'; run it again."


def test_the_manifest_holds_the_sha256_of_every_other_file(run: Run) -> None:
    result = run("bm25")
    expected = {name: hashlib.sha256((result.folder / name).read_bytes()).hexdigest() for name in FILES[1:]}
    assert result.manifest.files == expected
    assert StoredResult.read(result.folder).manifest.files == expected


@pytest.mark.parametrize("name", FILES[1:])
def test_a_file_that_the_manifest_does_not_know_is_refused(run: Run, name: str) -> None:
    path = run("bm25").folder / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    del manifest["files"][name]
    seal(manifest)
    path.write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(ResultError, match=f"metrics.json is truncated or changed|has no sha256 of {name}"):
        StoredResult.read(path.parent).verify()


def test_a_whole_result_is_verified_without_a_word(run: Run) -> None:
    StoredResult.read(run("oracle").folder).verify()


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("manifest.json", None, "{folder} is not a bench result: it has no manifest.json."),
        ("metrics.json", None, "{folder} is not a bench result: it has no metrics.json."),
        ("manifest.json", "{", "{folder}/manifest.json is not JSON: "),
        ("manifest.json", "", "{folder}/manifest.json is not JSON: "),
        ("manifest.json", "[]", "{folder}/manifest.json does not follow its schema (it is not a JSON object)."),
        ("manifest.json", "{}", "{folder}/manifest.json does not follow its schema (result_id: Field required)."),
        ("manifest.json", "\udcff", "{folder}/manifest.json is not UTF-8: "),
        (
            "manifest.json",
            '{"schema_version": 2, "new": "form"}',
            f"{{folder}}/manifest.json has schema version 2; this bench reads {SCHEMA_VERSION}.",
        ),
        (
            "metrics.json",
            '{"schema_version": 99}',
            f"{{folder}}/metrics.json has schema version 99; this bench reads {SCHEMA_VERSION}.",
        ),
    ],
)
def test_a_damaged_model_is_refused(run: Run, name: str, text: str | None, sentence: str) -> None:
    folder = run("bm25").folder
    (folder / name).unlink()
    if text is not None:
        (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ResultError) as caught:
        StoredResult.read(folder)
    assert str(caught.value).startswith(sentence.format(folder=folder))


def test_an_unknown_key_in_the_manifest_is_refused(run: Run) -> None:
    path = run("bm25").folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "colour": "red"}), "utf-8")
    with pytest.raises(ResultError, match=r"does not follow its schema \(colour: Extra inputs are not permitted\)"):
        StoredResult.read(path.parent)


def test_files_of_two_results_in_one_folder_are_refused(run: Run) -> None:
    one, other = run("bm25"), run("tfidf")
    (other.folder / "metrics.json").replace(one.folder / "metrics.json")
    ids = f"({one.manifest.result_id} and {other.manifest.result_id})"
    with pytest.raises(ResultError) as caught:
        StoredResult.read(one.folder)
    assert str(caught.value) == f"{one.folder} mixes two results {ids}; run it again."


# Swapping -----------------------------------------------------------------------------------------------------------


def readable_folders(results: Path) -> list[Path]:
    """Folders of the results that can be read."""
    return [item.folder for item in find_results(results) if isinstance(item, StoredResult)]


def test_a_swap_that_was_killed_between_its_renames_is_finished_with_the_old_result(run: Run) -> None:
    first = run("bm25")
    folder = first.folder
    aside = folder.with_name(f".old-{folder.name}")
    folder.rename(aside)
    # Reading moves nothing: another process may be between its renames now.
    assert not is_complete(folder)
    assert readable_folders(folder.parent.parent) == [aside]
    assert not folder.exists()
    again = run("bm25")
    assert again.manifest == first.manifest
    assert again.folder == folder
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_swap_that_was_killed_before_the_old_one_was_removed_keeps_the_new_one(run: Run) -> None:
    first = run("bm25")
    folder = first.folder
    old = folder.with_name(f".old-{folder.name}")
    old.mkdir()
    (old / "manifest.json").write_text("of the old one")
    assert readable_folders(folder.parent.parent) == [folder]
    assert run("bm25").manifest == first.manifest
    assert not old.exists()


def test_what_a_killed_process_left_of_a_write_is_in_nobody_s_way(run: Run) -> None:
    result = run("bm25")
    left = result.folder.with_name(f".new-{result.folder.name}-0123abcd")
    left.mkdir()
    (left / "run.parquet").write_bytes(b"half")
    again = write_result(result.folder, result.manifest, result.metrics, result.run, result.per_query)
    assert StoredResult.read(result.folder).manifest == again.manifest
    assert not left.exists()


def test_folders_that_are_being_written_are_no_results(run: Run) -> None:
    result = run("bm25")
    for name in (f".new-{result.folder.name}-1", f".old-{result.folder.name}"):
        (result.folder.parent / name).mkdir()
        for path in result.folder.iterdir():
            (result.folder.parent / name / path.name).write_bytes(path.read_bytes())
    assert readable_folders(result.folder.parent.parent) == [result.folder]


def test_lock_files_lie_in_a_hidden_folder_of_the_results(run: Run, tmp_path: Path) -> None:
    result = run("bm25")
    locks = tmp_path / "results" / ".locks"
    assert (locks / f"{result.folder.name}.lock").is_file()
    assert {path.name for path in (tmp_path / "results").iterdir()} == {".locks", "tiny"}
    assert readable_folders(tmp_path / "results") == [result.folder]


def test_a_result_is_made_by_one_process_at_a_time(tmp_path: Path) -> None:
    results = tmp_path / "results"
    folder = results / "tiny" / "bm25-0123"
    with result_lock(results, folder), result_lock(results, results / "tiny" / "bm25-4567"):
        lock = FileLock(results / ".locks" / "bm25-0123.lock")
        with pytest.raises(Timeout):
            lock.acquire(timeout=0)
    with lock.acquire(timeout=0):
        assert lock.is_locked


# Forged tables ------------------------------------------------------------------------------------------------------


def forged(result: StoredResult, name: str, change: Callable[[pa.Table], pa.Table]) -> StoredResult:
    """The result with another table, whose digest fits."""
    path = result.folder / name
    pq.write_table(change(pq.read_table(path)), path)
    rehash(result.folder, name)
    return StoredResult.read(result.folder)


def put(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


@pytest.mark.parametrize(
    ("name", "change", "fault"),
    [
        ("run.parquet", lambda t: put(t, "rank", t["rank"].cast("string")), "the column 'rank' of the type string"),
        ("run.parquet", lambda t: put(t, "rank", pa.array([1] * len(t), "int32")), "with the ranks 1, 2, 3"),
        ("run.parquet", lambda t: put(t, "rank", pa.array([2**31 - 1] * len(t), "int32")), "with the ranks 1, 2, 3"),
        ("run.parquet", lambda t: t.slice(1), "with the ranks 1, 2, 3"),
        ("run.parquet", lambda t: put(t, "tool_id", pa.nulls(len(t), "string")), "cells of the column 'tool_id' empty"),
        ("per_query.parquet", lambda t: t.append_column("n_gold", t["n_gold"]), "the column 'n_gold' twice"),
        ("per_query.parquet", lambda t: t.append_column("a", t["query_id"]), "the column 'a' of the type string"),
        ("per_query.parquet", lambda t: pa.concat_tables([t, t]), "order of query ids, or has one twice"),
    ],
)
def test_tables_of_another_form_are_refused(
    run: Run, name: str, change: Callable[[pa.Table], pa.Table], fault: str
) -> None:
    result = forged(run("bm25"), name, change)
    with pytest.raises(ResultError, match=fault):
        result.verify()


def test_tables_of_one_row_and_of_none_are_read(run: Run) -> None:
    result = forged(run("bm25"), "run.parquet", lambda table: table.slice(0, 1))
    assert len(result.run) == 1
    assert len(forged(result, "run.parquet", lambda table: table.slice(0, 0)).run) == 0


@pytest.mark.parametrize(
    ("name", "column", "fault"),
    [("per_query.parquet", "query_id", "has the query 'zz'"), ("run.parquet", "tool_id", "has the tool 'zz'")],
)
def test_ids_that_the_dataset_has_not_are_told(run: Run, tiny: Dataset, name: str, column: str, fault: str) -> None:
    run("bm25").check_ids(tiny)

    def change(table: pa.Table) -> pa.Table:
        return put(table, column, pa.array([*table[column].to_pylist()[:-1], "zz"]))

    with pytest.raises(ResultError, match=fault):
        forged(run("bm25"), name, change).check_ids(tiny)


@pytest.mark.parametrize(("metric", "value"), [("recall@5", 2.0), ("recall@5", -0.5), ("recall@5", float("inf"))])
def test_values_that_a_metric_cannot_have_are_refused(run: Run, metric: str, value: float) -> None:
    def change(table: pa.Table) -> pa.Table:
        return put(table, metric, pa.array([value, *table[metric].to_pylist()[1:]], "float64"))

    made = run("bm25")
    result = forged(made, "per_query.parquet", change)
    with pytest.raises(ResultError, match=f"give different means of {metric}: the values give .* metrics.json has"):
        result.values(metric)


@pytest.mark.parametrize("name", [PER_QUERY, RUN, MANIFEST])
def test_a_named_result_of_which_a_byte_was_changed_is_not_shown(run: Run, name: str) -> None:
    """The digests of all files are held against them, though a table of means needs none of them."""
    result = run("bm25")
    path = result.folder / name
    data = path.read_bytes()
    if name == MANIFEST:
        path.write_bytes(data.replace(b'"depth": 100', b'"depth": 101'))
        assert path.read_bytes() != data
    else:
        path.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])
    for named in (str(result.folder), result.manifest.result_id, "bm25@tiny"):
        with pytest.raises(ResultError, match=re.escape(f"{path} ")):
            find_result(result.folder.parents[1], named)
    path.write_bytes(data)
    assert find_result(result.folder.parents[1], "bm25@tiny").manifest == result.manifest
    for gone in (RUN, PER_QUERY):
        kept = (result.folder / gone).read_bytes()
        (result.folder / gone).unlink()
        with pytest.raises(ResultError, match=f"{gone} is gone"):
            find_result(result.folder.parents[1], "bm25@tiny")
        (result.folder / gone).write_bytes(kept)
    # A ranking may be left out on purpose.
    omit_ranking(result)
    left = find_result(result.folder.parents[1], "bm25@tiny")
    assert (left.manifest.omitted, left.has_run, left.metrics) == ([RUN], False, result.metrics)
    assert left.manifest.files == result.manifest.files
