"""Messages of chat models as events: OpenAI, Anthropic, Gemini, OpenTelemetry, LangChain, LlamaIndex, pydantic-ai, ...

`bench/importing/dialects.toml` has the parts of messages and their fields; the names of a tool, of its arguments and of
the ids that link calls to results are in `fields`. The readers of all formats but MCP's call it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from bench.importing.dialects import TABLE, words
from bench.traces.events import NAMELESS, Call, Event, LoggedReply, LoggedRequest, Outcome, Unknown, unknown
from bench.traces.fields import (
    ARGUMENTS,
    CALL_IDS,
    NAMES,
    first_field,
    first_value,
    json_of,
    object_of,
    qualified_name,
    text_of,
)
from bench.traces.results import Ending, ending_of

#: Maximum nesting of messages in lists in messages. Real logs have three levels.
_MOST_DEPTH = 12
_USER = frozenset({"user", "human", "humanmessage", "humanmessagechunk"})
_ASSISTANT = frozenset({"assistant", "ai", "model", "aimessage", "aimessagechunk", "bot"})
_TOOL = frozenset({"tool", "function", "toolmessage", "functionmessage"})
#: Messages of the application, not of a user.
_APPLICATION = frozenset({"system", "developer", "systemmessage", "systemmessagechunk", "removemessage", "remove"})
#: The two messages of pydantic-ai, by their `kind`.
_KINDS = {"request": "user", "response": "assistant"}

_Part = Literal["text", "call", "hosted", "result", "error", "other"]
#: Kinds of content parts and of items of Responses; a part without a type is a text.
_PARTS: dict[str, _Part] = {
    "": "text",
    **{kind: what for what, kinds in TABLE["messages"]["parts"].items() for kind in kinds.split()},
}
#: Items of Responses, and wrappers of the Agents SDK, with which a list of messages may begin.
_ITEMS = frozenset(kind for kind in _PARTS if kind.endswith(("_call", "_call_output")) and kind != "tool_call")
_OTHER_ITEMS, _FIELDS, _MESSAGE = (
    frozenset(words("messages", key)) for key in ("other_items", "part_fields", "fields")
)
_REQUESTS, _SERVERS, _CALLED, _RETURNED = (
    words("messages", key) for key in ("requests", "servers", "calls", "results")
)
_TOO_DEEP = Unknown("a message that is nested too deeply")
#: A conversation as one text, as LangChain writes it for completion models.
_SPEAKERS = ("Human", "AI")
_SPEAKER = re.compile(r"^(System|Human|AI|Tool|Function): ", re.MULTILINE)


def events_of(value: Any, depth: int = 0) -> list[Event]:
    """The events of messages: a list, one message, their JSON as a text, or a text, which is a request."""
    value = json_of(value)
    if isinstance(value, str):
        return _spoken(value) if value.strip() and not _is_cut(value) else []
    if depth > _MOST_DEPTH:
        return [_TOO_DEEP]
    if isinstance(value, list):
        if _is_pair(value):  # LangChain's ["human", "text"]
            return _message({"role": value[0], "content": value[1]}, depth)
        return [event for each in value for event in _item_events(each, depth + 1)]
    if not isinstance(value, dict):
        return []
    # Gemini may omit the user role.
    return _message({"role": "user", **value} if "parts" in value and not _role(value) else value, depth)


def _item_events(value: Any, depth: int) -> list[Event]:
    if isinstance(value, dict | list):
        return events_of(value, depth)
    return [] if value is None else [unknown("a message that is no object but", value)]


def request_events(given: Any) -> list[Event]:
    """The events of the input of a run, a trace or an agent: messages, a message, a text, or an object with one."""
    given = json_of(given)
    given = given.get("inputs", given) if isinstance(given, dict) else given
    if isinstance(given, dict) and not is_messages([given]):
        values = [value for key in _REQUESTS if (value := given.get(key))] + _as_list(given.get("prompts"))[:1]
        texts = (value for value in values if isinstance(value, str))
        given = next((value for value in values if is_messages(value)), next(texts, None))
    return events_of(given) if isinstance(given, str) or is_messages(given) or is_messages([given]) else []


def is_messages(value: Any) -> bool:
    """Whether a value is a list of messages, or of lists of them."""
    value = json_of(value)
    if not isinstance(value, list) or not value:
        return False
    first = value[0]
    if isinstance(first, list):
        return _is_pair(first) or is_messages(first)
    return isinstance(first, dict) and (
        _role(first) != "" or "parts" in first or "raw_item" in first or _kind(first) in _ITEMS | _OTHER_ITEMS
    )


def answer_events(value: Any, depth: int = 0) -> list[Event]:
    """The events of a model's answer in any of these forms, whole or as pieces of a stream."""
    value = json_of(value)
    if isinstance(value, str):
        return [LoggedReply(text)] if (text := text_of(value)) and not _is_cut(value) else []
    if depth > _MOST_DEPTH:
        return [_TOO_DEEP]
    if isinstance(value, list):
        # `data:` is the frame of server-sent events.
        pieces = [json_of(piece.removeprefix("data:") if isinstance(piece, str) else piece) for piece in value]
        if any(_is_piece(piece) for piece in pieces):
            return _stream_events(pieces, depth)
        if value and isinstance(value[0], list):  # LangChain's generations: of each prompt, the candidates
            return answer_events(value[0][:1], depth + 1)
        return [event for each in value if isinstance(each, dict) for event in answer_events(each, depth + 1)]
    if not isinstance(value, dict):
        return []
    for key in ("choices", "candidates", "generations"):  # of several candidates, one was shown
        if isinstance(value.get(key), list):
            return answer_events(value[key][:1], depth + 1)
    if _is_piece(value):
        return _stream_events([value], depth)
    for key in ("message", "output", "outputs", "response", "body"):
        if isinstance(value.get(key), dict | list) and not _role(value):
            return answer_events(value[key], depth + 1)
    content = value.get("content")
    if isinstance(content, dict) and not _role(value):  # a candidate of Gemini
        return answer_events(content, depth + 1)
    if isinstance(value.get("messages"), list):
        # the state of a graph after the run
        return events_of(value["messages"], depth + 1)
    if not _role(value) and _kind(value) not in {"", "message"} and "raw_item" not in value:
        return _message({"role": "assistant", "content": [value]}, depth)  # an item, or a part without its message
    return _message({"role": "assistant", **value} if not _role(value) else value, depth)


