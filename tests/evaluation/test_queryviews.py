"""Views of queries: requests, conversations, searches; and the merging of several calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.base.errors import MethodError, UsageError
from bench.data.dataset import Dataset
from bench.data.queryviews import View, merge_rankings, with_view
from bench.evaluation.ask import Answers, _split, ask, ask_queries, prepare
from bench.interface import Context, Library, Method, Queries, Ranking, ToolSets
from bench.registry import build_method
from bench.results.store import StoredResult

SEARCHES = ("calendar events", "list meetings")


@pytest.fixture
def asked(tiny: Dataset) -> Dataset:
    """Queries with two searches and a context, with one search, and with neither."""
    queries = [query for query in tiny.queries if query.split == "test"]
    more = [
        replace(queries[0], searches=SEARCHES, context=("user: hello", "assistant: yes?")),
        replace(queries[1], searches=("weather",)),
        *queries[2:],
    ]
    return Dataset.build("tiny", tiny.card, replace(tiny.rows_again(), queries=more))


@pytest.mark.parametrize(
    ("view", "texts", "calls"),
    [
        ("search", ["calendar events", "weather"], [(), ()]),
        ("searches", ["calendar events", "weather"], [SEARCHES, ()]),
    ],
)
def test_searches_are_asked_in_place_of_requests(
    asked: Dataset, view: View, texts: list[str], calls: list[tuple[str, ...]]
) -> None:
    seen = with_view(asked, view)
    assert seen.spec == f"tiny(view={view})"
    assert [query.text for query in seen.queries[:2]] == texts
    assert [query.calls for query in seen.queries[:2]] == calls
    assert seen.queries[2:] == asked.queries[2:]
    lacking = len(asked.queries) - 2
    assert f"{lacking} of {len(asked.queries)} queries have no searches" in seen.card.known_issues[-1]


def test_a_conversation_ends_with_the_request(asked: Dataset) -> None:
    seen = with_view(asked, "conversation")
    assert seen.queries[0].text == "user: hello\nassistant: yes?\n" + asked.queries[0].text


def test_requests_are_the_dataset_itself_and_each_view_is_other_data(asked: Dataset) -> None:
    assert with_view(asked, "request") is asked
    views: list[View] = ["request", "conversation", "search", "searches"]
    assert len({with_view(asked, view).content_hash for view in views}) == 4


def test_what_nobody_has_is_no_view(tiny: Dataset) -> None:
    for view, what in (("searches", "searches"), ("search", "searches"), ("conversation", "earlier turns")):
        with pytest.raises(UsageError, match=f"no query of tiny has {what}"):
            with_view(tiny, view)  # type: ignore[arg-type]


def test_calls_are_merged_by_first_rank() -> None:
    assert merge_rankings([[1, 2, 3], [4, 1, 5]], 10) == [1, 4, 2, 3, 5]
    assert merge_rankings([[1, 2, 3], [4, 1, 5]], 3) == [1, 4, 2]
    assert merge_rankings([[], [7]], 3) == [7]
    assert merge_rankings([], 3) == []


@given(st.lists(st.lists(st.integers(0, 9), unique=True), max_size=4), st.integers(1, 12))
def test_a_tool_stands_no_lower_than_its_best_rank_times_the_calls(rankings: list[list[int]], depth: int) -> None:
    merged_row = merge_rankings(rankings, depth)
    assert len(set(merged_row)) == len(merged_row) <= depth
    for place, tool in enumerate(merged_row, start=1):
        best = min(ranking.index(tool) + 1 for ranking in rankings if tool in ranking)
        assert place <= best * len(rankings)


class Spelled(Method):
    """Ranks by the first letters of what is asked, and remembers it."""

    name = "spelled"
    asked: list[tuple[str, int]]

    def index(self, library: object) -> None:
        self.asked = []
        type(self).last = self

    def rank(self, queries: Queries, depth: int) -> Ranking:
        self.asked += zip(queries.texts, queries.rows.tolist(), strict=True)
        rows = [[len(text) % 5, (len(text) + 1) % 5][:depth] for text in queries.texts]
        return Ranking.of_lists(rows, [text == "list meetings" and self.fails for text in queries.texts])

    fails = False
    last: Spelled


class Fails(Spelled):
    name = "fails"
    fails = True


class Chooses(Spelled):
    name = "chooses"

    def recommend(self, queries: Queries) -> ToolSets:
        return ToolSets.of([[len(text) % 5] for text in queries.texts])


def test_each_search_is_a_call_and_the_answer_is_merged(asked: Dataset, run: Callable[..., StoredResult]) -> None:
    seen = with_view(asked, "searches")
    result = run(Spelled, dataset=seen)
    texts = [text for text, _ in Spelled.last.asked]
    assert set(SEARCHES) <= set(texts)
    numbers = dict(Spelled.last.asked)
    # Both calls of a query have its number.
    assert numbers[SEARCHES[0]] == numbers[SEARCHES[1]]
    name = seen.queries[0].query_id
    columns = (result.run[column].to_pylist() for column in ("query_id", "tool_id"))
    ranked = [tool for query, tool in zip(*columns, strict=True) if query == name]
    codes = merge_rankings([[len(text) % 5, (len(text) + 1) % 5] for text in SEARCHES], 100)
    assert ranked == [seen.tools[code].tool_id for code in codes]
    count = len(seen.rows("test"))
    assert result.manifest.facts["calls_per_query"] == round((count + 1) / count, 4)
    assert result.metrics.n_tied is None


def test_a_query_fails_with_one_of_its_calls(asked: Dataset, run: Callable[..., StoredResult]) -> None:
    result = run(Fails, dataset=with_view(asked, "searches"))
    assert result.per_query["failed"].to_pylist()[0]
    assert result.metrics.n_failed == 1


def test_sets_of_calls_are_joined(asked: Dataset, run: Callable[..., StoredResult]) -> None:
    seen = with_view(asked, "searches")
    result = run(Chooses, dataset=seen)
    wanted = sorted({seen.tools[len(text) % 5].tool_id for text in SEARCHES})
    assert result.per_query["recommended"].to_pylist()[0] == wanted


def test_what_is_asked_in_one_call_is_asked_as_ever(tiny: Dataset, run: Callable[..., StoredResult]) -> None:
    rows = replace(tiny.rows_again(), queries=[replace(query, searches=(query.text,)) for query in tiny.queries])
    one = Dataset.build("tiny", tiny.card, rows)
    before, after = run("bm25", dataset=one), run("bm25", dataset=with_view(one, "searches"))
    assert before.run.equals(after.run)
    assert "calls_per_query" not in after.manifest.facts
    assert np.array_equal(before.values("ndcg@5"), after.values("ndcg@5"), equal_nan=True)


class Limited(Spelled):
    """Remembers the size of each batch."""

    name = "limited"
    batch_size: ClassVar[int] = 3
    sizes: ClassVar[list[int]] = []

    def rank(self, queries: Queries, depth: int) -> Ranking:
        self.sizes.append(len(queries))
        return super().rank(queries, depth)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_batch_has_no_more_texts_than_the_method_takes_but_for_a_query_that_has_more_alone(
    asked: Dataset, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    seen = with_view(asked, "searches")
    rows = seen.rows("test")
    whole = _answers(seen, rows)
    monkeypatch.setattr(Limited, "batch_size", size)
    parts = _answers(seen, rows)
    assert max(Limited.sizes) == max(size, 2)
    # One query of two calls, among others of one; none is asked in two batches.
    assert sum(Limited.sizes) == len(rows) + 1
    assert np.array_equal(whole.ranking.tools, parts.ranking.tools)
    assert whole.sets is parts.sets is None


def _answers(dataset: Dataset, rows: NDArray[np.int64]) -> Answers:
    method = Limited(Limited.Parameters(), Context(build_method))
    prepare(method, Library.of(dataset, "description"))
    Limited.sizes.clear()
    return ask(method, dataset, rows, 5)


@given(st.lists(st.integers(1, 6), max_size=30), st.integers(1, 8))
def test_batches_are_as_full_as_their_size_allows(calls: list[int], size: int) -> None:
    parts = [part.tolist() for part in _split(calls, size)]
    assert [position for part in parts for position in part] == list(range(len(calls)))
    counts = [sum(calls[position] for position in part) for part in parts]
    assert all(count <= size or len(part) == 1 for count, part in zip(counts, parts, strict=True))
    # Another query would have been too much.
    assert all(count + calls[later[0]] > size for count, later in zip(counts, parts[1:], strict=False))


class Shaken(Limited):
    """Fails on one text, and recommends a set for it all the same."""

    name = "shaken"

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return replace(super().rank(queries, depth), failed=np.array([text == "b" for text in queries.texts]))

    def recommend(self, queries: Queries) -> ToolSets:
        return ToolSets.of([[len(text)] for text in queries.texts])


def test_queries_of_no_dataset_are_asked_in_batches_too_and_what_failed_has_no_set(tiny: Dataset) -> None:
    method, library = Shaken(Shaken.Parameters(), Context(build_method)), Library.of(tiny, "description")
    prepare(method, library)
    Limited.sizes.clear()
    ranking, sets = ask_queries(method, Queries(("a", "b", "cc", "d"), np.arange(4)), len(library), 5)
    assert Limited.sizes == [3, 1]
    assert sets is not None
    assert ranking.failed is not None
    assert ranking.failed.tolist() == [False, True, False, False]
    assert (ranking.tools[1] < 0).all()
    assert [sets.row(query).tolist() for query in range(4)] == [[1], [], [2], [1]]


def test_a_method_that_raises_is_named_by_what_it_was_doing(tiny: Dataset) -> None:
    class Ends(Spelled):
        name = "ends"

        def rank(self, queries: Queries, depth: int) -> Ranking:
            raise LookupError("no word")

    method, library = Ends(Ends.Parameters(), Context(build_method)), Library.of(tiny, "description")
    prepare(method, library)
    queries = Queries(("a", "b"), np.arange(2))
    with pytest.raises(MethodError, match=r"ends failed while ranking 2 queries: LookupError: no word\b"):
        ask_queries(method, queries, len(library), 5)
    with pytest.raises(MethodError, match=r"ends failed while looking around: LookupError: no word\b"):
        ask_queries(method, queries, len(library), 5, "looking around")
