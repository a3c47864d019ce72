"""PTR as its released code reads replies, beside the repaired reading: what is dropped, and that no bundle matters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.chatserver import Body, ChatServer
from kit.rankings import make_queries
from kit.validation import assert_conforms

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.evaluation.method_errors import check_facts
from bench.interface import Method, Queries, RecommendingMethod
from bench.methods.ptr.replies import nonblank_lines, released_match
from bench.registry import build_method

Make = Callable[..., Dataset]
Prepared = Callable[..., Method]
Planted = Callable[[Mapping[str, Sequence[float]]], None]

TOOLS = {"book": "lends novels", "mail": "posts letters", "map": "draws roads", "pay": "moves money"}
BOOK, MAIL, MAP, PAY = range(4)
PAST = [("letters and maps", ["mail", "map"], "train"), ("bills", ["pay"], "train")]
VECTORS = {
    "lends novels": (1, 0, 0, 0),
    "posts letters": (0, 1, 0, 0),
    "draws roads": (0, 0, 1, 0),
    "moves money": (0, 0, 0, 1),
    "name of mail: posts letters\nname of map: draws roads": (0, 0.8, 0.6, 0),
    "name of pay: moves money": (0, 0, 0, 1),
    "letters and maps": (0, 0.6, 0.8, 0),
    "bills": (0, 0, 0.3, 0.9),
    "write home, and settle the rent": (0, 1, 0.2, 0.1),
    "write home": (0, 0.1, 0, 1),
    "settle the rent": (1, 0, 0, 0.1),
}
QUERY = "write home, and settle the rent"


def answer(body: Body) -> str:
    """One opinion in the form that is asked for: mail writes home if it is listed, and nobody settles the rent."""
    prompt = body["messages"][-1]["content"]
    if '{"functionalities"' in prompt:
        return json.dumps({"functionalities": ["write home", "settle the rent"]})
    if '{"matches"' in prompt:
        listed = re.search(r"^(\d+)\. .*posts letters", prompt, re.MULTILINE)
        tools = [int(listed[1]) if listed else None, None]
        return json.dumps({"matches": [{"functionality": i, "tool": tool} for i, tool in enumerate(tools, start=1)]})
    if '{"assessment"' in prompt:
        left = ["settle the rent"] if "-> tool" in prompt else ["write home", "settle the rent"]
        return json.dumps({"assessment": "partial", "unsolved": left})
    if prompt.startswith("List what"):
        return "- write home\n- settle the rent\n"
    return "- name of mail: posts letters" if "posts letters" in prompt and "write home" in prompt else "- none"


@pytest.fixture
def ptr(make: Make, prepared: Prepared, planted: Planted, chat_server: ChatServer) -> Callable[[str], Method]:
    """PTR with planted vectors and a model that answers as above."""
    planted(VECTORS)
    chat_server.answer = answer
    data = make(TOOLS, PAST)
    return lambda parameters: prepared(f"ptr(llm=some-model, view_size=1, {parameters})", data)


def chosen(method: Method, *texts: str) -> list[list[int]]:
    assert isinstance(method, RecommendingMethod)
    result = method.recommend(make_queries(*texts))
    return [result.row(i).tolist() for i in range(len(result))]


def test_the_released_filter_drops_the_tool_that_the_repaired_reading_keeps(ptr: Callable[[str], Method]) -> None:
    # The bundle is {mail, map}, and the model says that mail serves. By the planted vectors the views put pay first
    # for "write home", and book for "settle the rent".
    assert chosen(ptr("variant=repaired"), QUERY) == [[MAIL, BOOK]]
    assert chosen(ptr("variant=released"), QUERY) == [[PAY, BOOK]]


def test_as_released_every_retriever_has_the_same_answer(ptr: Callable[[str], Method]) -> None:
    retrievers = ["dense", "bm25-okapi", "random", "random-bundle(draw=bundles, seed=1)", "none"]
    as_released = {name: chosen(ptr(f"variant=released, retriever={name}"), QUERY) for name in retrievers}
    assert list(as_released.values()) == [[[PAY, BOOK]]] * len(retrievers)
    repaired = {name: chosen(ptr(f"retriever={name}"), QUERY) for name in retrievers}
    assert repaired["dense"] == [[MAIL, BOOK]] != repaired["none"] == [[PAY, BOOK]]


def test_one_question_for_the_query_and_one_for_each_requirement(
    ptr: Callable[[str], Method], chat_server: ChatServer
) -> None:
    method = ptr("variant=released")
    chosen(method, QUERY)
    assert len(chat_server.prompts) == 3
    assert [len(request["messages"]) for request in chat_server.requests] == [1, 1, 1]
    facts = check_facts(method)
    expected = {"assessed_partial": 1, "tools_dropped": 2, "tools_added": 2, "unsolved_problems": 2}
    assert {name: facts[name] for name in expected} == expected


def test_a_line_that_begins_with_tool_solves_and_adds_nothing(
    ptr: Callable[[str], Method], chat_server: ChatServer
) -> None:
    chat_server.answer = lambda body: (
        answer(body) if "List what" in body["messages"][-1]["content"] else "Tools: none of these."
    )
    method = ptr("variant=released")
    assert chosen(method, QUERY) == [[]]
    assert check_facts(method)["assessed_exact"] == 1


def test_a_query_without_a_reply_fails(ptr: Callable[[str], Method], chat_server: ChatServer) -> None:
    chat_server.answer = lambda body: "" if "Task:\nsettle" in body["messages"][-1]["content"] else answer(body)
    ranking = ptr("variant=released").rank(Queries((QUERY,), np.arange(1)), 4)
    assert ranking.failed is not None
    assert ranking.failed.tolist() == [True]


@pytest.mark.parametrize("parameters", ["llm=rules", "llm=trained", "llm=some-model, coverage=false"])
def test_without_a_language_model_there_is_nothing_to_read(parameters: str, chat_server: ChatServer) -> None:
    with pytest.raises(UsageError, match="variant=released needs a language model"):
        build_method(f"ptr(variant=released, {parameters})")


@pytest.mark.parametrize(
    ("reply", "lines", "match"),
    [
        ("- NewsTool: news\n- FinanceTool: stocks", ["NewsTool: news", "FinanceTool: stocks"], False),
        ("- Tool A: all of it", ["Tool A: all of it"], True),
        ("Matched:\n\n-- Tools", ["Matched:", "Tools"], True),
        ("- tool", ["tool"], False),
        ("**Tool**", ["**Tool**"], False),
        ("", [], False),
        ("---", [""], False),
    ],
)
def test_lines_are_read_as_the_released_code_reads_them(reply: str, lines: list[str], match: bool) -> None:
    assert nonblank_lines(reply) == lines
    assert released_match(reply) == match


@given(st.text())
def test_every_reply_can_be_read(text: str) -> None:
    lines = nonblank_lines(text)
    assert len(lines) <= text.count("\n") + 1
    assert released_match(text) == any(line[:4] == "Tool" for line in lines)


def test_it_keeps_the_protocol(make: Make, chat_server: ChatServer) -> None:
    chat_server.answer = lambda body: ["- write a letter", "- Tool", "- mail: posts letters", "", "none"][
        sum(body["messages"][-1]["content"].encode()) % 5
    ]
    data = make(TOOLS, [*PAST, ("read a novel", ["book"], "dev")], test="write a letter and pay the bill")
    # One query is too few to tell whether it looks at them.
    assert_conforms("ptr(llm=some-model, variant=released)", data, skipped=["queries"])
