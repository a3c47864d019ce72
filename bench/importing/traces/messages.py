"""Messages of chat models as events: OpenAI, Anthropic, Gemini, OpenTelemetry, LangChain, Vercel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.importing.traces.events import Call, Event, LoggedReply, LoggedRequest, first_field, json_of, text_of

#: Messages inside lists inside messages. Real logs have three levels.
_MOST_DEPTH = 12
_USER = frozenset({"user", "human", "humanmessage", "humanmessagechunk"})
_ASSISTANT = frozenset({"assistant", "ai", "model", "aimessage", "aimessagechunk", "bot"})
#: Parts of content: texts, calls of tools, and what tools answered.
_TEXTS = frozenset({"", "text", "input_text", "output_text"})
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "tool-call", "function_call"})
_RESULTS = frozenset({"tool_result", "tool_call_response", "tool-result", "function_response", "mcp_tool_result"})
#: Items of OpenAI's Responses that are calls.
_ITEMS = frozenset({"function_call", "custom_tool_call", "mcp_call", "tool_search_call"})
_OTHER_ITEMS = frozenset({"function_call_output", "custom_tool_call_output", "reasoning", "message", "item_reference"})


def events_of(value: Any, depth: int = 0) -> list[Event]:
    """The events of messages: a list, one message, their JSON as a text, or a text, which is a request."""
    value = json_of(value)
    if isinstance(value, str):
        return [LoggedRequest(text_of(value))] if value.strip() and not _is_cut(value) else []
    if depth > _MOST_DEPTH:
        return []
    if isinstance(value, list):
        if _is_pair(value):  # LangChain's ["human", "text"]
            return _message({"role": value[0], "content": value[1]}, depth)
        return [event for each in value if isinstance(each, dict | list) for event in events_of(each, depth + 1)]
    return _message(value, depth) if isinstance(value, dict) else []


def is_messages(value: Any) -> bool:
    """Whether a value is a list of messages, or of lists of them."""
    value = json_of(value)
    if not isinstance(value, list) or not value:
        return False
    first = value[0]
    if isinstance(first, list):
        return _is_pair(first) or is_messages(first)
    return isinstance(first, dict) and (_role(first) != "" or "parts" in first or _kind(first) in _ITEMS | _OTHER_ITEMS)


def answer_events(value: Any, depth: int = 0) -> list[Event]:
    """The events of a model's answer, in any of the forms above, whole or as the pieces of a stream."""
    value = json_of(value)
    if isinstance(value, str):
        return [LoggedReply(text)] if (text := text_of(value)) and not _is_cut(value) else []
    if depth > _MOST_DEPTH:
        return []
    if isinstance(value, list):
        pieces = [json_of(_strip_frame(piece)) for piece in value]
        if any(_is_piece(piece) for piece in pieces):
            return _stream_events(pieces, depth)
        if value and isinstance(value[0], list):  # LangChain's generations: of each prompt, the candidates
            return answer_events(value[0][:1], depth + 1)
        return [event for each in value if isinstance(each, dict) for event in answer_events(each, depth + 1)]
    if not isinstance(value, dict):
        return []
    for key in ("choices", "candidates", "generations"):  # of several, one was shown
        if isinstance(value.get(key), list):
            return answer_events(value[key][:1], depth + 1)
    if _is_piece(value):
        return _stream_events([value], depth)
    for key in ("message", "output", "outputs", "response", "body"):
        if isinstance(value.get(key), dict | list) and not _role(value):
            return answer_events(value[key], depth + 1)
    if isinstance(value.get("messages"), list):
        # The state of a graph after the run: what was said before is in the request as well.
        return events_of(value["messages"], depth + 1)
    return _message({"role": "assistant", **value} if not _role(value) else value, depth)


def calls_of(value: Any) -> Iterator[Call]:
    """The calls of a list `tool_calls` in any form; pieces of a stream are joined by their index."""
    pending: dict[Any, dict[str, Any]] = {}
    for number, raw in enumerate(_as_list(json_of(value))):
        each = raw.get("tool_call", raw) if isinstance(raw, dict) else None
        if not isinstance(each, dict):
            continue
        inner = each.get("function")
        function = inner if isinstance(inner, dict) else each
        name = first_field(function, "name", "toolName", "tool_name")
        arguments = next((function[key] for key in _ARGUMENTS if function.get(key) is not None), None)
        index = each.get("index", number) if isinstance(each.get("index", number), int) else number
        if name or index not in pending:
            # Two whole calls with one index are two calls.
            pending[index if index not in pending else (index, number)] = {"name": name, "arguments": arguments}
        elif isinstance(arguments, str):
            before = pending[index]["arguments"]
            pending[index]["arguments"] = (before if isinstance(before, str) else "") + arguments
    yield from (Call(each["name"], each["arguments"]) for each in pending.values() if each["name"])


_ARGUMENTS = ("arguments", "args", "input", "parameters")


def _is_cut(text: str) -> bool:
    """Whether a text is the beginning of JSON: exporters cut attributes at a length."""
    return text.lstrip().startswith(('[{"', '{"'))


def _is_pair(value: Sequence[Any]) -> bool:
    return len(value) == 2 and all(isinstance(each, str) for each in value) and value[0].lower() in _USER | _ASSISTANT


def _kind(message: Mapping[str, Any]) -> str:
    kind = message.get("type")
    return kind if isinstance(kind, str) else ""


