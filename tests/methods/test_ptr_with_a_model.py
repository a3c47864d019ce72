"""PTR with a language model, against an endpoint on loopback: stages, failures, bad replies, replay, conformance."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from kit.chatserver import Body, ChatServer
from kit.rankings import make_queries
from kit.validation import assert_conforms

from bench.base.errors import UnavailableError
from bench.data.dataset import Dataset
from bench.evaluation.method_errors import check_facts
from bench.interface import Method, RecommendingMethod
from bench.interface.parts import revisions
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
    "write home": (0, 1, 0.2, 0.1),
    "unspeakable": (0.1, 0, 1, 0),
    "borrow a novel": (1, 0, 0, 0.1),
    "settle the rent": (0.1, 0, 0, 1),
}


def answer(body: Body) -> str:
    """What a sensible model says: letters go by mail, and there is rent to settle; nothing about the unspeakable."""
    prompt = body["messages"][-1]["content"]
    if "unspeakable" in prompt:
        return ""
    if '{"functionalities"' in prompt:
        return json.dumps(
            {"functionalities": ["borrow a novel"] if "novel" in prompt else ["write", "settle the rent"]}
        )
    if '{"matches"' in prompt:
        matches = [{"functionality": 1, "tool": 1}, {"functionality": 2, "tool": None}]
        return json.dumps({"matches": matches if "2. settle" in prompt else [{"functionality": 1, "tool": None}]})
    left = "borrow a novel" if "novel" in prompt else "settle the rent"
    return json.dumps({"assessment": "partial", "unsolved": [left]})


@pytest.fixture
def ptr(make: Make, prepared: Prepared, planted: Planted, chat_server: ChatServer) -> Callable[..., Method]:
    """PTR with planted vectors and a model that answers as above."""
    planted(VECTORS)
    chat_server.answer = answer
    data = make(TOOLS, PAST)

    def ptr(parameters: str = "view_size=1") -> Method:
        return prepared(f"ptr(llm=some-model, {parameters})", data)

    return ptr


def sets(method: Method, *texts: str) -> list[list[int]]:
    assert isinstance(method, RecommendingMethod)
    result = method.recommend(make_queries(*texts))
    return [result.row(i).tolist() for i in range(len(result))]


def test_all_three_stages(ptr: Callable[..., Method], chat_server: ChatServer) -> None:
    method = ptr()
    # Bundle {mail, map}; mail serves, map does not; pay joins for what is left.
    assert sets(method, "write home") == [[MAIL, PAY]]
    assert len(chat_server.prompts) == 3
    # The query's cosines: mail, map 0.2, pay 0.1, book 0. The ranking asks nobody again.
    assert method.rank(make_queries("write home"), 10).tools.tolist() == [[MAIL, PAY, MAP, BOOK]]
    assert len(chat_server.prompts) == 3
    facts = check_facts(method)
    expected = {"assessed_partial": 1, "tools_dropped": 1, "tools_added": 1, "replies_unparsed": 0, "llm_calls": 3}
    assert {name: facts[name] for name in expected} == expected
    assert float(facts["input_tokens"]) > 0
    assert "cut" not in facts
    assert revisions(method)["llm"] == f"some-model at {chat_server.url}"
    assert method.marks() == {}


def test_without_bundle_acquisition_all_is_unsolved(ptr: Callable[..., Method], chat_server: ChatServer) -> None:
    assert sets(ptr("retriever=none, view_size=1"), "borrow a novel") == [[BOOK]]
    assert len(chat_server.prompts) == 1


def test_the_views_add_nothing_when_there_are_none(ptr: Callable[..., Method]) -> None:
    assert sets(ptr("views=[]"), "write home") == [[MAIL]]


def test_the_bundle_as_it_is_asks_nobody(ptr: Callable[..., Method], chat_server: ChatServer) -> None:
    assert sets(ptr("coverage=false"), "write home") == [[MAIL, MAP]]
    assert chat_server.requests == []


def test_a_query_without_a_reply_fails_and_the_others_are_answered(ptr: Callable[..., Method]) -> None:
    method = ptr()
    ranking = method.rank(make_queries("write home", "unspeakable", "borrow a novel"), 4)
    assert ranking.failed is not None
    assert ranking.failed.tolist() == [False, True, False]
    assert sets(method, "write home", "unspeakable", "borrow a novel") == [[MAIL, PAY], [], [BOOK]]
    assert check_facts(method)["llm_failures"] == 1


def test_replies_that_do_not_parse_are_counted(ptr: Callable[..., Method], chat_server: ChatServer) -> None:
    chat_server.answer = lambda body: "As I see it, all of them are fine."
    method = ptr()
    # The whole query is the functionality; without matches the bundle stays.
    assert sets(method, "write home") == [[MAIL, MAP]]
    assert check_facts(method)["replies_unparsed"] == 2
    method.rank(make_queries("write home"), 3)
    assert check_facts(method)["replies_unparsed"] == 2


def test_a_recorded_run_replays_offline_to_the_same_rankings(
    ptr: Callable[..., Method], chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ("write home", "unspeakable", "borrow a novel")
    live = ptr()
    first, chosen = live.rank(make_queries(*texts), 4), sets(live, *texts)
    asked_before = len(chat_server.requests)
    chat_server.close()
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    again = ptr()
    second = again.rank(make_queries(*texts), 4)
    assert second.tools.tobytes() == first.tools.tobytes()
    assert second.failed is not None
    assert first.failed is not None
    assert second.failed.tolist() == first.failed.tolist()
    assert sets(again, *texts) == chosen
    assert revisions(again) == revisions(live)
    facts = check_facts(again)
    assert (facts["llm_calls"], facts["llm_from_journal"]) == (0, asked_before)


def test_an_interrupted_run_asks_only_what_is_left(ptr: Callable[..., Method], chat_server: ChatServer) -> None:
    sets(ptr(), "write home")
    before = len(chat_server.requests)
    assert sets(ptr(), "write home", "borrow a novel") == [[MAIL, PAY], [BOOK]]
    assert len(chat_server.requests) == before + 3


def test_without_an_endpoint_or_a_journal_it_says_what_it_needs(
    ptr: Callable[..., Method], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("BENCH_LLM_URL", "BENCH_LLM_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("BENCH_LLM_JOURNAL", str(tmp_path / "none.jsonl"))
    with pytest.raises(UnavailableError, match="BENCH_LLM_URL"):
        ptr()


def test_a_retriever_that_asks_a_model_itself_is_refused() -> None:
    with pytest.raises(Exception, match="must find past bundles"):
        build_method("ptr(retriever=ptr(llm=some-model))")


def test_it_keeps_the_protocol(make: Make, chat_server: ChatServer) -> None:
    def say(body: Body) -> str:
        """Different for every prompt, often unusable, the same each time."""
        prompt: str = body["messages"][-1]["content"]
        number = sum(prompt.encode()) % 5
        replies: list[Any] = [
            {"functionalities": ["write a letter", "follow a letter"]},
            {"matches": [{"functionality": 1, "tool": 1}, {"functionality": 2, "tool": None}]},
            {"assessment": "partial", "unsolved": ["follow a letter"]},
            "I do not know.",
            "",
        ]
        questions = ('{"functionalities"', '{"matches"', '{"assessment"')
        return str(replies[number] if number > 2 else json.dumps(replies[[q in prompt for q in questions].index(True)]))

    chat_server.answer = say
    data = make(TOOLS, [*PAST, ("read a novel", ["book"], "dev")], test="write a letter and pay the bill")
    # One query is too few to tell whether it looks at them.
    assert_conforms("ptr(llm=some-model)", data, skipped=["queries"])