def exchange_of(request: Sequence[Event], answer: Sequence[Event]) -> tuple[Event, ...]:
    """The events of a request and its answer; a graph's state after its run contains everything before."""
    is_state = any(isinstance(event, LoggedRequest) for event in answer)
    return tuple(answer) if is_state else (*request, *answer)


def calls_of(value: Any) -> Iterator[Call | Unknown]:
    """The calls of a list `tool_calls` in any form; pieces of a stream are joined by their index."""
    pending: dict[Any, Call] = {}
    for number, raw in enumerate(_as_list(json_of(value))):
        each = raw.get("tool_call", raw) if isinstance(raw, dict) else None
        if not isinstance(each, dict):
            if raw is not None:
                yield unknown("a call that is no object but", raw)
            continue
        inner = first_value(each, "function", "custom")
        function = inner if isinstance(inner, dict) else each
        name, arguments = first_field(function, *NAMES), first_value(function, *ARGUMENTS)
        index = each.get("index", number) if isinstance(each.get("index", number), int) else number
        if name or index not in pending:
            hosted = _PARTS.get(_kind(each)) == "hosted" or each.get("builtin") is True
            tool = qualified_name(first_field(each, *_SERVERS), name)
            call = Call(tool, arguments, first_field(each, *CALL_IDS), _ending_of_call(each), hosted)
            # Two whole calls with one index are two calls.
            pending[index if index not in pending else (index, number)] = call
        elif isinstance(arguments, str):
            before = pending[index].arguments
            pending[index] = replace(pending[index], arguments=(before if isinstance(before, str) else "") + arguments)
    yield from (call if call.tool else NAMELESS for call in pending.values())


def _ending_of_call(call: Mapping[str, Any]) -> Ending | None:
    """How a call that contains its own result ended: `mcp_call` of Responses, and LlamaIndex's `ToolOutput`."""
    if call.get("error") or call.get("status") == "incomplete":
        return "error"
    ending = ending_of(call)
    return ending if ending != "ok" or call.get("output") is not None or "is_error" in call else None


