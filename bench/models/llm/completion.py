"""The chat-completions protocol: calls, requests, maximum cost, and parsing of responses."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Literal

from bench.base.errors import UsageError
from bench.base.text import one_line
from bench.models.llm.budget import Reservation
from bench.models.llm.messages import Request, ToolCall, clean_text, describe_request
from bench.models.llm.settings import EndpointSettings
from bench.models.llm.transport import Malformed, Refused, Transport, Unsupported

#: Maximum tokens that a model's template may add per message, and before the first.
_PER_MESSAGE = 16
_PER_REQUEST = 64
#: Maximum tokens around the definition of a tool.
_PER_TOOL = 32
_MOST_TOKENS = 10**9
#: Maximum calls of a reply: no request needs so many.
_MOST_CALLS = 128
_LONGEST_NAME, _LONGEST_ARGUMENTS = 200, 20_000
#: Why a reply ended: terms of endpoints and providers in lower case -> terms of chat completions
#: (https://platform.claude.com/docs/en/api/messages, https://ai.google.dev/api/generate-content#FinishReason).
FILTERED = "content_filter"
_FINISH = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "tool_use"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_context_window_exceeded"), "length"),
    **dict.fromkeys(("content_filter", "content_filtered", "refusal", "safety", "recitation", "blocklist"), FILTERED),
    **dict.fromkeys(("prohibited_content", "spii", "model_armor", "guardrail_intervened"), FILTERED),
}
#: Errors that mean that the content is refused, and that tool calls are.
_FILTER = re.compile(r"content.?(filter|management|policy|moderation)|usage polic|(input|prompt) was flagged", re.I)
_NO_TOOLS = re.compile(r"tool.?choice|tools? param", re.I)
_TOOLS = re.compile("tool|function", re.I)
NO_CALLS = "If the endpoint takes no tool calls, ask for a list of names: --form json (in a spec, form=json)."


@dataclass(frozen=True)
class Completion:
    """The result of a request: a reply, or a failure.

    Attributes:
        text: the content, or the reason of the failure.
        estimated: the endpoint counted no tokens, or implausibly.
        served: the model that answered, according to the endpoint.
        calls: the called tools, at most `_MOST_CALLS`.
        cached_tokens: input tokens that the endpoint read from a cache.
        seconds: duration of the answer.
    """

    kind: Literal["reply", "refusal", "gave-up"]
    text: str
    finish: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    served: str = ""
    calls: tuple[ToolCall, ...] = ()
    cached_tokens: int = 0
    seconds: float | None = None


@dataclass(frozen=True)
class ReplyParts:
    """The unchecked parts of a reply in its protocol.

    Attributes:
        served: the model that answered.
        finish: why the reply ended, in the endpoint's terms.
        texts: its texts.
        calls: names and arguments, as JSON.
        given, made: input and output tokens.
        cached: input tokens that were read from a cache.
        unknown: kinds of parts that are neither texts nor calls.
        refusal: the model's text if it refuses.
    """

    served: Any
    finish: Any
    texts: Sequence[Any]
    calls: Sequence[tuple[Any, Any]]
    given: Any
    made: Any
    cached: Any
    unknown: Sequence[str] = ()
    refusal: Any = None


class Filtered(Refused):
    """The content is refused: by the model, or by a filter before it."""


class ChatTransport(Transport):
    """An endpoint that answers requests; subclasses implement the protocols of other providers."""

    def unsupported(self, model: str) -> set[str]:
        """The parameters to leave out, because the endpoint has refused them in this process."""
        return _UNSUPPORTED.setdefault((self._settings, model), set())

    def complete(self, model: str, request: Request, held: Reservation, stop: threading.Event) -> Completion:
        """The endpoint's result for a request; raises as `call` does, except `Unsupported`."""
        begun = 0.0

        def send(client: Any) -> AbstractContextManager[Any]:
            nonlocal begun
            begun = time.perf_counter()
            return self._begin(client, model, request, unsupported)

        while True:
            unsupported = frozenset(self.unsupported(model))
            try:
                got = self.call(send, lambda body: completion_of(self._read(body, request), request), held, stop)
                return replace(got, seconds=round(time.perf_counter() - begun, 3))
            except Unsupported as error:
                if error.name not in unsupported:
                    self.unsupported(model).add(error.name)
                    continue
                what = "limit of a reply's length" if error.name == "max_tokens" else error.name
                refused = f"{self._settings.url} takes no {what} ({error})."
            except UsageError as error:
                refused = str(error)
            raise UsageError(f"{refused} {NO_CALLS}" if request.tools and _TOOLS.search(refused) else refused)

    def _begin(
        self, client: Any, model: str, request: Request, unsupported: AbstractSet[str]
    ) -> AbstractContextManager[Any]:
        """Begin a call of the package's client, without the unsupported parameters; returns its streamed response."""
        response: AbstractContextManager[Any] = client.chat.completions.with_streaming_response.create(
            **payload(model, request, unsupported)
        )
        return response

    def _read(self, body: Any, request: Request) -> ReplyParts:
        """Read a reply; raises `Malformed`."""
        return read_parts(body)

    def _told(self, error: Any) -> dict[str, Any]:
        # `{"error": "text"}`; a proxy's HTML page carries no information.
        said = error.body if isinstance(error.body, str) and not error.body.lstrip().startswith("<") else None
        return super()._told(error) if said is None else {"message": said}

    def _of_status(self, error: Any) -> Exception:
        status, body = int(error.response.status_code), self._told(error)
        said = self._quote_endpoint(str(body.get("message") or body.get("detail") or "no reason given"))
        told = f"{body.get('code')} {body.get('param')} {said}"
        if status not in {401, 402, 429} and _NO_TOOLS.search(told):
            return Unsupported("tool_choice", said)
        if 400 <= status < 500 and status not in {401, 402, 404, 429} and _FILTER.search(told):
            return Filtered(f"the endpoint's filter refused the request: {said}")
        return super()._of_status(error)


