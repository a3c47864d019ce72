"""The chat-completions protocol: calls, requests, maximum cost, and parsing of responses."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Literal

from bench.base.errors import UsageError
from bench.base.text import one_line
from bench.models.llm.budget import Held
from bench.models.llm.messages import Request, ToolCall, clean_text, describe_request
from bench.models.llm.settings import EndpointSettings
from bench.models.llm.transport import Malformed, Transport, Unsupported

#: Tokens that a model's template may put around a message, and before the first.
_PER_MESSAGE = 16
_PER_REQUEST = 64
#: Around the definition of a tool.
_PER_TOOL = 32
_MOST_TOKENS = 10**9
#: A reply that calls more often is cut: no request of ours asks for so many.
_MOST_CALLS = 128
_LONGEST_NAME, _LONGEST_ARGUMENTS = 200, 20_000


@dataclass(frozen=True)
class Completion:
    """What came of a request: a reply, or a failure.

    Attributes:
        text: the content, or the reason of the failure.
        estimated: the endpoint counted no tokens, or absurdly.
        served: the model that the endpoint says has answered.
        calls: the tools that it calls, at most `_MOST_CALLS`.
        cached_tokens: input tokens that the endpoint says it had read before.
        seconds: how long the answer took.
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


class ChatTransport(Transport):
    """An endpoint that answers requests; subclasses have the protocols of other providers."""

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._unsupported: set[str] = set()

    def complete(self, model: str, request: Request, held: Held, stop: threading.Event) -> Completion:
        """What the endpoint makes of a request; raises as `call` does, and never `Unsupported`."""
        begun = 0.0

        def send(client: Any) -> AbstractContextManager[Any]:
            nonlocal begun
            begun = time.perf_counter()
            return self._begin(client, model, request, unsupported)

        while True:
            unsupported = frozenset(self._unsupported)
            try:
                got = self.call(send, lambda body: self._read(body, request), held, stop)
                return replace(got, seconds=round(time.perf_counter() - begun, 3))
            except Unsupported as error:
                if error.name in unsupported:
                    what = "limit of a reply's length" if error.name == "max_tokens" else error.name
                    raise UsageError(f"{self._settings.url} takes no {what} ({error}).") from None
                self._unsupported.add(error.name)

    def _begin(
        self, client: Any, model: str, request: Request, unsupported: AbstractSet[str]
    ) -> AbstractContextManager[Any]:
        """Begin a call of the package's client, without the unsupported parameters; gives its streamed response."""
        response: AbstractContextManager[Any] = client.chat.completions.with_streaming_response.create(
            **payload(model, request, unsupported)
        )
        return response

    def _read(self, body: Any, request: Request) -> Completion:
        """Read a reply; raises `Malformed`."""
        return read_completion(body, request)


def payload(model: str, request: Request, unsupported: AbstractSet[str] = frozenset()) -> dict[str, Any]:
    """The arguments of `chat.completions.create`; an unsupported temperature is left out."""
    sent = describe_request(request)
    for name in ("sample", "tools", "definitions", "reply_schema"):
        sent.pop(name, None)
    if request.tools:
        sent["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": clean_text(tool.description),
                    "parameters": json.loads(tool.parameters),
                },
            }
            for tool in request.tools
        ]
    if request.reply_schema:
        form = {"name": "reply", "strict": True, "schema": json.loads(request.reply_schema)}
        sent["response_format"] = {"type": "json_schema", "json_schema": form}
    if "max_tokens" in unsupported:
        sent["max_completion_tokens"] = sent.pop("max_tokens")
    if "temperature" in unsupported:
        del sent["temperature"]
    if sent["top_p"] == 1.0:
        # The protocol's default; some models refuse to be told.
        del sent["top_p"]
    return {"model": model, **sent}


def input_bound(request: Request) -> int:
    """The most tokens that the messages can be: every tokeniser in use takes at least a byte for a token."""
    sizes = (len(message["content"].encode()) + _PER_MESSAGE for message in describe_request(request)["messages"])
    tools = (
        len((tool.name + tool.description + tool.parameters).encode("utf-8", "replace")) + _PER_TOOL
        for tool in request.tools
    )
    return sum(sizes) + sum(tools) + len(request.reply_schema.encode()) + _PER_REQUEST


def read_completion(body: Any, request: Request) -> Completion:
    """Read a reply.

    Raises:
        Malformed: it is not what the protocol has.
    """
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices:
        raise Malformed("the reply has no choices")
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise Malformed("the reply has no message")
    content, refusal, finish = message.get("content"), message.get("refusal"), choice.get("finish_reason")
    if not isinstance(content, str | None):
        raise Malformed("the content of the reply is not text")
    text = clean_text(content or "")
    calls = _calls(message.get("tool_calls"))
    finish = clean_text(finish) if isinstance(finish, str) else "unknown"
    reason = ""
    if isinstance(refusal, str) and refusal.strip():
        reason = f"the model refused: {one_line(refusal, 200)}"
    elif finish == "content_filter":
        reason = "the endpoint's filter withheld the reply"
    elif not text.strip() and not calls:
        reason = f"the reply is empty (finish reason {finish})"
    usage = body.get("usage")
    input_tokens, output_tokens, estimated = _tokens(usage, request, text)
    served = body.get("model")
    return Completion(
        kind="refusal" if reason else "reply",
        text=reason or text,
        finish=finish,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        estimated=estimated,
        served=clean_text(served)[:200] if isinstance(served, str) else "",
        calls=() if reason else calls,
        cached_tokens=0 if estimated else _cached(usage, input_tokens),
    )


def _calls(raw: Any) -> tuple[ToolCall, ...]:
    """The calls of a reply; raises `Malformed` where they are none of the protocol's."""
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise Malformed("the tool calls of the reply are no list")
    calls = []
    for one in raw[:_MOST_CALLS]:
        function = one.get("function") if isinstance(one, dict) else None
        name, arguments = (
            (function.get("name"), function.get("arguments", "")) if isinstance(function, dict) else (None, None)
        )
        if not isinstance(name, str) or not isinstance(arguments, str):
            raise Malformed("a tool call of the reply has no name, or arguments that are not text")
        calls.append(ToolCall(clean_text(name)[:_LONGEST_NAME], clean_text(arguments)[:_LONGEST_ARGUMENTS]))
    return tuple(calls)


def _cached(usage: Any, input_tokens: int) -> int:
    """Input tokens that were read from a cache, as the endpoint counts them; 0 where it does not, or absurdly."""
    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return cached if type(cached) is int and 0 <= cached <= input_tokens else 0


def _tokens(usage: Any, request: Request, text: str) -> tuple[int, int, bool]:
    """Tokens in and out as the endpoint counted them; upper bounds where its count cannot be true."""
    counted = usage if isinstance(usage, dict) else {}
    given, made = counted.get("prompt_tokens"), counted.get("completion_tokens")
    # A truth value is an int to Python. No prompt is nothing; a short text may have hidden reasoning before it.
    if type(given) is int and type(made) is int and 0 < given <= _MOST_TOKENS and bool(text) <= made <= _MOST_TOKENS:
        return given, made, False
    return input_bound(request), request.max_tokens, True
