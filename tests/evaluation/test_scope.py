"""Scopes: a request gets only tools that it may see, from every method, at every stage, and in every file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.tiny import CARD
from numpy.typing import NDArray

from bench.base.errors import DataError, MethodError, UsageError
from bench.base.spec import parse
from bench.data.beir import export_beir, import_beir
from bench.data.dataset import Dataset
from bench.data.libraries import LibraryOptions, with_library
from bench.data.parquet import read_dataset, write_dataset
from bench.data.tables import Query, Tables
from bench.evaluation.ask import ask, prepare
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.interface.parts import is_oracle
from bench.interface.ranking import PAD, ToolSets, validate
from bench.interface.scope import keep_in_scope
from bench.registry import build_method
from bench.search.topk import top_k

#: Methods that give every tool a place, so that the whole ranking less what may not be seen is the right answer.
WHOLE = ["bm25", "bm25-fields", "bm25-okapi", "tfidf", "names", "dense", "popularity", "random"]
#: Others: those that fuse or re-rank do so with what their bases give of the request's own tools.
FURTHER = [
    *("server-first", "rrf(methods=[bm25, tfidf])", "hybrid(methods=[bm25, tfidf])", "hybrid(methods=[bm25, dense])"),
    *("oracle", "regex", "nearest-query", "nearest-bundle(base=bm25)", "tgr(base=bm25)", "coverage(base=bm25)"),
    *(
        "query-generation(base=bm25)",
        "re-invoke",
        "tool2vec",
        "late-interaction",
        "graph-rag-tool-fusion",
        "colt",
        "ptr",
    ),
]


def scoped(dataset: Dataset, **more: Any) -> Dataset:
    """The dataset, of which each query may see its gold and every fifth tool, and every fourth query all."""
    tools = [tool.tool_id for tool in dataset.tools]
    queries = [
        query if code % 4 == 3 else replace(query, scope=tuple(sorted({*query.gold, *tools[code % 5 :: 5]})))
        for code, query in enumerate(dataset.queries)
    ]
    return Dataset.build(dataset.spec, CARD, replace(dataset.rows_again(), queries=queries, **more))


def allowed_codes(dataset: Dataset, row: int) -> set[int]:
    """What a query may see."""
    return {dataset.tool_codes[tool] for tool in dataset.queries[row].scope} or set(range(len(dataset.tools)))


def prepared(spec: str, dataset: Dataset, rows: NDArray[np.int64]) -> Method:
    method = build_method(spec)
    library = Library.of(dataset, "name_description")
    history = History.of(dataset, library, rows)
    prepare(method, library, history, dataset.gold.take(rows) if is_oracle(method) else None)
    return method


@pytest.mark.parametrize("spec", WHOLE)
def test_the_first_that_a_request_may_see_are_its_answer(spec: str, tiny: Dataset) -> None:
    dataset = scoped(tiny)
    rows = dataset.rows("test")
    answers = ask(prepared(spec, dataset, rows), dataset, rows, 3).ranking
    plain = ask(prepared(spec, dataset, rows), tiny, rows, 12).ranking
    for ranked, everything, row in zip(answers.tools, plain.tools, rows.tolist(), strict=True):
        allowed = allowed_codes(dataset, row)
        assert ranked[ranked != PAD].tolist() == [code for code in everything.tolist() if code in allowed][:3]


@pytest.mark.parametrize("spec", FURTHER)
def test_no_method_gives_what_a_request_may_not_see(spec: str, tiny: Dataset) -> None:
    dataset = scoped(tiny)
    rows = dataset.rows("test")
    answers = ask(prepared(spec, dataset, rows), dataset, rows, 5)
    some = 0
    for i, row in enumerate(rows.tolist()):
        allowed = allowed_codes(dataset, row)
        given_tools = set(answers.ranking.tools[i].tolist()) - {PAD}
        recommended = set() if answers.sets is None else set(answers.sets.row(i).tolist())
        assert given_tools | recommended <= allowed
        some += len(given_tools)
    assert some


def test_a_re_ranker_gets_candidates_that_may_be_seen(tiny: Dataset) -> None:
    given_bases: list[NDArray[np.int32]] = []

    class Second(Method):
        def __init__(self, parameters: Any, context: Any) -> None:
            super().__init__(parameters, context)
            self.base = self.context.build(parse("random"))

        def index(self, library: Library) -> None:
            self.base.index(library)

        def rank(self, queries: Queries, depth: int) -> Ranking:
            ranking: Ranking = self.base.rank(queries, 3)
            given_bases.append(ranking.tools)
            return replace(ranking, scores=None)

    dataset = scoped(tiny)
    method = Second(Second.Parameters(), Context(build_method))
    rows = dataset.rows("test")
    prepare(method, Library.of(dataset, "name_description"))
    ask(method, dataset, rows, 3)
    # Asked once: three candidates of each request's own tools are a full answer.
    counts = (np.concatenate(given_bases) != PAD).sum(axis=1)
    assert sorted(counts.tolist()) == sorted(min(3, len(dataset.queries[row].scope) or 3) for row in rows)


class Faulty(Method):
    """Answers what a test tells it to."""

    answer: Callable[[int], Ranking]

    def index(self, library: Library) -> None:
        self.library = library

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return type(self).answer(len(queries))


@pytest.mark.parametrize(
    "tools",
    [np.full((2, 1), 99, np.int32), np.full((2, 1), -7, np.int32), np.zeros((3, 1), np.int32), np.zeros(2), None],
)
def test_what_is_no_ranking_is_left_to_the_protocol_to_refuse(tiny: Dataset, tools: Any) -> None:
    class Wrong(Faulty):
        answer = staticmethod(lambda queries: Ranking(tools))

    dataset = scoped(tiny)
    method = Wrong(Wrong.Parameters(), Context(build_method))
    method.name = "wrong"
    prepare(method, Library.of(dataset, "name_description"))
    with pytest.raises(MethodError, match="the protocol does not allow it"):
        ask(method, dataset, dataset.rows("test")[:2], 5)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.float32, np.float16, None])
def test_scores_of_any_kind_keep_the_scope(tiny: Dataset, kind: Any) -> None:
    class Plain(Faulty):
        def rank(self, queries: Queries, depth: int) -> Ranking:
            tools = np.tile(np.arange(min(depth, 12), dtype=np.int64), (len(queries), 1))
            return Ranking(tools, None if kind is None else (100 - tools).astype(kind))  # type: ignore[arg-type]

    dataset = scoped(tiny)
    rows = dataset.rows("test")
    method = Plain(Plain.Parameters(), Context(build_method))
    prepare(method, Library.of(dataset, "name_description"))
    for row, ranked in zip(rows.tolist(), ask(method, dataset, rows, 3).ranking.tools, strict=True):
        assert ranked[ranked != PAD].tolist() == sorted(allowed_codes(dataset, row))[:3]


# The filter ---------------------------------------------------------------------------------------------------------


def tied(ranking: Ranking) -> list[set[int]]:
    """Codes of the tools that tie beyond each query's last."""
    if ranking.tied_beyond is None:
        return [set()] * len(ranking)
    return [set(np.flatnonzero(np.unpackbits(row)).tolist()) for row in ranking.tied_beyond]


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    st.integers(1, 20).flatmap(
        lambda tools: st.tuples(
            st.lists(
                # Few values, so that they tie.
                st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=tools, max_size=tools),
                min_size=1,
                max_size=4,
            ),
            st.lists(st.sets(st.integers(0, tools - 1), min_size=1), min_size=4, max_size=4),
        )
    ),
    st.integers(1, 6),
)
def test_the_filter_is_the_ranking_of_the_scores_of_what_may_be_seen(
    case: tuple[list[list[float]], list[set[int]]], depth: int
) -> None:
    scores, allowed = np.array(case[0]), case[1][: len(case[0])]
    seen = np.zeros(scores.shape, dtype=np.bool_)
    for row, codes in zip(seen, allowed, strict=True):
        row[sorted(codes)] = True
    wanted = top_k(np.where(seen, scores, -np.inf), depth)
    got = keep_in_scope(top_k(scores, scores.shape[1]), np.packbits(seen, axis=1), depth)
    width = min(got.tools.shape[1], wanted.tools.shape[1])
    assert got.tools[:, :width].tolist() == wanted.tools[:, :width].tolist()
    assert [sorted(row & codes) for row, codes in zip(tied(got), allowed, strict=True)] == [
        sorted(row & codes) for row, codes in zip(tied(wanted), allowed, strict=True)
    ]
    validate(got, len(scores), scores.shape[1], depth)


