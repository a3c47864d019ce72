"""Stored results: what is written is what is read, every file follows its schema, damage is refused in a sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pandas
import pytest

from bench.data.dataset import Dataset
from bench.data.parquet import write_dataset
from bench.errors import ResultError, UsageError
from bench.registry import dataset_entries
from bench.run.experiment import Experiment
from bench.run.manifest import SCHEMA_VERSION, Manifest
from bench.run.result import Result, find_result, find_results, is_complete, latest, write_result
from bench.schemas import shipped_schema

Run = Callable[..., Result]
FILES = ("manifest.json", "metrics.json", "run.parquet", "per_query.parquet")


# Round trip ---------------------------------------------------------------------------------------------------------


def test_what_is_read_is_what_was_written(run: Run) -> None:
    written = run("oracle")
    again = Result.read(written.folder)
    assert sorted(path.name for path in written.folder.iterdir()) == sorted(FILES)
    assert again.manifest == written.manifest
    assert again.metrics == written.metrics
    assert again.run.equals(written.run)
    assert again.per_query.equals(written.per_query)
    assert set(again.manifest.files) == set(FILES) - {"manifest.json"}


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


def check(name: str, value: object) -> None:
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
    result = Result.read(path.parent)
    with pytest.raises(ResultError) as caught:
        _ = result.run if name == "run.parquet" else result.per_query
    assert str(caught.value) == (
        f"{path} is truncated or changed: its sha256 is not the one in manifest.json; "
        "run it again with --overwrite always."
    )


def test_a_missing_table_is_refused(run: Run) -> None:
    result = run("bm25")
    (result.folder / "run.parquet").unlink()
    with pytest.raises(ResultError, match=r"cannot read .*run\.parquet \(No such file or directory\); run it again"):
        _ = Result.read(result.folder).run


def test_an_edited_mean_is_refused(run: Run) -> None:
    # docs/results.md: the manifest holds the sha256 of the other files; one that is truncated or edited is refused.
    path = run("bm25").folder / "metrics.json"
    stored = json.loads(path.read_text("utf-8"))
    stored["metrics"]["recall@5"]["mean"] = 0.99
    path.write_text(json.dumps(stored), "utf-8")
    with pytest.raises(ResultError, match=r"metrics\.json is truncated or changed"):
        _ = Result.read(path.parent)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("manifest.json", None, "{folder} is not a result of bench: it has no manifest.json."),
        ("metrics.json", None, "{folder} is not a result of bench: it has no metrics.json."),
        ("manifest.json", "{", "cannot read {folder}/manifest.json: "),
        ("manifest.json", "", "cannot read {folder}/manifest.json: "),
        ("manifest.json", "[]", "{folder}/manifest.json does not follow its schema (the file: "),
        ("manifest.json", "{}", "{folder}/manifest.json does not follow its schema (result_id: Field required)."),
        ("manifest.json", "\udcff", "cannot read {folder}/manifest.json: "),
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
        Result.read(folder)
    assert str(caught.value).startswith(sentence.format(folder=folder))


def test_an_unknown_key_in_the_manifest_is_refused(run: Run) -> None:
    path = run("bm25").folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "colour": "red"}), "utf-8")
    with pytest.raises(ResultError, match=r"does not follow its schema \(colour: Extra inputs are not permitted\)"):
        Result.read(path.parent)


def test_files_of_two_results_in_one_folder_are_refused(run: Run) -> None:
    one, other = run("bm25"), run("tfidf")
    (other.folder / "metrics.json").replace(one.folder / "metrics.json")
    ids = f"({one.manifest.result_id} and {other.manifest.result_id})"
    with pytest.raises(ResultError) as caught:
        Result.read(one.folder)
    assert str(caught.value) == f"{one.folder} mixes two results {ids}; run it again."


# Swapping -----------------------------------------------------------------------------------------------------------


def test_a_swap_that_was_killed_between_its_renames_is_finished_with_the_old_result(run: Run) -> None:
    folder = run("bm25").folder
    created = Result.read(folder).manifest.environment.created
    folder.rename(folder.with_name(f".old-{folder.name}"))
    assert is_complete(folder)
    assert run("bm25").manifest.environment.created == created
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_swap_that_was_killed_before_the_old_one_was_removed_keeps_the_new_one(run: Run) -> None:
    folder = run("bm25").folder
    old = folder.with_name(f".old-{folder.name}")
    old.mkdir()
    (old / "manifest.json").write_text("of the old one")
    assert is_complete(folder)
    assert not old.exists()
    Result.read(folder)


def test_what_a_killed_process_left_of_a_write_is_in_nobody_s_way(run: Run) -> None:
    # In containers the next process often has the same id as the one that was killed.
    result = run("bm25")
    left = result.folder.with_name(f".new-{result.folder.name}-{os.getpid()}")
    left.mkdir()
    (left / "run.parquet").write_bytes(b"half")
    again = write_result(result.folder, result.manifest, result.metrics, result.run, result.per_query)
    assert Result.read(result.folder).manifest == again.manifest
    assert not left.exists()


def test_folders_that_are_being_written_are_no_results(run: Run) -> None:
    result = run("bm25")
    results = result.folder.parent.parent
    for name in (f".new-{result.folder.name}-1", f".old-{result.folder.name}"):
        (result.folder.parent / name).mkdir()
        for path in result.folder.iterdir():
            (result.folder.parent / name / path.name).write_bytes(path.read_bytes())
    assert [found.folder for found in find_results(results) if isinstance(found, Result)] == [result.folder]


# Finding ------------------------------------------------------------------------------------------------------------


def copy(result: Result, identifier: str, created: str, **method: str) -> Result:
    """The same answer from another version of the method's code."""
    manifest: Manifest = result.manifest.model_copy(
        update={
            "result_id": identifier,
            "environment": result.manifest.environment.model_copy(update={"created": created}),
            "method": result.manifest.method.model_copy(update=method),
        }
    )
    folder = result.folder.with_name(f"bm25-{identifier}")
    metrics = result.metrics.model_copy(update={"result_id": identifier})
    return write_result(folder, manifest, metrics, result.run, result.per_query)


