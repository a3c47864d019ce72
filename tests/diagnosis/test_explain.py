"""Explanations: the parts are the method's own scores, and what cannot be checked is not shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.datasets import loaded, make_dataset

from bench.base.errors import ResultError, UsageError
from bench.base.spec import parse
from bench.data.dataset import Dataset
from bench.data.tables import Edge, Query, Tables, Tool
from bench.diagnosis.explain import Explained, check_same_data, explain, query_named
from bench.evaluation.external import score_run_file
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.interface import History, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation, Reason, name_with_id
from bench.methods.bm25 import BM25
from bench.models.encoders import EMBEDDED, Encoder
from bench.models.vectorcache import VectorCache, text_key
from bench.registry import build_method, method_names
from bench.results.store import StoredResult

TOLERANCE = 1e-5
Run = Callable[..., StoredResult]


@cache
def providers() -> Dataset:
    """The tools of twelve of starter's providers, and the queries that they fulfil.

    Half of the methods make vectors of every text, which takes a minute for the whole dataset.
    """
    whole = loaded("starter")
    some = list(dict.fromkeys(tool.parent for tool in whole.tools))[20:32]
    tools = [tool for tool in whole.tools if tool.parent in some]
    known = {tool.tool_id for tool in tools}
    queries = [query for query in whole.queries if query.gold and known.issuperset(query.gold)]
    edges = [edge for edge in whole.edges if known.issuperset((edge.dependent, edge.prerequisite))]
    return Dataset.build("starter", whole.card, Tables(tools, queries, edges))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a method on the embedded dataset, or on another."""

    def run(method: str, dataset: Dataset | None = None, **plan: Any) -> StoredResult:
        chosen = loaded("starter") if dataset is None else dataset
        runner = Runner(tmp_path / "results", load=lambda _: chosen, build=build_method)
        (result,) = runner.run([Plan(parse(chosen.spec), parse(method), **plan)])
        assert isinstance(result, StoredResult), result
        return result

    return run


def each(result: StoredResult, dataset: Dataset) -> Iterator[Explained]:
    """Explanations of the result's queries."""
    for query in result.per_query["query_id"].to_pylist():
        yield explain(result, dataset, query)


def all_parts(explanation: Explanation) -> Iterator[Reason]:
    yield from (reason for reason in explanation.reasons.values() if reason.parts)
    for base in explanation.bases:
        yield from all_parts(base.explanation)


# Every method of ours ------------------------------------------------------------------------------------------------

ADDITIVE = [
    *("bm25", "bm25(tokens=whitespace, k1=0.4, b=1.0)", "bm25-okapi", "bm25-okapi(tokens=words)"),
    *("tfidf", "tfidf(sublinear=true)", "tfidf(tokens=whitespace)"),
    *("tgr", "tgr(graph=manual, direction=prerequisite, alpha=3.0)", "tgr(layers=2, base=dense(similarity=dot))"),
    *("tgr(base=dense(similarity=dot), scale=none)", "tgr(base=bm25, scale=none)"),
    *("tgr(base=bm25)", "tgr(base=nearest-query)", "nearest-query", "nearest-query(neighbours=3)"),
    *("rrf", "rrf(methods=[bm25, nearest-query], pool=7)"),
    *("hybrid", "hybrid(methods=[bm25, nearest-query], pool=7, learn=false, weight=0.3)"),
    *("late-interaction", "colt"),
    *("names", "names(prefix=0.0)"),
    *("regex", "regex(name_weight=1.0)"),
    *("recommended", "tool-de(base=bm25)", "tool-de(base=hybrid(learn=false), fields=[tags])"),
    *("bm25-fields", "bm25-fields(parent=0.0, b_name=1.0)"),
]


@pytest.mark.parametrize("method", ADDITIVE)
def test_the_parts_of_a_tool_sum_to_its_stored_score(run: Run, method: str) -> None:
    dataset = providers()
    checked = 0
    for explained in each(run(method, dataset, limit=2), dataset):
        assert explained.answer is not None, explained.missing
        reasons = explained.answer.explanation.reasons
        assert reasons, explained.answer.explanation.notes
        for entry in explained.shown:
            reason = reasons[entry.tool]
            total = sum(part.value for part in reason.parts)
            if entry.position.score is None:
                continue
            assert total == pytest.approx(entry.position.score, rel=TOLERANCE, abs=TOLERANCE)
            checked += 1
        for reason in all_parts(explained.answer.explanation):
            assert reason.score == pytest.approx(sum(part.value for part in reason.parts), rel=1e-9, abs=1e-9)
    assert checked >= 10


