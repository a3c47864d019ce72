"""The choice of a model among retrieved tools: forms, orders and faults, against a scripted endpoint on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.chatserver import Body, ChatServer, changed, message, usage
from kit.rankings import make_queries, returned
from kit.validation import assert_conforms

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.data.tables import Parameter, Tables, Tool
from bench.interface import Library, Method, Queries, RecommendingMethod
from bench.interface.parts import is_oracle, reveal
from bench.methods.choose import arguments_fit, called_names, provider_schema
from bench.registry import build_method

Make = Callable[..., Dataset]
Prepared = Callable[..., Method]

#: By bm25, `word` ranks a, b, c, ... (the shorter, the better).
TOOLS = {name: f"word {'more ' * number}" for number, name in enumerate("abcdef")}
SHOWN = "choose(base=bm25, llm=some-model, shown=3{})"


def chosen(method: Method, text: str = "word") -> tuple[list[int], list[int], dict[str, Any]]:
    """The chosen codes, the ranking, and the note of one request."""
    queries = make_queries(text)
    assert isinstance(method, RecommendingMethod)
    ranking = method.rank(queries, 10)
    assert ranking.notes is not None
    row = returned(ranking)
    return method.recommend(queries).row(0).tolist(), row, json.loads(ranking.notes[0] or "null")


def failed(method: Method, text: str = "word") -> bool:
    """Whether the request counts as failed; its ranking is then empty, and nothing is recommended."""
    queries = make_queries(text)
    assert isinstance(method, RecommendingMethod)
    ranking = method.rank(queries, 10)
    if ranking.failed is None or not ranking.failed[0]:
        return False
    assert not (ranking.tools >= 0).any()
    assert not len(method.recommend(queries).row(0))
    return True


def offered(body: Body) -> list[str]:
    return [tool["function"]["name"] for tool in body["tools"]]


def test_what_it_calls_is_recommended_and_comes_first(make: Make, prepared: Prepared, chat_server: ChatServer) -> None:
    chat_server.calls = lambda body: [("name_of_c", "{}"), ("name_of_a", "{}"), ("name_of_c", "{}")]
    tools, ranking, note = chosen(prepared(SHOWN.format(""), make(TOOLS)))
    assert tools == [2, 0]
    assert ranking == [2, 0, 1]
    assert len(chat_server.requests) == 1
    (body,) = chat_server.requests
    assert sorted(offered(body)) == ["name_of_a", "name_of_b", "name_of_c"]
    assert body["messages"][-1]["content"] == "word"
    assert "response_format" not in body
    assert note["called"] == ["name_of_c", "name_of_a", "name_of_c"]
    assert sorted(note["shown"]) == ["a", "b", "c"]
    assert note["faults"] == []
    assert note["seconds"] >= 0


def test_no_call_is_no_tool(make: Make, prepared: Prepared, chat_server: ChatServer) -> None:
    chat_server.answer = lambda body: "None of these tools fits."
    tools, ranking, note = chosen(prepared(SHOWN.format(""), make(TOOLS)))
    assert (tools, ranking, note["faults"]) == ([], [0, 1, 2], [])


@pytest.mark.parametrize(
    ("calls", "answer", "tools", "faults"),
    [
        ([("name_of_b", "{}"), ("delete_all", "{}")], "", [1], ["unknown name"]),
        ([("name_of_f", "{}")], "", [], ["unknown name"]),  # a tool of the library that was not shown
        ([("name_of_b", '{"half": ')], "", [1], ["arguments"]),
        ([("name_of_b", "[1]")], "", [1], ["arguments"]),
        ([("name_of_b", '{"x": 1, "x": 2}')], "", [1], ["arguments"]),
        ([("name_of_b", "")], "", [1], []),
        ([], '```json\n{"name": "name_of_b", "arguments": {}}\n```', [], ["call in text"]),
        ([], '{"name": "another"}', [], []),
        ([("name_of_a", "{}")] * 1000, "", [0], []),
    ],
)
def test_faults_are_counted_and_the_rest_counts(
    calls: list[tuple[str, str]],
    answer: str,
    tools: list[int],
    faults: list[str],
    make: Make,
    prepared: Prepared,
    chat_server: ChatServer,
) -> None:
    chat_server.calls, chat_server.answer = (lambda body: calls), (lambda body: answer)
    method = prepared(SHOWN.format(""), make(TOOLS))
    recommended, _, note = chosen(method)
    assert (recommended, note["faults"]) == (tools, faults)
    assert len(note["called"]) <= 20
    counts = method.facts()
    assert {kind: counts[f"replies: {kind}"] for kind in faults} == dict.fromkeys(faults, 1)
    assert sum(int(count) for count in counts.values()) == len(faults)
    # A reply of which nothing is left is none, and no abstention.
    assert failed(method) == (bool(faults) and not tools)


@pytest.mark.parametrize(
    "calls", ["many", [3], [{"function": {"name": 3}}], [{"function": {"name": "a", "arguments": {}}}]]
)
def test_calls_that_are_none_are_asked_again_and_fail(
    calls: object, make: Make, prepared: Prepared, chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.models.llm.transport.FIRST_WAIT", 0.001)
    chat_server.fault = message(tool_calls=calls)
    method = prepared(SHOWN.format(""), make(TOOLS))
    queries = make_queries("word")
    ranking = method.rank(queries, 10)
    assert ranking.failed is not None
    assert ranking.failed.tolist() == [True]
    assert "tool call" in json.loads((ranking.notes or ("null",))[0] or "null")["failed"]


@pytest.mark.parametrize(
    ("form", "answer", "tools", "faults"),
    [
        ("json", '{"tools": ["name_of_b", "name_of_a"]}', [1, 0], []),
        ("json", '{"tools": []}', [], []),
        ("json", '{"tools": ["name_of_b", "what"]}', [1], ["unknown name"]),
        ("json", '{"tools": ["name_of_b"', [], ["unreadable"]),
        ("json", "I would take name_of_b.", [], ["unreadable"]),
        ("json", '{"tools": "name_of_b"}', [], ["unreadable"]),
        ("names", "name_of_b\nname_of_a", [1, 0], []),
        ("names", "1. name_of_b: it says word\n", [1], []),
        ("names", "`name_of_b`", [1], []),
        ("names", "None.", [], []),
        ("names", "tool number two", [], ["unknown name"]),
        ("names", "---", [], ["unreadable"]),
    ],
)
def test_forms_without_calls(
    form: str,
    answer: str,
    tools: list[int],
    faults: list[str],
    make: Make,
    prepared: Prepared,
    chat_server: ChatServer,
) -> None:
    chat_server.answer = lambda body: answer
    method = prepared(SHOWN.format(f", form={form}"), make(TOOLS))
    recommended, _, note = chosen(method)
    assert (recommended, note["faults"]) == (tools, faults)
    assert failed(method) == (bool(faults) and not tools)
    (body,) = chat_server.requests
    assert "tools" not in body
    assert ("response_format" in body) == (form == "json")
    assert "name_of_a: word" in chat_server.prompts[0]


def test_a_tool_may_be_called_none(prepared: Prepared, make: Make, chat_server: ChatServer) -> None:
    chat_server.answer = lambda body: "None"
    made = make({"a": "word", "b": "word more"})
    named = Tables([replace(tool, name="None") for tool in made.tools[:1]] + list(made.tools[1:]), list(made.queries))
    data = Dataset.build("made", made.card, named)
    tools, _, note = chosen(prepared(SHOWN.format(", form=names"), data))
    assert (tools, note["called"], note["faults"]) == ([data.tool_codes["a"]], ["None"], [])


@pytest.mark.parametrize("form", ["json", "names"])
def test_a_list_has_names_of_any_script(form: str, make: Make, prepared: Prepared, chat_server: ChatServer) -> None:
    # The model writes the accent as a sign of its own.
    said = ["name_of_名を探す", "name_of_cafe\u0301"]
    chat_server.answer = lambda body: json.dumps({"tools": said}) if form == "json" else "\n".join(said)
    data = make({"名を探す": "word", "café": "word more", "погода": "word more more"})
    tools, _, note = chosen(prepared(SHOWN.format(f", form={form}"), data))
    assert (len(tools), note["called"], note["faults"]) == (2, ["name_of_名を探す", "name_of_café"], [])
    assert "name_of_погода: word" in chat_server.prompts[0]


def test_a_reply_cut_short_says_so(make: Make, prepared: Prepared, chat_server: ChatServer) -> None:
    chat_server.answer = lambda body: "name_of_b"
    chat_server.fault = changed(lambda body: body["choices"][0].update(finish_reason="length"))
    tools, _, note = chosen(prepared(SHOWN.format(", form=names"), make(TOOLS)))
    assert (tools, note["faults"]) == ([1], ["cut short"])


def test_a_reply_that_a_filter_cut_is_counted_with_its_tokens(
    make: Make, prepared: Prepared, chat_server: ChatServer
) -> None:
    chat_server.fault = changed(lambda body: body["choices"][0].update(finish_reason="content_filter"))
    method = prepared(SHOWN.format(""), make(TOOLS))
    note = chosen(method)[2]
    assert failed(method)
    assert (note["failed"], note["faults"]) == ("the endpoint's filter withheld the reply", ["filtered"])
    assert (note["output_tokens"], "estimated" in note, method.facts()["replies: filtered"]) == (3, False, 1)
    chat_server.fault = usage(None)
    assert chosen(prepared(SHOWN.format(", seed=1"), make(TOOLS)))[2]["estimated"]


def test_the_endpoints_count_of_cached_tokens_is_kept(make: Make, prepared: Prepared, chat_server: ChatServer) -> None:
    chat_server.calls = lambda body: [("name_of_a", "{}")]

    def count(cached: object) -> dict[str, Any]:
        return {"prompt_tokens": 90, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": cached}}

    data = make(TOOLS)
    for seed, (said, kept) in enumerate([(64, 64), (91, 0), (-1, 0), ("64", 0), (True, 0)]):
        chat_server.fault = usage(count(said))
        note = chosen(prepared(SHOWN.format(f", seed={seed + 1}"), data), f"word {seed}")[2]
        assert (note["input_tokens"], note["cached_tokens"], note["output_tokens"]) == (90, kept, 3)


def test_orders(make: Make, prepared: Prepared, chat_server: ChatServer) -> None:
    data = make(TOOLS)
    chosen(prepared(SHOWN.format(", order=ranked"), data))
    assert offered(chat_server.requests[-1]) == ["name_of_a", "name_of_b", "name_of_c"]
    seen = set()
    for seed in range(12):
        method = prepared(SHOWN.format(f", seed={seed}"), data)
        chosen(method)
        seen.add(tuple(offered(chat_server.requests[-1])))
        # The same in any batch.
        queries = Queries(("other word", "word"), np.array([4, 7]))
        method.rank(queries, 10)
    assert len(seen) > 3


def test_all_tools_and_too_many_of_them(make: Make, prepared: Prepared, chat_server: ChatServer) -> None:
    chosen(prepared("choose(base=bm25, llm=some-model, shown=0)", make(TOOLS)))
    assert len(offered(chat_server.requests[0])) == len(TOOLS)
    many = make({f"t{number:05}": "a tool " * 20 for number in range(5000)})
    with pytest.raises(UsageError, match=r"5,000 tools take about 3\d\d,\d\d\d tokens, more than the 100,000"):
        prepared("choose(base=bm25, llm=some-model, shown=0)", many)
    with pytest.raises(UsageError, match="needs a language model"):
        prepared("choose(base=bm25)", make(TOOLS))


def test_a_replay_needs_no_endpoint_and_gives_the_same(
    make: Make, prepared: Prepared, chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_server.calls = lambda body: [("name_of_b", '{"x": "\\ud800"}'), ("nobody", "{}")]
    data = make(TOOLS)
    first = chosen(prepared(SHOWN.format(""), data))
    chat_server.close()
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    assert chosen(prepared(SHOWN.format(""), data)) == first
    # Other definitions of the same names are another request.
    with pytest.raises(Exception, match="lacks 1 of the replies"):
        chosen(prepared(SHOWN.format(""), make({name: f"{text} anew" for name, text in TOOLS.items()})))


def test_an_endpoint_keeps_the_protocol(make: Make, chat_server: ChatServer) -> None:
    chat_server.calls = lambda body: [(offered(body)[0], "{}")]
    data = make(TOOLS, [("read", ["a"], "dev")], test="a word")
    assert_conforms("choose(base=bm25, llm=some-model)", data)


# What is shown to a provider ----------------------------------------------------------------------------------------


def named(*names: tuple[str, str]) -> list[Tool]:
    return [Tool(f"t{i}", name, "", parent=parent) for i, (name, parent) in enumerate(names)]


def test_names_are_legal_and_distinct() -> None:
    tools = named(
        ("get user", "a"), ("get/user", "b"), ("get user", ""), ("get.user", ""), ("日本", ""), ("x" * 90, "")
    )
    assert called_names(tools) == ["get_user", "b_get_user", "get_user_2", "get_user_3", "tool", "x" * 64]
    # A list in a prompt may be of any script.
    listed = called_names(tools, any_script=True)
    assert listed == ["get_user", "b_get_user", "get_user_2", "get_user_3", "日本", "x" * 64]
    assert called_names(named(("मौसम खोज", ""), ("cafe\u0301: \u202eà", ""), ("\u200d", "")), any_script=True) == [
        "मौसम_खोज",
        "café_à",
        "tool",
    ]


@given(st.lists(st.tuples(st.text(max_size=70), st.text(max_size=20)), max_size=12))
def test_whatever_tools_are_called_their_names_are_legal_and_distinct(names: list[tuple[str, str]]) -> None:
    legal, listed = (called_names(named(*names), any_script) for any_script in (False, True))
    assert len(set(legal)) == len(set(listed)) == len(names)
    assert all(1 <= len(name) <= 64 and len(name.split()) == 1 and ":" not in name for name in listed)
    if all(name.isascii() and parent.isascii() for name, parent in names):
        assert listed == legal
    assert all(
        1 <= len(name) <= 64 and name.isascii() and name.replace("-", "a").replace("_", "a").isalnum() for name in legal
    )


def test_schemas_have_the_types_of_json_schema() -> None:
    given_ = (Parameter("n", "INT", "how many"), Parameter("when", "DATE", required=False), Parameter("odd", "thing"))
    schema = provider_schema(Tool("t", "t", "", parameters=given_))
    assert schema["properties"] == {
        "n": {"description": "how many", "type": "integer"},
        "when": {"type": "string"},
        "odd": {},
    }
    assert schema["required"] == ["n", "odd"]
    for text in ("[]", "true", '{"type": "string"}'):
        assert provider_schema(Tool("t", "t", "", input_schema=text)) == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("schema", "arguments", "fit"),
    [
        ({"properties": {"n": {"type": "integer"}}, "required": ["n"]}, '{"n": 3}', True),
        ({"properties": {"n": {"type": "integer"}}, "required": ["n"]}, '{"n": "3"}', False),
        ({"properties": {"n": {"type": "integer"}}, "required": ["n"]}, "{}", False),
        ({"properties": {"s": {"enum": ["a", "b"]}}}, '{"s": "c"}', False),
        # A pattern that takes for ever is not tried, and a property of that name is one.
        ({"properties": {"s": {"pattern": "(a+)+$"}}}, json.dumps({"s": "a" * 60 + "!"}), True),
        ({"properties": {"pattern": {"type": "string"}}}, '{"pattern": 3}', False),
        # Other documents are not fetched.
        ({"properties": {"s": {"$ref": "http://127.0.0.1:9/x"}}}, '{"s": 1}', True),
        ({"properties": {"s": {"type": "no type"}}}, '{"s": 1}', True),
        ({}, "[" * 100_000, False),
        ({}, '{"a": NaN', False),
    ],
)
def test_arguments(schema: dict[str, Any], arguments: str, fit: bool) -> None:
    tool = Tool("t", "t", "", input_schema=json.dumps({"type": "object", **schema}))
    assert arguments_fit(arguments, tool) is fit


# Gold put in and left out ------------------------------------------------------------------------------------------


def planted(data: Dataset, prepared: Prepared, spec: str, depth: int) -> list[int]:
    method = build_method(spec)
    assert is_oracle(method)
    reveal(method, data.gold.take(data.rows("test")))
    return returned(prepared(method, data).rank(make_queries("word"), depth))


def test_gold_is_put_in_front_or_left_out(make: Make, prepared: Prepared) -> None:
    data = make({**TOOLS, "Z": "nothing of that"})
    gold = data.tool_codes["Z"]
    assert planted(data, prepared, "planted(base=bm25)", 3) == [gold, 1, 2]
    assert planted(data, prepared, "planted(base=bm25, gold=out)", 3) == [1, 2, 3]
    everything = planted(data, prepared, "planted(base=bm25, gold=out)", 10)
    assert gold not in everything
    assert len(everything) == len(TOOLS)
    assert len(Library.of(data, "description")) == 7