#: Endpoint and model -> parameters to leave out; shared by all requests of a process.
_UNSUPPORTED: dict[tuple[EndpointSettings, str], set[str]] = {}


def payload(model: str, request: Request, unsupported: AbstractSet[str] = frozenset()) -> dict[str, Any]:
    """The arguments of `chat.completions.create`; unsupported ones are left out or replaced."""
    sent = describe_request(request)
    for name in ("sample", "tools", "definitions", "reply_schema"):
        sent.pop(name, None)
    if request.tools:
        sent["tools"] = [{"type": "function", "function": tool} for tool in declare_tools(request, "parameters")]
    if request.reply_schema:
        form = {"name": "reply", "strict": True, "schema": json.loads(request.reply_schema)}
        sent["response_format"] = {"type": "json_schema", "json_schema": form}
    if "max_tokens" in unsupported:
        sent["max_completion_tokens"] = sent.pop("max_tokens")
    for name in {"temperature", "tool_choice"} & unsupported:
        # With tools, `auto` is the protocol's default.
        sent.pop(name, None)
    if sent["top_p"] == 1.0:
        # The protocol's default; some models do not accept it explicitly.
        del sent["top_p"]
    return {"model": model, **sent}


def declare_tools(request: Request, schema: str) -> list[dict[str, Any]]:
    """The tools that a model may call, in providers' form; `schema` is their key for the arguments' schema."""
    return [
        {"name": tool.name, "description": clean_text(tool.description), schema: json.loads(tool.parameters)}
        for tool in request.tools
    ]


def split_system(request: Request) -> tuple[str, list[dict[str, str]]]:
    """The system message and the other messages, for providers that separate them."""
    messages = describe_request(request)["messages"]
    system = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
    return system, [message for message in messages if message["role"] != "system"]


def input_bound(request: Request) -> int:
    """The maximum tokens of the messages: every tokeniser in use needs at least one byte per token."""
    sizes = (len(message["content"].encode()) + _PER_MESSAGE for message in describe_request(request)["messages"])
    tools = (
        len((tool.name + tool.description + tool.parameters).encode("utf-8", "replace")) + _PER_TOOL
        for tool in request.tools
    )
    return sum(sizes) + sum(tools) + len(request.reply_schema.encode()) + _PER_REQUEST


