"""Explanations of rerankers, on planted vectors and logits whose answers are worked out by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.datasets import make_dataset

from bench.base.spec import parse
from bench.data.tables import Query, Tool
from bench.diagnosis.explain import Explained, explain
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.interface.explanation import Reason
from bench.models.classifiers import SequenceModel
from bench.models.encoders import EMBEDDED, Encoder
from bench.models.vectorcache import VectorCache, text_key
from bench.registry import build_method
from bench.results.store import StoredResult

PARENTS = {"a1": "A", "u1": "U", "b1": "B", "a2": "A", "v1": "V", "u2": "U", "a3": "A", "u3": "U"}
LOGITS = {"a1": 0.0, "u1": 2.0, "b1": -1.0, "a2": 1.0, "v1": -2.0, "u2": 3.0, "a3": -3.0, "u3": 0.5}


@pytest.fixture
def reranked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_models: dict[str, str]) -> Callable[..., Explained]:
    """The explanation of a reranker on eight tools that the retriever gives in the order of `PARENTS`."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "planted"))
    vectors = {name: [float(np.cos(0.1 * i)), float(np.sin(0.1 * i))] for i, name in enumerate(PARENTS)}
    vectors |= {"asked": [1.0, 0.0], "other": [1.0, 0.0]}
    cache = VectorCache(Encoder(EMBEDDED).identity)
    # As long as the model's own: where another test has loaded it, latencies are measured with it.
    cache.put({text_key(text): np.pad(vector, (0, 384 - len(vector))) for text, vector in vectors.items()})
    cache.close()
    cache = VectorCache(SequenceModel(tiny_models["reranker"]).identity)
    for query in ("asked", "other"):
        for tool, logit in LOGITS.items():
            key = hashlib.sha256(text_key(query) + text_key(tool)).digest()
            cache.put({key: np.array([logit], dtype=np.float32)})
    cache.close()
    queries = [
        Query("1", "past one", {"a2": 1}, "train"),
        Query("2", "past two", {"b1": 1}, "train"),
        Query("4", "asked", {"u2": 1, "a3": 1}, "test"),
        Query("5", "other", {"a1": 1, "b1": 1}, "test"),
    ]
    tools = [Tool(name, name, name, "category", parent) for name, parent in PARENTS.items()]
    dataset = make_dataset(tools, queries)

    def reranked(method: str, **parameters: Any) -> Explained:
        arguments = ", ".join(f"{name}={value}" for name, value in parameters.items())
        spec = f'{method}(reranker="{tiny_models["reranker"]}", {arguments})'
        runner = Runner(tmp_path / "results", load=lambda _: dataset, build=build_method)
        (result,) = runner.run([Plan(parse("made"), parse(spec))])
        assert isinstance(result, StoredResult), result
        return explain(result, dataset, "4")

    return reranked


def reason_of(explained: Explained, tool: str) -> Reason:
    assert explained.answer is not None, explained.missing
    code = next(item.tool for item in explained.shown if item.tool_id == tool)
    return explained.answer.explanation.reasons[code]


def test_a_reranker_says_what_it_scored_and_what_it_never_saw(reranked: Callable[..., Explained]) -> None:
    explained = reranked("rerank", depth=4)
    # Of a1 0, u1 2, b1 -1, a2 1; u2 is at rank 6 of the base.
    assert [item.tool_id for item in explained.shown][:4] == ["u1", "a2", "a1", "b1"]
    assert reason_of(explained, "u1").cells == (2, pytest.approx(1 / (1 + np.exp(-2.0))))
    assert reason_of(explained, "u2").cells == (6, None)
    assert reason_of(explained, "u2").because == "dense puts it at rank 6, and only the first 4 are reranked"
    explained = reranked("rerank", depth=8)
    assert reason_of(explained, "a3").because == (
        "dense puts it at rank 7; the cross-encoder gives it -3.000, and u1 2.000 (dense rank 2)"
    )


def test_a_reranker_that_mixes_shows_both_parts_of_its_score(reranked: Callable[..., Explained]) -> None:
    explained = reranked("rerank", depth=4, mix=40)
    # u1 is 0.1 from the query: 40 cos(0.1) = 39.8 and 2; a1: 40 and 0; a2 is below them: 40 cos(0.3) = 38.2 and 1.
    assert [item.tool_id for item in explained.shown][:4] == ["u1", "a1", "a2", "b1"]
    assert explained.answer is not None
    assert explained.answer.explanation.columns == ("base rank", "dense's part", "logit", "relevance")
    assert reason_of(explained, "u1").cells == (2, pytest.approx(40 * np.cos(0.1), abs=1e-4), 2.0, pytest.approx(1.0))
    assert reason_of(explained, "u2").cells == (6, None, None, None)
    explained = reranked("rerank", depth=8, mix=40)
    assert reason_of(explained, "a3").because == (
        "dense puts it at rank 7; the cross-encoder gives it -3.000, and u1 2.000 (dense rank 2); "
        "dense adds 33.013 and 39.800"
    )


def test_adaptive_truncation_is_told(reranked: Callable[..., Explained]) -> None:
    explained = reranked("toolrerank", classification="none", seen_depth=4, unseen_depth=6)
    assert reason_of(explained, "u2").cells == (6, "unseen", pytest.approx(0.952574, abs=1e-5), "first")
    assert reason_of(explained, "a3").cells == (7, "seen", None, "cut")
    assert reason_of(explained, "a3").note == "rank 7: seen parents are cut after 4"


def test_algorithm_1_says_which_tools_their_parent_brought(reranked: Callable[..., Explained]) -> None:
    explained = reranked("toolrerank", classification="single", seen_depth=4, unseen_depth=5)
    assert [item.tool_id for item in explained.shown] == ["u2", "u1", "u3", "a2", "a1", "b1", "v1", "a3"]
    parts = {item.tool_id: reason_of(explained, item.tool_id).cells[3] for item in explained.shown}
    rest = dict.fromkeys(["a2", "a1", "b1", "v1"], "rest")
    assert parts == {"u1": "first", "u2": "brought", "u3": "brought", "a3": "cut", **rest}
    assert explained.answer is not None
    assert "2 more of their tools" in explained.answer.explanation.notes[1]


def test_algorithm_2_says_which_group_a_tool_fell_into(reranked: Callable[..., Explained]) -> None:
    options = {"classification": "multi", "seen_depth": 8, "unseen_depth": 8, "multi_threshold": 1.0, "group_size": 1}
    explained = reranked("toolrerank", **options)
    assert reason_of(explained, "u2").note == "number 1 of 3 in the group with u1, u3"
    assert reason_of(explained, "a3").note == "number 3 of 3 in the group with a2, a1"
    assert reason_of(explained, "a3").cells[2:] == (pytest.approx(0.0474, abs=1e-4), "rest")
    assert reason_of(explained, "a3").because.startswith("relevance 0.0474, rest: number 3 of 3 in the group")
    assert reason_of(explained, "b1").note == "alone"


def test_the_oracle_variant_is_explained_with_the_gold_it_was_shown(reranked: Callable[..., Explained]) -> None:
    explained = reranked("toolrerank-oracle", seen_depth=8, unseen_depth=8)
    # Gold u2 and a3 have two parents: algorithm 2.
    assert explained.answer is not None
    assert explained.answer.explanation.notes[1].startswith("Algorithm 2")
