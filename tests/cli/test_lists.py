"""`bench list`: what there is, for people and for machines."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.results import older

from bench.interface import Context, OracleMethod
from bench.metrics import DEFAULT_METRICS, measures, parse_metric
from bench.registry import build_method, method_names

Bench = Callable[..., Any]


def test_methods_are_listed_with_their_parameters(bench: Bench) -> None:
    rows = bench("list", "methods", "--json").json
    assert [row["name"] for row in rows] == method_names()
    for row in rows:
        method = build_method(row["name"])
        assert set(row["parameters"]) == set(method.Parameters.model_fields)
        assert row["summary"].endswith(".")
        assert all(parameter["description"] for parameter in row["parameters"].values())
        assert (row["needs_llm"], row["oracle"]) == (method.needs_llm, isinstance(method, OracleMethod))
    assert {row["name"] for row in rows if row["needs_history"]} == {
        "colt",
        "linear-adapter",
        "nearest-bundle",
        "nearest-query",
        "popularity",
        "ptr",
        "random-bundle",
    }
    assert [row["name"] for row in rows if row["oracle"]] == ["oracle", "planted", "toolrerank-oracle"]
    table = bench("list", "methods").out
    assert all(f"\n {name} " in table for name in method_names())
    assert "neighbours=10" in table
    assert max(map(len, table.splitlines())) <= 100


def test_the_defaults_listed_make_the_same_method(bench: Bench) -> None:
    for row in bench("list", "methods", "--json").json:
        method = build_method(row["name"])
        shown = {name: parameter["default"] for name, parameter in row["parameters"].items()}
        parameters = type(method).Parameters.model_validate(shown)
        again = type(method)(parameters, Context(build_method))
        assert str(again.parameters) == str(method.parameters)


def test_a_method_that_is_named_is_described(bench: Bench) -> None:
    said = " ".join(bench("list", "methods", "bm25", "rrf").out.split())
    for name in ("bm25", "rrf"):
        for field in build_method(name).Parameters.model_fields.values():
            assert " ".join((field.description or "?").split()) in said
    rows = bench("list", "methods", "bm25", "rrf", "--json").json
    assert [row["name"] for row in rows] == ["bm25", "rrf"]
    assert bench("list", "methods", "bm25", "--json").json == rows[0]
    assert "did you mean 'bm25'" in bench("list", "methods", "bm52", code=2).err


def test_datasets_that_are_named_are_listed_alone(bench: Bench) -> None:
    rows = bench("list", "datasets", "--json").json
    assert bench("list", "datasets", "starter", "--json").json == next(row for row in rows if row["id"] == "starter")
    table = bench("list", "datasets", "starter", "apibank").out
    assert re.findall(r"^ (\w+) +\d+ ", table, re.MULTILINE) == ["starter", "apibank"]
    assert len(bench("list", "datasets").out.splitlines()) > len(rows)


@pytest.mark.parametrize(
    "words", [("methods", "--results", "x"), ("datasets", "--stale"), ("metrics", "--stale", "--results", "x")]
)
def test_an_option_of_results_is_refused_elsewhere(bench: Bench, words: tuple[str, ...]) -> None:
    assert "goes with `bench list results`; omit it" in bench("list", *words, code=2).err


def test_metrics_are_listed_in_the_forms_that_are_typed(bench: Bench) -> None:
    rows = bench("list", "metrics", "--json").json
    table = bench("list", "metrics").out
    assert all(row["metric"].split(",")[0] in table for row in rows)
    forms = {form.strip() for row in rows for form in row["metric"].split(",")}
    for name in DEFAULT_METRICS:
        metric = parse_metric(name)
        form = str(metric) if metric.cutoff in {None, "gold"} else f"{metric.measure.name}@k"
        assert form in forms


@pytest.mark.parametrize("name", sorted(measures()))
def test_each_metric_is_explained(bench: Bench, name: str) -> None:
    measure = measures()[name]
    said = " ".join(bench("list", "metrics", name).out.split())
    for text in (measure.definition, measure.edge_cases, measure.source):
        assert " ".join(text.split()) in said
    explained = bench("list", "metrics", f"{name}@5", "--json").json
    assert explained["definition"] == measure.definition


# Results ------------------------------------------------------------------------------------------------------------


def test_without_results_it_says_how_to_make_one(bench: Bench, tmp_path: Path) -> None:
    said = bench("list", "results")
    assert " ".join(said.out.split()) == f"no results in {tmp_path / 'results'}; create one with `bench run`."
    assert bench("list", "results", "--json").json == {"results": [], "unreadable": []}


def test_results_are_listed_with_their_ids(bench: Bench) -> None:
    made = bench("run", "-m", "tfidf", "-m", "bm25", "--limit", 8, "--json").json
    made += bench("run", "-m", "bm25", "--split", "dev", "--cut", "size", "--limit", 8, "--json").json
    rows = bench("list", "results", "--json").json["results"]
    assert {row["id"] for row in rows} == {result["manifest"]["result_id"] for result in made}
    (cut,) = [row for row in rows if row["cut"]]
    assert (cut["split"], cut["dataset"], cut["method"]) == ("dev", "starter", "bm25")
    assert cut["metrics"]["recall@5"] == made[2]["metrics"]["metrics"]["recall@5"]["mean"]
    table = bench("list", "results").out
    assert all(result["manifest"]["result_id"] in table for result in made)
    assert "(split" in table
    assert "dev, limit 8)" in table
    assert cut["cut"] in table


def test_results_that_are_named_are_listed_alone(bench: Bench) -> None:
    made = bench("run", "-m", "tfidf", "-m", "bm25", "--limit", 8, "--json").json
    ids = [result["manifest"]["result_id"] for result in made]
    (row,) = bench("list", "results", "bm25@starter", "--json").json["results"]
    assert row["id"] == ids[1]
    folder = Path(made[0]["folder"])
    older(folder, folder, "0" * 12, "2020-01-01T00:00:00+00:00")
    # One of older code is listed by its id, and is the only one of these that is stale.
    table = bench("list", "results", "0" * 12, ids[1]).out
    assert ("0" * 12 in table, ids[1] in table, ids[0] in table, "not shown" in table) == (True, True, False, False)
    stale = bench("list", "results", "0" * 12, ids[1], "--stale", "--json").json["results"]
    assert [item["id"] for item in stale] == ["0" * 12]
    assert "no results of older code among these" in bench("list", "results", ids[1], "--stale").out
    assert "there is no result" in bench("list", "results", "nothing@starter", code=2).err


def test_results_in_another_folder_are_listed_from_there(bench: Bench) -> None:
    bench("run", "-m", "bm25", "--limit", 4, "--results", "mine")
    assert len(bench("list", "results", "--results", "mine", "--json").json["results"]) == 1
    assert bench("list", "results", "--json").json["results"] == []


def test_older_answers_to_the_same_question_are_counted_and_not_shown(bench: Bench) -> None:
    (result,) = bench("run", "-m", "bm25", "--limit", 8, "--json").json
    folder, identifier = Path(result["folder"]), result["manifest"]["result_id"]
    older(folder, folder, "0" * 12, "2020-01-01T00:00:00+00:00")
    table = bench("list", "results").out
    assert identifier in table
    assert "0" * 12 not in table
    assert "1 result of older code is not shown; `bench list results --stale` lists them" in table
    assert len(bench("list", "results", "--json").json["results"]) == 2


def test_a_result_that_cannot_be_read_is_told_beside_the_others(bench: Bench) -> None:
    good, broken = bench("run", "-m", "bm25", "-m", "tfidf", "--limit", 8, "--json").json
    (Path(broken["folder"]) / "metrics.json").write_text("{")
    said = bench("list", "results")
    assert good["manifest"]["result_id"] in said.out
    assert said.err.startswith(f"unreadable: {broken['folder']}/metrics.json is not JSON")
    assert len(bench("list", "results", "--json").json["unreadable"]) == 1
