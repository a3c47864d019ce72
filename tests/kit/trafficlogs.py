"""One conversation as each kind of log has it: who said what is ours, the fields are those of the conventions.

A user asks for a bakery's opening hours (`places/find`, then `places/hours`), then for a letter (`post_letter`), then
says thanks. The model looks for tools with `find_tools`.
"""

from __future__ import annotations

import json
from typing import Any

HOURS, LETTER, THANKS = "When does the bakery open?", "Write to them that we come late", "Thank you!"
SEARCH = "opening hours of shops"
ANSWER = "At seven."
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def chat_call(name: str, arguments: Any = None, identifier: str = "") -> dict[str, Any]:
    """A call in the form of Chat Completions."""
    function = {"name": name, "arguments": json.dumps(arguments or {})}
    return {"id": identifier or f"call_{name}", "type": "function", "function": function}


def chat_answer(*names: str, content: str | None = None) -> dict[str, Any]:
    """An answer of Chat Completions."""
    calls = [chat_call(name, {"query": SEARCH} if name == "find_tools" else {"place": "mill"}) for name in names]
    message = {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}
    return {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def said(*texts: str) -> list[dict[str, Any]]:
    """Messages of the conversation, the names of tools as calls and all else by turns."""
    collected: list[dict[str, Any]] = [{"role": "system", "content": "You are helpful."}]
    for text in texts:
        if text in {HOURS, LETTER, THANKS}:
            collected.append({"role": "user", "content": text})
        elif " " in text:
            collected.append({"role": "assistant", "content": text})
        else:
            arguments = {"query": SEARCH} if text == "find_tools" else {}
            collected.append({"role": "assistant", "content": None, "tool_calls": [chat_call(text, arguments)]})
            collected.append({"role": "tool", "tool_call_id": f"call_{text}", "content": "..."})
    return collected


#: What the model was sent, and which tools it called.
STEPS: list[tuple[list[str], tuple[str, ...], str | None]] = [
    ([HOURS], ("find_tools",), None),
    ([HOURS, "find_tools"], ("places_find", "places_hours"), None),
    ([HOURS, "find_tools", "places_find", "places_hours"], (), ANSWER),
    ([HOURS, "find_tools", "places_find", "places_hours", ANSWER, LETTER], ("post_letter",), None),
    ([HOURS, "find_tools", "places_find", "places_hours", ANSWER, LETTER, "post_letter"], (), "It is done."),
    (
        [HOURS, "places_find", "places_hours", ANSWER, LETTER, "post_letter", "It is done.", THANKS],
        (),
        "With pleasure.",
    ),
]


def chat_log() -> list[dict[str, Any]]:
    """Requests with answers, one line each, without any id."""
    return [
        {
            "timestamp": f"2026-11-20T10:00:0{number}Z",
            "request": {"model": "m", "messages": said(*sent)},
            "response": chat_answer(*names, content=content),
        }
        for number, (sent, names, content) in enumerate(STEPS)
    ]


def fine_tuning() -> list[dict[str, Any]]:
    """The whole conversation in one line."""
    texts = [HOURS, "find_tools", "places_find", "places_hours", ANSWER, LETTER, "post_letter", "It is done.", THANKS]
    return [{"messages": said(*texts), "tools": []}]


def responses_log() -> list[dict[str, Any]]:
    """OpenAI's Responses, whose requests only have what is new."""

    def answer(number: int, before: int | None, *items: dict[str, Any]) -> dict[str, Any]:
        return {"object": "response", "id": f"resp_{number}", "created_at": 1763600000 + number, "output": list(items)}

    def call(name: str, **arguments: Any) -> dict[str, Any]:
        return {"type": "function_call", "call_id": name, "name": name, "arguments": json.dumps(arguments)}

    def result(name: str) -> dict[str, Any]:
        return {"type": "function_call_output", "call_id": name, "output": "..."}

    reasoning = {"type": "reasoning", "summary": []}
    text = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}
    by_key = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": LETTER}]}
    steps = [
        (HOURS, [reasoning, call("find_tools", query=SEARCH)]),
        ([result("find_tools")], [call("places_find"), call("places_hours")]),
        ([result("places_find"), result("places_hours")], [text]),
        ([by_key], [{"type": "mcp_call", "server_label": "mail", "name": "post_letter", "arguments": "{}"}]),
        (THANKS, [{**text, "content": [{"type": "output_text", "text": "With pleasure."}]}]),
    ]
    collected = []
    for number, (given, items) in enumerate(steps):
        before = {"previous_response_id": f"resp_{number - 1}"} if number else {}
        collected.append(
            {"request": {"model": "m", "input": given, **before}, "response": answer(number, None, *items)}
        )
    return collected


