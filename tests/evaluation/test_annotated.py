"""Results on libraries whose tools have annotations: the metric of destructive tools, in results new and old."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from bench.data.dataset import Dataset
from bench.evaluation.rescore import rescore
from bench.metrics import parse_metrics
from bench.results.across_catalogues import take_snapshot, values_as_asked
from bench.results.store import StoredResult

Run = Callable[..., StoredResult]


@pytest.fixture
def annotated(tiny: Dataset) -> Dataset:
    """The tiny dataset: of three tools one reads, one adds and one has no annotations."""
    given = [json.dumps({"readOnlyHint": True}), json.dumps({"readOnlyHint": False, "destructiveHint": False}), None]
    tools = [replace(tool, annotations=given[i % 3]) for i, tool in enumerate(tiny.tools)]
    return Dataset.build("tiny", tiny.card, replace(tiny.rows_again(), tools=tools))


def test_a_result_has_it_where_tools_have_annotations(run: Run, annotated: Dataset, tiny: Dataset) -> None:
    result = run("bm25", dataset=annotated)
    assert {f"excess_destructive@{k}" for k in (1, 3, 5, 10)} <= result.metrics.metrics.keys()
    # Also of the queries without gold.
    assert result.metrics.metrics["excess_destructive@5"].n == 22
    assert not any("excess_destructive" in name for name in run("bm25").metrics.metrics)


def test_a_library_without_annotations_has_none_although_it_is_wanted(run: Run, tiny: Dataset) -> None:
    assert "excess_destructive@5" not in run("bm25", metrics=("excess_destructive@5",)).metrics.metrics


def test_an_oracle_hands_over_nothing_that_is_not_needed_first(run: Run, annotated: Dataset) -> None:
    best = run("oracle", dataset=annotated).values("excess_destructive@1")
    judged = annotated.gold.counts[annotated.rows("test")] > 0
    assert (best[judged] == 0).all()


def test_other_numbers_are_those_of_the_same_data_without_annotations(
    run: Run, annotated: Dataset, tiny: Dataset
) -> None:
    with_hints, without = run("bm25", dataset=annotated), run("bm25")
    assert without.metrics.metrics.keys() < with_hints.metrics.metrics.keys()
    for name, value in without.metrics.metrics.items():
        assert with_hints.metrics.metrics[name] == value, name


def test_an_older_result_gets_it_when_it_is_scored_again(run: Run, annotated: Dataset) -> None:
    result = run("bm25", dataset=annotated)
    names = [name for name in result.per_query.column_names if "excess" in name]
    older = replace(result)
    metrics = result.metrics.model_copy(
        update={"metrics": {name: value for name, value in result.metrics.metrics.items() if name not in names}}
    )
    vars(older).update(metrics=metrics, per_query=result.per_query.drop_columns(names), run=result.run)
    again = rescore(older, annotated, parse_metrics(["excess_destructive@5"]))
    assert again.metrics.metrics == result.metrics.metrics


def test_on_an_edited_catalogue_the_candidate_s_own_values_stay(run: Run, annotated: Dataset) -> None:
    result = run("bm25", dataset=annotated)
    ids = result.per_query["query_id"].to_pylist()
    table = values_as_asked(
        result.run, result.per_query.slice(1), take_snapshot(annotated, ids), ids, ["excess_destructive@3", "recall@3"]
    )
    stored = result.per_query["excess_destructive@3"].to_pylist()
    assert table["excess_destructive@3"].to_pylist() == [None, *stored[1:]]


def test_a_larger_k_hands_over_no_less(run: Run, annotated: Dataset) -> None:
    result = run("random", dataset=annotated)
    small, large = (result.values(f"excess_destructive@{k}") for k in (3, 10))
    assert (small <= large).all()
    assert (large <= 10).all()
