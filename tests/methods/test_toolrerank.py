"""Reranking methods on planted vectors and scores, whose answers are worked out by hand."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.datasets import make_dataset

from bench.base.errors import UnavailableError, UsageError
from bench.data.dataset import Dataset
from bench.data.tables import Query, Tool
from bench.evaluation.method_errors import check_facts
from bench.interface import History, Library, Method, OracleMethod, Queries
from bench.interface.parts import is_oracle, preflight
from bench.models.classifiers import SequenceModel
from bench.models.encoders import EMBEDDED, Encoder
from bench.models.vectorcache import VectorCache, text_key
from bench.registry import build_method

#: Tool -> parent. Each text is the tool's id; the retriever's order is that of this table.
PARENTS = {"a1": "A", "u1": "U", "b1": "B", "a2": "A", "v1": "V", "u2": "U", "a3": "A", "u3": "U"}
ORDER = list(PARENTS)
#: In train, A and B are used, and in dev V: U and V are unseen.
QUERIES = [
    Query("1", "past one", {"a2": 1}, "train"),
    Query("2", "past two", {"b1": 1}, "train"),
    Query("3", "past three", {"v1": 1}, "dev"),
    Query("4", "asked", {"u2": 1, "u3": 1}, "test"),
    Query("5", "other", {"a1": 1, "b1": 1}, "test"),
]
#: The cross-encoder's logits for every query: 2 is a relevance of 0.88, 1 one of 0.73.
LOGITS = {"a1": 0.0, "u1": 2.0, "b1": -1.0, "a2": 1.0, "v1": -2.0, "u2": 3.0, "a3": -3.0, "u3": 0.5}


def library_of(parents: Mapping[str, str]) -> Dataset:
    tools = [Tool(name, name, name, "category", parent) for name, parent in parents.items()]
    return make_dataset(tools, QUERIES)


@pytest.fixture
def plant() -> Callable[[str, Mapping[tuple[str, ...], Sequence[float]]], None]:
    """Put what a model gives for some inputs into the cache."""

    def plant(model: str, values: Mapping[tuple[str, ...], Sequence[float]]) -> None:
        cache = VectorCache(SequenceModel(model).identity)
        keys = {texts: hashlib.sha256(b"".join(map(text_key, texts))).digest() for texts in values}
        cache.put({keys[texts]: np.array(value, dtype=np.float32) for texts, value in values.items()})
        cache.close()

    return plant


@pytest.fixture
def answer(
    planted: Callable[[Mapping[str, Sequence[float]]], None],
    plant: Callable[..., None],
    tiny_models: dict[str, str],
) -> Callable[..., list[list[str]]]:
    """Rank the two test queries by a method with the models filled in; the ids, best first."""
    # The tool at place i has cosine cos(0.1 i) with both queries, and neighbours a cosine of cos(0.1).
    angles = {name: 0.1 * place for place, name in enumerate(ORDER)}
    vectors = {name: [np.cos(angle), np.sin(angle)] for name, angle in angles.items()}
    planted({**vectors, "asked": [1.0, 0.0], "other": [1.0, 0.0]})

    texts = ("asked", "other")
    plant(tiny_models["reranker"], {(query, tool): [logit] for query in texts for tool, logit in LOGITS.items()})
    plant(tiny_models["classifier"], {("asked",): [1.0, -1.0], ("other",): [-1.0, 1.0]})  # single, multi

    def answer(name: str, depth: int = 8, **parameters: Any) -> list[list[str]]:
        dataset = library_of(PARENTS)
        method = prepared(build_method(name, {"reranker": tiny_models["reranker"], **parameters}), dataset)
        ranking = method.rank(Queries.of(dataset, dataset.rows("test")), depth)
        facts = check_facts(method)
        assert facts["pairs_scored"] == 0, "a pair was scored that is not in the table"
        return [[dataset.tools[code].tool_id for code in row if code >= 0] for row in ranking.tools]

    return answer


def prepared(method: Method, dataset: Dataset) -> Method:
    library = Library.of(dataset, "description")
    history = History.of(dataset, library, dataset.rows("test"))
    preflight(method, library, history)
    if isinstance(method, OracleMethod):
        method.reveal(dataset.gold.take(dataset.rows("test")))
    method.fit(history)
    method.index(library)
    return method


# rerank -------------------------------------------------------------------------------------------------------------


def test_the_first_tools_are_reranked_and_the_rest_keep_their_order(answer: Callable[..., list[list[str]]]) -> None:
    # Of a1 0, u1 2, b1 -1, a2 1 the order is u1, a2, a1, b1; the other four follow as retrieved.
    expected = ["u1", "a2", "a1", "b1", "v1", "u2", "a3", "u3"]
    assert answer("rerank(depth=4)") == [expected, expected]
    assert answer("rerank(depth=4)", 2) == [expected[:2]] * 2
    assert answer("rerank(depth=1)")[0] == ORDER
    assert answer("rerank(depth=50)")[0] == sorted(ORDER, key=lambda tool: -LOGITS[tool])


@pytest.fixture
def correcting(tiny_models: dict[str, str], tmp_path: Path) -> Callable[[str, float], str]:
    """A copy of the cross-encoder that corrects a retriever of this revision, with the planted logits."""

    def make(revision: str, weight: float) -> str:
        folder = tmp_path / f"correcting-{weight}"
        shutil.copytree(tiny_models["reranker"], folder)
        settings = json.loads((folder / "config.json").read_text())
        settings["retriever"] = {"revision": revision, "weight": weight}
        (folder / "config.json").write_text(json.dumps(settings))
        return str(folder)

    return make


def test_the_score_of_the_base_is_mixed_in(answer: Callable[..., list[list[str]]]) -> None:
    # Cosines fall from 1 to cos(0.3) = 0.955, logits lie between -1 and 2: with much weight the base's order stays.
    assert answer("rerank(depth=4, mix=1000)")[0] == ORDER
    assert answer("rerank(depth=4, mix=0)") == answer("rerank(depth=4)")
    # a1: 40 + 0, u1: 39.8 + 2, b1: 39.203 - 1, a2: 38.213 + 1.
    assert answer("rerank(depth=4, mix=40)")[0] == ["u1", "a1", "a2", "b1", "v1", "u2", "a3", "u3"]


def test_a_reranker_uses_the_weight_it_was_trained_with_for_its_retriever_alone(
    answer: Callable[..., list[list[str]]], correcting: Callable[[str, float], str], plant: Callable[..., None]
) -> None:
    minilm = Encoder(EMBEDDED).revision
    folder = correcting(minilm, 40.0)
    plant(folder, {(query, tool): [logit] for query in ("asked", "other") for tool, logit in LOGITS.items()})
    expected = ["u1", "a1", "a2", "b1", "v1", "u2", "a3", "u3"]
    assert answer("rerank(depth=4)", reranker=folder)[0] == expected
    # The user's own weight goes before it.
    assert answer("rerank(depth=4, mix=1000)", reranker=folder)[0] == ORDER
    options = {"classification": "none", "seen_depth": 4, "unseen_depth": 2}
    # Kept by Adaptive Truncation are the first four.
    assert answer("toolrerank", reranker=folder, **options)[0] == expected
    for base in ("bm25", "dense(similarity=dot)", "linear-adapter"):
        with pytest.raises(UsageError, match="trained to correct the cosines of another retriever"):
            answer(f"rerank(base={base})", reranker=folder)
    with pytest.raises(UsageError, match="another retriever than base=dense"):
        answer("toolrerank", reranker=correcting("another", 41.0), **options)
    with pytest.raises(UsageError, match="needs the scores of base=rrf"):
        answer("rerank(base=rrf(methods=[bm25, dense]), mix=1)")


# Adaptive truncation ------------------------------------------------------------------------------------------------


def test_unseen_parents_are_reranked_to_a_deeper_rank(answer: Callable[..., list[list[str]]]) -> None:
    """Ranks of unseen tools: u1 2, v1 5 (known to dev alone), u2 6, u3 8; of seen ones: a1 1, b1 3, a2 4, a3 7."""
    result = answer("toolrerank", classification="none", seen_depth=3, unseen_depth=6)
    # Kept: a1 0, b1 -1 (ranks 1, 3) and u1 2, v1 -2, u2 3. The rest, a2, a3, u3, follows as retrieved.
    assert result == [["u2", "u1", "a1", "b1", "v1", "a2", "a3", "u3"]] * 2
    # The other way round: a1, b1, a2 and u1, so that u2 stays far below.
    result = answer("toolrerank", classification="none", seen_depth=4, unseen_depth=2)
    assert result == [["u1", "a2", "a1", "b1", "v1", "u2", "a3", "u3"]] * 2


def test_a_deeper_answer_begins_with_the_shallower_one(answer: Callable[..., list[list[str]]]) -> None:
    options = {"classification": "none", "seen_depth": 3, "unseen_depth": 6}
    assert answer("toolrerank", 3, **options) == [row[:3] for row in answer("toolrerank", 8, **options)]


# Algorithm 1 --------------------------------------------------------------------------------------------------------


def test_unseen_likely_parents_bring_all_their_tools(answer: Callable[..., list[list[str]]]) -> None:
    result = answer("toolrerank", classification="single", seen_depth=4, unseen_depth=5)
    # R: u1 2, a2 1, a1 0, b1 -1, v1 -2. Above 0.85 is u1 alone: X = {U}, unseen. F1 = U's tools, reranked: u2 3, u1 2,
    # u3 0.5. F2 = a2, a1, b1, v1. What is left: a3.
    assert result[0] == ["u2", "u1", "u3", "a2", "a1", "b1", "v1", "a3"]


def test_without_the_extension_they_do_not(answer: Callable[..., list[list[str]]]) -> None:
    result = answer("toolrerank", classification="single", seen_depth=4, unseen_depth=5, extend_unseen=False)
    # F1 = u1 alone; u2, a3 and u3 follow in the retriever's order.
    assert result[0] == ["u1", "a2", "a1", "b1", "v1", "u2", "a3", "u3"]


def test_a_lower_threshold_makes_seen_parents_likely_and_they_bring_tools_if_asked_to(
    answer: Callable[..., list[list[str]]],
) -> None:
    options = {"classification": "single", "seen_depth": 4, "unseen_depth": 5, "single_threshold": 0.7}
    # X = {U, A}: a2 has 0.73. F1: u2 3, u1 2, a2 1, u3 0.5, a1 0; F2: b1, v1; then a3.
    assert answer("toolrerank", **options)[0] == ["u2", "u1", "a2", "u3", "a1", "b1", "v1", "a3"]
    # With A's tools as well, a3 -3 joins F1.
    result = answer("toolrerank", **options, extend_seen=True)[0]
    assert result == ["u2", "u1", "a2", "u3", "a1", "a3", "b1", "v1"]
    result = answer("toolrerank", **options, extend_seen=True, extend_unseen=False)[0]
    assert result == ["u1", "a2", "a1", "a3", "b1", "v1", "u2", "u3"]


# Algorithm 2 --------------------------------------------------------------------------------------------------------


def test_the_best_of_each_group_come_first(answer: Callable[..., list[list[str]]]) -> None:
    options = {"classification": "multi", "seen_depth": 8, "unseen_depth": 8}
    # A threshold above every cosine: groups are parents. R: u2, u1, a2, u3, a1, b1, v1, a3.
    # One of each first: u2, a2, b1, v1; then u1, u3, a1, a3.
    result = answer("toolrerank", **options, multi_threshold=1.0, group_size=1)
    assert result == [["u2", "a2", "b1", "v1", "u1", "u3", "a1", "a3"]] * 2
    # Neighbours in the retriever's order have a cosine of cos 0.1 = 0.995: all hang together, and nothing moves.
    result = answer("toolrerank", **options, multi_threshold=0.99, group_size=1)
    assert result == [["u2", "u1", "a2", "u3", "a1", "b1", "v1", "a3"]] * 2


# Classification -----------------------------------------------------------------------------------------------------


def test_the_classifier_chooses_the_algorithm_query_by_query(
    answer: Callable[..., list[list[str]]], tiny_models: dict[str, str]
) -> None:
    options = {"seen_depth": 4, "unseen_depth": 5, "multi_threshold": 1.0, "group_size": 1}
    requests = answer("toolrerank", **options, classifier=tiny_models["classifier"])
    single, multi = (answer("toolrerank", **options, classification=kind) for kind in ("single", "multi"))
    assert requests == [single[0], multi[1]]
    assert single[0] != multi[0]


def test_the_oracle_knows_the_number_of_parents(answer: Callable[..., list[list[str]]]) -> None:
    options = {"seen_depth": 4, "unseen_depth": 5, "multi_threshold": 1.0, "group_size": 1}
    # "asked" takes U alone, "other" takes A and B.
    single, multi = (answer("toolrerank", **options, classification=kind) for kind in ("single", "multi"))
    assert answer("toolrerank-oracle", **options) == [single[0], multi[1]]


# Refusals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rerank", "toolrerank", "toolrerank-oracle"])
def test_without_a_reranker_the_sentence_says_how_to_train_one(name: str) -> None:
    with pytest.raises(UsageError, match="bench train reranker"):
        prepared(build_method(name), library_of(PARENTS))


def test_without_a_classifier_the_sentence_says_what_to_do(tiny_models: dict[str, str]) -> None:
    method = build_method("toolrerank", {"reranker": tiny_models["reranker"]})
    with pytest.raises(UsageError, match=r"bench train classifier.*classification to none"):
        prepared(method, library_of(PARENTS))


def test_a_classifier_of_something_else_is_refused(tiny_models: dict[str, str]) -> None:
    reranker = tiny_models["reranker"]
    with pytest.raises(UnavailableError, match="labels: relevant"):
        prepared(build_method("toolrerank", {"reranker": reranker, "classifier": reranker}), library_of(PARENTS))


def test_a_retriever_without_vectors_is_refused() -> None:
    with pytest.raises(UsageError, match="base=bm25: it compares tools by vectors"):
        build_method("toolrerank(base=bm25)")


def test_a_reranked_oracle_is_an_oracle() -> None:
    assert is_oracle(build_method("rerank(base=oracle)"))
