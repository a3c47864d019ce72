"""The method `regex`: by hand, against Python's `re`, and with patterns that come from outside and mean no good."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.chatserver import Body, ChatServer
from kit.rankings import make_library, make_queries, scores_by_code

from bench.data.dataset import Dataset
from bench.data.tables import Parameter, Tool
from bench.evaluation.method_errors import check_facts
from bench.interface import Method, Queries
from bench.interface.parts import needs_llm
from bench.methods.regex import LONGEST, _Lines, _of_words, _usable
from bench.registry import build_method

Make = Callable[..., Dataset]

#: (name, description, parameter)
TOOLS = [
    ("getWeatherReport", "Forecast of a city", "city"),
    ("list_cities", "All cities with a weather station", "country"),
    ("send_mail", "Writes to somebody", "address"),
    ("restart", "Starts again", "service"),
]


def indexed(spec: str) -> Method:
    tools = tuple(Tool(name, name, text, parameters=(Parameter(row),)) for name, text, row in TOOLS)
    method = build_method(spec)
    method.index(make_library(tools, [""] * len(tools)))
    return method


def scores(method: Method, text: str) -> dict[str, float]:
    by_code = scores_by_code(method.rank(make_queries(text), 10))
    return {TOOLS[code][0]: score for code, score in by_code.items()}


def idf(matching: int) -> float:
    return log(1 + (len(TOOLS) - matching + 0.5) / (matching + 0.5))


def test_words_of_the_request_are_patterns() -> None:
    # weather: a name, and a description. city: the description and the parameter of one tool; `cities` has no `city`.
    result = scores(indexed("regex"), "Weather of a CITY")
    assert result == pytest.approx({"getWeatherReport": 3 * idf(2) + idf(1), "list_cities": idf(2)}, rel=1e-6)
    assert list(result) == ["getWeatherReport", "list_cities"]
    # In the singular, and in the middle of other words: `art` is in `restart`.
    assert scores(indexed("regex(name_weight=1.0)"), "an art") == pytest.approx({"restart": idf(1)}, rel=1e-6)
    assert _of_words("The cities, the_city: é 42 Ωmega") == ["(?i)the", "(?i)city", "(?i)ωmega"]


def test_rules_are_marked_and_count_their_patterns() -> None:
    method = indexed("regex")
    assert scores(method, "a of") == {}
    scores(method, "send mail")
    assert method.marks() == {"rules": "uses rules instead of a language model (llm=rules)"}
    assert not needs_llm(method)
    assert check_facts(method) == {"patterns": 2, "patterns_unusable": 0, "requests_without_pattern": 1}


# The engine ---------------------------------------------------------------------------------------------------------

_ATOMS = st.sampled_from(["a", "b", "_", ".", "[ab]", "[^a]", "^", "$", r"\b", r"\w", "é"])
_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        # A group that matches nothing is repeated in other ways by other engines: with a letter it is not empty.
        st.tuples(st.sampled_from("ab"), inner, st.sampled_from(["*", "+", "?", "{1,2}"])).map(
            lambda parts: f"(?:{parts[0]}(?:{parts[1]})){parts[2]}"
        ),
        inner.map(lambda part: f"(?:{part})"),
        inner.map(lambda part: f"(?i:{part})"),
    ),
    max_leaves=8,
)


@given(_PATTERNS, st.lists(st.text("abAB_ é", max_size=8), min_size=1, max_size=5))
def test_a_line_matches_if_python_finds_the_pattern_in_it(pattern: str, texts: list[str]) -> None:
    if not _usable([pattern]).usable:
        assert len(pattern) > LONGEST
        return
    lines = [" ".join(text.split()) for text in texts]
    # RE2's \b and \w know ASCII alone, as Python's do with re.ASCII.
    expected = [re.search(pattern, line, re.ASCII) is not None for line in lines]
    assert _Lines(texts).matching(pattern).tolist() == expected


@pytest.mark.parametrize(
    "pattern",
    ["(a", "a)(b", r"(a)\1", "(?=a)b", "(?<!a)b", "a{1001}", "((a{90}){90}){90}", "a" * 201, "\ud800", "*", r"\Qa"],
)
def test_an_unusable_pattern_is_counted_and_left_out(pattern: str) -> None:
    usable = _usable([pattern, "mail"])
    assert (usable.usable, usable.unusable) == (("mail",), 1)


@pytest.mark.parametrize("pattern", ["(x+x+)+y", "(x|x)*y", "(.*)*.*.*.*y", "(x?){100}y", "[^y]*[^y]*[^y]*y"])
def test_no_pattern_takes_long(pattern: str) -> None:
    lines = _Lines(["x" * 20_000, *["x" * 50] * 400])
    began = time.perf_counter()
    assert not lines.matching(pattern).any()
    assert time.perf_counter() - began < 5


def test_a_match_stays_within_its_tool() -> None:
    lines = _Lines(["one", "two\nthree", ""])
    assert lines.matching("one(.|\\s)*two").tolist() == [False, False, False]
    assert lines.matching("(?s)two.*three").tolist() == [False, True, False]
    assert lines.matching("").tolist() == [True, True, True]
    assert lines.matching("^$").tolist() == [False, False, True]


# A model ------------------------------------------------------------------------------------------------------------


def test_a_model_writes_the_patterns(chat_server: ChatServer) -> None:
    def answer(body: Body) -> str:
        prompt = body["messages"][-1]["content"]
        if "unspeakable" in prompt:
            return ""
        if "broken" in prompt:
            return "(?=mail)\n(a"
        return "Sure, here they are:\n1. `(?i)weather|forecast`\n2. ^list_.*\n3. (a"

    chat_server.answer = answer
    method = indexed("regex(llm=some-model)")
    # The first pattern matches two tools, one of them by name; the second one by name; the third is broken.
    result = scores(method, "how will it be in Rome")
    assert result == pytest.approx({"list_cities": idf(2) + 3 * idf(1), "getWeatherReport": 3 * idf(2)}, rel=1e-6)
    ranking = method.rank(Queries(("unspeakable", "broken", " "), np.arange(3)), 4)
    assert ranking.failed is not None
    assert ranking.failed.tolist() == [True, False, False]
    assert (ranking.tools == -1).all()
    assert needs_llm(method)
    assert method.marks() == {}
    facts = check_facts(method)
    assert (facts["patterns"], facts["patterns_unusable"], facts["requests_without_pattern"]) == (2, 3, 1)
    assert "5 patterns at most, each of 200 characters" in chat_server.prompts[0]
