"""A metric with a parameter of its own is named, stored and compared like any other, wherever a metric is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.results.code_versions import measure_hash
from bench.results.store import StoredResult

Bench = Callable[..., Any]
NAME = "rbp(p=0.9)@10"


@pytest.fixture
def made(bench: Bench) -> StoredResult:
    """bm25 on twenty queries, with the metric spelt loosely."""
    asked = ("run", "-m", "bm25", "-d", "starter", "--limit", 20, "--metric", "rbp( p=.9 )@10", "--metric", "rbp@10")
    (found,) = bench(*asked, "--json").json
    assert {NAME, "rbp@10"} <= found["metrics"]["metrics"].keys()
    return StoredResult.read(Path(found["folder"]))


def test_values_are_those_of_the_formula_and_keep_their_name(made: StoredResult) -> None:
    gold: dict[str, set[str]] = {}
    from bench.registry import load_dataset

    for query in load_dataset("starter").queries:
        gold[query.query_id] = set(query.gold)
    ranks: dict[str, list[int]] = {}
    for row in made.run.to_pylist():
        if row["tool_id"] in gold[row["query_id"]] and row["rank"] <= 10:
            ranks.setdefault(row["query_id"], []).append(row["rank"])
    ids = made.per_query["query_id"].to_pylist()
    for name, p in ((NAME, 0.9), ("rbp@10", 0.8)):
        expected = [
            sum((1 - p) * p ** (rank - 1) for rank in ranks.get(query, [])) if gold[query] else np.nan for query in ids
        ]
        assert made.values(name) == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_the_parameter_is_part_of_the_measure_in_the_manifest(made: StoredResult) -> None:
    from bench.metrics import get_measure

    codes = made.manifest.scoring
    assert not isinstance(codes, str)
    assert codes.measures["rbp(p=0.9)"] == measure_hash(get_measure("rbp(p=0.9)"))
    assert codes.measures["rbp"] == measure_hash(get_measure("rbp"))
    assert codes.measures["rbp"] != codes.measures["rbp(p=0.9)"]


def test_every_command_that_names_a_metric_takes_it(bench: Bench, made: StoredResult) -> None:
    bench("run", "-m", "random", "-d", "starter", "--limit", 20, "--metric", NAME)
    compared = bench("compare", "bm25@starter", "random@starter", "-m", "rbp(p=0.90)@10", "--json").json
    (metric,) = compared["datasets"][0]["metrics"]
    assert metric["metric"] == NAME
    assert NAME in bench("show", "bm25@starter", "--json").json["metrics"]["metrics"]
    assert bench("rescore", "--json").json[0]["outcome"] == "up to date"
    bench("bless", "bm25@starter", "--out", "b.json", "--by", "me", "--metric", NAME)
    Path("gate.toml").write_text('[[rule]]\nmetric = "rbp(p=.9)@10"\nmargin = 0.02\n')
    gate = ("--baseline", "b.json", "--policy", "gate.toml", "--json")
    assert bench("gate", "bm25@starter", *gate, code=0).json["rules"][0]["name"].startswith(NAME)
    # Twenty queries show no regression, and no more.
    (rule,) = bench("gate", "random@starter", *gate, code=2).json["rules"]
    assert rule["verdict"] == "inconclusive"
    assert rule["baseline"] == pytest.approx(made.metrics.metrics[NAME].mean)
    best = bench("tune", "-m", "bm25", "-d", "starter", "-g", "k1=0.5,1.5", "--metric", NAME, "--json").json
    assert all(NAME in point for point in best["points"])


def test_an_experiment_file_names_it(bench: Bench) -> None:
    Path("e.toml").write_text(
        f'methods = ["bm25"]\ndatasets = ["starter"]\nlimit = 5\nmetrics = {json.dumps(["rbp(p=0.50)@3"])}\n'
    )
    (found,) = bench("run", "e.toml", "--json").json
    assert "rbp(p=0.5)@3" in found["metrics"]["metrics"]


def test_it_is_explained_with_its_parameter(bench: Bench) -> None:
    told = bench("list", "metrics", NAME).out
    assert "rbp(p=0.9)@k" in told
    assert "parameter p" in told
    assert bench("list", "metrics", "rbp", "--json").json["parameters"]["p"]["default"] == 0.8


@pytest.mark.parametrize(
    ("metric", "sentence"),
    [
        ("rbp(p=2)@10", "parameter 'p' of metric rbp is 2: input should be less than 1."),
        ("rbp(q=2)@10", "metric rbp has no parameter 'q'; its parameters: p."),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(bench: Bench, metric: str, sentence: str) -> None:
    said = bench("run", "-m", "bm25", "-d", "starter", "--metric", metric, code=2)
    assert sentence in said.err.replace("\n", " ")