# Data ---------------------------------------------------------------------------------------------------------------


def test_scopes_are_data_and_are_kept_in_every_form(tiny: Dataset, tmp_path: Path) -> None:
    dataset = scoped(tiny)
    assert dataset.content_hash != tiny.content_hash
    write_dataset(dataset, tmp_path / "stored")
    export_beir(dataset, tmp_path / "beir", "name_description")
    for again in (
        read_dataset(tmp_path / "stored"),
        Dataset.build(dataset.spec, CARD, import_beir(tmp_path / "beir")),
    ):
        assert [query.scope for query in again.queries] == [query.scope for query in dataset.queries]
        assert Dataset.build(again.spec, CARD, again.rows_again()).content_hash == dataset.content_hash


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        (Query("a", "text", {"t00": 1}, scope=("t01",)), "the gold tool 't00' is not among the tools that the request"),
        (Query("a", "text", {}, scope=("nobody",)), "the tool 'nobody' of its scope is not in the library"),
    ],
)
def test_a_scope_that_contradicts_the_data_is_refused(tiny: Dataset, query: Query, sentence: str) -> None:
    with pytest.raises(DataError, match=f"query a: {sentence}"):
        Dataset.build("tiny", CARD, Tables(tiny.tools, [query]))


def test_a_smaller_library_narrows_scopes_and_never_widens_one(tiny: Dataset) -> None:
    dataset = scoped(tiny)
    small = with_library(dataset, LibraryOptions(tools=12), None, "tiny(tools=12)")
    assert [query.scope for query in small.queries] == [query.scope for query in dataset.queries]
    alone = Dataset.build("tiny", CARD, Tables(tiny.tools, [Query("a", "text", {}, scope=("t05",))]))
    seeds = [seed for seed in range(20) if not _keeps(alone, seed)]
    with pytest.raises(UsageError, match="no tool of the scope of query a is left"):
        with_library(alone, LibraryOptions(tools=2, seed=seeds[0]), None, "tiny(tools=2)")