def _spoken(text: str) -> list[Event]:
    """A text as a request, or as the turns of a conversation in LangChain's form."""
    if not text.startswith(("System: ", "Human: ")) or "Human" not in _SPEAKER.findall(text):
        return [LoggedRequest(text_of(text))]
    pieces = _SPEAKER.split(text)[1:]
    said = [(who, text_of(words)) for who, words in zip(pieces[::2], pieces[1::2], strict=True)]
    return [LoggedRequest(words) if who == "Human" else LoggedReply(words) for who, words in said if who in _SPEAKERS]


def _is_cut(text: str) -> bool:
    """Whether a text is the beginning of JSON: exporters truncate attributes."""
    return text.lstrip().startswith(('[{"', '{"'))


def _is_pair(value: Sequence[Any]) -> bool:
    return len(value) == 2 and all(isinstance(each, str) for each in value) and value[0].lower() in _USER | _ASSISTANT


def _kind(message: Mapping[str, Any]) -> str:
    """The type of a message or part, including the terms of pydantic-ai and LlamaIndex."""
    kind = first_value(message, "type", "part_kind", "block_type")
    return kind if isinstance(kind, str) else ""


def _role(message: Mapping[str, Any]) -> str:
    """The role of a message in lower case; empty if it is not a message."""
    for key in ("role", "type"):
        value = message.get(key)
        if isinstance(value, str) and (key == "role" or value.lower() in _USER | _ASSISTANT | {"system", "tool"}):
            return value.lower()
    kind = message.get("kind")
    if isinstance(kind, str) and kind in _KINDS and isinstance(message.get("parts"), list):
        return _KINDS[kind]
    classes = message.get("id")
    if message.get("lc") and isinstance(classes, list) and classes and isinstance(classes[-1], str):
        return classes[-1].lower()
    inner = message.get("message")
    return _role(inner) if isinstance(inner, dict) and "message" not in inner else ""


def _message(message: Mapping[str, Any], depth: int) -> list[Event]:
    role, outer = _role(message), _kind(message)
    for key in ("message", "kwargs", "data", "raw_item"):  # a choice, OpenInference; LangChain's two forms; Agents SDK
        inner = message.get(key)
        message = inner if isinstance(inner, dict) else message
    kind = _kind(message)
    if kind in _ITEMS or (not role and _PARTS.get(kind, "text") != "text"):
        return list(_part_events(message, hosted=outer.startswith("handoff_call")))
    if role not in _USER | _ASSISTANT | _TOOL:
        silent = role in _APPLICATION or (not role and kind in _OTHER_ITEMS | _APPLICATION)
        return [] if silent else [unknown("a message of role", role) if role else unknown("a message of type", kind)]
    texts: list[str] = []
    events: list[Event] = [unknown("a message with the field", key) for key in message if key not in _MESSAGE]
    asked = False
    for part in _parts(first_value(message, "content", "parts", "contents", "blocks")):
        if _is_text(part):
            texts.append(_text(part))
            asked = asked or _kind(part) == "user-prompt"
        else:
            events += _part_events(part)
    text = "\n".join(text for text in texts if text)
    if role in _USER:
        # Anthropic and Gemini send results of tools as the user. A request of pydantic-ai marks the user's part, beside
        # results and retry prompts of the framework. Text that a user pastes is not a call.
        others = [event for event in events if not isinstance(event, Call)]
        has_results = any(isinstance(event, Outcome) for event in others)
        is_own = asked or not (has_results or first_field(message, "kind") in _KINDS)
        return [*others, *([LoggedRequest(text)] if is_own else [])]
    more = message.get("additional_kwargs")
    more = more if isinstance(more, dict) else {}
    if role in _TOOL:
        if any(isinstance(event, Call | Outcome) for event in events):
            return events  # Koog puts calls into messages of the tool
        call_id, tool = first_field({**more, **message}, *CALL_IDS), first_field(message, *NAMES)
        return [Outcome(call_id, ending_of(message), tool), *events]
    known = {event.tool for event in events if isinstance(event, Call)}
    listed = first_value(message, "tool_calls", "toolCalls") or more.get("tool_calls")
    # LangChain has Anthropic's calls both in the content and in the list
    calls = [call for call in calls_of(listed) if isinstance(call, Unknown) or call.tool not in known]
    calls += calls_of([message["function_call"]]) if isinstance(message.get("function_call"), dict) else ()
    sources = message.get("sources")
    if isinstance(sources, list):  # in an answer of LlamaIndex: outputs of tools
        calls += calls_of([each for each in sources if isinstance(each, dict) and "tool_name" in each])
    return [*([LoggedReply(text)] if text else []), *calls, *events]