def _role(message: Mapping[str, Any]) -> str:
    """The role of a message in lower case; empty if it is no message."""
    for key in ("role", "type"):
        value = message.get(key)
        if isinstance(value, str) and (key == "role" or value.lower() in _USER | _ASSISTANT | {"system", "tool"}):
            return value.lower()
    classes = message.get("id")
    if message.get("lc") and isinstance(classes, list) and classes and isinstance(classes[-1], str):
        return classes[-1].lower()
    inner = message.get("message")
    return _role(inner) if isinstance(inner, dict) and "message" not in inner else ""


def _message(message: Mapping[str, Any], depth: int) -> list[Event]:
    role = _role(message)
    for key in ("message", "kwargs", "data"):  # of a choice or OpenInference; LangChain's two forms
        inner = message.get(key)
        message = inner if isinstance(inner, dict) else message
    kind = _kind(message)
    if kind in _ITEMS:
        return list(_item(message))
    texts: list[str] = []
    calls: list[Call] = []
    answered = False
    parts = next((message[key] for key in ("content", "parts", "contents") if message.get(key) is not None), None)
    for part in _parts(parts):
        part_kind = _kind(part)
        if part_kind in _RESULTS or "functionResponse" in part or "function_response" in part:
            answered = True
        elif isinstance(part.get("functionCall") or part.get("function_call"), dict):
            calls += calls_of([part.get("functionCall") or part.get("function_call")])
        elif part_kind in _CALLS:
            server = first_field(part, "server_name")
            calls += (
                Call(f"{server}/{call.tool}" if server else call.tool, call.arguments) for call in calls_of([part])
            )
        elif part_kind in _TEXTS:
            texts.append(text_of(part.get("text") if isinstance(part.get("text"), str) else part.get("content")))
    text = "\n".join(text for text in texts if text)
    if role in _USER:
        # Anthropic and Gemini send the results of tools as the user.
        return [] if answered else [LoggedRequest(text)]
    if role not in _ASSISTANT:
        return []
    more = message.get("additional_kwargs")
    listed = message.get("tool_calls") or message.get("toolCalls")
    if not listed and isinstance(more, dict):
        listed = more.get("tool_calls")
    known = {call.tool for call in calls}
    # LangChain has a call of Anthropic's both in the content and in the list.
    calls += (call for call in calls_of(listed) if call.tool not in known)
    calls += calls_of([message["function_call"]]) if isinstance(message.get("function_call"), dict) else ()
    return [*([LoggedReply(text)] if text else []), *calls]


def _item(item: Mapping[str, Any]) -> Iterator[Call]:
    kind, server = _kind(item), first_field(item, "server_label")
    name = first_field(item, "name") or ("tool_search" if kind == "tool_search_call" else "")
    if name:
        arguments = item.get("arguments") if item.get("arguments") is not None else item.get("input")
        yield Call(f"{server}/{name}" if server else name, arguments)


def _parts(content: Any) -> Iterator[Mapping[str, Any]]:
    """The parts of a content, each as an object; a text is one part."""
    parts = json_of(content)
    if isinstance(content, str) and not (
        isinstance(parts, list) and parts and all(isinstance(each, dict) and "type" in each for each in parts)
    ):
        parts = None if content.startswith('[{"type"') else content  # a user may well write other JSON
    for part in _as_list(parts):
        if isinstance(part, str):
            yield {"text": part}
        elif isinstance(part, dict):
            inner = part.get("message_content")  # OpenInference
            yield inner if isinstance(inner, dict) else part


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


# Streams ------------------------------------------------------------------------------------------------------------

_STREAMED = ("response.", "content_block_", "message_start", "message_delta", "message_stop")


def _strip_frame(piece: Any) -> Any:
    """A piece without the frame of server-sent events."""
    return piece.removeprefix("data:").strip() if isinstance(piece, str) and piece.startswith("data:") else piece


def _is_piece(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    choices = value.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return (isinstance(first, dict) and isinstance(first.get("delta"), dict)) or _kind(value).startswith(_STREAMED)


def _stream_events(pieces: Sequence[Any], depth: int) -> list[Event]:
    """The events of a stream: deltas of chat, or events of Responses or of Anthropic."""
    texts: list[str] = []
    deltas: list[Any] = []
    items: list[Event] = []
    whole: list[Event] = []
    for piece in pieces:
        if not isinstance(piece, dict):
            continue
        kind = _kind(piece)
        if kind == "response.completed":
            whole = answer_events(piece.get("response"), depth + 1)
        elif kind == "response.output_item.done":
            items += answer_events([piece.get("item")], depth + 1)
        elif kind == "content_block_start" and isinstance(piece.get("content_block"), dict):
            block = piece["content_block"]
            if _kind(block) in _CALLS:
                deltas.append({"index": piece.get("index"), "name": block.get("name"), "arguments": ""})
        elif kind == "content_block_delta" and isinstance(piece.get("delta"), dict):
            delta = piece["delta"]
            texts.append(delta["text"] if isinstance(delta.get("text"), str) else "")
            if isinstance(delta.get("partial_json"), str):
                deltas.append({"index": piece.get("index"), "arguments": delta["partial_json"]})
        choices = piece.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        delta = first.get("delta") if isinstance(first, dict) else None
        if isinstance(delta, dict):
            texts.append(delta["content"] if isinstance(delta.get("content"), str) else "")
            deltas += _as_list(delta.get("tool_calls"))
    text = text_of("".join(texts))
    return whole or [*([LoggedReply(text)] if text else []), *calls_of(deltas), *items]