def value(given: Any, snake: bool = False) -> dict[str, Any]:
    """JSON data as an attribute value of OTLP."""

    def key(name: str) -> str:
        return name.replace("Value", "_value") if snake else name

    if isinstance(given, list):
        return {key("arrayValue"): {"values": [value(each, snake) for each in given]}}
    if isinstance(given, dict):
        return {key("kvlistValue"): {"values": attributes(given, snake)}}
    return {key("intValue"): str(given)} if isinstance(given, int) else {key("stringValue"): given}


def attributes(given: dict[str, Any], snake: bool = False) -> list[dict[str, Any]]:
    """Attributes of OTLP."""
    return [{"key": key, "value": value(each, snake)} for key, each in given.items() if each is not None]


def parts(message: dict[str, Any]) -> dict[str, Any]:
    """A chat message in the form of `gen_ai.input.messages`."""
    collected: list[dict[str, Any]] = []
    if message.get("content") and message["role"] != "tool":
        collected.append({"type": "text", "content": message["content"]})
    for call in message.get("tool_calls", []):
        arguments = json.loads(call["function"]["arguments"])
        collected.append(
            {"type": "tool_call", "id": call["id"], "name": call["function"]["name"], "arguments": arguments}
        )
    if message["role"] == "tool":
        collected.append({"type": "tool_call_response", "id": message["tool_call_id"], "result": message["content"]})
    return {"role": message["role"], "parts": collected}


def span(number: int, name: str, fields: dict[str, Any], snake: bool = False, **more: Any) -> dict[str, Any]:
    """A span of OTLP."""
    time = str(1763600000_000000000 + number * 1_000_000_000)
    keys = ("trace_id", "span_id", "start_time_unix_nano") if snake else ("traceId", "spanId", "startTimeUnixNano")
    ids = dict(zip(keys, ("5b8e", f"{number:04}", time), strict=True))
    return {**ids, "name": name, "attributes": attributes(fields, snake), **more}


def otlp(*spans: dict[str, Any], snake: bool = False) -> list[dict[str, Any]]:
    """Spans as the collector writes them: a line for each batch, here for each span, in any order."""
    groups, scopes = ("resource_spans", "scope_spans") if snake else ("resourceSpans", "scopeSpans")
    return [{groups: [{"resource": {}, scopes: [{"scope": {"name": "s"}, "spans": [each]}]}]} for each in spans]


def otel_log(snake: bool = False, structured: bool = False) -> list[dict[str, Any]]:
    """Spans of chats and tools by the conventions of 2026. The last come first."""
    spans = []
    for number, (sent, names, content) in enumerate(STEPS):
        messages = [parts(message) for message in said(*sent)]
        answer = [{**parts(chat_answer(*names, content=content)["choices"][0]["message"]), "finish_reason": "stop"}]
        fields: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": "conv_1",
            "gen_ai.input.messages": messages if structured else json.dumps(messages),
            "gen_ai.output.messages": answer if structured else json.dumps(answer),
        }
        spans.append(span(10 * number, "chat m", fields, snake))
        for place, name in enumerate(names, start=1):
            tool = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.arguments": json.dumps({"query": SEARCH} if name == "find_tools" else {}),
            }
            spans.append(span(10 * number + place, f"execute_tool {name}", tool, snake))
    return otlp(*reversed(spans), snake=snake)


