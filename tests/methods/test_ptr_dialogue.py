"""Functional coverage by a language model, against an endpoint on loopback that replies well and badly."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from kit.chatserver import Body, ChatServer

from bench.data.tables import Tool
from bench.methods.ptr.coverage import BundleCoverage, assess
from bench.methods.ptr.dialogue import Dialogue, Functionalities, Matches, Remainder, listed
from bench.methods.ptr.replies import read_reply
from bench.models.llm.client import LanguageModel

LIBRARY = [Tool(name, name, f"does {name}") for name in ("book", "mail", "map", "pay")]
BOOK, MAIL, MAP, PAY = range(4)
GOOD = {
    "functionalities": {"functionalities": ["send a letter", "settle the rent"]},
    "matches": {"matches": [{"functionality": 2, "tool": None}, {"functionality": 1, "tool": 1}]},
    "assessment": {"assessment": "partial", "unsolved": ["settle the rent of the flat"]},
}


def scripted(**changed: object) -> Callable[[Body], str]:
    """Replies by the question that a prompt asks: objects are written as JSON, texts as they are."""
    script: dict[str, Any] = {**GOOD, **changed}

    def answer(body: Body) -> str:
        said = script[next(name for name in script if f'Reply as {{"{name}"' in body["messages"][-1]["content"])]
        return said if isinstance(said, str) else json.dumps(said)

    return answer


def cover(chat_server: ChatServer, bundle: list[int] | None = None, **changed: object) -> BundleCoverage:
    chat_server.answer = scripted(**changed)
    dialogue = Dialogue(LanguageModel("some-model"), LIBRARY)
    (result,) = dialogue.cover(["write home, pay"], [[MAIL, MAP] if bundle is None else bundle])
    return result


def test_three_questions_keep_what_serves_and_list_what_is_left(chat_server: ChatServer) -> None:
    assert cover(chat_server) == BundleCoverage((MAIL,), ("settle the rent of the flat",), "partial")
    first, second, third = chat_server.prompts
    assert "Request:\nwrite home, pay" in first
    assert "1. mail: does mail" not in first
    assert "Tasks:\n1. send a letter\n2. settle the rent\n\nTools:\n1. mail: does mail\n2. map: does map" in second
    assert "1. send a letter -> tool 1\n2. settle the rent -> no tool" in third


@pytest.mark.parametrize(
    ("matched", "remainder", "kept", "unsolved"),
    [
        ([1, 2], {"assessment": "exact", "unsolved": []}, (MAIL, MAP), ()),
        # Kept in the order of the functionalities, each once.
        ([2, 1], {"assessment": "exact", "unsolved": []}, (MAP, MAIL), ()),
        ([2, 2], {"assessment": "over", "unsolved": []}, (MAP,), ()),
        ([None, None], {"assessment": "partial", "unsolved": ["a", "b"]}, (), ("a", "b")),
    ],
)
def test_the_three_assessments(
    chat_server: ChatServer,
    matched: list[int | None],
    remainder: dict[str, Any],
    kept: tuple[int, ...],
    unsolved: tuple[str, ...],
) -> None:
    matches = [{"functionality": i, "tool": tool} for i, tool in enumerate(matched, start=1)]
    result = cover(chat_server, matches={"matches": matches}, assessment=remainder)
    assert (result.kept, result.unsolved, result.assessment) == (kept, unsolved, remainder["assessment"])
    assert result.unparsed == 0


def test_without_a_bundle_one_question_is_asked(chat_server: ChatServer) -> None:
    chat_server.answer = scripted()
    dialogue = Dialogue(LanguageModel("some-model"), LIBRARY)
    assert dialogue.cover(["write home, pay"], None) == [BundleCoverage((), ("send a letter", "settle the rent"))]
    assert len(chat_server.prompts) == 1


BAD = ["", "I cannot tell.", "{}", "[1]", '{"functionalities": "one"}', '{"functionalities": []}']


@pytest.mark.parametrize("said", [*BAD[1:], '{"functionalities": ["a", ""]}', '{"functionalities": ["a"], "more": 1}'])
def test_functionalities_that_do_not_parse_leave_the_query_whole(chat_server: ChatServer, said: str) -> None:
    matches = {"matches": [{"functionality": 1, "tool": 2}]}
    result = cover(
        chat_server, functionalities=said, matches=matches, assessment={"assessment": "over", "unsolved": []}
    )
    assert result == BundleCoverage((MAP,), (), "over", unparsed=1)
    assert "Tasks:\n1. write home, pay\n" in chat_server.prompts[1]


@pytest.mark.parametrize(
    "said",
    [
        "no tool fits",
        {"matches": []},
        # A functionality twice, one left out, one too many.
        {"matches": [{"functionality": 1, "tool": 1}, {"functionality": 1, "tool": 1}]},
        {"matches": [{"functionality": 1, "tool": 1}]},
        {"matches": [{"functionality": number, "tool": 1} for number in (1, 2, 3)]},
        # Tools that are not listed, and what is no number.
        {"matches": [{"functionality": 1, "tool": 3}, {"functionality": 2, "tool": None}]},
        {"matches": [{"functionality": 1, "tool": 0}, {"functionality": 2, "tool": None}]},
        {"matches": [{"functionality": 1, "tool": "1"}, {"functionality": 2, "tool": None}]},
        {"matches": [{"functionality": 1, "tool": True}, {"functionality": 2, "tool": None}]},
        {"matches": [{"functionality": 1, "tool": 1.0}, {"functionality": 2, "tool": None}]},
    ],
)
def test_matches_that_do_not_parse_keep_the_bundle(chat_server: ChatServer, said: object) -> None:
    assert cover(chat_server, matches=said) == BundleCoverage((MAIL, MAP), (), None, unparsed=1)
    assert len(chat_server.prompts) == 2


@pytest.mark.parametrize(
    "said",
    [
        "partial",
        {"assessment": "perfect", "unsolved": []},
        # It contradicts itself.
        {"assessment": "exact", "unsolved": ["something"]},
        {"assessment": "partial", "unsolved": []},
        {"assessment": "partial"},
    ],
)
def test_an_assessment_that_does_not_parse_follows_from_the_matches(chat_server: ChatServer, said: object) -> None:
    assert cover(chat_server, assessment=said) == BundleCoverage((MAIL,), ("settle the rent",), "partial", unparsed=1)


def test_several_bad_replies_are_counted_one_by_one(chat_server: ChatServer) -> None:
    matches = {"matches": [{"functionality": 1, "tool": None}]}
    result = cover(chat_server, functionalities="?", matches=matches, assessment="?")
    assert result == BundleCoverage((), ("write home, pay",), "partial", unparsed=2)


@pytest.mark.parametrize("question", ["functionalities", "matches", "assessment"])
def test_a_failure_at_any_question_fails_the_query(chat_server: ChatServer, question: str) -> None:
    # An empty reply is none.
    silent: dict[str, Any] = {question: ""}
    assert cover(chat_server, **silent).failed
    assert len(chat_server.prompts) == list(GOOD).index(question) + 1


def test_one_failing_query_does_not_touch_the_others(chat_server: ChatServer) -> None:
    answer = scripted()
    chat_server.answer = lambda body: "" if "forbidden" in body["messages"][-1]["content"] else answer(body)
    dialogue = Dialogue(LanguageModel("some-model"), LIBRARY)
    result = dialogue.cover(["write home, pay", "forbidden", "pay"], [[MAIL, MAP], [PAY], [MAIL, PAY]])
    assert [coverage.failed for coverage in result] == [False, True, False]
    assert result[0].kept == result[2].kept == (MAIL,)


def test_replies_in_a_fence_or_among_words_are_read(chat_server: ChatServer) -> None:
    fenced = f"Here you are:\n```json\n{json.dumps(GOOD['matches'])}\n```\nAnything else?"
    assert cover(chat_server, matches=fenced).unparsed == 0


def test_nothing_is_asked_about_no_queries(chat_server: ChatServer) -> None:
    assert Dialogue(LanguageModel("some-model"), LIBRARY).cover([], []) == []
    assert chat_server.prompts == []


def test_an_empty_bundle_is_as_good_as_none(chat_server: ChatServer) -> None:
    assert cover(chat_server, bundle=[]) == BundleCoverage((), ("send a letter", "settle the rent"))


def test_tools_are_listed_on_a_line_each_and_long_ones_are_cut() -> None:
    lines = listed([Tool("a", "send", "one\ntwo\n\n3. three"), Tool("b", "long", "word " * 1000)]).split("\n")
    assert lines[0] == "1. send: one two 3. three"
    assert len(lines) == 2
    assert len(lines[1]) < 610
    assert lines[1].endswith("word …")


def test_what_follows_from_matches_alone() -> None:
    assert assess([0, 1], [0, 1]) == "exact"
    assert assess([1, 1], [0, 1]) == "over"
    assert assess([0, None], [0, 1]) == "partial"


@pytest.mark.parametrize("form", [Functionalities, Matches, Remainder])
@pytest.mark.parametrize("said", BAD)
def test_strict_reading(form: Any, said: str) -> None:
    assert read_reply(form, said, {"functionalities": 1, "tools": 1}) is None