def test_a_result_is_found_by_folder_id_beginning_and_name(run: Run) -> None:
    result = run("bm25(k1=2)")
    run("tfidf")
    results, identifier = result.folder.parent.parent, result.manifest.result_id
    names = [str(result.folder), identifier, identifier[:4], "bm25(k1=2.0)@tiny", "bm25(k1=2.0) @ tiny"]
    for name in names:
        assert find_result(results, name).folder == result.folder
    for name in (identifier[:3], "bm25@tiny", "bm25(k1=2.0)@other", "zzzz"):
        with pytest.raises(UsageError, match="there is no result "):
            find_result(results, name)


def test_a_name_of_several_questions_is_ambiguous(run: Run) -> None:
    one, other = run("bm25", limit=5), run("bm25", limit=6)
    with pytest.raises(UsageError) as caught:
        find_result(one.folder.parent.parent, "bm25@tiny")
    ids = {item.manifest.result_id for item in (one, other)}
    assert all(identifier in str(caught.value) for identifier in ids)
    assert str(caught.value).startswith("'bm25@tiny' names several results (")


def test_of_several_versions_of_the_code_the_latest_answer_is_found(run: Run) -> None:
    now = run("bm25")
    old = copy(now, "0" * 12, "2020-01-01T00:00:00+00:00", code="older", hash="older")
    results = now.folder.parent.parent
    assert find_result(results, "bm25@tiny").folder == now.folder
    assert find_result(results, "0000").folder == old.folder
    assert latest([now, old]) == latest([old, now]) == [now]
    # Another parameter is another question.
    other = run("bm25(k1=2)")
    assert {item.folder for item in latest([now, old, other])} == {now.folder, other.folder}


def test_a_broken_result_is_reported_beside_the_good_ones(run: Run) -> None:
    good, broken = run("bm25"), run("tfidf")
    (broken.folder / "metrics.json").write_text("{")
    found = list(find_results(good.folder.parent.parent))
    assert [item.folder for item in found if isinstance(item, Result)] == [good.folder]
    (error,) = [item for item in found if isinstance(item, ResultError)]
    assert "metrics.json" in str(error)
    with pytest.raises(ResultError, match="cannot read"):
        find_result(good.folder.parent.parent, broken.manifest.result_id)
    assert find_result(good.folder.parent.parent, "bm25@tiny").folder == good.folder