def traceloop_log() -> list[dict[str, Any]]:
    """Spans of OpenLLMetry: messages are flattened into attributes."""
    spans = []
    for number, (sent, names, content) in enumerate(STEPS):
        fields: dict[str, Any] = {"llm.request.type": "chat", "gen_ai.prompt.name": "unrelated"}
        for place, message in enumerate(said(*sent)):
            fields[f"gen_ai.prompt.{place}.role"] = message["role"]
            fields[f"gen_ai.prompt.{place}.content"] = message["content"]
            for each, call in enumerate(message.get("tool_calls", [])):
                fields[f"gen_ai.prompt.{place}.tool_calls.{each}.name"] = call["function"]["name"]
                fields[f"gen_ai.prompt.{place}.tool_calls.{each}.arguments"] = call["function"]["arguments"]
        fields |= {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": content}
        for each, name in enumerate(names):
            fields[f"gen_ai.completion.0.tool_calls.{each}.name"] = name
            fields[f"gen_ai.completion.0.tool_calls.{each}.arguments"] = json.dumps({"query": SEARCH})
        spans.append(span(number, "openai.chat", fields))
    return otlp(*spans)


def openinference_log() -> list[dict[str, Any]]:
    """Spans of OpenInference: chats whose answer was not captured, and tools."""
    spans = []
    for number, (sent, names, _) in enumerate(STEPS):
        fields: dict[str, Any] = {"openinference.span.kind": "LLM", "session.id": "s-1"}
        for place, message in enumerate(said(*sent)):
            fields[f"llm.input_messages.{place}.message.role"] = message["role"]
            fields[f"llm.input_messages.{place}.message.content"] = message["content"]
        spans.append(span(10 * number, "ChatCompletion", fields))
        for place, name in enumerate(names, start=1):
            tool = {"openinference.span.kind": "TOOL", "tool.name": name, "input.value": json.dumps({"query": SEARCH})}
            spans.append(span(10 * number + place, name, tool))
    return otlp(*spans)


def span_events_log() -> list[dict[str, Any]]:
    """Chats whose messages are events of their span, by the conventions of 2024 and 2025."""
    spans = []
    for number, (sent, names, content) in enumerate(STEPS):
        events = []
        for message in said(*sent):
            calls = json.dumps(message["tool_calls"]) if "tool_calls" in message else None
            fields = {"content": message["content"], "tool_calls": calls}
            events.append({"name": f"gen_ai.{message['role']}.message", "attributes": attributes(fields)})
        answer = chat_answer(*names, content=content)["choices"][0]["message"]
        events.append({"name": "gen_ai.choice", "attributes": attributes({"index": 0, "message": json.dumps(answer)})})
        spans.append(span(number, "chat m", {"gen_ai.operation.name": "chat"}, events=events))
    return otlp(*spans)


def log_records() -> list[dict[str, Any]]:
    """The same messages as log records, each in a line of its own."""
    collected = []
    for number, (sent, names, content) in enumerate(STEPS):
        answer = chat_answer(*names, content=content)["choices"][0]["message"]
        records = [(f"gen_ai.{message['role']}.message", message) for message in said(*sent)]
        for place, (name, body) in enumerate([*records, ("gen_ai.choice", {"index": 0, "message": answer})]):
            kept = {key: given for key, given in body.items() if given is not None}
            kept |= {"message": {k: v for k, v in answer.items() if v is not None}} if "message" in kept else {}
            record = {
                "timeUnixNano": str(1763600000_000000000 + number * 1_000_000_000 + place * 10_000),
                "traceId": "5b8e",
                "spanId": f"{number:04}",
                "body": value(kept),
                "attributes": attributes({"event.name": name}),
            }
            collected.append({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]})
    return collected


def langfuse_log() -> list[dict[str, Any]]:
    """Observations as JSON Lines, inputs and outputs as texts, as the storage integration writes them."""
    collected = []
    for number, (sent, names, content) in enumerate(STEPS):
        common = {"trace_id": f"t{number // 3}", "session_id": "s1", "start_time": f"2026-11-20 10:00:0{number}.000000"}
        answer = chat_answer(*names, content=content)["choices"][0]["message"]
        given = {"messages": said(*sent), "tools": []}
        io = {"input": json.dumps(given), "output": json.dumps(answer)}
        collected.append({"id": f"o{number}", "type": "GENERATION", "name": "llm", **common, **io})
        for place, name in enumerate(names, start=1):
            io = {"input": json.dumps({"query": SEARCH}), "start_time": f"2026-11-20 10:00:0{number}.{place}"}
            collected.append({"id": f"{number}-{name}", "type": "TOOL", "name": name, **common, **io})
    return collected


