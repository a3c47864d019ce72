"""PTR's learnt classifier: its features by hand, its regression beside scikit-learn's, and what it may not look at."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from kit.rankings import make_library

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.interface import History, Method, Queries, RecommendingMethod
from bench.interface.parts import needs_llm
from bench.methods.ptr.trained import FEATURES, Classifier, Evidence, learnt_weights, learnt_weights_of
from bench.registry import build_method

Make = Callable[..., Dataset]
Prepared = Callable[..., Method]

TEXTS = ("lends novels", "posts letters", "draws roads")
TOOLS = np.eye(3)
VECTORS = {
    "lend me novels, post them": (0.6, 0.8, 0.0),
    "lend me novels": (1.0, 0.0, 0.0),
    "post them": (0.0, 0.8, 0.6),
    "a road trip": (0.0, 0.0, 1.0),
    "letters from the road": (0.0, 0.6, 0.8),
    "a novel": (0.8, 0.6, 0.0),
}


def encode(texts: Sequence[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.array([VECTORS[text] for text in texts], dtype=np.float32).reshape(len(texts), 3)


def history(rows: Sequence[tuple[str, Sequence[int]]]) -> History:
    gold = Gold.of([dict.fromkeys(tools, 1) for _, tools in rows])
    return History(make_library(TEXTS), tuple(text for text, _ in rows), gold, np.zeros(len(rows), dtype=np.int8))


PAST = history([("letters from the road", [1, 2]), ("a novel", [0])])


def test_features_by_hand() -> None:
    evidence = Evidence(encode, TEXTS, TOOLS, PAST, "queries")
    clauses = ("lend me novels", "post them")
    values = np.array(VECTORS["lend me novels, post them"])
    features = evidence.features(values, clauses, np.array([VECTORS[clause] for clause in clauses]), [0, 1])
    assert features.shape == (2, 2, len(FEATURES))
    # Of the words `lend`, `me` and `novels`, which are all as rare, the first tool's text has one.
    assert math.isclose(features[0, 0, 2], math.log1p(3) / (3 * math.log1p(3)))
    # The past queries have cosines of 0.48 (letters; tools 1 and 2) and 0.96 (a novel; tool 0).
    np.testing.assert_allclose(features[0, 0, [0, 1, 3, 4, 5, 6, 7]], [1.0, 0.0, 0.6, -0.2, 0.96, 0.5, 0.5], atol=1e-6)
    np.testing.assert_allclose(features[1, 0], [0.0, -0.8, 0.0, 0.6, -0.2, 0.96, 0.5, 0.5], atol=1e-6)
    np.testing.assert_allclose(features[1, 1], [0.8, 0.0, 0.0, 0.8, 0.0, 0.48, 0.5, 0.5], atol=1e-6)


def test_a_past_query_does_not_vouch_for_itself() -> None:
    past = history([("a novel", [0]), ("a road trip", [2]), ("letters from the road", [0])])
    bags, serves = Evidence(encode, TEXTS, TOOLS, past, "queries").learnt_from([0], past)
    # The tools: the gold tool 0, then tools of other past queries and of the neighbourhood.
    assert serves[0].tolist() == [True, False, False]
    assert [len(bag) for bag in bags] == [1, 1, 1]
    # `letters from the road` (0.36) is the nearest other one with tool 0, not `a novel` itself (1).
    assert bags[0][0, 5] == pytest.approx(0.36, abs=1e-6)
    # By whole bundles, `letters from the road` has the same gold and is out as well.
    (alone, *_), _ = Evidence(encode, TEXTS, TOOLS, past, "bundles").learnt_from([0], past)
    assert alone[0, 5] == alone[0, 6] == 0


def test_the_regression_is_scikit_learns() -> None:
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(0)
    features = random.normal(size=(300, len(FEATURES))) * 3 + 1
    serves = features[:, 0] - features[:, 3] + random.normal(size=300) > 0.5
    result = learnt_weights([row[None] for row in features], serves)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    theirs = LogisticRegression(C=1 / (1e-3 * len(serves)), tol=1e-10, max_iter=10_000).fit(scaled, serves)
    np.testing.assert_allclose(result.slopes, theirs.coef_[0], rtol=2e-3, atol=2e-3)
    assert result.bias == pytest.approx(theirs.intercept_[0], rel=2e-3, abs=2e-3)
    assert result.pairs == 300


def test_it_finds_which_clause_a_tool_serves() -> None:
    # A tool serves the query if one clause has a high third feature; the first, which the search starts from, misleads.
    random = np.random.default_rng(1)
    bags, serves = [], []
    for number in range(400):
        bag = random.normal(size=(4, len(FEATURES)))
        bag[:, 2] = random.normal(-2, 0.3, size=4)
        if number % 2:
            bag[random.integers(4), 2] = 2.0
        bags.append(bag)
        serves.append(bool(number % 2))
    weights = learnt_weights(bags, np.array(serves))
    sure = np.array([weights.log_odds(bag).max() > 0 for bag in bags])
    assert (sure == np.array(serves)).mean() > 0.97
    assert np.argmax(np.abs(weights.slopes)) == 2


def test_probabilities_of_clauses_without_a_bundle_or_words() -> None:
    evidence = Evidence(encode, TEXTS, TOOLS, PAST, "queries")
    weights = learnt_weights_of(evidence, PAST)
    assert weights is not None
    values = Classifier(evidence, weights).values(
        ["lend me novels, post them", "a novel", "a novel"],
        [["lend me novels", "post them"], [], ["a novel"]],
        [[0, 2], [1], []],
    )
    assert [part.shape for part in values] == [(2, 2), (0, 1), (1, 0)]
    assert ((values[0] > 0) & (values[0] < 1)).all()


def test_nothing_is_learnt_where_every_tool_serves() -> None:
    past = history([("a novel", [0, 1, 2])])
    assert learnt_weights_of(Evidence(encode, TEXTS, TOOLS, past, "queries"), past) is None


def test_tools_that_past_queries_do_without_are_dropped(
    make: Make, prepared: Prepared, planted: Callable[[Mapping[str, Sequence[float]]], None]
) -> None:
    # `mail` and `post` read alike, and a bundle holds both; queries that ask for letters use `mail` alone. By cosine
    # both serve every such clause equally; past queries tell them apart.
    random = np.random.default_rng(2)
    tools = {"mail": "posts letters", "post": "posts  letters", "map": "draws roads"}
    vectors: dict[str, Sequence[float]] = {"posts letters": (1, 0), "posts  letters": (1, 0), "draws roads": (0, 1)}
    past = []
    for number in range(40):
        roads = number % 2
        text = f"{'roads' if roads else 'letters'} wanted number {number}"
        spread = random.normal(0, 0.1, size=2)
        vectors[text] = (np.array([0.0, 1.0] if roads else [1.0, 0.0]) + spread).tolist()
        past.append((text, ["map"] if roads else ["mail"], "train"))
    vectors["letters and further letters wanted"] = (1, 0.3)
    vectors["letters further letters wanted"] = (1, 0.1)
    past.append(("letters and further letters wanted", ["mail", "post"], "train"))
    vectors["letters wanted today"] = (1, 0.29)
    # Vectors of the bundles as documents: the one with both is nearest to what is asked.
    vectors["name of mail: posts letters"] = (1, -0.8)
    vectors["name of map: draws roads"] = (0, 1)
    vectors["name of mail: posts letters\nname of post: posts  letters"] = (1, 0.3)
    planted(vectors)
    data = make(tools, past, test="letters wanted today")
    queries = Queries(("letters wanted today",), np.zeros(1, dtype=np.int64))
    method = prepared("ptr(llm=trained, views=[])", data)
    assert isinstance(method, RecommendingMethod)
    ids = sorted(tools)
    assert [ids[tool] for tool in method.recommend(queries).row(0)] == ["mail"]
    assert int(method.facts()["pairs_learnt_from"]) > 40
    ruled = prepared("ptr(views=[])", data)
    assert isinstance(ruled, RecommendingMethod)
    assert sorted(ids[tool] for tool in ruled.recommend(queries).row(0)) == ["mail", "post"]


def test_what_it_needs_and_how_its_rows_are_marked() -> None:
    method = build_method("ptr(llm=trained)")
    assert set(method.marks()) == {"trained"}
    assert not needs_llm(method)
    with pytest.raises(UsageError, match="needs a retriever"):
        build_method("ptr(llm=trained, retriever=none)")
    assert build_method("ptr(llm=trained, coverage=false)").marks() == {}
