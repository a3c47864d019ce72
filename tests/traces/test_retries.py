"""Calls that failed and were tried again, in every form: gold is the tool of which a try succeeded, once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kit import trafficlogs as logs
from kit.trafficlogs import HOURS

from bench.base.errors import DataError
from bench.traces.traces import Traffic, read_traffic

USER = {"role": "user", "content": HOURS}


#: Results that say that the call failed: by the mark that the form has for it, and by what the tool returned.
MARKED, TEXT = "", "Error: no answer"
FLAGGED, WRAPPED = {"content": [], "isError": True}, {"content": [{"type": "text", "text": TEXT}], "isError": False}


@dataclass(frozen=True)
class Try:
    """One try of a call: the number of the call, that of the try, and what it returns if it fails."""

    tool: str
    ok: bool
    call: int
    number: int
    error: Any = MARKED

    def id(self, ids: str) -> str:
        return {"same": f"c{self.call}", "own": f"c{self.call}-{self.number}", "none": ""}[ids]

    @property
    def arguments(self) -> dict[str, Any]:
        return {"place": self.call, "try": self.number}

    @property
    def marked(self) -> bool:
        """Whether it failed, and the form says so."""
        return not self.ok and self.error == MARKED

    @property
    def result(self) -> Any:
        return "At seven." if self.ok or self.marked else self.error

    @property
    def text(self) -> str:
        return self.result if isinstance(self.result, str) else json.dumps(self.result)


def without_empty(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value not in ("", None)}


def first_of_each(tries: Sequence[Try], ids: str) -> list[Try]:
    """The calls that a model made: with ids of their own every try, else the first of each call."""
    return [each for each in tries if ids == "own" or each.number == 0]


# Messages: the model calls again after each result --------------------------------------------------------------------


def chat(tries: Sequence[Try], ids: str) -> list[Any]:
    messages: list[Any] = [USER]
    for each in tries:
        function = {"name": each.tool, "arguments": json.dumps(each.arguments)}
        messages.append({"role": "assistant", "tool_calls": [without_empty(id=each.id(ids), function=function)]})
        content = '{"error": "no answer"}' if each.marked else each.text
        messages.append(without_empty(role="tool", tool_call_id=each.id(ids), content=content))
    return [{"messages": messages}]


def chat_requests(tries: Sequence[Try], ids: str) -> list[Any]:
    """A record for each request, each with all that was said."""
    messages = chat(tries, ids)[0]["messages"]
    answers = range(1, len(messages), 2)
    return [{"messages": messages[:n], "response": {"choices": [{"message": messages[n]}]}} for n in answers] + [
        {"messages": messages, "response": logs.chat_answer(content="Done.")}
    ]


def responses(tries: Sequence[Try], ids: str) -> list[Any]:
    """Each request has only what is new."""
    given: Any = HOURS
    rows = []
    for number, each in enumerate(tries):
        call_id = each.id(ids)
        item = without_empty(type="function_call", call_id=call_id, name=each.tool, arguments="{}")
        before = {"previous_response_id": f"r{number - 1}"} if number else {}
        rows.append({"input": given, "model": "m", **before, "response": {"id": f"r{number}", "output": [item]}})
        given = [without_empty(type="function_call_output", call_id=call_id, output=each.text)]
        given[0] |= {"status": "failed"} if each.marked else {}
    return [*rows, {"input": given, "model": "m", "previous_response_id": f"r{len(tries) - 1}"}]


def anthropic(tries: Sequence[Try], ids: str) -> list[Any]:
    messages: list[Any] = [USER]
    for each in tries:
        call = without_empty(type="tool_use", id=each.id(ids), name=each.tool, input=each.arguments)
        content = [{"type": "text", "text": each.text}]
        result = without_empty(type="tool_result", tool_use_id=each.id(ids), content=content)
        messages.append({"role": "assistant", "content": [call]})
        messages.append({"role": "user", "content": [{**result, "is_error": each.marked}]})
    return [{"messages": messages}]


def claude_code(tries: Sequence[Try], ids: str) -> list[Any]:
    messages = anthropic(tries, ids)[0]["messages"]
    return [{"type": each["role"], "sessionId": "s", "message": each} for each in messages]


def gemini(tries: Sequence[Try], ids: str) -> list[Any]:
    contents: list[Any] = [{"role": "user", "parts": [{"text": HOURS}]}]
    for each in tries:
        response = {"error": "no answer"} if each.marked else {"output": each.result}
        call = without_empty(id=each.id(ids), name=each.tool, args=each.arguments)
        contents.append({"role": "model", "parts": [{"functionCall": call, "thoughtSignature": "s"}]})
        result = without_empty(id=each.id(ids), name=each.tool, response=response)
        contents.append({"role": "user", "parts": [{"functionResponse": result}]})
    return [{"contents": contents}]


def langgraph(tries: Sequence[Try], ids: str) -> list[Any]:
    messages: list[Any] = [{"type": "human", "content": HOURS}]
    for each in tries:
        call = without_empty(name=each.tool, args=each.arguments, id=each.id(ids))
        messages.append({"type": "ai", "content": "", "tool_calls": [call]})
        result = without_empty(type="tool", name=each.tool, content=each.text, tool_call_id=each.id(ids))
        messages.append({**result, "status": "error" if each.marked else "success"})
    return [{"values": {"messages": messages}}]


def pydantic_ai(tries: Sequence[Try], ids: str) -> list[Any]:
    rows: list[Any] = [{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": HOURS}]}]
    for each in tries:
        about = without_empty(tool_name=each.tool, tool_call_id=each.id(ids))
        call = {"part_kind": "tool-call", "args": each.arguments, **about}
        result = {"part_kind": "retry-prompt" if each.marked else "tool-return", "content": each.result, **about}
        rows += [{"kind": "response", "parts": [call]}, {"kind": "request", "parts": [result]}]
    return [rows]


def vercel(tries: Sequence[Try], ids: str) -> list[Any]:
    messages: list[Any] = [{"role": "user", "content": [{"type": "text", "text": HOURS}]}]
    for each in tries:
        about = without_empty(toolCallId=each.id(ids), toolName=each.tool)
        output = {"type": "error-text" if each.marked else "text", "value": each.result}
        messages.append({"role": "assistant", "content": [{"type": "tool-call", "input": each.arguments, **about}]})
        messages.append({"role": "tool", "content": [{"type": "tool-result", "output": output, **about}]})
    return [{"messages": messages}]


def llamaindex(tries: Sequence[Try], ids: str) -> list[Any]:
    """Events: each call is told three times."""
    name = "llama_index.core.agent.workflow.workflow_events."
    rows: list[Any] = [{"qualified_name": f"{name}AgentWorkflowStartEvent", "value": {"user_msg": HOURS}}]
    for each in tries:
        call = without_empty(tool_id=each.id(ids), tool_name=each.tool, tool_kwargs=each.arguments)
        output = {"blocks": [{"block_type": "text", "text": each.text}], "is_error": each.marked}
        rows.append(
            {"qualified_name": f"{name}AgentOutput", "value": {"tool_calls": [call], "current_agent_name": "a"}}
        )
        rows.append({"qualified_name": f"{name}ToolCall", "value": call})
        rows.append({"qualified_name": f"{name}ToolCallResult", "value": {**call, "tool_output": output}})
    return rows


# Spans: the model calls once, and the framework or the client tries again ---------------------------------------------


def otel(tries: Sequence[Try], ids: str, flat: bool = False) -> list[Any]:
    parts = [without_empty(type="tool_call", id=each.id(ids), name=each.tool) for each in first_of_each(tries, ids)]
    answer = json.dumps([{"role": "assistant", "parts": parts}])
    asked = {"gen_ai.input.messages": json.dumps([logs.parts(USER)]), "gen_ai.output.messages": answer}
    spans = [logs.span(0, "chat m", {"gen_ai.operation.name": "chat", **asked})]
    for number, each in enumerate(tries, start=1):
        about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": each.tool}
        about |= without_empty(**{"gen_ai.tool.call.id": each.id(ids), "gen_ai.tool.call.result": each.text})
        spans.append(logs.span(number, "execute_tool", about, status={"code": 2} if each.marked else {}))
    return spans if flat else logs.otlp(*spans)


def mcp_spans(tries: Sequence[Try], ids: str) -> list[Any]:
    """The span of the agent has those of the client in it, and these, farther in, those of the server."""
    spans = otel(tries, ids, flat=True)[:1]
    for number, each in enumerate(first_of_each(tries, ids), start=1):
        start = 1763600000 + 100 * number
        agent = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"Do {each.tool}"}
        agent |= without_empty(**{"gen_ai.tool.call.id": each.id(ids)})
        spans.append(spanned(f"a{number}", "", start, start + 90, agent))
        for inner in [one for one in tries if (one.call, one.tool) == (each.call, each.tool)]:
            if ids == "own" and inner is not each:
                continue
            begin, key = start + 10 * inner.number, f"{number}{inner.number}"
            called = {"mcp.method.name": "tools/call", "gen_ai.tool.name": inner.tool}
            spans.append(spanned(f"c{key}", f"a{number}", begin + 1, begin + 8, called))
            spans.append(spanned(f"h{key}", f"c{key}", begin + 2, begin + 7, {"http.request.method": "POST"}))
            ended = {"error.type": "tool_error"} if inner.marked else {"mcp.tool.result": inner.text}
            spans.append(spanned(f"s{key}", f"h{key}", begin + 3, begin + 6, {**called, **ended}))
    return logs.otlp(*spans)


def spanned(own: str, parent: str, start: int, end: int, fields: dict[str, Any]) -> dict[str, Any]:
    times = {"startTimeUnixNano": f"{start}000000000", "endTimeUnixNano": f"{end}000000000"}
    return {**logs.span(0, own, fields), "spanId": own, "parentSpanId": parent, **times}


def openinference(tries: Sequence[Try], ids: str) -> list[Any]:
    """Spans of Phoenix, with attributes as an object."""
    asked: dict[str, Any] = {"openinference.span.kind": "LLM"}
    asked |= {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": HOURS}
    asked |= {"llm.output_messages.0.message.role": "assistant"}
    for number, each in enumerate(first_of_each(tries, ids)):
        prefix = f"llm.output_messages.0.message.tool_calls.{number}.tool_call"
        asked |= {f"{prefix}.function.name": each.tool, f"{prefix}.function.arguments": json.dumps(each.arguments)}
        asked |= without_empty(**{f"{prefix}.id": each.id(ids)})
    rows: list[Any] = [{"context": {"trace_id": "t", "span_id": "0"}, "start_time": 1763600000, "attributes": asked}]
    for number, each in enumerate(tries, start=1):
        about = {"openinference.span.kind": "TOOL", "tool.name": each.tool, "output.value": each.text}
        about |= without_empty(**{"tool_call.id": each.id(ids)})
        row = {"context": {"trace_id": "t", "span_id": str(number)}, "parent_id": "0", "attributes": about}
        rows.append({**row, "start_time": 1763600000 + number, "status_code": "ERROR" if each.marked else "OK"})
    return rows


def traceloop(tries: Sequence[Try], ids: str) -> list[Any]:
    fields: dict[str, Any] = {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": HOURS}
    for number, each in enumerate(first_of_each(tries, ids)):
        prefix = f"gen_ai.completion.0.tool_calls.{number}"
        fields |= {f"{prefix}.name": each.tool, **without_empty(**{f"{prefix}.id": each.id(ids)})}
    spans = [logs.span(0, "openai.chat", {**fields, "gen_ai.completion.0.role": "assistant"})]
    for number, each in enumerate(tries, start=1):
        output = json.dumps({"output": each.text, "kwargs": {}})
        about = {"traceloop.span.kind": "tool", "traceloop.entity.name": each.tool, "traceloop.entity.output": output}
        spans.append(logs.span(number, f"{each.tool}.tool", about, status={"code": 2} if each.marked else {}))
    return logs.otlp(*spans)


def ai_sdk(tries: Sequence[Try], ids: str) -> list[Any]:
    calls = [
        without_empty(toolCallId=each.id(ids), toolName=each.tool, args=json.dumps(each.arguments))
        for each in first_of_each(tries, ids)
    ]
    asked = {"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": json.dumps([USER])}
    spans = [logs.span(0, "ai.generateText.doGenerate", {**asked, "ai.response.toolCalls": json.dumps(calls)})]
    for number, each in enumerate(tries, start=1):
        about = {"ai.operationId": "ai.toolCall", "ai.toolCall.name": each.tool}
        about |= without_empty(**{"ai.toolCall.id": each.id(ids), "ai.toolCall.result": json.dumps(each.result)})
        spans.append(logs.span(number, "ai.toolCall", about, status={"code": 2} if each.marked else {}))
    return logs.otlp(*spans)


def langfuse(tries: Sequence[Try], ids: str) -> list[Any]:
    calls = [
        without_empty(id=each.id(ids), function={"name": each.tool, "arguments": json.dumps(each.arguments)})
        for each in first_of_each(tries, ids)
    ]
    answer = {"role": "assistant", "content": None, "tool_calls": calls}
    rows: list[Any] = [{"id": "g", "type": "GENERATION", "input": [USER], "output": answer}]
    for number, each in enumerate(tries):
        attributes = without_empty(**{"gen_ai.tool.call.id": each.id(ids)})
        about = {"input": each.arguments, "level": "ERROR" if each.marked else "DEFAULT", "output": each.result}
        rows.append(
            {"id": f"o{number}", "type": "TOOL", "name": each.tool, "metadata": {"attributes": attributes}} | about
        )
    return [{"traceId": "t", "startTime": 1763600000 + n, **row} for n, row in enumerate(rows)]


def langsmith(tries: Sequence[Try], ids: str) -> list[Any]:
    calls = [without_empty(name=each.tool, args=each.arguments, id=each.id(ids)) for each in first_of_each(tries, ids)]
    message = {"type": "ai", "content": "", "tool_calls": calls}
    inputs, outputs = {"messages": [[{"type": "human", "content": HOURS}]]}, {"generations": [[{"message": message}]]}
    rows: list[Any] = [{"id": "m", "run_type": "llm", "inputs": inputs, "outputs": outputs}]
    for number, each in enumerate(tries):
        result = {"type": "tool", "content": each.text, "name": each.tool, "tool_call_id": each.id(ids)}
        about: dict[str, Any] = {"outputs": {"output": each.result if ids == "none" else result}}
        about |= {"error": "TimeoutError()"} if each.marked else {}
        rows.append({"id": f"r{number}", "run_type": "tool", "name": each.tool, **about})
    return [{"trace_id": "t", "start_time": 1763600000 + n, **row} for n, row in enumerate(rows)]


def agents_sdk(tries: Sequence[Try], ids: str) -> list[Any]:
    calls = [
        without_empty(id=each.id(ids), type="function", function={"name": each.tool, "arguments": "{}"})
        for each in first_of_each(tries, ids)
    ]
    answer = [{"role": "assistant", "tool_calls": calls}]
    data: list[Any] = [{"type": "generation", "input": [USER], "output": answer}]
    data += [{"type": "function", "name": each.tool, "input": "{}", "output": each.text} for each in tries]
    errors = [None, *({"message": "Error running tool"} if each.marked else None for each in tries)]
    common = {"object": "trace.span", "trace_id": "t", "parent_id": "a"}
    return [
        {
            **common,
            "id": f"s{number}",
            "started_at": f"2026-11-20T10:00:{number:02}Z",
            "span_data": each,
            "error": error,
        }
        for number, (each, error) in enumerate(zip(data, errors, strict=True))
    ]


# Gateways -------------------------------------------------------------------------------------------------------------


def json_rpc(tries: Sequence[Try], ids: str) -> list[Any]:
    rows = []
    for number, each in enumerate(tries):
        about = {"jsonrpc": "2.0", "id": 1 if ids == "same" else number}
        content = each.result if isinstance(each.result, dict) else {"content": [{"type": "text", "text": each.result}]}
        ended = {"error": {"code": -32603}} if each.marked else {"result": content}
        params = {"method": "tools/call", "params": {"name": each.tool, "arguments": {}}}
        rows += [{**about, **params}, {**about, **ended}]
    return [{"session_id": "s", "user_query": HOURS, "message": row} for row in rows]


def gateway_records(tries: Sequence[Try], ids: str) -> list[Any]:
    common = {"type": "tool_call", "session_id": "s", "user_message": HOURS, "arguments": {}}
    return [
        {**common, "tool_name": each.tool, **({"status": "error"} if each.marked else {"result": each.result})}
        for each in tries
    ]


FORMS: tuple[Callable[[Sequence[Try], str], list[Any]], ...] = (
    *(chat, chat_requests, responses, anthropic, claude_code, gemini, langgraph, pydantic_ai, vercel, llamaindex),
    *(otel, mcp_spans, openinference, traceloop, ai_sdk, langfuse, langsmith, agents_sdk, json_rpc, gateway_records),
)
#: Tries as `TOOL+` and `TOOL-` (failed) -> tools, retries, and other failed calls.
SITUATIONS: dict[str, tuple[list[str], int, int]] = {
    "a- a+": (["a"], 1, 0),
    "a- a- a+": (["a"], 2, 0),
    "a+ a-": (["a"], 1, 0),
    "a- a-": ([], 0, 2),
    "a- b+ a+": (["a", "b"], 1, 0),
    "a- b- a+ b+": (["a", "b"], 2, 0),
    "a- b+ a-": (["b"], 0, 2),
}


def tries_of(text: str, error: Any) -> list[Try]:
    words = text.split()
    return [
        Try(word[0], word[1] == "+", "ab".index(word[0]), [each[0] for each in words[:place]].count(word[0]), error)
        for place, word in enumerate(words)
    ]


def read(folder: Path, rows: Sequence[Any], **more: Any) -> Traffic:
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_traffic(folder / "log.jsonl", **more)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize(
    ("ids", "error"),
    [("same", MARKED), ("own", MARKED), ("none", MARKED), ("own", FLAGGED), ("none", TEXT), ("same", WRAPPED)],
)
def test_a_call_that_is_tried_again_counts_once(
    form: Callable[[Sequence[Try], str], list[Any]], ids: str, error: Any, tmp_path: Path
) -> None:
    other = chat([Try("z", True, 9, 0)], "own")
    other[0]["messages"][0] = {"role": "user", "content": "z"}
    for text, (tools, retries, failed) in SITUATIONS.items():
        traffic = read(tmp_path, [*form(tries_of(text, error), ids), *other])
        found = [tool for row in traffic.queries for tool in row["tools"] if tool != "z"]
        assert (text, sorted(found), traffic.retries, traffic.failed_calls) == (text, tools, retries, retries + failed)
        assert traffic.failed_by_text == (traffic.failed_calls if error in (TEXT, WRAPPED) else 0)
        assert {each.name for each in traffic.set_aside} == ({"a"} if failed else set())
    with pytest.raises(DataError, match=r"has no query: every call failed \(requests: 1\)"):
        read(tmp_path, form(tries_of("a- a-", error), ids))


def result(identifier: str, content: str, name: str = "") -> dict[str, Any]:
    return without_empty(role="tool", tool_call_id=identifier, content=content, name=name)


def called(*calls: tuple[str, str]) -> dict[str, Any]:
    listed = [without_empty(id=identifier, function={"name": name}) for name, identifier in calls]
    return {"role": "assistant", "tool_calls": listed}


def executed(own: str, name: str, identifier: str, start: int, end: int, failed: bool = False) -> dict[str, Any]:
    fields = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.id": identifier}
    return {**spanned(own, "", 1763600000 + start, 1763600000 + end, fields), "status": {"code": 2 if failed else 0}}


def asked(*messages: dict[str, Any]) -> dict[str, Any]:
    return logs.otlp(logs.span(0, "chat", {"gen_ai.prompt": json.dumps([USER, *messages])}))[0]


@pytest.mark.parametrize(
    ("rows", "tools", "retries"),
    [
        ([{"messages": [USER, called(("a", "1"), ("b", "2")), result("2", TEXT), result("1", "ok")]}], ["a"], 0),
        ([{"messages": [USER, called(("a", ""), ("b", "")), result("", TEXT), result("", "ok")]}], ["b"], 0),
        ([{"messages": [USER, called(("a", ""), ("b", "")), result("", TEXT, "b"), result("", "x", "a")]}], ["a"], 0),
        ([{"messages": [USER, called(("a", ""), ("a", "")), result("", TEXT), result("", "ok")]}], ["a"], 1),
        # The id is that of another call in the next step.
        (
            [{"messages": [USER, called(("a", "1")), result("1", TEXT), called(("b", "1")), result("1", "ok")]}],
            ["b"],
            0,
        ),
        (
            [
                asked(called(("a", "1")), result("1", TEXT), called(("b", "1")), result("1", "ok")),
                *logs.otlp(executed("x", "a", "1", 1, 2, failed=True), executed("y", "b", "1", 3, 4)),
            ],
            ["b"],
            0,
        ),
        # Client and server tell of one call at the same time, parallel calls are two, and a copy of a span is none.
        (
            [asked(called(("a", "1"))), *logs.otlp(executed("x", "a", "1", 1, 9), executed("y", "a", "1", 2, 8, True))],
            [],
            0,
        ),
        (
            [
                asked(called(("a", ""), ("a", ""))),
                *logs.otlp(executed("x", "a", "", 1, 9), executed("y", "a", "", 2, 8, True)),
            ],
            ["a"],
            1,
        ),
        ([asked(called(("a", "1"))), *logs.otlp(*[executed("x", "a", "1", 1, 9, True)] * 2)], [], 0),
    ],
)
def test_calls_find_their_results(rows: list[Any], tools: list[str], retries: int, tmp_path: Path) -> None:
    other = {"messages": [{"role": "user", "content": "z"}, called(("z", "1"))]}
    traffic = read(tmp_path, [*rows, other])
    found = [tool for row in traffic.queries for tool in row["tools"] if tool != "z"]
    assert (found, traffic.retries, traffic.remarks) == (tools, retries, ())
    assert traffic.failed_calls == 1