def langfuse_trace() -> dict[str, Any]:
    """A downloaded trace with its observations; the generations have no tool calls, the tools are observations."""
    observations: list[dict[str, Any]] = []
    for number, (sent, names, content) in enumerate(STEPS[:3]):
        time = f"2026-11-20T10:00:0{number}.000Z"
        common = {"traceId": "t", "startTime": time, "parentObservationId": "root"}
        requests = [message for message in said(*sent) if message["role"] == "user"]
        observations.append({"id": f"g{number}", "type": "GENERATION", **common, "input": requests, "output": content})
        tool = {"type": "TOOL", **common, "input": {"query": SEARCH}}
        observations += [{"id": name, "name": name, **tool} for name in names]
    return {"id": "t", "sessionId": None, "input": HOURS, "output": ANSWER, "observations": observations}


def langchain(message: dict[str, Any]) -> dict[str, Any]:
    """A message as LangChain serialises it."""
    name = {"system": "SystemMessage", "user": "HumanMessage", "assistant": "AIMessage", "tool": "ToolMessage"}
    calls = [
        {"name": call["function"]["name"], "args": json.loads(call["function"]["arguments"]), "id": call["id"]}
        for call in message.get("tool_calls", [])
    ]
    fields = {"content": message["content"] or "", "tool_calls": calls, "type": "x"}
    classes = ["langchain", "schema", "messages", name[message["role"]]]
    return {"lc": 1, "type": "constructor", "id": classes, "kwargs": fields}


def langsmith_log() -> list[dict[str, Any]]:
    """Runs as JSON Lines: models and tools."""
    collected = []
    for number, (sent, names, content) in enumerate(STEPS):
        time = f"2026-11-20T10:00:0{number}"
        common = {
            "trace_id": f"t{number}",
            "session_id": "the project",
            "extra": {"metadata": {"thread_id": "thread"}},
        }
        answer = langchain(chat_answer(*names, content=content)["choices"][0]["message"])
        run = {
            **common,
            "id": f"r{number}",
            "parent_run_id": f"t{number}",
            "run_type": "llm",
            "name": "ChatOpenAI",
            "start_time": f"{time}.100000",
            "inputs": {"messages": [[langchain(message) for message in said(*sent)]]},
            "outputs": {"generations": [[{"text": content or "", "message": answer}]], "llm_output": None},
        }
        collected.append(run)
        for place, name in enumerate(names, start=2):
            inputs = {"input": str({"query": SEARCH})}  # as LangChain writes it
            tool = {"id": name, "parent_run_id": f"t{number}", "run_type": "tool", "name": name, "inputs": inputs}
            collected.append({**common, **tool, "start_time": f"{time}.{place}00000", "outputs": {"output": "..."}})
    return collected


def rpc(name: str, arguments: Any = None, method: str = "tools/call") -> dict[str, Any]:
    """A JSON-RPC message of MCP."""
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"name": name, "arguments": arguments or {}}}


def gateway_log() -> list[dict[str, Any]]:
    """Records of a gateway that is told the user's words."""
    calls = [
        (HOURS, "find_tools"),
        (HOURS, "places_find"),
        (HOURS, "places_hours"),
        (LETTER, "post_letter"),
    ]
    collected: list[dict[str, Any]] = [{"timestamp": "2026-11-20T10:00:00Z", "message": rpc("", method="initialize")}]
    for number, (text, name) in enumerate(calls):
        arguments = {"query": SEARCH} if name == "find_tools" else {}
        record = {"timestamp": f"2026-11-20T10:00:0{number}Z", "session_id": "s", "user_query": text}
        collected.append({**record, "message": rpc(name, arguments)})
        collected.append({**record, "message": {"jsonrpc": "2.0", "id": 7, "result": {"content": []}}})
    return collected
