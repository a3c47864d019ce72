"""What real logs hold beside clean conversations: pieces of streams, images, nulls, damage, too much."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import trafficlogs as logs
from kit.trafficlogs import HOURS, IMAGE, LETTER, SEARCH

from bench.base.errors import BenchError, DataError, UsageError
from bench.traces import reading
from bench.traces import traces as traffic
from bench.traces.fields import MOST_TEXT, seconds_of
from bench.traces.traces import Traffic, read_traffic

USER = {"role": "user", "content": HOURS}


def read(folder: Path, *rows: Any, **more: Any) -> Traffic:
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_traffic(path, **more)


def tools(folder: Path, *rows: Any, **more: Any) -> dict[str, list[str]]:
    return {row["query"]: row["tools"] for row in read(folder, *rows, **more).queries}


def delta(**fields: Any) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", "id": "c", "choices": [{"index": 0, "delta": fields}]}


def piece(index: int, arguments: str, name: str | None = None) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": arguments, **({"name": name} if name else {})}}


CHUNKS = [
    delta(role="assistant", content=None),
    delta(tool_calls=[piece(0, "", "find_tools")]),
    delta(tool_calls=[piece(0, '{"query": "opening ')]),
    delta(tool_calls=[piece(1, "{}", "places_find"), piece(0, 'hours of shops"}')]),
    {"choices": [], "usage": {}},
]
RESPONSE_EVENTS: list[dict[str, Any]] = [
    {"type": "response.created", "response": {"id": "r", "output": []}},
    {"type": "response.function_call_arguments.delta", "delta": "{"},
    {
        "type": "response.output_item.done",
        "item": {"type": "function_call", "name": "find_tools", "arguments": json.dumps({"query": SEARCH})},
    },
    {"type": "response.output_item.done", "item": {"type": "function_call", "name": "places_find", "arguments": "{}"}},
]
ANTHROPIC_EVENTS = [
    {"type": "message_start", "message": {"role": "assistant", "content": []}},
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "tool_use", "name": "find_tools", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": '{"query": "opening'},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": ' hours of shops"}'},
    },
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "name": "places_find", "input": {}},
    },
    {"type": "message_stop"},
]


@pytest.mark.parametrize(
    "answer",
    [
        CHUNKS,
        [f"data: {json.dumps(chunk)}" for chunk in CHUNKS] + ["data: [DONE]"],
        RESPONSE_EVENTS,
        [
            *RESPONSE_EVENTS,
            {
                "type": "response.completed",
                "response": {"output": [RESPONSE_EVENTS[2]["item"], RESPONSE_EVENTS[3]["item"]]},
            },
        ],
        ANTHROPIC_EVENTS,
    ],
    ids=["chat", "server-sent", "responses", "responses-completed", "anthropic"],
)
def test_the_pieces_of_a_stream_are_one_answer(answer: list[Any], tmp_path: Path) -> None:
    content = read(tmp_path, {"messages": [USER], "response": answer}, search_tools=["find_tools"])
    assert [(row["tools"], row["searches"]) for row in content.queries] == [(["places_find"], [SEARCH])]


ANTHROPIC = {
    "role": "assistant",
    "content": [{"type": "text", "text": "Hm."}, {"type": "tool_use", "id": "1", "name": "a", "input": {}}],
}
PARTS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {"role": "user", "content": [{"type": "text", "text": HOURS}, {"type": "image", "source": {}}]},
        ANTHROPIC,
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}]},
        {"role": "assistant", "content": [{"type": "mcp_tool_use", "server_name": "s", "name": "b", "input": {}}]},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": HOURS}]},
        {"role": "model", "parts": [{"functionCall": {"name": "a", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "a", "response": {}}}]},
        {"role": "model", "parts": [{"function_call": {"name": "s/b", "args": {}}}]},
    ],
    "vercel": [
        {"role": "user", "content": [{"type": "text", "text": HOURS}]},
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "1", "toolName": "a", "args": {}}]},
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "1", "toolName": "a", "result": 1}]},
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "2", "toolName": "s/b", "input": {}}]},
    ],
    "images-and-nulls": [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [IMAGE, {"type": "input_text", "text": HOURS}, None, 5]},
        {"role": "assistant", "content": None, "tool_calls": None},
        {"role": "assistant", "tool_calls": [logs.chat_call("a"), {"function": {"name": None}}, None, "x", {}]},
        {"role": "tool", "content": None},
        {"role": "assistant", "content": [], "function_call": {"name": "s/b", "arguments": "{"}},
    ],
    "langchain": [
        {"type": "human", "data": {"content": HOURS}},
        {"type": "ai", "data": {"content": "", "additional_kwargs": {"tool_calls": [logs.chat_call("a")]}}},
        {"type": "ai", "content": "", "tool_calls": [{"name": "s/b", "args": {}, "type": "tool_call"}]},
    ],
}


@pytest.mark.parametrize("form", PARTS)
def test_messages_of_other_models_are_read(form: str, tmp_path: Path) -> None:
    key = "contents" if form == "gemini" else "messages"
    assert tools(tmp_path, {key: PARTS[form]}) == {HOURS: ["a", "s/b"]}


def test_a_span_of_vercel_s_sdk(tmp_path: Path) -> None:
    call = json.dumps([{"toolCallId": "1", "toolName": "a", "args": "{}"}])
    chat = {"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": json.dumps(PARTS["vercel"][:1])}
    tool = {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "b"}
    spans = logs.otlp(
        logs.span(1, "ai.generateText.doGenerate", {**chat, "ai.response.toolCalls": call}),
        logs.span(2, "ai.toolCall", tool),
    )
    assert tools(tmp_path, *spans) == {HOURS: ["a", "b"]}
    whole = {"ai.operationId": "ai.generateText", "ai.prompt": json.dumps({"system": "s", "prompt": HOURS})}
    outer = logs.otlp(logs.span(0, "ai.generateText", {**whole, "ai.response.toolCalls": call}))
    content = read(tmp_path, *spans, *outer)
    assert [row["tools"] for row in content.queries] == [["a", "b"]]
    assert (content.requests, content.loose_calls) == (1, 0)


def test_single_spans_and_mcp_spans_are_read(tmp_path: Path) -> None:
    """As the console exporter of the SDK writes them: an object per span, attributes as an object."""
    by_key = {
        "name": "invoke_agent",
        "context": {"trace_id": "0x1", "span_id": "0x2"},
        "start_time": "2026-11-20T10:00:00.000000Z",
        "attributes": {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.input.messages": json.dumps([logs.parts(USER)]),
        },
    }
    called = {
        "name": "tools/call places_find",
        "context": {"trace_id": "0x1", "span_id": "0x3"},
        "start_time": "2026-11-20T10:00:01.000000Z",
        "attributes": {"mcp.method.name": "tools/call", "gen_ai.tool.name": "places_find"},
    }
    unnamed = {**called, "attributes": {"gen_ai.operation.name": "execute_tool"}, "name": "execute_tool places_hours"}
    assert tools(tmp_path, called, unnamed, by_key) == {HOURS: ["places_find", "places_hours"]}


def test_a_conversation_id_joins_traces(tmp_path: Path) -> None:
    first = logs.span(
        1, "chat", {"gen_ai.conversation.id": "c", "gen_ai.input.messages": json.dumps([logs.parts(USER)])}
    )
    tool = logs.span(
        2, "t", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "a", "gen_ai.conversation.id": "c"}
    )
    assert tools(tmp_path, *logs.otlp(first, {**tool, "traceId": "other"})) == {HOURS: ["a"]}


def test_a_span_without_messages_tells_the_conversation_of_its_trace(tmp_path: Path) -> None:
    def trace(number: int, text: str, tool: str) -> list[dict[str, Any]]:
        chat = {"gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}])}
        answer = {
            "gen_ai.output.messages": json.dumps(
                [{"role": "assistant", "parts": [{"type": "tool_call", "name": tool}]}]
            )
        }
        spans = [
            logs.span(number, "chat", {**chat, **answer}),
            logs.span(number, "run", {"gen_ai.conversation.id": "c"}),
        ]
        return logs.otlp(*({**each, "traceId": f"t{number}"} for each in spans))

    first, second = read(tmp_path, *trace(1, HOURS, "a"), *trace(2, LETTER, "b")).queries
    assert first["group"] == second["group"]
    assert second["context"] == [{"role": "user", "content": HOURS}]


def test_what_an_exporter_cut_is_no_request(tmp_path: Path) -> None:
    messages = json.dumps([logs.parts(USER)])
    called = {
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "tool_call", "name": "a"}]}])
    }
    spans = [logs.span(1, "chat", {"gen_ai.input.messages": messages[:40], **called})]
    flat = {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": '[{"type": "text", "text": "When do', **called}
    spans.append({**logs.span(2, "chat", flat), "traceId": "other"})
    with pytest.raises(
        DataError, match=r"the request has no text \(requests: 1\); calls have no request of a user \(calls: 1\)"
    ):
        read(tmp_path, *logs.otlp(*spans))


def test_batches_have_requests_and_answers_in_files_of_their_own(tmp_path: Path) -> None:
    by_key = {
        "custom_id": "n1",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "m", "messages": [USER]},
    }
    answered = {"id": "b", "custom_id": "n1", "response": {"status_code": 200, "body": logs.chat_answer("a", "b")}}
    (tmp_path / "in.jsonl").write_text(json.dumps(by_key))
    (tmp_path / "out.jsonl").write_text(json.dumps(answered))
    (row,) = read_traffic([tmp_path / "in.jsonl", tmp_path / "out.jsonl"]).queries
    assert (row["query"], row["tools"]) == (HOURS, ["a", "b"])


def test_answers_under_an_id_that_two_requests_have_are_nobodys(tmp_path: Path) -> None:
    by_keies = [
        {"custom_id": "n1", "body": {"messages": [{"role": "user", "content": text}]}} for text in (HOURS, LETTER)
    ]
    answered = {"custom_id": "n1", "response": {"body": logs.chat_answer("a")}}
    with pytest.raises(
        DataError, match=r"no tool was called \(requests: 2\); calls have no request of a user \(calls: 1\)"
    ):
        read(tmp_path, *by_keies, answered)


def test_the_span_of_a_call_does_not_go_to_another_request(tmp_path: Path) -> None:
    """An application asks a model for a title between the answer and the call."""
    title = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Find a title for it."}]}])
    between = logs.otlp(
        {**logs.span(0, "chat", {"gen_ai.input.messages": title}), "startTimeUnixNano": "1763600000500000000"}
    )
    spans = logs.otel_log()
    content = read(tmp_path, *spans, *between, search_tools=["find_tools"])
    assert [row["query"] for row in content.queries] == [HOURS, LETTER]
    assert content.dropped == {traffic.NO_CALL: 2}


def test_a_long_conversation_without_ids_is_one_group(tmp_path: Path) -> None:
    turns = [({"role": "user", "content": f"turn {n}"}, logs.chat_answer(f"t{n}")) for n in range(12)]
    rows = []
    for n in range(12):
        before = [message for request, answer in turns[:n] for message in (request, answer["choices"][0]["message"])]
        rows.append({"messages": [*before, turns[n][0]], "response": turns[n][1]})
    content = read(tmp_path, *rows)
    assert [row["tools"] for row in content.queries] == [[f"t{n}"] for n in range(12)]
    assert len({row["group"] for row in content.queries}) == 1


def test_the_same_words_in_two_conversations_keep_their_tools(tmp_path: Path) -> None:
    def log(session: str, *names: str) -> dict[str, Any]:
        return {"session_id": session, "messages": [USER], "response": logs.chat_answer(*names)}

    content = read(tmp_path, log("1", "a"), log("2", "b"), log("3", "a"), log("4", "a", "b"), log("5", "b", "a"))
    assert [row["tools"] for row in content.queries] == [["a"], ["b"], ["a", "b"]]
    assert content.dropped == {traffic.REPEATED: 2}
    assert content.ambiguous == 1
    assert len({row["group"] for row in content.queries}) == 3
    # Without any id, the shorter may be the beginning of the longer.
    rows = [{"messages": [USER], "response": logs.chat_answer(*names)} for names in ("a", "c", "ab", "ba")]
    assert [row["tools"] for row in read(tmp_path, *rows).queries] == [["a", "b"], ["c"]]


def test_requests_that_are_no_query_are_counted(tmp_path: Path) -> None:
    image = {"role": "user", "content": [IMAGE]}
    long = {"role": "user", "content": "a " * MOST_TEXT}
    rows = [
        {"messages": [USER, {"role": "assistant", "content": "."}, image], "response": logs.chat_answer("a")},
        {"messages": [long], "response": logs.chat_answer("a")},
        {"messages": [{"role": "user", "content": LETTER}], "response": logs.chat_answer("post")},
    ]
    content = read(tmp_path, *rows)
    assert [row["tools"] for row in content.queries] == [["post"]]
    assert content.dropped == {traffic.NO_TEXT: 1, traffic.TOO_LONG: 1, traffic.NO_CALL: 1}
    assert content.requests == 4


def test_the_context_is_bounded(tmp_path: Path) -> None:
    messages: list[dict[str, Any]] = []
    for number in range(40):
        messages.append({"role": "user", "content": f"turn {number} " + "b" * 5000})
        messages.append({"role": "assistant", "content": "c " * 30_000})
    content = read(tmp_path, {"messages": [*messages, USER], "response": logs.chat_answer("a")})
    context = content.queries[-1]["context"]
    assert len(context) == 10
    assert max(len(turn["content"]) for turn in context) == traffic.MOST_TURN_TEXT
    assert context[-2]["content"].startswith("turn 39 ")


def test_half_a_surrogate_pair_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    row = json.dumps({"messages": [{"role": "user", "content": "open XX now"}], "response": logs.chat_answer("a")})
    path.write_text(row.replace("XX", "\\ud83d").replace("now", "now\\u0000"))
    result = read_traffic(path)
    result.write(tmp_path / "q.jsonl")
    assert result.queries[0]["query"] == "open � now"


def test_calls_outside_the_catalogue_are_listed(tmp_path: Path) -> None:
    tool = {"description": "d", "inputSchema": {"type": "object"}}
    catalogue = {
        "places": {"tools": [{"name": "find", **tool}, {"name": "hours", **tool}, {"name": "open", **tool}]},
        "my mail": {"tools": [{"name": "post_letter", **tool}, {"name": "find", **tool}]},
    }
    (tmp_path / "tools.json").write_text(json.dumps(catalogue))
    calls = [
        "mail/open",
        "places/find",
        "mcp__places__hours",
        "my_mail-post_letter",
        "open",
        "find",
        "hour",
        "hour",
        "x\n",
        "a|b",
    ]
    rows = [
        {"messages": [{"role": "user", "content": f"{HOURS} {number}"}], "response": logs.chat_answer(name)}
        for number, name in enumerate(calls)
    ]
    content = read(tmp_path, *rows, tools=tmp_path / "tools.json")
    assert [row["tools"] for row in content.queries] == [
        ["places/find"],
        ["places/hours"],
        ["my mail/post_letter"],
        ["places/open"],
    ]
    assert content.dropped == {traffic.UNKNOWN: 5, traffic.AMBIGUOUS: 1}
    assert [(tool.name, tool.requests) for tool in content.unknown_tools] == [
        ("hour", 2),
        ("a|b", 1),
        ("mail/open", 1),
        ("x", 1),
    ]
    assert content.unknown_tools[0].near == ("places/hours",)
    assert content.ambiguous_tools == (traffic.CalledName("find", 1, ("my mail/find", "places/find")),)
    # A catalogue that names no server has the tool of whichever server the log names.
    (tmp_path / "alone.json").write_text(json.dumps(catalogue["places"]))
    assert tools(tmp_path, *rows[:2], tools=[tmp_path / "alone.json"]) == {
        f"{HOURS} 0": ["open"],
        f"{HOURS} 1": ["find"],
    }
    says = r"may mean several tools of the catalogue \(requests: 1\); 'find' may mean my mail/find, places/find\."
    with pytest.raises(DataError, match=says):
        read(tmp_path, rows[5], tools=[tmp_path / "tools.json"])


def said(*messages: Any) -> dict[str, Any]:
    return {"messages": [USER, *messages]}


def calling(identifier: str, *names: str) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [logs.chat_call(name, {}, identifier) for name in names]}


def result(identifier: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identifier, "content": content}


def span(**fields: Any) -> dict[str, Any]:
    return {
        "traceId": "t",
        "spanId": "s",
        "name": "GET",
        "attributes": {key.replace("__", "."): fields[key] for key in fields},
    }


OBSERVATION = {"id": "o", "type": "DREAM", "input": HOURS, "output": ""}


@pytest.mark.parametrize(
    ("row", "remark"),
    [
        (said({"role": "critic", "content": "no"}), "a message of role 'critic'"),
        (said({"type": "tool_notice", "content": "no"}), "a message of type 'tool_notice'"),
        (said("no"), "a message that is no object but 'no'"),
        (said({"role": "user", "content": [{"type": "hologram"}]}), "a part of type 'hologram'"),
        (said({"role": "assistant", "content": [{"toolUse": {"name": "b"}}]}), "a part with the field 'toolUse'"),
        (said({"role": "assistant", "content": [5]}), "a part of type 'int'"),
        (said({"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}), "a call without a name"),
        (said({"role": "assistant", "tool_calls": ["b"]}), "a call that is no object but 'b'"),
        ({"input": HOURS, "output": [{"type": "dream_call"}], "object": "response"}, "a part of type 'dream_call'"),
        (span(gen_ai__operation__name="dream"), "a span whose gen_ai.operation.name is 'dream'"),
        (span(openinference__span__kind="DREAM"), "a span whose openinference.span.kind is 'dream'"),
        (span(http__method="GET"), "a span of no model, agent or tool: 'GET'"),
        (span(mcp__method__name="tools/call") | {"name": ""}, "a call without a name"),
        ({**span(event__name="gen_ai.dream"), "body": "x"}, "an event 'gen_ai.dream'"),
        ({"id": "t", "observations": [OBSERVATION]}, "an observation of type 'DREAM'"),
        ({"run_type": "dream", "id": "r", "inputs": {}}, "a run of type 'dream'"),
        ({"event": "on_dream_end", "run_id": "r", "data": {}}, "a run of type 'on_dream_end'"),
        (
            {"object": "trace.span", "trace_id": "t", "id": "s", "span_data": {"type": "dream"}},
            "a span of type 'dream'",
        ),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}, "a call without a name"),
        ({"type": "dream", "x": 1}, "it is in no known form (type 'dream')"),
        ([[["x"]]], 'it is in no known form ("x")'),
        (said(calling("1", "b", "c"), result("1", "ok")), "one call has two names: 'b' and 'c', by the id '1'"),
        (
            said(calling("1", "b"), result("1", "ok"), result("1", "Error: no")),
            "one call has a result and an error: '1', read as a retry",
        ),
        (
            [said(calling("1", "b"), result("1", "ok")), said(calling("1", "b"), result("1", "Error: no"))],
            "one call has a result and an error: '1', in two records",
        ),
        (
            {**span(), "attributes": {"gen_ai.input.messages": '[{"role": "user", "role": "system"}]'}},
            "a field has two values: in a text of JSON, an object has the key 'role' twice",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_is_unknown_or_contradicts_itself_is_named(row: Any, remark: str, tmp_path: Path) -> None:
    content = read(tmp_path, {"messages": [USER], "response": logs.chat_answer("a")}, row)
    assert content.queries[0]["tools"][:1] == ["a"]
    ((place, told),) = content.remarks
    assert told == remark
    assert place.startswith("log.jsonl, line 2" if "two records" not in told else "log.jsonl, line")
    assert sum(content.skipped.values()) == 1


def test_a_line_that_has_a_key_twice_is_named(tmp_path: Path) -> None:
    good = json.dumps({"messages": [USER], "response": logs.chat_answer("a")})
    (tmp_path / "log.jsonl").write_text(good + "\n\n" + '{"messages": [], "messages": []}\n')
    content = read_traffic(tmp_path / "log.jsonl")
    told = "a field has two values: an object has the key 'messages' twice in line 3"
    assert (content.remarks, content.unread) == ((("log.jsonl, line 3", told),), 1)


def test_groups_do_not_tell_whose_they_are(tmp_path: Path) -> None:
    log = {"session_id": "bob@example.org", "messages": [USER], "response": logs.chat_answer("a")}
    first = read(tmp_path, log).queries[0]
    again = read(tmp_path, log).queries[0]
    other = read(
        tmp_path, log, {"messages": [{"role": "user", "content": LETTER}], "response": logs.chat_answer("b")}
    ).queries[0]
    assert first == again
    assert first["id"] == other["id"]
    assert first["group"] != other["group"], "who does not have the log cannot make the digest of a name"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("{", r"is neither JSON nor JSON Lines \(line 1: it is not JSON from character 2 on\)"),
        ("time,user\n1,bob\n", "is neither JSON nor JSON Lines"),
        (
            "null\n",
            r"has no query: log.jsonl, line 1: it is in no known form \(null\)\.",
        ),
        ('{"messages": []}', r"has no query: log.jsonl, line 1: it is in no known form \(fields 'messages'\)\."),
        (
            '{"a": 1,\n "b": {"c": 1,\n "c": 2}}',
            r"log.jsonl cannot be read: an object has the key 'c' in line 2 and in line 3\.",
        ),
        ("[" * 100_000, r"is neither JSON nor JSON Lines \(line 1: it is nested too deeply\)"),
        ("9" * 5000, r"line 1: a number has too many digits"),
        ('{"messages": [{"role": "user", "content": "hi"}]}', r"has no query: no tool was called \(requests: 1\)"),
    ],
)
def test_what_is_no_log_is_refused_in_a_sentence(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(text)
    with pytest.raises(DataError, match=says) as caught:
        read_traffic(tmp_path / "log.jsonl")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(tmp_path))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for place, says in (
        (tmp_path, "is a folder"),
        (tmp_path / "none", "No such file"),
        (Path("/dev/zero"), "is a device"),
    ):
        with pytest.raises(UsageError, match=says):
            read_traffic(place)
    with pytest.raises(UsageError, match="there is no file"):
        read_traffic([])
    with pytest.raises(UsageError, match="form is 'csv'; it must be otel"):
        read_traffic(tmp_path, form="csv")  # type: ignore[arg-type]


def test_lines_that_are_too_long_or_broken_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_RECORD", 5000)
    lines = [json.dumps(row).encode() for row in logs.chat_log()]
    huge = json.dumps({"messages": [{"role": "user", "content": "x" * 20_000}]}).encode()
    path = tmp_path / "log.jsonl"
    path.write_bytes(
        b"\n".join([lines[0], huge, b"", b"\xff\xfe", b'{"a": ' * 600 + b"1" + b"}" * 600, *lines[1:], lines[0][:-40]])
    )
    result = read_traffic(path, search_tools=["find_tools"])
    assert [row["query"] for row in result.queries] == [HOURS, LETTER]
    assert list(result.remarks[:3]) == [
        ("log.jsonl, line 2", "it is longer than 0 MiB"),
        ("log.jsonl, line 4", "it is not UTF-8"),
        ("log.jsonl, line 5", "it is in no known form (fields 'a')"),
    ]
    place, why = result.remarks[3]
    assert place == "log.jsonl, line 11"
    assert why.startswith("it is not JSON from character ")
    monkeypatch.setattr(reading, "MOST_BYTES", 8000)
    with pytest.raises(UsageError, match=r"the files have more than 0 GiB; read them in parts\."):
        read_traffic(path)


def test_a_deep_record_costs_nothing_else(tmp_path: Path) -> None:
    attributes: Any = 1
    for _ in range(450):
        attributes = {"0": attributes}
    keys = ["messages", "input", "body", "response", "parts", "message", "content", "output", "data", "observations"]
    deep: Any = "x"
    for number in range(450):
        deep = {keys[number % len(keys)]: deep} if number % 3 else [deep]
    rows = [{"traceId": "1", "attributes": {"gen_ai.prompt.0.role": attributes}}]
    rows += [{**more, "messages": deep, "output": deep} for more in ({}, {"run_type": "llm"}, {"jsonrpc": "2.0"})]
    content = read(tmp_path, *rows, *logs.chat_log())
    assert len(content.queries) == 2


LOGS = [
    logs.chat_log,
    logs.responses_log,
    logs.otel_log,
    lambda: logs.otel_log(structured=True),
    logs.traceloop_log,
    logs.span_events_log,
    logs.log_records,
    logs.langfuse_log,
    lambda: [logs.langfuse_trace()],
    logs.langsmith_log,
    logs.gateway_log,
]
VALUES: list[Any] = [
    None,
    True,
    -1,
    1e308,
    "",
    "x",
    "{",
    "[]",
    [],
    {},
    [[]],
    {"a": {}},
    [None],
    "\ud800",
    ["user", "hi"],
    {"role": 5},
]


def mutated(value: Any, generator: random.Random) -> Any:
    """A value with something in it replaced, removed, doubled or wrapped."""
    if generator.random() < 0.12 or not isinstance(value, dict | list) or not value:
        return generator.choice([*VALUES, value, [value], {"messages": value}, json.dumps(value)])
    if isinstance(value, list):
        place = generator.randrange(len(value))
        kept = [mutated(each, generator) if number == place else each for number, each in enumerate(value)]
        return kept if generator.random() < 0.8 else kept[:place] + kept[place + 1 :] + kept[:place]
    key = generator.choice(list(value))
    if generator.random() < 0.15:
        return {name: each for name, each in value.items() if name != key}
    return {name: mutated(each, generator) if name == key else each for name, each in value.items()}


def outcome(path: Path) -> Traffic | None:
    """What is read; None for an error, which is one sentence."""
    try:
        result = read_traffic(path, search_tools=["find_tools"])
    except BenchError as error:
        if "\n" in str(error) or not str(error).endswith("."):
            raise AssertionError(error) from error
        return None
    result.write(path.with_name("q.jsonl"))
    for row in result.queries:
        assert row["query"].strip()
        assert row["tools"]
        assert len(set(row["tools"])) == len(row["tools"])
    return result


def test_mutated_logs_are_read_or_refused_in_a_sentence(tmp_path: Path) -> None:
    generator = random.Random(5)
    read_some = 0
    for number in range(165):
        rows = LOGS[number % len(LOGS)]()
        for _ in range(generator.randint(1, 6)):
            rows = [mutated(row, generator) if generator.random() < 0.5 else row for row in rows]
        path = tmp_path / "log.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        read_some += outcome(path) is not None
    assert read_some > 115, "damage costs the records it is in"


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.joinpath("logs").iterdir()), ids=lambda path: path.name)
def test_mutated_logs_of_frameworks_are_read_or_refused_in_a_sentence(path: Path, tmp_path: Path) -> None:
    generator = random.Random(path.name)
    text = path.read_text()
    rows = [json.loads(text)] if path.suffix == ".json" else list(map(json.loads, text.splitlines()))
    for _ in range(12):
        damaged = rows
        for _ in range(generator.randint(1, 6)):
            damaged = [mutated(row, generator) for row in damaged]
        (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in damaged))
        outcome(tmp_path / "log.jsonl")


@pytest.mark.parametrize("log", LOGS[::3])
def test_a_log_that_is_cut_anywhere_gives_what_is_before_the_cut(log: Any, tmp_path: Path) -> None:
    lines = [json.dumps(row).encode() + b"\n" for row in log()]
    whole = b"".join(lines)
    path = tmp_path / "log.jsonl"
    generator = random.Random(11)
    for at in sorted(generator.sample(range(len(whole)), 25)):
        path.write_bytes(whole[:at])
        result = outcome(path)
        complete = whole[:at].count(b"\n")
        if result is not None:
            cut = whole[:at].rpartition(b"\n")[2]
            assert sum(result.records.values()) + result.unread == complete + bool(cut)
            assert result.unread <= 1


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "messages",
                        "role",
                        "content",
                        "tool_calls",
                        "function",
                        "name",
                        "input",
                        "output",
                        "attributes",
                        "traceId",
                        "run_type",
                        "type",
                        "observations",
                        "jsonrpc",
                        "method",
                        "params",
                        "resourceSpans",
                        "scopeSpans",
                        "spans",
                        "parts",
                        "message",
                        "choices",
                        "delta",
                        "data",
                        "body",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=25,
    )
)
def test_any_json_is_read_or_refused_in_a_sentence(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = tmp_path_factory.mktemp("any") / "log.jsonl"
    path.write_text(json.dumps(value))
    outcome(path)


@given(st.integers(1, 2**31))
def test_times_of_every_unit_are_the_same(seconds: int) -> None:
    wanted = float(seconds)
    for each in (seconds, str(seconds), float(seconds)):
        assert seconds_of(each) == wanted
    if seconds > 10**9:
        for scale in (10**3, 10**6, 10**9):
            assert seconds_of(seconds * scale) == pytest.approx(wanted)
            assert seconds_of(str(seconds * scale)) == pytest.approx(wanted)


def test_what_is_no_time_is_none() -> None:
    assert seconds_of("2026-11-20T10:00:00.123456789Z") == pytest.approx(1795168800.123456)
    assert seconds_of("2026-11-20 10:00:00") == seconds_of("2026-11-20T11:00:00+01:00")
    nothing: list[Any] = []
    for value in (
        None,
        True,
        nothing,
        "",
        "soon",
        "nan",
        "inf",
        -5,
        0,
        10**400,
        "9999-99-99",
        "0001-01-01T00:00:00+23:59",
    ):
        assert seconds_of(value) is None or value == "0001-01-01T00:00:00+23:59"