def _part_events(part: Mapping[str, Any], hosted: bool = False) -> Iterator[Call | Outcome | Unknown]:
    """The call or the result in a content part or an item of Responses."""
    kind = _kind(part)
    what = _PARTS.get(kind)
    called, returned = first_value(part, *_CALLED), first_value(part, *_RETURNED)
    if isinstance(called, dict) or isinstance(returned, dict):
        if isinstance(called, dict):
            yield from calls_of([called])
        if isinstance(returned, dict):
            yield Outcome(first_field(returned, "id"), ending_of(returned), first_field(returned, "name"))
    elif what in {"call", "hosted"}:
        name = first_field(part, *NAMES) or (kind.removesuffix("_call") if kind in _ITEMS else "")
        for call in calls_of([{**part, "name": name}]):
            yield replace(call, hosted=call.hosted or hosted) if isinstance(call, Call) else call
    elif what in {"result", "error"} or kind.endswith("_tool_result"):
        tool = first_field(part, *NAMES)
        if kind == "retry-prompt" and not tool:
            return
        content = _as_list(part.get("content"))
        listed = any(isinstance(each, dict) and _kind(each) == "tool_reference" for each in content)
        yield Outcome(first_field(part, *CALL_IDS), "error" if what == "error" else ending_of(part), tool, listed)
    elif what != "other" and kind not in _OTHER_ITEMS:
        yield unknown("a part of type", kind) if kind else unknown("a part with the field", next(iter(part), ""))


def _is_text(part: Mapping[str, Any]) -> bool:
    if _PARTS.get(_kind(part)) != "text" or any(key in part for key in (*_CALLED, *_RETURNED)):
        return False
    return bool(_kind(part)) or not part or not _FIELDS.isdisjoint(part)


def _text(part: Mapping[str, Any]) -> str:
    """The text of a part; pydantic-ai lists texts and images."""
    given = part.get("text") if isinstance(part.get("text"), str) else part.get("content")
    return "\n".join(filter(None, (text_of(each) for each in _as_list(given))))


def _parts(content: Any) -> Iterator[Mapping[str, Any]]:
    """The parts of a content, each as an object; a text is one part."""
    parts = object_of(content)
    if isinstance(content, str) and not (
        isinstance(parts, list) and parts and all(isinstance(each, dict) and "type" in each for each in parts)
    ):
        parts = None if content.startswith('[{"type"') else content  # users may write other JSON
    for part in _as_list(parts):
        if isinstance(part, str):
            yield {"text": part}
        elif isinstance(part, dict):
            inner = part.get("message_content")  # OpenInference
            yield inner if isinstance(inner, dict) else part
        elif part is not None:
            yield {"type": type(part).__name__}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


# Streams ------------------------------------------------------------------------------------------------------------

_STREAMED = ("response.", "content_block_", "message_start", "message_delta", "message_stop")


def _delta(piece: Mapping[str, Any]) -> Any:
    """The delta of a piece of chat; None if it is something else."""
    choices = piece.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first.get("delta") if isinstance(first, dict) else None


def _is_piece(value: Any) -> bool:
    return isinstance(value, dict) and (isinstance(_delta(value), dict) or _kind(value).startswith(_STREAMED))


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
            if _PARTS.get(_kind(block)) in {"call", "hosted"}:
                deltas.append({**block, "index": piece.get("index"), "input": None, "arguments": ""})
        elif kind == "content_block_delta" and isinstance(piece.get("delta"), dict):
            delta = piece["delta"]
            texts.append(delta["text"] if isinstance(delta.get("text"), str) else "")
            if isinstance(delta.get("partial_json"), str):
                deltas.append({"index": piece.get("index"), "arguments": delta["partial_json"]})
        if isinstance(delta := _delta(piece), dict):
            texts.append(delta["content"] if isinstance(delta.get("content"), str) else "")
            deltas += _as_list(delta.get("tool_calls"))
    text = text_of("".join(texts))
    return whole or [*([LoggedReply(text)] if text else []), *calls_of(deltas), *items]
