"""Neighbours in the history: nearest-query with planted vectors, nearest-bundle over BM25, votes by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from kit.rankings import make_queries, scores_by_code

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.interface import Method, Ranking, RecommendingMethod
from bench.registry import build_method

Make = Callable[..., Dataset]
Prepared = Callable[..., Method]
Planted = Callable[[Mapping[str, Sequence[float]]], None]

TOOLS = {name: f"describes {name}" for name in "abcd"}
PAST = [
    ("north", ["a"], "train"),
    ("north-east", ["b", "c"], "train"),
    ("east", ["c"], "dev"),
    ("south", ["d"], "train"),
    ("nothing", [], "train"),
]
# Cosines with `asked`, which points north: 1, 0.8, 0, -1. `nothing` points north too, but has no gold.
VECTORS = {
    "north": (0.0, 2.0),
    "north-east": (0.6, 0.8),
    "east": (1.0, 0.0),
    "south": (0.0, -1.0),
    "nothing": (0.0, 1.0),
    "asked": (0.0, 3.0),
    "asked to the east": (1.0, 0.0),
}


def scores(ranking: Ranking, row: int = 0) -> list[tuple[int, Any]]:
    """Code and score of the returned tools, best first."""
    return [(code, pytest.approx(score, abs=1e-6)) for code, score in scores_by_code(ranking, row).items()]


# nearest-query ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("neighbours", "expected"),
    [
        # One vote of 1 for a.
        (1, [(0, 1.0)]),
        # b and c get 0.8 of the second neighbour; the tie goes by id.
        (2, [(0, 1.0), (1, 0.8), (2, 0.8)]),
        # East is at right angles: it votes with next to nothing, which still parts c from b.
        (3, [(0, 1.0), (2, 0.8 + 1e-6), (1, 0.8)]),
        # And so does south on the other side. More neighbours than there are change nothing.
        (4, [(0, 1.0), (2, 0.8 + 1e-6), (1, 0.8), (3, 1e-6)]),
        (50, [(0, 1.0), (2, 0.8 + 1e-6), (1, 0.8), (3, 1e-6)]),
    ],
)
def test_the_nearest_past_queries_vote_with_their_similarity(
    make: Make, prepared: Prepared, planted: Planted, neighbours: int, expected: list[tuple[int, float]]
) -> None:
    planted(VECTORS)
    method = prepared(f"nearest-query(neighbours={neighbours})", make(TOOLS, PAST))
    assert scores(method.rank(make_queries("asked"), 10)) == expected


def test_votes_of_several_neighbours_for_one_tool_add_up(make: Make, prepared: Prepared, planted: Planted) -> None:
    planted(VECTORS)
    method = prepared("nearest-query(neighbours=3)", make(TOOLS, PAST))
    # From the east: east 1, north-east 0.6, then north and south both 0 - north, the first of them, votes.
    # c has 1 + 0.6, b 0.6, a next to nothing.
    assert scores(method.rank(make_queries("asked to the east"), 10)) == [(2, 1.6), (1, 0.6), (0, 1e-6)]


def test_the_recommended_set_is_the_gold_of_the_nearest_past_query(
    make: Make, prepared: Prepared, planted: Planted
) -> None:
    planted({**VECTORS, "between": (0.5, 0.8)})
    method = prepared("nearest-query", make(TOOLS, PAST))
    assert isinstance(method, RecommendingMethod)
    sets = method.recommend(make_queries("asked", "between", "asked to the east"))
    assert [sets.row(i).tolist() for i in range(3)] == [[0], [1, 2], [2]]


def test_past_queries_without_gold_do_not_vote(make: Make, prepared: Prepared, planted: Planted) -> None:
    planted(VECTORS)
    assert prepared("nearest-query", make(TOOLS, PAST)).facts()["past_queries"] == 4


def test_test_queries_are_no_neighbours(make: Make, prepared: Prepared, planted: Planted) -> None:
    # The only test query has the text `asked` and the gold a; were it in the history it would vote with 1.
    planted(VECTORS)
    method = prepared("nearest-query", make(TOOLS, PAST[1:3]))
    assert scores(method.rank(make_queries("asked"), 10)) == [(2, 0.8 + 1e-6), (1, 0.8)]


# nearest-bundle -----------------------------------------------------------------------------------------------------

BUNDLES = [
    ("q1", ["mail.send", "mail.find"], "train"),
    ("q2", ["mail.find", "mail.send"], "dev"),
    ("q3", ["map.route"], "train"),
    ("q4", ["mail.send"], "train"),
    ("q5", [], "train"),
]
SERVICES = {"mail.find": "looks up letters", "mail.send": "posts letters quickly", "map.route": "draws roads"}


def test_a_tool_scores_as_its_best_bundle_does(make: Make, prepared: Prepared) -> None:
    # Bundles, each once: {mail.find, mail.send}, {mail.send}, {map.route}; documents are `name: description` lines.
    documents = [
        "name of mail.find: looks up letters\nname of mail.send: posts letters quickly",
        "name of mail.send: posts letters quickly",
        "name of map.route: draws roads",
    ]
    bm25 = prepared("bm25", make({f"d{i}": text for i, text in enumerate(documents)}))
    requests = make_queries("quickly send letters", "draws", "letters up")
    expected = bm25.score(requests)  # type: ignore[attr-defined]
    method = prepared("nearest-bundle(base=bm25)", make(SERVICES, BUNDLES))
    ranking = method.rank(requests, 10)
    for row in range(3):
        pair, send, route = expected[row].tolist()
        by_tool = {0: pair, 1: max(pair, send), 2: route}
        order = sorted(by_tool, key=lambda code: (-np.float32(by_tool[code]), code))
        assert scores(ranking, row) == [(code, by_tool[code]) for code in order]
    # The short bundle is the better match of the first query, the pair of the third.
    assert ranking.tools[0].tolist() == [1, 0, 2]
    assert isinstance(method, RecommendingMethod)
    sets = method.recommend(requests)
    assert [sets.row(i).tolist() for i in range(3)] == [[1], [2], [0, 1]]
    assert method.facts()["past_bundles"] == 3


def test_tools_of_no_past_bundle_are_not_returned(make: Make, prepared: Prepared) -> None:
    method = prepared("nearest-bundle(base=bm25)", make({**SERVICES, "never": "letters letters"}, BUNDLES))
    assert 3 not in method.rank(make_queries("letters"), 10).tools


def test_dense_bundles_are_compared_by_their_documents(make: Make, prepared: Prepared, planted: Planted) -> None:
    planted(
        {
            "name of mail.find: looks up letters\nname of mail.send: posts letters quickly": (1.0, 0.0),
            "name of mail.send: posts letters quickly": (0.6, 0.8),
            "name of map.route: draws roads": (0.0, 1.0),
            "asked": (1.0, 0.0),
        }
    )
    method = prepared("nearest-bundle", make(SERVICES, BUNDLES))
    assert scores(method.rank(make_queries("asked"), 10)) == [(0, 1.0), (1, 1.0), (2, 0.0)]


@pytest.mark.parametrize("base", ["random", "popularity", "oracle", "nearest-query", "rrf"])
def test_a_base_that_cannot_score_bundles_is_refused(base: str) -> None:
    with pytest.raises(UsageError, match=f"nearest-bundle cannot use base={base}"):
        build_method(f"nearest-bundle(base={base})")
