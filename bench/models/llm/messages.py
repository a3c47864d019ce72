"""Requests, replies and failures of language models. Methods and clients exchange them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Literal

from bench.show.numbers import money

Role = Literal["system", "user", "assistant"]

#: Part of every key: if the content of keys changes, old answers must not match.
_KEY_VERSION = 1


@dataclass(frozen=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True)
class ToolDefinition:
    """A tool that a model may call.

    Attributes:
        name: as the provider allows it: 1 to 64 letters, digits, `_` and `-`.
        description: what it does.
        parameters: a JSON Schema of its arguments, as JSON.
    """

    name: str
    description: str
    parameters: str


@dataclass(frozen=True)
class ToolCall:
    """A tool call in a reply; neither the name nor the arguments (usually JSON) are checked."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Request:
    """One request for one reply.

    Attributes:
        messages: the conversation, oldest message first.
        temperature, top_p, max_tokens: as in the chat-completions protocol.
        sample: number of the draw for the same prompt. It is not sent; it lets one prompt have several replies.
        tools: the tools that the model may call.
        reply_schema: a JSON Schema, as JSON, for the text of the reply; empty for none.
    """

    messages: tuple[Message, ...]
    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 1024
    sample: int = 0
    tools: tuple[ToolDefinition, ...] = ()
    reply_schema: str = ""


@dataclass(frozen=True)
class Reply:
    """What the model said.

    Attributes:
        text: the content of the reply; blank only beside calls.
        input_tokens, output_tokens: as counted by the endpoint; upper bounds if its count is missing or implausible.
        finish: why the model stopped: `stop`, or `length` for a reply cut short at `max_tokens`.
        from_journal: True if no call was made for it.
        calls: the called tools, in order.
        cached_tokens: input tokens that the endpoint read from a cache, by its own count.
        seconds: time from sending the answered request to the end of the reply; None in journals without it.
        estimated: the endpoint counted no tokens, or implausibly; the counts are upper bounds.
    """

    text: str
    input_tokens: int
    output_tokens: int
    finish: str
    from_journal: bool
    calls: tuple[ToolCall, ...] = ()
    # Serving details are not part of the reply: two replies may be equal without them.
    cached_tokens: int = field(default=0, compare=False)
    seconds: float | None = field(default=None, compare=False)
    estimated: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Failure:
    """No reply: the model refused, or the endpoint failed to the last try. The query fails and the run goes on.

    Attributes:
        reason: why, in words.
        filtered: the model refused, or a content filter withheld or cut the reply.
        input_tokens, output_tokens, cached_tokens, estimated: its usage, as in `Reply`; 0 if unknown.
    """

    reason: str
    filtered: bool = field(default=False, compare=False)
    input_tokens: int = field(default=0, compare=False)
    output_tokens: int = field(default=0, compare=False)
    cached_tokens: int = field(default=0, compare=False)
    estimated: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Usage:
    """Usage of a `LanguageModel`; a repeated request counts once.

    Attributes:
        calls: requests put to the endpoint.
        from_journal: requests answered from the journal.
        failures: requests without a reply, of both kinds.
        input_tokens, output_tokens: of all replies, including those from the journal.
        cost: of these tokens at current prices; None without prices.
        estimated: requests whose tokens are upper bounds, because the endpoint did not count them.
    """

    calls: int
    from_journal: int
    failures: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    estimated: int

    def __str__(self) -> str:
        paid = "" if self.cost is None else f", cost {money(self.cost)}"
        about = f" ({self.estimated} replies without counts of tokens: upper bounds)" if self.estimated else ""
        return f"{self.calls} calls, {self.from_journal} replies from the journal{paid}{about}"

    def to_dict(self) -> dict[str, Any]:
        """The paid usage, for JSON."""
        return {name: getattr(self, name) for name in ("calls", "from_journal", "cost", "estimated")}


def clean_text(text: str) -> str:
    """The text as valid UTF-8: surrogate pairs are joined, and unpaired ones replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def describe_request(request: Request) -> dict[str, Any]:
    """The request as the journal records it: every text is valid Unicode.

    Of tools it has the names and the sha256 of their definitions, which may be longer than everything else.
    """
    described: dict[str, Any] = {
        "messages": [{"role": message.role, "content": clean_text(message.content)} for message in request.messages],
        "temperature": float(request.temperature),
        "top_p": float(request.top_p),
        "max_tokens": request.max_tokens,
        "sample": request.sample,
    }
    if request.tools:
        definitions = json.dumps([vars(tool) for tool in request.tools], sort_keys=True)
        described["tools"] = [tool.name for tool in request.tools]
        described["definitions"] = hashlib.sha256(definitions.encode()).hexdigest()
        described["tool_choice"] = "auto"
    if request.reply_schema:
        described["reply_schema"] = request.reply_schema
    return described


def request_key(model: str, request: Request, repeat: int = 1) -> str:
    """sha256 of everything that identifies a request: model, messages, settings, sample, and the run's repeat.

    The endpoint does not count: a journal answers on a machine without one, and a local server may change its port. The
    first repeat does not count either: answers of a run without repeats serve it too.
    """
    content = {"version": _KEY_VERSION, "model": model, **describe_request(request)}
    if repeat > 1:
        content["repeat"] = repeat
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