def read_parts(body: Any) -> ReplyParts:
    """The parts of a reply; raises `Malformed` if it does not follow the protocol."""
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices:
        raise Malformed("the reply has no choices")
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise Malformed("the reply has no message")
    called = message.get("tool_calls") or []
    if not isinstance(called, list):
        raise Malformed("the tool calls of the reply are no list")
    functions = [_member(one, "function") for one in called]
    usage = _member(body, "usage")
    return ReplyParts(
        served=body.get("model"),
        finish=choice.get("finish_reason"),
        texts=[message.get("content") or ""],
        calls=[(one.get("name"), one.get("arguments", "")) for one in functions],
        given=usage.get("prompt_tokens"),
        made=usage.get("completion_tokens"),
        cached=_member(usage, "prompt_tokens_details").get("cached_tokens"),
        refusal=message.get("refusal"),
    )


def _member(value: Any, name: str) -> dict[str, Any]:
    """A member of an object that is an object itself; empty if there is none."""
    member = value.get(name) if isinstance(value, dict) else None
    return member if isinstance(member, dict) else {}


def total(counts: Sequence[Any]) -> int | None:
    """The sum of token counts; None if one is missing."""
    return sum(counts) if all(type(count) is int and count >= 0 for count in counts) else None


def completion_of(parts: ReplyParts, request: Request) -> Completion:
    """The completion from a reply; raises `Malformed` if a part does not follow its protocol."""
    if not all(isinstance(text, str) for text in parts.texts):
        raise Malformed("the content of the reply is not text")
    calls = []
    for name, arguments in parts.calls[:_MOST_CALLS]:
        if not isinstance(name, str) or not isinstance(arguments, str):
            raise Malformed("a tool call of the reply has no name, or arguments that are not text")
        calls.append(ToolCall(clean_text(name)[:_LONGEST_NAME], clean_text(arguments)[:_LONGEST_ARGUMENTS]))
    text = clean_text("".join(parts.texts))
    finish = clean_text(parts.finish) if isinstance(parts.finish, str) else "unknown"
    finish = _FINISH.get(finish.lower().replace("-", "_").partition(":")[0], finish)
    reason = ""
    if isinstance(parts.refusal, str) and parts.refusal.strip():
        reason, finish = f"the model refused: {one_line(parts.refusal, 200)}", FILTERED
    elif finish == FILTERED:
        reason = "the endpoint's filter withheld the reply"
    elif parts.unknown:
        reason = f"the reply has a part of a kind that bench does not know ({one_line(parts.unknown[0], 60)})"
    elif not text.strip() and not calls:
        reason = f"the reply is empty (finish reason {finish})"
    given, made, cached = parts.given, parts.made, parts.cached
    # In Python a truth value is an int. No prompt is empty; a short text may follow hidden reasoning.
    numbers = type(given) is int and type(made) is int
    estimated = not (numbers and 0 < given <= _MOST_TOKENS and bool(text) <= made <= _MOST_TOKENS)
    if estimated:
        given, made = _bounds(request)
    return Completion(
        kind="refusal" if reason else "reply",
        text=reason or text,
        finish=finish,
        input_tokens=given,
        output_tokens=made,
        estimated=estimated,
        served=clean_text(parts.served)[:200] if isinstance(parts.served, str) else "",
        calls=() if reason else tuple(calls),
        cached_tokens=cached if not estimated and type(cached) is int and 0 <= cached <= given else 0,
    )


def _bounds(request: Request) -> tuple[int, int]:
    """Upper bounds for an endpoint without token counts."""
    return input_bound(request), request.max_tokens


def is_estimated(request: Request, input_tokens: int, output_tokens: int) -> bool:
    """Whether an answer's counts are upper bounds in place of the endpoint's."""
    return (input_tokens, output_tokens) == _bounds(request)
