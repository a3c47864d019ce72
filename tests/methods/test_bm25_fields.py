"""BM25F by hand, against BM25 where one field counts, and what is in its fields; the parts of names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.rankings import make_library, make_queries, scores_by_code

from bench.base.errors import UsageError
from bench.data.tables import Parameter, Tool
from bench.interface import Method, Queries
from bench.registry import build_method
from bench.search.names import name_parts, name_words, singular
from bench.search.words import words

ONLY = {
    "name": "bm25-fields(name=1.0, description=0.0, parameters=0.0, parent=0.0, b_name=0.75)",
    "description": "bm25-fields(name=0.0, parameters=0.0, parent=0.0)",
    "parameters": "bm25-fields(name=0.0, description=0.0, parent=0.0)",
    "parent": "bm25-fields(name=0.0, description=0.0, parameters=0.0, b_parent=0.75)",
}


def indexed(spec: str, tools: Sequence[Tool], texts: Sequence[str] | None = None) -> Method:
    method = build_method(spec)
    method.index(make_library(tools, texts))
    return method


def scores_of(method: Method, query: str) -> dict[int, float]:
    """Score of each returned tool."""
    return scores_by_code(method.rank(make_queries(query), 1000))


def test_by_hand() -> None:
    # N = 2; `mail` is in both tools: idf = ln(1 + 0.5 / 2.5) = 0.182322. The words of the first name are send, mail and
    # sendmail: names have 3 and 1 words, mean 2, b = 0.3; descriptions 3 and 1, mean 2, b = 0.75.
    # t0: name 2 / (0.7 + 0.3 * 3 / 2) = 1.739130; description 1 / (0.25 + 0.75 * 3 / 2) = 0.727273;
    #     tf = 2.466403; score = 0.182322 * 2.466403 / 3.666403 = 0.122648.
    # t1: the description alone, 1 / (0.25 + 0.75 / 2) = 1.6; score = 0.182322 * 1.6 / 2.8 = 0.104184.
    method = indexed("bm25-fields", [Tool("a", "sendMail", "to any mail"), Tool("b", "weather", "mail")])
    assert scores_of(method, "mail") == pytest.approx({0: 0.122648, 1: 0.104184}, abs=2e-6)


def test_all_fields_share_one_saturation() -> None:
    # With k1 = 0 a word counts once, wherever and however often it occurs: idf = ln(1 + 0.5 / 1.5) each.
    tools = [Tool("a", "mail", "mail mail", parent="mail", parameters=(Parameter("mail"),))]
    assert scores_of(indexed("bm25-fields(k1=0.0)", tools), "mail") == pytest.approx({0: 0.287682}, abs=2e-6)


WORDS = st.lists(st.sampled_from(["send", "mail", "to", "read", "news", "ß", "東京"]), max_size=6).map(" ".join)


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(WORDS, min_size=1, max_size=6), query=WORDS, field=st.sampled_from(sorted(ONLY)))
def test_with_one_field_it_is_bm25(texts: list[str], query: str, field: str) -> None:
    placed = {
        "name": lambda text: Tool("", text, "other"),
        "description": lambda text: Tool("", "other", text),
        "parameters": lambda text: Tool("", "other", "other", parameters=(Parameter("", description=text),)),
        "parent": lambda text: Tool("", "other", "other", parent=text),
    }[field]
    tools = [placed(text) for text in texts]
    scores = scores_of(indexed(ONLY[field], tools), query)
    assert scores == pytest.approx(scores_of(indexed("bm25", tools, texts), query), rel=1e-6)


def test_every_field_is_found() -> None:
    tools = [
        Tool("a", "getUserToken", "fetches"),
        Tool("b", "x", "y", parent="git-hub.com"),
        Tool("c", "x", "y", parameters=(Parameter("cityName", description="a place"),)),
        Tool("d", "x", "y", title="Forecast"),
    ]
    method = indexed("bm25-fields", tools)
    for query, code in {
        "token": 0,
        "getusertoken": 0,
        "FETCHES": 0,
        "hub": 1,
        "city": 2,
        "place": 2,
        "forecast": 3,
    }.items():
        assert list(scores_of(method, query)) == [code], query
    assert scores_of(method, "nothing of it") == {}
    assert scores_of(indexed("bm25-fields(parameters=0.0)", tools), "city place") == {}


def test_equal_tools_tie_and_are_in_the_order_of_their_codes() -> None:
    tools = [Tool(f"t{code}", "send_mail", "sends it") for code in range(5)]
    ranking = indexed("bm25-fields", tools).rank(Queries(("send mail",), np.arange(1)), 3)
    assert ranking.scores is not None
    assert ranking.tied_beyond is not None
    assert ranking.tools.tolist() == [[0, 1, 2]]
    assert len(set(ranking.scores[0].tolist())) == 1
    assert np.unpackbits(ranking.tied_beyond[0])[:5].tolist() == [0, 0, 0, 1, 1]


def test_no_field_is_refused() -> None:
    with pytest.raises(UsageError, match="needs a field with a weight above 0"):
        build_method("bm25-fields(name=0.0, description=0.0, parameters=0.0, parent=0.0)")


# Names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("getUserToken", ["get", "user", "token"]),
        ("get_user-token.v2", ["get", "user", "token", "v2"]),
        ("parseHTMLPage", ["parse", "html", "page"]),
        ("HTML", ["html"]),
        ("oauth2Login", ["oauth2", "login"]),
        ("mcp__github__listIssues", ["mcp", "github", "list", "issues"]),
        ("天气_查询", ["天气", "查询"]),
        ("", []),
    ],
)
def test_parts_of_names(name: str, parts: list[str]) -> None:
    assert name_parts(name) == parts


@given(st.text(max_size=40))
def test_parts_are_words_and_the_words_of_a_name_are_kept(name: str) -> None:
    assert all(words(part) == [part] for part in name_parts(name))
    assert set(words(name)) <= set(name_words(name))


@pytest.mark.parametrize(
    ("plural", "expected"),
    [
        *[("issues", "issue"), ("cities", "city"), ("files", "file"), ("status", "status"), ("address", "address")],
        *[("gas", "gas"), ("token", "token"), ("movies", "movy"), ("", "")],
    ],
)
def test_singular(plural: str, expected: str) -> None:
    assert singular(plural) == expected