def _keeps(dataset: Dataset, seed: int) -> bool:
    try:
        with_library(dataset, LibraryOptions(tools=2, seed=seed), None, "tiny(tools=2)")
    except UsageError:
        return False
    return True


def test_recommended_sets_hold_what_may_be_seen() -> None:
    class Greedy(Method):
        def index(self, library: Library) -> None: ...

        def rank(self, queries: Queries, depth: int) -> Ranking:
            return Ranking.empty(len(queries))

        def recommend(self, queries: Queries) -> ToolSets:
            return ToolSets.of([[0, 1, 2]] * len(queries))

    seen = np.packbits(np.array([[1, 0, 1], [0, 1, 0]], dtype=np.bool_), axis=1)
    method = Greedy(Greedy.Parameters(), Context(build_method))
    sets = method.recommend(Queries(("a", "b"), np.arange(2), seen))
    assert [sets.row(0).tolist(), sets.row(1).tolist()] == [[0, 2], [1]]


def test_scopes_of_too_many_queries_over_too_many_tools_are_refused(
    tiny: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.data.dataset._MOST_SCOPE_BYTES", 36)
    with pytest.raises(DataError, match="has scopes for 36 queries over 12 tools"):
        scoped(tiny)
    Dataset.build("tiny", CARD, tiny.rows_again())
