"""Counts by tool: an example worked by hand, and sums that must agree with the metrics."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups
from bench.diagnosis.tool_counts import ToolCounts, count_tools
from bench.metrics import parse_metrics
from bench.metrics.evaluate import evaluate_groups
from bench.metrics.goldranks import MISSING

# Six tools, 0 to 5, and five queries; k is 2.
#   query 0 wants 0           ranks 1 2 0        missed at rank 3, behind 1 and 2
#   query 1 wants 0 and 3     ranks 1 3          0 is not ranked and loses to 1; 3 is found at rank 2
#   query 2 wants 4 or 5      ranks 5 1          met by 5
#   query 3 wants nothing     ranks 2 1          both are unwanted; it forbids 2
#   query 4 wants 0           ranks nothing      missed, behind nobody
RANKED = np.array([[1, 2, 0], [1, 3, -1], [5, 1, -1], [2, 1, -1], [-1, -1, -1]], dtype=np.int32)
WANTED = GoldGroups.of([[([0], 1)], [([0], 1), ([3], 1)], [([4, 5], 1)], [], [([0], 1)]])
FORBIDDEN = Gold.of([{}, {}, {3: 1}, {2: 1}, {}])
UNITS = np.array([0, 0, 1, 2, 3])


@pytest.fixture
def counts() -> ToolCounts:
    """Counts of the rankings above at a depth of two."""
    return count_tools(RANKED, WANTED, FORBIDDEN, UNITS, 6, 2)


def test_by_hand(counts: ToolCounts) -> None:
    assert counts.wanted.tolist() == [3, 0, 0, 1, 1, 0]
    assert counts.groups.tolist() == [2, 0, 0, 1, 1, 0]
    assert counts.found.tolist() == [0, 0, 0, 1, 1, 0]
    assert counts.missed.tolist() == [3, 0, 0, 0, 0, 0]
    assert counts.by_other.tolist() == [0, 0, 0, 0, 1, 0]
    assert counts.absent.tolist() == [2, 0, 0, 0, 0, 0]
    assert counts.accepted.tolist() == [0, 0, 0, 0, 0, 1]
    assert counts.shown.tolist() == [0, 4, 2, 1, 0, 1]
    assert counts.unwanted.tolist() == [0, 4, 2, 0, 0, 0]
    assert counts.forbidden.tolist() == [0, 0, 1, 1, 0, 0]
    assert counts.forbidden_shown.tolist() == [0, 0, 1, 0, 0, 0]
    assert counts.worst_first().tolist() == [0, 1, 2, 3, 4, 5]
    # Ranks of tool 0: 3, and twice none.
    assert counts.mean_rank[[0, 3, 4]].tolist() == [3, 2, 1]
    assert counts.median_rank[[3, 4]].tolist() == [2, 1]
    assert np.isnan(counts.median_rank[[0, 1, 2, 5]]).all()


def test_pairs_by_hand(counts: ToolCounts) -> None:
    pairs = counts.confusions()
    assert list(zip(pairs.missed.tolist(), pairs.shown.tolist(), pairs.queries.tolist(), strict=True)) == [
        (0, 1, 2),
        (0, 2, 1),
    ]
    # The example is the query in which the missed tool ranks best.
    assert counts.query[pairs.example].tolist() == [0, 0]
    assert pairs.of(0).tolist() == [0, 1]
    assert pairs.of(3).tolist() == []
    assert counts.query[counts.missed_cases(0)].tolist() == [0, 1, 4]
    assert counts.rank[counts.missed_cases(0)].tolist() == [3, MISSING, MISSING]
    queries, ranks = counts.unwanted_places(1)
    assert list(zip(queries.tolist(), ranks.tolist(), strict=True)) == [(0, 1), (1, 1), (2, 2), (3, 2)]


def test_the_example_of_a_pair_is_the_query_in_which_the_missed_tool_ranks_best() -> None:
    ranked = np.array([[1, 2, 3, -1], [1, 2, 3, 0], [1, 2, 0, 3], [1, 3, 0, 2]], dtype=np.int32)
    wanted = GoldGroups.of([[([0], 1)]] * 4)
    counts = count_tools(ranked, wanted, None, np.arange(4), 4, 2)
    pairs = counts.confusions()
    assert list(zip(pairs.shown.tolist(), pairs.queries.tolist(), strict=True)) == [(1, 4), (2, 3), (3, 1)]
    assert counts.query[pairs.example].tolist() == [2, 2, 3]


def test_a_median_lies_between_two_ranks_or_beyond_the_ranking() -> None:
    ranked = np.array([[0, 1], [1, 0], [1, 2], [1, 2]], dtype=np.int32)
    for queries, median in ((1, 1), (2, 1.5), (3, 2), (4, np.nan)):
        wanted = GoldGroups.of([[([0], 1)]] * queries)
        tools = count_tools(ranked[:queries], wanted, None, np.arange(queries), 3, 1)
        assert tools.median_rank[0] == pytest.approx(median, nan_ok=True)


def test_a_share_has_an_interval_from_thirty_groups_on() -> None:
    def interval(groups: int, queries: int) -> tuple[float, float] | None:
        ranked = (np.arange(queries) % 4 == 0).astype(np.int32)[:, None]
        wanted = GoldGroups.of([[([0], 1)]] * queries)
        return count_tools(ranked, wanted, None, np.arange(queries) % groups, 2, 1).interval(0)

    assert interval(29, 290) is None
    ends = interval(30, 30)
    assert ends is not None
    assert 0.4 < ends[0] < 0.75 < ends[1] < 1
    # More queries of the same groups tell little more.
    again = interval(30, 300)
    assert again is not None
    assert again[1] - again[0] > 0.2


def test_nothing_ranked_and_nothing_wanted_are_counted_as_well() -> None:
    none = count_tools(np.zeros((2, 0), dtype=np.int32), GoldGroups.of([[], []]), None, np.arange(2), 3, 5)
    assert none.wanted.tolist() == none.shown.tolist() == [0, 0, 0]
    assert not len(none.confusions().missed)
    assert none.interval(0) is None


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, GoldGroups, Gold, int, int]:
    tools = draw(st.integers(1, 8))
    queries = draw(st.integers(1, 8))
    codes = st.integers(0, tools - 1)
    depth = draw(st.integers(1, tools))
    ranked = np.full((queries, depth), -1, dtype=np.int32)
    rows = []
    for query in range(queries):
        values = draw(st.lists(codes, unique=True, max_size=depth))
        ranked[query, : len(values)] = values
        gold = draw(st.lists(codes, unique=True, max_size=3))
        others = [code for code in range(tools) if code not in gold]
        rest = st.lists(st.sampled_from(others), unique=True, max_size=2) if others else st.just([])
        rows.append([([tool, *draw(rest)], draw(st.integers(1, 3))) for tool in gold])
    forbidden = Gold.of(dict.fromkeys(draw(st.lists(codes, unique=True, max_size=2)), 1) for _ in range(queries))
    return ranked, GoldGroups.of(rows), forbidden, tools, draw(st.integers(1, tools))


@given(cases())
@settings(max_examples=150)
def test_sums_agree_with_recall_and_with_the_places_that_were_filled(
    given_: tuple[np.ndarray, GoldGroups, Gold, int, int],
) -> None:
    ranked, wanted, forbidden, tools, k = given_
    counts = count_tools(ranked, wanted, forbidden, np.arange(len(ranked)), tools, k)
    # What each query finds of its requirements is its recall.
    (recall,) = evaluate_groups(ranked, wanted, parse_metrics([f"recall@{k}"]), np.zeros(len(ranked), bool)).values.T
    bincount = np.bincount(counts.query, weights=counts.rank <= k, minlength=len(ranked))
    judged = wanted.counts > 0
    assert bincount[judged] / wanted.counts[judged] == pytest.approx(recall[judged])
    assert counts.found.sum() == bincount.sum()
    assert (counts.wanted == np.bincount(counts.tool, minlength=tools)).all()
    # Every place among the first k is of one tool.
    assert counts.shown.sum() == (ranked[:, :k] >= 0).sum()
    assert (counts.unwanted <= counts.shown).all()
    assert (counts.unwanted <= len(ranked) - counts.wanted - counts.accepted).all()
    assert (counts.by_other <= counts.found).all()
    assert (counts.absent <= counts.missed).all()
    assert (counts.forbidden_shown <= counts.forbidden).all()
    # A missed case loses to every unwanted tool among the first k, once.
    pairs = counts.confusions()
    wrong = ((counts.first >= 0) & ~counts.right).sum(axis=1)
    assert pairs.queries.sum() == wrong[counts.query[counts.rank > k]].sum()
    for i in range(len(pairs.missed)):
        case = pairs.example[i]
        assert counts.tool[case] == pairs.missed[i]
        assert pairs.shown[i] in counts.first[counts.query[case]]
        shown = ((counts.first == pairs.shown[i]) & ~counts.right).any(axis=1)[counts.query]
        alike = np.flatnonzero((counts.tool == pairs.missed[i]) & (counts.rank > k) & shown)
        assert pairs.queries[i] == len(alike)
        assert counts.rank[case] == counts.rank[alike].min()
        assert pairs.queries[i] <= counts.missed[pairs.missed[i]]
        assert pairs.queries[i] <= counts.unwanted[pairs.shown[i]]


@given(cases())
@settings(max_examples=100)
def test_deeper_k_only_finds_more(given_: tuple[np.ndarray, GoldGroups, Gold, int, int]) -> None:
    ranked, wanted, forbidden, tools, _ = given_
    every = [count_tools(ranked, wanted, forbidden, np.arange(len(ranked)), tools, k) for k in range(1, tools + 1)]
    for one, more in pairwise(every):
        assert (one.found <= more.found).all()
        assert (one.shown <= more.shown).all()
    assert (every[-1].missed == every[-1].absent).all()
