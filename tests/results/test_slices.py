"""A result by slice: the right queries in each, the right numbers, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.base.errors import ResultError, UsageError
from bench.data.dataset import Dataset
from bench.data.novelty import with_slice
from bench.results.slices import by_slice, slice_names, slice_values
from bench.results.store import StoredResult

Run = Callable[..., StoredResult]
METRICS = ["recall@5", "ndcg@10", "tracc@5"]


def rebuilt(dataset: Dataset, **changed: Any) -> Dataset:
    return Dataset.build(dataset.spec, dataset.card, replace(dataset.rows_again(), **changed))


@pytest.fixture
def marked(tiny: Dataset) -> Dataset:
    """The tiny dataset with slices of its own; they do not change its content hash."""
    every = with_slice(tiny.queries, "kind", {query.query_id: "any" for query in tiny.queries})
    numbers = {query.query_id: str(8 + i % 3) for i, query in enumerate(tiny.queries) if i % 4}
    return rebuilt(tiny, queries=with_slice(every, "number", numbers))


def test_a_slice_of_all_queries_has_the_numbers_of_the_result(run: Run, marked: Dataset) -> None:
    result = run("bm25")
    (whole,) = by_slice(result, marked, "kind", METRICS)
    assert (whole.value, whole.n, whole.n_no_gold, whole.n_failed) == (
        "any",
        result.metrics.n,
        22 - result.metrics.n,
        0,
    )
    for name in METRICS:
        values, known = whole.metrics[name], result.metrics.metrics[name]
        assert (values.mean, values.low, values.high, values.n) == (known.mean, known.low, known.high, known.n)
        assert values.tie_low is None


def test_the_values_partition_the_queries_and_the_means_are_theirs(run: Run, marked: Dataset) -> None:
    result = run("bm25")
    outcome = by_slice(result, marked, "number", METRICS)
    # Numbers in the order of numbers, queries without a value last.
    assert [item.value for item in outcome] == ["8", "9", "10", "-"]
    assert sum(item.n + item.n_no_gold for item in outcome) == 22
    ids = result.per_query["query_id"].to_pylist()
    for item in outcome:
        mine = [marked.queries[marked.query_codes[name]].slices.get("number", "-") == item.value for name in ids]
        values = result.values("ndcg@10")[np.array(mine)]
        assert item.n + item.n_no_gold == sum(mine)
        assert item.n == item.metrics["ndcg@10"].n == np.count_nonzero(~np.isnan(values))
        assert item.metrics["ndcg@10"].mean == pytest.approx(float(np.nanmean(values)))
    assert sum(item.n for item in outcome) == result.metrics.n < 22


def test_the_number_of_gold_tools_and_queries_without_gold(run: Run, tiny: Dataset) -> None:
    result = run("bm25")
    by_value = {item.value: item for item in by_slice(result, tiny, "gold", METRICS)}
    counts = [len(tiny.queries[tiny.query_codes[name]].gold) for name in result.per_query["query_id"].to_pylist()]
    assert {value: item.n + item.n_no_gold for value, item in by_value.items()} == {
        str(n): counts.count(n) for n in set(counts)
    }
    assert (by_value["0"].n, by_value["0"].metrics) == (0, {})
    assert sum(item.n for item in by_value.values()) == result.metrics.n


def test_general_slices_are_computed_and_own_ones_win(tiny: Dataset, marked: Dataset) -> None:
    assert slice_names(tiny) == ["category", "gold", "length", "parent", "prerequisite", "tool"]
    assert set(slice_names(marked)) == {*slice_names(tiny), "kind", "number"}
    past = {tool for query in tiny.queries if query.split != "test" for tool in query.gold}
    values = slice_values(tiny, "tool")
    judged = [query for query in tiny.queries if query.gold and query.split == "test"]
    assert {query.query_id for query in judged} <= values.keys()
    for query in judged:
        assert (values[query.query_id] == "unseen") == (not query.gold.keys() & past)
    # Three parents for twelve tools: all of them are seen.
    assert {slice_values(tiny, "parent")[query.query_id] for query in judged} == {"seen"}
    part = rebuilt(tiny, queries=with_slice(tiny.queries, "parent", {"q00": "mine"}))
    assert slice_values(part, "parent") == {"q00": "mine"}


def test_novelty_is_in_the_order_of_novelty(run: Run, tiny: Dataset) -> None:
    values = ["unseen", "mixed", "dev", "seen"]
    part = with_slice(tiny.queries, "x", {query.query_id: values[i % 4] for i, query in enumerate(tiny.queries[:20])})
    result = by_slice(run("bm25"), rebuilt(tiny, queries=part), "x", METRICS)
    assert [item.value for item in result] == ["seen", "dev", "mixed", "unseen", "-"]


def test_a_slice_of_one_query_has_no_interval(run: Run, tiny: Dataset) -> None:
    values = rebuilt(tiny, queries=with_slice(tiny.queries, "x", {"q00": "alone"}))
    alone = by_slice(run("bm25"), values, "x", METRICS)[0]
    assert (alone.value, alone.metrics["recall@5"].n, alone.metrics["recall@5"].low) == ("alone", 1, None)


def test_other_data_are_refused(run: Run, tiny: Dataset) -> None:
    result = run("bm25")
    other = rebuilt(tiny, queries=[replace(query, text=query.text + "!") for query in tiny.queries])
    with pytest.raises(ResultError, match=rf"was made on tiny as it was then \(content hash {tiny.content_hash[:12]}"):
        by_slice(result, other, "gold", METRICS)


def test_unknown_slices_and_metrics_are_refused(run: Run, marked: Dataset) -> None:
    result = run("bm25")
    with pytest.raises(UsageError, match=r"tiny has no slice 'size'; it has category, gold, kind, length, "):
        by_slice(result, marked, "size", METRICS)
    with pytest.raises(UsageError, match=r"has no metric 'recall@77'"):
        by_slice(result, marked, "gold", ["recall@77"])


def test_categories_lengths_and_prerequisites(tiny: Dataset) -> None:
    tools = [replace(tool, category="ab"[i // 6]) for i, tool in enumerate(tiny.tools)]
    texts = {"q00": "word " * 10, "q01": "word " * 11, "q02": "word " * 40, "q03": "word " * 41}
    queries = [replace(query, text=texts.get(query.query_id, query.text)) for query in tiny.queries]
    data = rebuilt(tiny, tools=tools, queries=queries)
    lengths = slice_values(data, "length")
    assert [lengths[name] for name in texts] == ["1-10 words", "11-20 words", "21-40 words", "41 words or more"]
    categories, needs = slice_values(data, "category"), slice_values(data, "prerequisite")
    for query in data.queries:
        gold = sorted(query.gold)
        if not gold:
            assert query.query_id not in categories.keys() | needs.keys()
            continue
        parts = {"ab"[int(tool[1:]) // 6] for tool in gold}
        assert categories[query.query_id] == (parts.pop() if len(parts) == 1 else "several")
        assert needs[query.query_id] == ("yes" if {"t01", "t05"} & set(gold) else "no")
    assert set(categories.values()) == {"a", "b", "several"}
    assert set(needs.values()) == {"yes", "no"}
    with pytest.raises(UsageError, match="has no slice 'prerequisite'"):
        slice_values(rebuilt(tiny, edges=[]), "prerequisite")