NO_SUM = [
    *("dense", "dense(similarity=l1)", "tgr(base=dense(similarity=l2))", "nearest-bundle", "popularity"),
    *("nearest-bundle(base=bm25)", "query-generation", "query-generation(base=bm25, include_utterance=false)"),
    *("graph-rag-tool-fusion", "graph-rag-tool-fusion(base=bm25, initial=2, graph=rules)"),
    *("re-invoke", "re-invoke(intents=1)"),
    *("mcp-zero", "mcp-zero(servers=1, blocks=1)"),
    *("tool2vec", "tool2vec(similarity=dot)"),
    *("coverage", "coverage(base=nearest-query, share=1.0)"),
    *("protip", "protip(steps=2, weight=0.5)"),
    *("server-first", "server-first(base=bm25, servers=best, tools=2)"),
    *("ptr", "ptr(retriever=nearest-query)", "ptr(retriever=none)", "ptr(retriever=random, coverage=false)"),
]


@pytest.mark.parametrize("method", NO_SUM)
def test_what_is_no_sum_is_explained_and_agrees_as_well(run: Run, method: str) -> None:
    dataset = providers()
    for explained in each(run(method, dataset, limit=1), dataset):
        assert explained.answer is not None, explained.missing
        explanation = explained.answer.explanation
        assert explanation.reasons, explanation.notes
        assert set(explanation.reasons) == {entry.tool for entry in explained.shown}
        for entry in explained.shown:
            assert len(explanation.reasons[entry.tool].cells) == len(explanation.columns)


