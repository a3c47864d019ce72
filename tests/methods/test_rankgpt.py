"""RankGPT: windows and permutations by hand, against an endpoint on loopback that orders well, badly and not at all."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.chatserver import Body, ChatServer
from kit.rankings import make_queries, returned
from kit.validation import assert_conforms

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.evaluation.method_errors import check_facts
from bench.interface import Method, Queries
from bench.interface.parts import needs_llm
from bench.methods.rankgpt import read_permutation, window_starts
from bench.registry import build_method

Make = Callable[..., Dataset]
Prepared = Callable[..., Method]

#: By bm25, `word` ranks t0, t1, t2, ... (the shorter, the better).
TOOLS = {f"t{number}": f"word {'more ' * number}grade{number}" for number in range(7)}


def order(method: Method, text: str = "word", depth: int = 10) -> list[int]:
    return returned(method.rank(make_queries(text), depth))


def by_grade(body: Body) -> str:
    """The tools of a prompt, the highest grade first."""
    prompt = body["messages"][-1]["content"]
    matches = re.findall(r"^\[(\d+)\] .*grade(\d+)", prompt, re.MULTILINE)
    return " > ".join(f"[{number}]" for number, _ in sorted(matches, key=lambda pair: -int(pair[1])))


def test_the_window_slides_from_the_end(make: Make, prepared: Prepared, chat_server: ChatServer) -> None:
    chat_server.answer = by_grade
    data = make(TOOLS)
    assert order(prepared("bm25", data)) == [0, 1, 2, 3, 4, 5, 6]
    method = prepared("rankgpt(base=bm25, llm=some-model, depth=6, window=4, step=2)", data)
    # [2 3 4 5] -> 5 4 3 2; [0 1 5 4] -> 5 4 1 0. The seventh is not reranked.
    assert order(method) == [5, 4, 1, 0, 3, 2, 6]
    assert len(chat_server.requests) == 2
    assert needs_llm(method)
    assert "[1] name of t2: word" in chat_server.prompts[0]
    assert "Rank the 4 tools" in chat_server.prompts[0]
    assert [order(method, depth=depth) for depth in (1, 3)] == [[5], [5, 4, 1]]


@pytest.mark.parametrize(
    ("tools", "window", "step", "starts"),
    [
        (100, 20, 10, [80, 70, 60, 50, 40, 30, 20, 10, 0]),
        (25, 20, 10, [5, 0]),
        (20, 20, 10, [0]),
        (3, 20, 10, [0]),
        (1, 20, 10, []),
        (0, 20, 10, []),
        (6, 4, 4, [2, 0]),
    ],
)
def test_windows(tools: int, window: int, step: int, starts: list[int]) -> None:
    assert window_starts(tools, window, step) == starts


@given(st.integers(2, 60), st.integers(2, 20), st.integers(1, 20))
def test_windows_cover_every_tool_and_reach_the_top(tools: int, window: int, step: int) -> None:
    starts = window_starts(tools, window, min(step, window))
    assert starts[-1] == 0
    assert {place for start in starts for place in range(start, min(tools, start + window))} == set(range(tools))


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("[2] > [1] > [3]", [1, 0, 2]),
        ("Sure! Of the 3 tools: [3] > [3] > [9] > [0]", [2, 0, 1]),
        ("3, 1", [2, 0, 1]),
        ("[ 2 ]>[1]", [1, 0, 2]),
        ("I cannot rank them.", None),
        ("[99999999999999999999]", None),
        ("", None),
    ],
)
def test_permutations_are_read(reply: str, found: list[int] | None) -> None:
    assert read_permutation(reply, 3) == found


@given(st.text("0123456789[]> ab", max_size=100), st.integers(1, 12))
def test_whatever_the_reply_every_tool_stays(reply: str, count: int) -> None:
    permutation = read_permutation(reply, count)
    assert permutation is None or sorted(permutation) == list(range(count))


def test_a_useless_reply_leaves_the_order_and_a_missing_one_fails(
    make: Make, prepared: Prepared, chat_server: ChatServer
) -> None:
    chat_server.answer = lambda body: "" if "unspeakable" in body["messages"][-1]["content"] else "No."
    method = prepared("rankgpt(base=bm25, llm=some-model, window=4, step=2)", make(TOOLS))
    ranking = method.rank(Queries(("word", "word unspeakable"), np.arange(2)), 7)
    assert ranking.failed is not None
    assert ranking.failed.tolist() == [False, True]
    assert ranking.tools[0].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert (ranking.tools[1] == -1).all()
    assert check_facts(method)["replies_unusable"] == 3


def test_what_it_needs(make: Make, prepared: Prepared) -> None:
    with pytest.raises(UsageError, match="needs a language model"):
        prepared("rankgpt", make(TOOLS))
    with pytest.raises(UsageError, match="step=30 is more than window=20"):
        build_method("rankgpt(llm=some-model, step=30)")


def test_it_keeps_the_protocol_and_replays(
    make: Make, prepared: Prepared, chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def say(body: Body) -> str:
        number: int = sum(body["messages"][-1]["content"].encode()) % 4
        return ["", "no", "[2] > [1]", by_grade(body)][number]

    chat_server.answer = say
    data = make(TOOLS, [("word", ["t1"], "dev")], test="word more")
    spec = "rankgpt(llm=some-model, base=bm25, window=3, step=2)"
    assert_conforms(spec, data)
    first = order(prepared(spec, data), "word more")
    chat_server.close()
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    assert order(prepared(spec, data), "word more") == first
