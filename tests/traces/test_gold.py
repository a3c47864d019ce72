"""Which calls of a log are gold: bridges, tool searches, handoffs, built-in tools, failures, retries, second names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from kit import trafficlogs as logs
from kit.trafficlogs import HOURS, LETTER

from bench.base.errors import DataError
from bench.traces.events import Call
from bench.traces.results import ending_of, has_failed
from bench.traces.roles import BUILT_IN, FAILED, HANDOFF, LOOKED_UP, SEARCH, UNNAMED, Roles, plain_names
from bench.traces.traces import NO_CALL, Traffic, read_traffic

USER = {"role": "user", "content": HOURS}


def read(folder: Path, *rows: Any, catalogue: Sequence[str] = (), **more: Any) -> Traffic:
    """What a log says; `catalogue`: names of tools without a server."""
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if catalogue:
        tool = {"description": "d", "inputSchema": {"type": "object"}}
        (folder / "tools.json").write_text(json.dumps({"tools": [{"name": each, **tool} for each in catalogue]}))
        more["tools"] = folder / "tools.json"
    return read_traffic(folder / "log.jsonl", **more)


def said(*calls: tuple[str, Any], results: Sequence[Any] = ()) -> dict[str, Any]:
    """A request, calls with ids from 0 on, and their results."""
    listed = [
        {"id": str(number), "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(calls)
    ]
    answers = [{"role": "tool", "tool_call_id": str(number), **result} for number, result in enumerate(results)]
    return {"messages": [USER, {"role": "assistant", "tool_calls": listed}, *answers]}


def tools(traffic: Traffic) -> list[list[str]]:
    return [row["tools"] for row in traffic.queries]


def aside(traffic: Traffic) -> dict[str, str]:
    return {each.name: each.why for each in traffic.set_aside}


# Bridges ------------------------------------------------------------------------------------------------------------

BRIDGES = [
    "tool_call",
    "call_tool",
    "execute_tool",
    "ExecuteExtraTool",
    "use_tool",
    "use_mcp_tool",
    "invoke-tool",
    "run_tool",
    "mcp_tool_call",
    "mcp-exec",
    "gateway/call_tool",
    "mcp__gateway__call_tool",
    "gateway.execute_tool",
]
SHAPES: list[Any] = [
    {"name": "read", "arguments": {"name": "notes.txt"}},
    {"tool_name": "read", "params": {"path": "notes.txt"}},
    {"toolName": "read", "input": "{}"},
    {"tool": {"name": "read", "arguments": {}}},
    {"tool_slug": "read"},
    {"recipient_name": "functions.read", "parameters": {}},
    {"calls": [{"tool": "read", "args": {"path": "a"}}, {"tool": "read", "args": {"path": "b"}}]},
    {"function": {"name": "read", "arguments": "{}"}},
    "{'name': 'read', 'arguments': {'path': 'notes.txt'}}",
]


@pytest.mark.parametrize("bridge", BRIDGES)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: str(shape)[:24])
def test_the_gold_of_a_bridge_is_the_tool_inside(bridge: str, shape: Any, tmp_path: Path) -> None:
    for arguments in (shape, json.dumps(shape) if isinstance(shape, dict) else shape):
        assert tools(read(tmp_path, said((bridge, arguments)))) == [["read"]]
        assert tools(read(tmp_path, said((bridge, arguments)), catalogue=["read", "write"])) == [["read"]]


def test_a_bridge_names_the_server_and_may_call_several_tools(tmp_path: Path) -> None:
    action = {"server_name": "fs", "category_name": "files", "action_name": "read", "body_schema": "{}"}
    many = {"tools": [{"tool_slug": "GMAIL_SEND", "arguments": {}}, {"tool_slug": "SLACK_POST", "arguments": {}}]}
    assert tools(read(tmp_path, said(("execute_action", action)))) == [["fs/read"]]
    assert tools(read(tmp_path, said(("COMPOSIO_MULTI_EXECUTE_TOOL", many)))) == [["GMAIL_SEND", "SLACK_POST"]]
    parallel = {"tool_uses": [{"recipient_name": "functions.a"}, {"recipient_name": "functions.b"}]}
    assert tools(read(tmp_path, said(("multi_tool_use.parallel", parallel)))) == [["a", "b"]]
    # The catalogue may have the tool without the server that the bridge names.
    assert tools(read(tmp_path, said(("call_tool", {"server": "fs", "tool": "read"})), catalogue=["read"])) == [
        ["read"]
    ]


def test_bridges_and_searches_stand_in_bridges(tmp_path: Path) -> None:
    inner = {"name": "call_tool", "arguments": json.dumps({"name": "read", "arguments": {}})}
    search = {"name": "search_tools", "arguments": {"query": "read a file"}}
    traffic = read(tmp_path, said(("tool_call", search), ("use_tool", inner)))
    assert (tools(traffic), traffic.queries[0]["searches"]) == ([["read"]], ["read a file"])
    endless: Any = {"name": "read"}
    for _ in range(30):
        endless = {"name": "call_tool", "arguments": endless}
    with pytest.raises(DataError, match=NO_CALL):
        read(tmp_path, said(("call_tool", endless)))


def test_a_bridge_that_does_not_say_what_it_calls_is_no_gold(tmp_path: Path) -> None:
    traffic = read(tmp_path, said(("call_tool", None), ("tool_call", '{"name": "re'), ("read", {})))
    assert tools(traffic) == [["read"]]
    assert aside(traffic) == {"call_tool": UNNAMED, "tool_call": UNNAMED}


def test_a_tool_by_the_name_of_a_bridge_is_a_tool(tmp_path: Path) -> None:
    ordinary = said(("call_tool", {"number": "+49", "name": "Alice"}), ("run_tool", None))
    catalogue = ["call_tool", "run_tool", "read"]
    assert tools(read(tmp_path, ordinary, catalogue=catalogue)) == [["call_tool", "run_tool"]]
    inside = said(("call_tool", {"name": "read", "arguments": {}}))
    assert tools(read(tmp_path, inside, catalogue=catalogue)) == [["read"]]
    # Without a catalogue, arguments that name nothing are those of a tool.
    assert tools(read(tmp_path, said(("execute_tool", {"speed": 3})))) == [["execute_tool"]]
    assert tools(read(tmp_path, said(("execute_tool", {"name": "two words"})))) == [["execute_tool"]]


def test_a_tool_that_nobody_has_is_told_by_its_name_inside_the_bridge(tmp_path: Path) -> None:
    rows = (said(("call_tool", {"name": "reed"}), ("read", {})),)
    traffic = read(tmp_path, *rows, catalogue=["read"])
    assert tools(traffic) == [["read"]]
    assert [(each.name, each.near) for each in traffic.unknown_tools] == [("reed", ("read",))]


def test_more_bridges_and_searches_can_be_named(tmp_path: Path) -> None:
    row = said(("look", {"text": "read a file"}), ("gw/go", {"name": "read", "arguments": {}}))
    assert tools(read(tmp_path, row)) == [["look", "gw/go"]]
    traffic = read(tmp_path, row, search_tools=["look"], bridge_tools=["go"])
    assert (tools(traffic), traffic.queries[0]["searches"], traffic.set_aside) == ([["read"]], ["read a file"], ())


# Searches -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "tool_search",
        "ToolSearch",
        "search_tools",
        "mcp_tool_search",
        "gw/search_tools",
        "retrieve_tools",
        "mcp-find",
        "COMPOSIO_SEARCH_TOOLS",
        "tool_search_tool_bm25",
        "mcp__gw__tool_search",
    ],
)
def test_tool_searches_are_searches(name: str, tmp_path: Path) -> None:
    traffic = read(tmp_path, said((name, {"queries": [{"use_case": "read a file"}], "limit": 3}), ("read", {})))
    assert (tools(traffic), traffic.queries[0]["searches"]) == ([["read"]], ["read a file"])
    assert aside(traffic) == {name: SEARCH}


def test_a_tool_by_the_name_of_a_search_is_a_tool_of_the_catalogue_that_has_it(tmp_path: Path) -> None:
    row = said(("tool_search", {"query": "hammer"}))
    traffic = read(tmp_path, row, catalogue=["tool_search", "read"])
    assert tools(traffic) == [["tool_search"]]
    assert "searches" not in traffic.queries[0]
    # What the host executes is never the library's, and a search that the user names is one.
    hosted = {"input": HOURS, "output": [{"type": "tool_search_call", "arguments": {"goal": "x"}}, *CALLED]}
    traffic = read(tmp_path, hosted, catalogue=["tool_search", "read"])
    assert (tools(traffic), traffic.queries[0]["searches"]) == ([["read"]], ["x"])
    with pytest.raises(DataError, match=NO_CALL):
        read(tmp_path, row, catalogue=["tool_search"], search_tools=["tool_search"])


CALLED = [{"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}]


def test_a_result_with_references_to_tools_is_that_of_a_search(tmp_path: Path) -> None:
    find = {"type": "tool_use", "id": "1", "name": "find", "input": {"need": "read a file"}}
    found = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "tool_reference", "tool_name": "read"}]}
    first = {"messages": [USER], "response": {"role": "assistant", "content": [find]}}
    again = [USER, {"role": "assistant", "content": [find]}, {"role": "user", "content": [found]}]
    answer = {"role": "assistant", "content": [{"type": "tool_use", "id": "2", "name": "read", "input": {}}]}
    traffic = read(tmp_path, first, {"messages": again, "response": answer})
    assert (tools(traffic), traffic.queries[0]["searches"]) == ([["read"]], ["read a file"])
    assert traffic.dropped == {}


def test_loading_a_tool_by_its_name_searches_for_nothing(tmp_path: Path) -> None:
    traffic = read(tmp_path, said(("ToolSearch", {"query": "select:read,write"}), ("load_tools", {}), ("read", {})))
    assert (tools(traffic), "searches" in traffic.queries[0]) == ([["read"]], False)
    assert aside(traffic) == {"ToolSearch": SEARCH, "load_tools": LOOKED_UP}


# Handoffs and built-in tools ----------------------------------------------------------------------------------------


def test_handoffs_are_no_tools_unless_the_catalogue_has_them(tmp_path: Path) -> None:
    names = ("transfer_to_billing", "transfer_back_to_supervisor", "transferToSales", "handoff", "handoff_to_x")
    row = said(*((name, {}) for name in (*names, "transfer_tokens", "transfer_torque", "handoffs")))
    traffic = read(tmp_path, row)
    assert tools(traffic) == [["transfer_tokens", "transfer_torque", "handoffs"]]
    assert aside(traffic) == dict.fromkeys(names, HANDOFF)
    bank = said(("transfer_to_account", {"iban": "DE0"}))
    assert tools(read(tmp_path, bank, catalogue=["transfer_to_account"])) == [["transfer_to_account"]]


def test_tools_of_the_host_are_no_tools_of_the_library(tmp_path: Path) -> None:
    kinds = ("web_search", "file_search", "code_interpreter", "image_generation", "computer", "local_shell")
    items = [{"type": f"{kind}_call", "id": kind, "status": "completed"} for kind in kinds]
    blocks: list[dict[str, Any]] = [
        {"type": "server_tool_use", "id": name, "name": name, "input": {}} for name in ("web_fetch", "bash")
    ]
    rows = [
        {"input": HOURS, "output": [*items, *CALLED]},
        {"messages": [{"role": "user", "content": LETTER}], "response": {"role": "assistant", "content": blocks}},
    ]
    traffic = read(tmp_path, *rows)
    assert tools(traffic) == [["read"]]
    assert aside(traffic) == dict.fromkeys((*kinds, "web_fetch", "bash"), BUILT_IN)
    # A function by the same name is one of the library.
    assert tools(read(tmp_path, said(("web_search", {"query": "x"}), ("bash", {})))) == [["web_search", "bash"]]


# Failures and retries -----------------------------------------------------------------------------------------------

OK, BAD = {"content": "ok"}, {"content": '{"error": "no such file"}'}


def test_a_tool_whose_every_call_failed_is_no_gold(tmp_path: Path) -> None:
    retried = said(("stat", {}), ("read", {"path": "a"}), ("read", {"path": "b"}), results=[BAD, BAD, OK])
    traffic = read(tmp_path, retried)
    assert tools(traffic) == [["read"]]
    assert aside(traffic) == {"stat": FAILED}
    # A call whose result the log does not have may have succeeded.
    assert tools(read(tmp_path, said(("read", {}), ("read", {}), results=[BAD]))) == [["read"]]
    with pytest.raises(DataError, match=r"every call failed \(requests: 1\)"):
        read(tmp_path, said(("read", {}), ("read", {}), results=[BAD, BAD]))


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        ({"is_error": True, "content": "x"}, True),
        ({"isError": True}, True),
        ({"status": "error", "content": "x"}, True),
        ({"outcome": "denied"}, True),
        ({"response": {"error": "x"}}, True),
        ({"output": '{"error": {"code": 4}}'}, True),
        ({"content": [{"type": "text", "text": '{"isError": true}'}]}, True),
        ({"content": "Error executing tool read: no such file"}, True),
        ({"content": "Error: permission denied"}, True),
        ({"content": "ERROR: permission denied\n"}, True),
        ({"content": "Error: ToolException('no rights')\n Please fix your mistakes."}, True),
        ({"result": {"content": [{"type": "text", "text": "MCP error -32602: no such tool"}]}}, True),
        ({"output": {"type": "error-text", "value": "no"}}, True),
        ({"output": {"type": "json", "value": {"isError": True}}}, True),
        ({"output": '"<tool_use_error>no such file</tool_use_error>"'}, True),
        ("An error occurred while running the tool. Please try again. Error: x", True),
        ({"is_error": False, "content": "ok"}, False),
        ({"status": "success", "content": "the build has failed"}, False),
        ({"output": '{"status": "failed", "build": 7}'}, False),
        ({"output": '{"error": null, "rows": []}'}, False),
        ({"content": "3 lines in the log, the last: Error: disk full"}, False),
        ({"content": "Error: disk full\nError: disk full"}, False),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "Error: b"}]}, False),
        ({"output": {"rows": 1, "result": "Error: a"}}, False),
        ("ok", False),
        (None, False),
        ([], False),
    ],
)
def test_results_that_say_that_a_call_failed(result: Any, failed: bool) -> None:
    assert has_failed(ending_of(result)) is failed


def test_failures_of_a_bridge_are_those_of_the_tool_inside(tmp_path: Path) -> None:
    inside = [("call_tool", {"name": "stat"}), ("call_tool", {"name": "read"})]
    assert tools(read(tmp_path, said(*inside, results=[BAD, OK]))) == [["read"]]


def test_responses_of_json_rpc_end_the_last_call_by_their_id(tmp_path: Path) -> None:
    def record(message: dict[str, Any]) -> dict[str, Any]:
        return {"session_id": "s", "user_query": HOURS, "message": {"jsonrpc": "2.0", "id": 1, **message}}

    def call(name: str) -> dict[str, Any]:
        return record({"method": "tools/call", "params": {"name": name, "arguments": {}}})

    rows = [call("stat"), record({"result": {"isError": True}}), call("read"), record({"result": {"content": []}})]
    assert tools(read(tmp_path, *rows)) == [["read"]]
    rows = [call("read"), record({"error": {"code": -32602}}), call("read"), record({"result": {}}), call("write")]
    assert tools(read(tmp_path, *rows)) == [["read", "write"]]
    told = {"type": "tool_call", "tool_name": "stat", "session_id": "s", "user_query": HOURS, "status": "error"}
    assert tools(read(tmp_path, told, call("read"))) == [["read"]]


# One call, told several times ---------------------------------------------------------------------------------------


def spans(*tools: tuple[str, dict[str, Any]], told: Sequence[tuple[str, Any]] = ()) -> list[dict[str, Any]]:
    """A chat whose answer tells of calls with ids from 0 on, and spans of tools."""
    calls = [
        {"type": "tool_call", "id": str(number), "name": name, "arguments": arguments}
        for number, (name, arguments) in enumerate(told)
    ]
    chat = {
        "gen_ai.input.messages": json.dumps([logs.parts(USER)]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": calls}]),
    }
    made = [logs.span(0, "chat", chat)]
    for number, (name, more) in enumerate(tools, start=1):
        fields = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        fields |= {key: value for key, value in more.items() if key.startswith("gen_ai.")}
        rest = {key: value for key, value in more.items() if not key.startswith("gen_ai.")}
        made.append(logs.span(number, name, fields, **rest))
    return logs.otlp(*made)


def test_a_span_that_has_a_name_for_display_is_no_second_call(tmp_path: Path) -> None:
    told = [("read", {"path": "a"})]
    by_id = spans(("Read a file", {"gen_ai.tool.call.id": "0"}), told=told)
    by_arguments = spans(("Read a file", {"gen_ai.tool.call.arguments": '{"path": "a"}'}), told=told)
    by_name = spans(("mcp__fs__read", {}), ("Read", {}), ("fs/read", {}), told=told)
    for rows in (by_id, by_arguments, by_name):
        assert tools(read(tmp_path, *rows)) == [["read"]]
    # Nothing says that these are one.
    assert tools(read(tmp_path, *spans(("Read a file", {}), told=told))) == [["read", "Read a file"]]


def test_a_span_right_in_the_span_of_a_tool_is_the_same_call(tmp_path: Path) -> None:
    inner = ("read", {"parentSpanId": "0001"})
    rows = spans(("Read a file", {}), inner)
    assert tools(read(tmp_path, *rows)) == [["Read a file"]]
    # The catalogue says which of the names is that of the tool.
    assert tools(read(tmp_path, *rows, catalogue=["read"])) == [["read"]]
    told = spans(("Read a file", {"gen_ai.tool.call.id": "0"}), inner, told=[("Read a file", {"path": "a"})])
    assert tools(read(tmp_path, *told, catalogue=["read"])) == [["read"]]


def test_a_failure_inside_a_span_is_one_of_the_call(tmp_path: Path) -> None:
    inner = ("stat", {"parentSpanId": "0001", "status": {"code": 2}})
    rows = spans(("mcp__fs__stat", {}), inner, ("read", {}))
    assert tools(read(tmp_path, *rows)) == [["read"]]
    told = spans(("fs.stat", {"gen_ai.tool.call.id": "0"}), inner, ("read", {}), told=[("fs.stat", {"path": "a"})])
    assert tools(read(tmp_path, *told)) == [["read"]]


def test_the_outcome_of_a_span_is_that_of_the_call_that_a_message_tells(tmp_path: Path) -> None:
    bad, good = {"status": {"code": 2}}, {"status": {"code": 1}}
    told = [("stat", {"path": "a"}), ("read", {"path": "a"}), ("read", {"path": "b"})]
    ids = [{"gen_ai.tool.call.id": str(number)} for number in range(3)]
    rows = spans(("stat", ids[0] | bad), ("read", ids[1] | bad), ("read", ids[2] | good), told=told)
    assert tools(read(tmp_path, *rows)) == [["read"]]
    rows = spans(("stat", bad), ("read", bad), ("read", good), told=told)
    assert tools(read(tmp_path, *rows)) == [["read"]]


def test_a_context_that_is_repeated_under_new_ids_is_one_conversation(tmp_path: Path) -> None:
    def answer(number: int, name: str) -> dict[str, Any]:
        return {**logs.chat_answer(name), "id": f"chatcmpl-{number}"}

    def item(name: str) -> dict[str, Any]:
        return {"type": "function_call", "call_id": name, "name": name, "arguments": "{}"}

    first = [USER, {"role": "assistant", "tool_calls": [logs.chat_call("a")]}, {"role": "tool", "tool_call_id": "x"}]
    chat = [
        {"messages": [USER], "response": answer(1, "a")},
        {"messages": first, "response": answer(2, "b")},
        {"messages": [*first, {"role": "user", "content": LETTER}], "response": answer(3, "c")},
    ]
    stateless = [
        {"input": given, "output": [item(name)], "object": "response", "id": f"resp_{name}"}
        for given, name in (
            ([USER], "a"),
            ([USER, item("a")], "b"),
            ([USER, item("a"), item("b"), {"role": "user", "content": LETTER}], "c"),
        )
    ]
    for rows in (chat, stateless):
        traffic = read(tmp_path, *rows)
        assert tools(traffic) == [["a", "b"], ["c"]]
        assert (traffic.dropped, traffic.requests) == ({}, 2)
        assert len({row["group"] for row in traffic.queries}) == 1


def test_the_state_of_a_graph_repeats_what_it_was_asked(tmp_path: Path) -> None:
    def human(text: str) -> dict[str, Any]:
        return {"type": "human", "content": text}

    def ai(name: str) -> dict[str, Any]:
        return {"type": "ai", "content": "", "tool_calls": [{"name": name, "args": {"x": name}, "id": name}]}

    before, after = {"messages": [human(HOURS)]}, {"messages": [human(HOURS), ai("a")]}
    later = {"messages": [human(HOURS), ai("a"), human(LETTER), ai("b")]}
    invoked = [{"input": before, "output": after}, {"input": {"messages": [human(LETTER)]}, "output": later}]
    run: dict[str, Any] = {"run_type": "chain", "name": "LangGraph", "extra": {"metadata": {"thread_id": "t"}}}
    runs = [
        {**run, "id": str(number), "trace_id": str(number), "inputs": each["input"], "outputs": each["output"]}
        for number, each in enumerate(invoked)
    ]
    seen = {"traceId": "t", "startTime": "2026-11-20T10:00:00Z"}
    root = {**seen, "id": "o", "type": "CHAIN", "input": before, "output": after}
    model = {**seen, "id": "p", "type": "GENERATION", "parentObservationId": "o", "input": [USER], "output": ai("a")}
    fuse = [{"id": "t", "projectId": "p", "input": before, "output": after, "observations": [root, model]}]
    for rows, wanted in ((invoked, [["a"], ["b"]]), (runs, [["a"], ["b"]]), (fuse, [["a"]])):
        traffic = read(tmp_path, *rows)
        assert tools(traffic) == wanted
        assert (traffic.dropped, traffic.requests) == ({}, len(wanted))


def test_requests_of_gemini_and_of_one_text(tmp_path: Path) -> None:
    def candidate(name: str) -> dict[str, Any]:
        return {"candidates": [{"content": {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}}]}}]}

    prompt = f"System: Be brief.\nHuman: {HOURS}\nAI: At seven.\nHuman: {LETTER}"
    rows = [
        {"request": {"contents": HOURS}, "response": candidate("a")},
        {"contents": [{"parts": [{"text": LETTER}]}], "response": candidate("b")},
        {"prompt": prompt, "model": "m", "response": logs.chat_answer("c")},
        {"prompt": "Human rights: what are they?", "model": "m", "response": logs.chat_answer("d")},
    ]
    traffic = read(tmp_path, *rows)
    assert tools(traffic) == [["a"], ["b"], ["c"], ["d"]]
    assert traffic.queries[2]["context"] == [
        {"role": "user", "content": HOURS},
        {"role": "assistant", "content": "At seven."},
    ]
    assert traffic.queries[3]["query"] == "Human rights: what are they?"


def test_rows_of_logfire_and_traces_that_hold_their_spans(tmp_path: Path) -> None:
    parts = [{"role": "user", "parts": [{"type": "text", "content": HOURS}]}]
    common: dict[str, Any] = {"trace_id": "t", "parent_span_id": "0", "kind": "span"}
    rows = [
        {
            **common,
            "span_id": str(number),
            "span_name": "running tool",
            "start_timestamp": f"2026-11-20T10:00:0{number}Z",
            "otel_status_level": level,
            "attributes": {"gen_ai.tool.name": name, "gen_ai.tool.call.id": name, "tool_arguments": {"a": 1}},
        }
        for number, (name, level) in enumerate((("stat", "ERROR"), ("read", None)), start=2)
    ]
    chat = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": parts}
    rows.insert(0, {**common, "span_id": "1", "start_timestamp": "2026-11-20T10:00:01Z", "attributes": chat})
    assert tools(read(tmp_path, *rows)) == [["read"]]
    assert tools(read(tmp_path, {"traceId": "t", "spans": rows})) == [["read"]]


def test_what_a_framework_asks_to_do_again_is_no_request(tmp_path: Path) -> None:
    def request(*parts: dict[str, Any]) -> dict[str, Any]:
        return {"kind": "request", "parts": list(parts)}

    def response(name: str) -> dict[str, Any]:
        return {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": name, "args": {}}]}

    again = {"part_kind": "retry-prompt", "content": "Answer with a number.", "tool_name": None, "tool_call_id": "x"}
    row = [request({"part_kind": "user-prompt", "content": HOURS}), response("a"), request(again), response("b")]
    for rows in ([row], [{"messages": row}]):
        traffic = read(tmp_path, *rows)
        assert (tools(traffic), traffic.requests) == ([["a", "b"]], 1)


def test_what_a_user_pastes_is_no_call(tmp_path: Path) -> None:
    pasted = [{"type": "text", "text": HOURS}, {"type": "function", "function": {"name": "delete", "arguments": "{}"}}]
    row = {"messages": [{"role": "user", "content": pasted}], "response": logs.chat_answer("a")}
    assert tools(read(tmp_path, row)) == [["a"]]


# Names from strangers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "/", "__", ":", ".", "a" * 100_000, "call_tool" * 5000, "\ud800", "功能", "_"])
def test_any_name_has_a_role(name: str) -> None:
    given: list[Any] = [None, {}, {"name": name}, {"calls": [{"name": name}] * 1000}, "{" * 5000, [[[]]], 5]
    for arguments in given:
        for hosted in (False, True):
            assert Roles().of(Call(name, arguments, hosted=hosted))
    assert plain_names(name) == plain_names(name.upper())


def test_a_bridge_calls_a_bounded_number_of_tools() -> None:
    inner: Any = {"calls": [{"name": "call_tool", "arguments": {"calls": [{"name": "a"}] * 500}}] * 3}
    assert len(Roles().of(Call("call_tool", inner))) == 300


def test_two_tools_by_one_name_on_two_servers_are_two(tmp_path: Path) -> None:
    told = [("fs/read", {"path": "a"})]
    assert tools(read(tmp_path, *spans(("mail/read", {}), told=told))) == [["fs/read", "mail/read"]]
    assert tools(read(tmp_path, *spans(("fs__read", {}), ("READ", {}), told=told))) == [["fs/read"]]