@pytest.mark.parametrize("method", [name for name in method_names() if name not in {*ADDITIVE, *NO_SUM}])
def test_every_other_method_explains_itself_and_agrees_or_says_that_it_does_not(
    run: Run, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each explanation makes the method again: it need not learn for long.
    monkeypatch.setattr("bench.methods.linear_adapter._MOST_ITERATIONS", 3)
    try:
        result = run(method, providers(), limit=2)
    except UsageError as refusal:
        pytest.skip(f"it needs a model that is named: {refusal}")
    for explained in each(result, providers()):
        assert explained.answer is not None, explained.missing
        explanation = explained.answer.explanation
        if type(build_method(method)).explain is Method.explain:
            assert not explanation.reasons
            assert explanation.notes == (f"{method} does not explain its ranking: ranks and scores only.",)
        else:
            assert explanation.reasons, explanation.notes


def test_apibank_is_explained_from_the_mirror(mirror: Path, run: Run) -> None:
    dataset = loaded("apibank")
    for explained in each(run("tgr(base=bm25, graph=manual)", dataset, limit=5), dataset):
        assert explained.answer is not None
        assert explained.answer.explanation.bases[0].label == "bm25"


# By hand --------------------------------------------------------------------------------------------------------------


def made(tools: dict[str, str], edges: tuple[tuple[str, str], ...] = (), past: tuple[Query, ...] = ()) -> Dataset:
    rows = [Tool(name, name, text) for name, text in tools.items()]
    query = Query("asked", "post the letter", {"send": 1, "token": 1}, "test")
    return make_dataset(rows, [query, *past], [Edge(a, b, "result") for a, b in edges])


def reason_of(explained: Explained, tool: str) -> Reason:
    assert explained.answer is not None, explained.missing
    code = next(item.tool for item in explained.shown if item.tool_id == tool)
    return explained.answer.explanation.reasons[code]


def test_words_and_their_shares_are_those_of_the_formula(run: Run) -> None:
    dataset = made({"send": "send the letter", "box": "post box", "token": "gives access"})
    explained = explain(run("bm25(b=0.0)", dataset), dataset, "asked")
    # Each word occurs in one of three texts, once: ln(1 + 2.5 / 1.5) / (1 + 1.2).
    share = np.log(1 + 2.5 / 1.5) / 2.2
    parts = {part.name: part.value for part in reason_of(explained, "send").parts}
    assert parts == pytest.approx({"the": share, "letter": share})
    assert {part.name for part in reason_of(explained, "box").parts} == {"post"}
    assert (
        reason_of(explained, "token").because == "it shares no word with the query; box (0.446) gains by 'post' 0.446"
    )
    token = next(item for item in explained.gold if item.tool_id == "token")
    assert token.position.rank is None
    assert explained.answer is not None
    assert explained.answer.positions[token.tool].rank is None


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[dict[str, list[float]]], None]:
    """Plant vectors of texts, in a cache of the test's own."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "planted"))

    def plant(vectors: dict[str, list[float]]) -> None:
        cache = VectorCache(Encoder(EMBEDDED).identity)
        # As long as the model's own: where another test has loaded it, latencies are measured with it.
        cache.put({text_key(text): np.pad(vector, (0, 384 - len(vector))) for text, vector in vectors.items()})
        cache.close()

    return plant


VECTORS = {"post the letter": [1.0, 0.0], "a": [0.8, 0.6], "b": [0.0, 1.0], "c": [0.6, 0.8]}


def test_a_neighbour_adds_what_the_convolution_gives_it(
    run: Run, planted: Callable[[dict[str, list[float]]], None]
) -> None:
    planted(VECTORS)
    dataset = made({"send": "a", "token": "b", "other": "c"}, (("send", "token"),))
    explained = explain(run("tgr(graph=manual)", dataset), dataset, "asked")
    # One edge: both tools become the mean of (0.8, 0.6) and (0, 1), scaled to length 1: (0.8, 1.6) / 1.789.
    share = 0.8 / np.hypot(0.8, 1.6)
    send, token, other = (reason_of(explained, name) for name in ("send", "token", "other"))
    assert [(part.name, part.value) for part in send.parts] == [
        ("own text", pytest.approx(share)),
        ("needs token", pytest.approx(0.0, abs=1e-9)),
    ]
    assert [(part.name, part.value) for part in token.parts] == [
        ("own text", pytest.approx(0.0, abs=1e-9)),
        ("for send", pytest.approx(share)),
    ]
    assert [(part.name, part.value) for part in other.parts] == [("own text", pytest.approx(0.6))]
    assert (send.cells, token.cells) == ((1, pytest.approx(0.8)), (3, pytest.approx(0.0)))
    assert token.because == (
        "the graph lifts it from 0.000 (rank 3) to 0.447 with 1 neighbour; other has no neighbour and keeps 0.600"
    )
    assert explained.answer is not None
    assert explained.answer.explanation.bases[0].label == "dense"


def test_dense_says_how_near_query_gold_and_rivals_are(
    run: Run, planted: Callable[[dict[str, list[float]]], None]
) -> None:
    planted(VECTORS)
    dataset = made({"send": "a", "token": "b", "other": "c"})
    explained = explain(run("dense", dataset), dataset, "asked")
    # c is at 0.8 from b and at 0.96 from a; a and b are at 0.6.
    cells = {name: reason_of(explained, name).cells[0] for name in ("send", "other", "token")}
    assert cells == {"send": pytest.approx(0.6), "other": pytest.approx(0.96), "token": pytest.approx(0.6)}
    assert reason_of(explained, "send").because == ""
    assert reason_of(explained, "token").because == (
        "cosine with the query 0.000, other has 0.600; the two texts: cosine 0.800"
    )
    assert reason_of(explained, "other").note == "c"


def test_past_queries_that_brought_a_tool_are_named(
    run: Run, planted: Callable[[dict[str, list[float]]], None]
) -> None:
    planted({**VECTORS, "near": [0.8, 0.6], "far": [0.0, 1.0]})
    past = (Query("p1", "near", {"other": 1}, "train"), Query("p2", "far", {"send": 1}, "train"))
    dataset = made({"send": "a", "token": "b", "other": "c"}, past=past)
    explained = explain(run("nearest-query(neighbours=1)", dataset), dataset, "asked")
    assert [(part.name, part.value) for part in reason_of(explained, "other").parts] == [('"near"', pytest.approx(0.8))]
    assert reason_of(explained, "send").because == (
        'only the 1 nearest past queries vote, and the first that used it is number 2 (0.000): "far"'
    )
    assert reason_of(explained, "token").because == "no past query used it, so nothing can vote for it"


def test_fused_methods_add_the_reciprocals_of_their_ranks(
    run: Run, planted: Callable[[dict[str, list[float]]], None]
) -> None:
    planted({"post the letter": [1.0, 0.0], "a letter": [0.8, 0.6], "b": [0.0, 1.0], "c": [0.6, 0.8]})
    dataset = made({"send": "a letter", "token": "b", "other": "c"})
    explained = explain(run("rrf", dataset), dataset, "asked")
    assert [(part.name, part.value) for part in reason_of(explained, "send").parts] == [
        ("bm25 rank 1", 1 / 61),
        ("dense rank 1", 1 / 61),
    ]
    assert [part.name for part in reason_of(explained, "token").parts] == ["dense rank 3"]


# What does not agree is not shown -------------------------------------------------------------------------------------


def test_a_method_that_gives_other_scores_today_is_not_believed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = loaded("starter")
    result = run("bm25")
    score, rank = BM25.score, BM25.rank

    def ranked(self: BM25, queries: Queries, depth: int) -> Ranking:
        ranking = rank(self, queries, depth)
        assert ranking.scores is not None
        return dataclasses.replace(ranking, scores=ranking.scores * 1.001)

    monkeypatch.setattr(BM25, "score", lambda self, queries: score(self, queries) * 1.001)
    monkeypatch.setattr(BM25, "rank", ranked)
    explained = explain(result, dataset, "0001")
    assert explained.answer is None
    assert "code, models or packages have changed since" in explained.missing
    assert explained.shown[0].position.score is not None


def test_an_explanation_out_of_step_with_its_method_is_not_believed() -> None:
    dataset = loaded("starter")
    library = Library.of(dataset, "description")
    history = History.of(dataset, library, dataset.rows("test"))

    class Doubled(BM25):
        """Explains the scores of BM25, and gives others."""

        def rank(self, queries: Queries, depth: int) -> Ranking:
            ranking = super().rank(queries, depth)
            assert ranking.scores is not None
            return dataclasses.replace(ranking, scores=ranking.scores * 2)

    inner = build_method("bm25")
    doubled = Doubled(inner.parameters, inner.context)
    doubled.name = "doubled"
    doubled.index(library)
    query = Queries.of(dataset, dataset.rows("test")[:1])
    answer = Case(library, history, query, frozenset(), (0, 1, 2, 3), {}).answer(doubled)
    assert not answer.explanation.reasons
    assert "does not add up to its scores" in answer.explanation.notes[0]


def test_a_method_that_is_gone_leaves_the_stored_numbers(run: Run, tmp_path: Path) -> None:
    dataset = made({"send": "a", "token": "b"}, (("send", "token"),))
    edges = tmp_path / "edges.tsv"
    edges.write_text("dependent\tprerequisite\nsend\ttoken\n")
    result = run(f'tgr(base=bm25, graph="{edges}")', dataset)
    edges.unlink()
    explained = explain(result, dataset, "asked")
    assert explained.answer is None
    assert explained.missing.startswith("Only the stored numbers can be shown, because the method cannot be made again")


def test_a_run_file_has_ranks_and_scores_alone(tmp_path: Path) -> None:
    dataset = made({"send": "a", "token": "b"})
    rows = b"asked Q0 token 1 2.5 x\nasked Q0 send 2 1.5 x\n"
    result = score_run_file(rows, "x.trec", dataset, tmp_path / "results", name="x", command="")
    explained = explain(result, dataset, "asked")
    assert explained.answer is None
    assert explained.missing.startswith("A run file has only ranks and scores")
    assert [(item.tool_id, item.position.rank, item.position.score) for item in explained.gold] == [
        ("token", 1, 2.5),
        ("send", 2, 1.5),
    ]


def test_a_gold_tool_below_the_first_ten_is_shown_with_the_two_above_it(tmp_path: Path) -> None:
    dataset = made({"send": "a", "token": "b"} | {f"t{i:02}": "c" for i in range(30)})
    ranking = [f"t{i:02}" for i in range(30)]
    ranking[20], ranking[24] = "token", "send"
    rows = "".join(f"asked Q0 {tool} {rank} {-rank} x\n" for rank, tool in enumerate(ranking, 1))
    result = score_run_file(rows.encode(), "x.trec", dataset, tmp_path / "results", name="x", command="")
    shown = [(item.tool_id, item.position.rank) for item in explain(result, dataset, "asked").shown]
    assert shown == [(ranking[place], place + 1) for place in (*range(10), 18, 19, 20, 22, 23, 24)]


def test_other_data_is_refused(run: Run) -> None:
    one = made({"send": "a", "token": "b"})
    other = made({"send": "a", "token": "changed"})
    first, second = run("bm25", one), run("bm25", other)
    with pytest.raises(ResultError, match="was made on made as it was then"):
        explain(first, other, "asked")
    with pytest.raises(ResultError, match="the content of the dataset differs"):
        check_same_data(first, second)
    check_same_data(first, run("tfidf", one))


# Queries by name ------------------------------------------------------------------------------------------------------


def test_a_query_is_named_by_its_id_or_its_beginning(run: Run) -> None:
    result, dataset = run("bm25"), loaded("starter")
    assert query_named(result, "0001", dataset) == "0001"
    ids = result.per_query["query_id"].to_pylist()
    alone = next(query for query in ids if sum(other.startswith(query[:3]) for other in ids) == 1)
    assert query_named(result, alone[:3], dataset) == alone
    with pytest.raises(UsageError, match=r"queries of bm25 @ starter begin with '00', 0001, .*, …; give more of it"):
        query_named(result, "00", dataset)
    with pytest.raises(UsageError, match="has no query '0o01'; the nearest are 0091, "):
        query_named(result, "0o01", dataset)
    with pytest.raises(UsageError, match="has no query ''; it has 0001, "):
        query_named(result, "", dataset)


def test_a_query_of_another_split_is_told(run: Run) -> None:
    queries = [Query("asked", "alpha", {"a": 1}, "test"), Query("past", "beta", {"a": 1}, "train")]
    dataset = make_dataset([Tool("a", "a", "alpha")], queries)
    result = run("bm25", dataset)
    with pytest.raises(UsageError, match=r"has no query 'past': it is a train query of made.*--split train` evaluates"):
        query_named(result, "past", dataset)


def test_a_tool_whose_id_is_a_number_is_called_by_its_name_too() -> None:
    assert name_with_id(Tool("353", "US Gas Prices", "")) == "353 US Gas Prices"
    assert name_with_id(Tool("353", "", "")) == "353"
    assert name_with_id(Tool("gas.prices", "US Gas Prices", "")) == "gas.prices"


def test_an_id_that_begins_another_is_itself(run: Run) -> None:
    queries = [Query("q1", "a", {"t": 1}, "test"), Query("q10", "b", {"t": 1}, "test")]
    dataset = make_dataset([Tool("t", "t", "a")], queries)
    assert query_named(run("bm25", dataset), "q1", dataset) == "q1"


# Any texts ------------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.sampled_from("ab Zé_9-Σς İ.\n"), max_size=14)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=2, max_size=5), TEXTS, st.sampled_from(ADDITIVE[:7]))
def test_words_sum_to_the_score_whatever_the_texts(texts: list[str], asked: str, spec: str) -> None:
    tools = [Tool(f"t{i}", "", text) for i, text in enumerate(texts)]
    dataset = make_dataset(tools, [Query("q", asked, {"t0": 1}, "test")])
    library = Library.of(dataset, "description")
    method = build_method(spec)
    method.index(library)
    query = Queries.of(dataset, np.array([0]))
    history = History.of(dataset, library, np.array([0]))
    codes = tuple(range(len(tools)))
    answer = Case(library, history, query, frozenset({0}), codes, {}).answer(method)
    assert set(answer.explanation.reasons) == set(codes), answer.explanation.notes
    scores = method.score(query)[0]  # type: ignore[attr-defined]
    for code in codes:
        total = sum(part.value for part in answer.explanation.reasons[code].parts)
        assert total == pytest.approx(scores[code], rel=1e-9, abs=1e-9)
