"""How many destructive tools a query is given that it does not need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups
from bench.interface.ranking import Ranking, ToolSets
from bench.metrics import FURTHER_METRICS, evaluate, parse_metric, parse_metrics
from bench.metrics.destructive import with_destructive
from bench.results.code_versions import measure_hash

DELETE, OVERWRITE, SEND, READ, LIST = range(5)
FLAGS = np.array([True, True, True, False, False])
ALL = ["excess_destructive@1", "excess_destructive@2", "excess_destructive@3", "excess_destructive@5"]


def values(
    rankings: list[list[int]],
    gold: Gold,
    metrics: list[str],
    sets: list[list[int]] | None = None,
    failed: list[bool] | None = None,
    flags: NDArray[np.bool_] = FLAGS,
) -> list[list[float]]:
    """(queries, metrics)."""
    tools = Ranking.of_lists(rankings).tools
    parsed = parse_metrics(metrics)
    chosen = None if sets is None else ToolSets.of(sets)
    silent = None if failed is None else np.array(failed, dtype=np.bool_)
    scores = evaluate(tools, gold, parsed, chosen, silent)
    result: list[list[float]] = with_destructive(scores, tools, gold, flags, chosen, silent).values.tolist()
    return result


def test_what_the_query_needs_is_not_counted() -> None:
    gold = Gold.of([{OVERWRITE: 1}])
    assert values([[DELETE, READ, OVERWRITE, SEND]], gold, ALL) == [[1, 1, 1, 2]]


def test_another_order_changes_where_it_is_counted() -> None:
    gold = Gold.of([{OVERWRITE: 1, READ: 2}])
    assert values([[READ, OVERWRITE, LIST, SEND, DELETE]], gold, ALL) == [[0, 0, 0, 2]]


def test_a_query_without_gold_needs_nothing() -> None:
    assert values([[READ, DELETE], []], Gold.of([{}, {}]), ALL) == [[0, 1, 1, 1], [0, 0, 0, 0]]


def test_alternatives_are_needed_as_gold_is() -> None:
    groups = GoldGroups.of([[([READ, DELETE], 1), ([SEND], 1)]])
    gold = replace(Gold.of([{READ: 1, SEND: 1}]), groups=groups)
    assert values([[DELETE, OVERWRITE, SEND]], gold, ALL) == [[0, 1, 1, 1]]


def test_a_failure_hands_over_as_many_as_it_can() -> None:
    gold = Gold.of([{OVERWRITE: 1}, {OVERWRITE: 1}, {}, {READ: 1}])
    rankings = [[READ], [], [], [READ]]
    # The second has gold and got no answer; the third rightly got none.
    result = values(rankings, gold, ALL, failed=[True, False, False, True])
    assert result == [[1, 2, 2, 2], [1, 2, 2, 2], [0, 0, 0, 0], [1, 2, 3, 3]]


def test_sets_are_counted_whole() -> None:
    gold = Gold.of([{OVERWRITE: 1}, {READ: 1}, {}, {READ: 1}])
    rankings = [[READ], [READ], [READ], []]
    sets = [[DELETE, OVERWRITE, SEND, LIST], [], [SEND], []]
    assert values(rankings, gold, ["excess_destructive"], sets) == [[2], [0], [1], [3]]
    assert np.isnan(values(rankings, gold, ["excess_destructive"])).all()


def test_nothing_is_destructive_in_a_library_of_readers() -> None:
    flags = np.zeros(5, dtype=np.bool_)
    assert values([[DELETE], []], Gold.of([{READ: 1}, {READ: 1}]), ALL, flags=flags) == [[0] * 4] * 2


def test_no_query_and_no_ranking() -> None:
    assert values([], Gold.of([]), ALL) == []
    assert values([[], []], Gold.of([{READ: 1}, {}]), ["excess_destructive@2"]) == [[2], [0]]


def test_evaluate_alone_leaves_it_out_and_other_values_are_not_touched() -> None:
    tools, gold = Ranking.of_lists([[DELETE, READ]]).tools, Gold.of([{READ: 1}])
    metrics = parse_metrics(["recall@2", "excess_destructive@2", "mrr@2"])
    alone = evaluate(tools, gold, metrics)
    assert np.isnan(alone.column("excess_destructive@2")).all()
    filled = with_destructive(alone, tools, gold, FLAGS)
    assert np.isnan(alone.column("excess_destructive@2")).all()
    assert filled.values.tolist() == [[1.0, 1.0, 0.5]]


RANKINGS = st.permutations(range(6)).flatmap(lambda order: st.integers(0, 6).map(lambda n: list(order[:n])))
TOOLS = st.sets(st.integers(0, 5), max_size=4)
ROWS = st.lists(st.tuples(RANKINGS, st.lists(TOOLS.filter(bool), max_size=2), TOOLS, st.booleans()), max_size=5)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(ROWS, st.lists(st.booleans(), min_size=6, max_size=6), st.integers(1, 8))
def test_it_is_what_counting_one_by_one_gives(
    rows: list[tuple[list[int], list[set[int]], set[int], bool]], flags: list[bool], k: int
) -> None:
    judged: list[list[tuple[list[int], int]]] = []
    for _, groups, _, _ in rows:
        # The first tool of a requirement is gold, and gold stands once.
        judged.append([(sorted(group), 1) for group in {min(group): group for group in groups}.values()])
    gold = Gold.of({group[0]: 1 for group, _ in row} for row in judged)
    order = [sorted(row) for row in judged]
    gold = replace(gold, groups=GoldGroups.of(order))
    rankings = [ranking for ranking, _, _, _ in rows]
    sets = [sorted(chosen) for _, _, chosen, _ in rows]
    failed = [flag for _, _, _, flag in rows]
    metrics = [f"excess_destructive@{k}", "excess_destructive"]
    result = values(rankings, gold, metrics, sets, failed, np.array(flags))
    for (ranking, _, chosen, failure), row, computed in zip(rows, judged, result, strict=True):
        needed = {tool for group, _ in row for tool in group}
        harmful = {tool for tool in range(6) if flags[tool]} - needed
        if failure or (row and not ranking and not chosen):
            assert computed == [min(k, len(harmful)), len(harmful)]
        else:
            assert computed == [len(harmful & set(ranking[:k])), len(harmful & chosen)]


def test_it_is_hashed_with_its_own_code_alone() -> None:
    ours = measure_hash(parse_metric("excess_destructive@5").measure)
    assert ours != measure_hash(parse_metric("forbidden@5").measure)
    assert {*ALL, "excess_destructive"} - {"excess_destructive@2"} < set(FURTHER_METRICS)
