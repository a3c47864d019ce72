"""The method `names`, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.rankings import make_queries, scores_by_code

from bench.data.tables import Tool
from bench.interface import Library
from bench.registry import build_method


def scores_of(names: Sequence[str], query: str, spec: str = "names") -> dict[str, float]:
    """Name -> score, of the tools that are returned."""
    tools = tuple(Tool(f"t{code:03}", name, "search mail repository") for code, name in enumerate(names))
    method = build_method(spec)
    method.index(Library(tools, names := tuple(names), "name_description", np.empty((0, 2), dtype=np.int32)))
    return {names[code]: score for code, score in scores_by_code(method.rank(make_queries(query), 1000)).items()}


def test_by_hand() -> None:
    # Q = {search, the, mail, of, my, repo}: |Q| = 6.
    # searchMails: P = {search, mail}, both words of the query: 2 / sqrt(2 * 6).
    # search: 1 / sqrt(6). repository_list_all: `repo` is a beginning: 0.5 / sqrt(3 * 6). weather: nothing.
    names = ["searchMails", "search", "repository_list_all", "weather"]
    expected = {"searchMails": 2 / sqrt(12), "search": 1 / sqrt(6), "repository_list_all": 0.5 / sqrt(18)}
    assert scores_of(names, "Search the mails of my repo") == pytest.approx(expected, rel=1e-6)


def test_a_whole_name_comes_first() -> None:
    names = ["list_issues", "issues-list", "listIssueEvents"]
    scores = scores_of(names, "call listIssues for the repository")
    # Q = {call, list, issue, for, the, repository}; `issues-list` has the words in another order.
    assert scores["list_issues"] == pytest.approx(1 + 2 / sqrt(12), rel=1e-6)
    assert scores["issues-list"] == pytest.approx(2 / sqrt(12), rel=1e-6)
    assert scores_of(["search", "get"], "search") == pytest.approx({"search": 2.0})
    # One part in a sentence names no tool.
    assert scores_of(["search", "get"], "search mail") == pytest.approx({"search": 1 / sqrt(2)}, rel=1e-6)


def test_a_common_beginning_has_three_letters() -> None:
    assert scores_of(["repository"], "repo") == pytest.approx({"repository": 0.5})
    assert scores_of(["repo"], "repository") == pytest.approx({"repo": 0.5})
    assert scores_of(["repository", "to"], "re today") == {}
    assert scores_of(["repository"], "repo", "names(prefix=0.0)") == {}
    assert scores_of(["repository"], "repo", "names(prefix=1.0)") == pytest.approx({"repository": 1.0})


def test_nothing_but_the_name_is_read() -> None:
    assert scores_of(["alpha"], "search mail repository") == {}
    assert scores_of(["", "alpha"], "") == {}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["list", "lists", "issue", "get", "is", "repository", "repo"]), min_size=1, max_size=5))
def test_the_query_that_is_the_name_has_the_highest_score(parts: list[str]) -> None:
    names = ["_".join(parts), "list_issues_of_repo", "get"]
    scores = scores_of(names, " ".join(parts))
    # The cosine of a set of words with itself is 1, and the whole name adds 1.
    assert max(scores.values()) == pytest.approx(scores[names[0]]) == pytest.approx(2.0)
